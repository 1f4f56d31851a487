"""What the rows that are there hold in a column that is added: its default, where that is a constant that is proven.

The value is given as text, as the server would print it. Only literals that a column of the type holds just as they
are written are taken: no conversion, rounding or character set is guessed. Of everything else (an expression, a time,
bytes) nothing is said, and the table is read again: so of a column that is numbered (AUTO_INCREMENT, SERIAL, SERIAL
DEFAULT VALUE) or generated. Source: the reference manuals, "Data Type Default Values".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from lakehouse_cdc.schema.table import Column
from lakehouse_cdc.sql.ddl.statement_session import StatementSession

_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_DIGITS = {"float": 6, "double": 15}  # that any whole number may have, and be held exactly
_SAME_EVERYWHERE = re.compile(r"[A-Za-z0-9 _.,:/+-]*")  # characters that every character set holds


@dataclass(frozen=True)
class Literal:
    """A constant as it is written, without its quotes."""

    text: str
    quoted: bool


def filled(column: Column, default: Literal | None, session: StatementSession) -> str | None:
    """The text of `default` in that column; without one, of what NOT NULL gives. None where that is not proven.

    `session` ran the statement: its sql_mode says what a literal is, and whether labels of one ENUM may be equal.
    """
    if default is not None and default.quoted and not default.text and session.empty_is_null:
        return None
    if column.type in _BITS:
        return _whole(column, default or Literal("0", quoted=False))
    if column.type in _DIGITS:
        return _float(column, default.text if default else "0")
    if column.type == "decimal":
        return _decimal(column, default or Literal("0", quoted=False))
    if column.type in ("char", "varchar"):
        return _text(column, default or Literal("", quoted=True))
    if column.type == "enum":
        return _label(column, default or Literal(column.values[0], quoted=True), session)
    return None


def _float(column: Column, number: str) -> str | None:
    if column.precision is not None or (column.unsigned and number.startswith("-")):
        return None
    return str(int(number)) if re.fullmatch(rf"-?[0-9]{{1,{_DIGITS[column.type]}}}", number) else None


def _label(column: Column, literal: Literal, session: StatementSession) -> str | None:
    """Without strict mode an ENUM may have labels that are equal to its collation: of these the first is stored."""
    text = literal.text
    if not literal.quoted or text not in column.values or not _SAME_EVERYWHERE.fullmatch(text):
        return None
    return text if session.strict or text == column.values[0] else None


def _whole(column: Column, literal: Literal) -> str | None:
    if not re.fullmatch("-?[0-9]{1,18}", literal.text):
        return None
    value, bits = int(literal.text), _BITS[column.type]
    low, high = (0, 2**bits) if column.unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    return str(value) if low <= value < high else None


def _decimal(column: Column, literal: Literal) -> str | None:
    if not re.fullmatch(r"-?[0-9]{1,30}(\.[0-9]{1,30})?", literal.text):
        return None
    scale, value = column.scale or 0, Decimal(literal.text)
    whole, _, fraction = literal.text.lstrip("-").partition(".")
    fits = len(whole.lstrip("0")) <= (column.precision or 0) - scale and len(fraction) <= scale
    if not fits or (value < 0 and column.unsigned):
        return None
    return f"{value or Decimal(0):.{scale}f}"


def _text(column: Column, literal: Literal) -> str | None:
    fits = literal.quoted and len(literal.text) <= (column.length or 0) and column.charset is not None
    if not fits or not _SAME_EVERYWHERE.fullmatch(literal.text):
        return None
    return literal.text.rstrip(" ") if column.type == "char" else literal.text
