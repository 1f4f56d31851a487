"""What the rows that are there hold in a column that is added: its default, where that is a constant that is proven.

The value is given as text, as the server would print it. Only literals that a column of the type holds just as they
are written are taken: no conversion, rounding or character set is guessed. Of everything else (an expression, a time,
bytes) nothing is said, and the table is read again. Source: the reference manuals, "Data Type Default Values".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from lakehouse_cdc.schema.table import Column

_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_DIGITS = {"float": 6, "double": 15}  # that any whole number may have, and be held exactly
_SAME_EVERYWHERE = re.compile(r"[A-Za-z0-9 _.,:/+-]*")  # characters that every character set holds


@dataclass(frozen=True)
class Literal:
    """A constant as it is written, without its quotes."""

    text: str
    quoted: bool


def filled(column: Column, default: Literal | None) -> str | None:
    """The text of `default` in that column; without one, of what NOT NULL gives. None where that is not proven."""
    if column.type in _BITS:
        return _whole(column, default or Literal("0", quoted=False))
    if column.type in _DIGITS:
        number = default.text if default else "0"
        return str(int(number)) if re.fullmatch(rf"-?[0-9]{{1,{_DIGITS[column.type]}}}", number) else None
    if column.type == "decimal":
        return _decimal(column, default or Literal("0", quoted=False))
    if column.type in ("char", "varchar"):
        return _text(column, default or Literal("", quoted=True))
    if column.type == "enum":
        text = default.text if default else column.values[0]
        return text if text in column.values and _SAME_EVERYWHERE.fullmatch(text) else None
    return None


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
