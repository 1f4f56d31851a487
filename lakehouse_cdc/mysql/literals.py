"""Identifiers and values as SQL text, exact and safe: what is not of its column's type is refused, never quoted away.

A key component travels in a cursor (JSON) in one form per kind of type:

    integer            int (of an ENUM its label's number, of a SET its bits: what both are ordered by)
    decimal            str, all digits: "-12.30"
    date               str: "2024-02-29"
    datetime/timestamp str: "2024-02-29 12:00:00.000000", with the column's digits; a timestamp in UTC
    time               str: "-838:59:59.000000", with the column's digits
    text               str, whatever the column's character set
    binary             str of hex digits
    address            str, as MariaDB prints a UUID, INET4 or INET6

A date or moment that is carried as text may have a year, month or day of 0 (0000-00-00, 2024-00-10): the server orders
these by their digits, too. As a literal it refuses a day that its month does not have (2024-02-31, error 1525).

The literals have the column's type, character set and collation, so that the server compares them as it compares the
column, and by its index. Text goes as the hex of its UTF-8 bytes: it means the same under every setting of a session.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.schema.table import Column
from lakehouse_cdc.schema.type_registry import TYPES, KeyForm

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBERED = ("bit", "enum", "set")  # a number to the server, and something else to a client
ORDERED_BY_SERVER: tuple[KeyForm, ...] = ("text", "address")
_PATTERNS: dict[KeyForm, re.Pattern[str]] = {
    "decimal": re.compile(r"-?\d+(\.\d+)?"),
    "date": re.compile(r"\d{4}-\d\d-\d\d"),
    "moment": re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?"),
    "time": re.compile(r"-?\d{2,3}:\d\d:\d\d(\.\d{1,6})?"),
    "address": re.compile(r"[0-9a-f.:-]+"),
    "binary": re.compile(r"([0-9A-Fa-f]{2})*"),
}


def quoted(identifier: str) -> str:
    """An identifier in backticks."""
    return "`" + identifier.replace("`", "``") + "`"


def for_statements(*identifiers: str) -> str:
    """A name of several parts, as a person writes it into a statement: with backticks only where it needs them."""
    return ".".join(name if _PLAIN.fullmatch(name) else quoted(name) for name in identifiers)


def form(column: Column) -> KeyForm:
    """How the column's values travel in a cursor. Raises DefiniteError for a type that cannot be part of a key."""
    declared = TYPES.get(column.type)
    if declared is None or declared.key is None:
        raise codes.KEY_UNUSABLE.error(f"column {column.name} {column.declared} cannot be part of a key")
    return declared.key


def selected(column: Column) -> str:
    """The SQL expression that gives a column's value so that `received` makes a component of it."""
    name = quoted(column.name)
    kind = form(column)
    if kind == "text":
        return f"HEX(CONVERT({name} USING utf8mb4))"
    if kind == "binary":
        return f"HEX({name})"
    if column.type in _NUMBERED:
        return f"CAST({name} AS UNSIGNED)"
    return name if kind == "integer" else f"CAST({name} AS CHAR)"


def received(column: Column, value: Any) -> Any:
    """The component for what a session gave for `selected`."""
    if form(column) == "text":
        return bytes.fromhex(value).decode()
    return value


def component(column: Column, value: Any) -> Any:
    """The component for a decoded VARIANT: int, Decimal, str, bytes, date or datetime. Raises DefiniteError else."""
    kind = form(column)
    if column.type in ("enum", "set") and isinstance(value, str):
        return _number(column, value)
    if kind == "integer" and isinstance(value, int | Decimal) and value == int(value):
        return int(value)
    if kind in ("date", "moment") and column.carried == "text" and isinstance(value, str):
        return value
    if kind == "decimal" and isinstance(value, int | Decimal):
        return format(Decimal(value), "f")
    if kind == "moment" and isinstance(value, datetime):
        moment = value.astimezone(timezone.utc).replace(tzinfo=None) if value.tzinfo else value
        text = moment.isoformat(" ", "microseconds")
        return text[: 20 + column.fraction] if column.fraction else text[:19]
    if kind == "date" and isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    if kind == "text" and isinstance(value, str):
        # CHAR holds no trailing spaces; with one, a bound under a NO PAD collation has no one place in the index
        return value.rstrip(" ") if column.type == "char" else value
    if kind in ("time", "address", "decimal") and isinstance(value, str):  # a decimal of more than 38 digits
        return value
    if kind == "binary" and isinstance(value, bytes):
        return value.hex().upper()
    raise codes.CURSOR_UNFIT.error(f"the key column {column.name} {column.declared} holds a {type(value).__name__}")


def literal(column: Column, value: Any) -> str:
    """A component as SQL. Raises DefiniteError for anything that is not a component of this column."""
    kind = form(column)
    if kind == "integer":
        if not isinstance(value, int) or isinstance(value, bool):
            raise _stranger(column)
        return str(value)
    if not isinstance(value, str) or (kind in _PATTERNS and not _PATTERNS[kind].fullmatch(value)):
        raise _stranger(column)
    if kind == "decimal":
        return value
    if kind == "binary":
        return f"X'{value}'"
    if kind == "text":
        return _text(column, value)
    if kind == "address":
        return f"CAST('{value}' AS {column.type})"
    return f"{ {'date': 'DATE', 'time': 'TIME'}.get(kind, 'TIMESTAMP') }'{value}'"


def ordinal(column: Column, value: Any) -> Any:
    """A component as a Python value whose order is the server's. Not for ORDERED_BY_SERVER, which only it can order."""
    kind = form(column)
    if kind in ORDERED_BY_SERVER:
        raise codes.KEY_UNUSABLE.error(f"only the server can order column {column.name}")
    literal(column, value)
    if kind == "decimal":
        return Decimal(value)
    if kind == "time":
        hours, minutes, seconds = value.lstrip("-").split(":")
        span = (int(hours) * 60 + int(minutes)) * 60 + Decimal(seconds)
        return -span if value.startswith("-") else span
    # dates and moments of one column have one width, so that their text orders them
    return bytes.fromhex(value) if kind == "binary" else value


def _number(column: Column, value: str) -> int:
    """A label's number, the sum of the labels' bits. An empty ENUM that no label stands for is number 0."""
    if column.type == "enum":
        return column.values.index(value) + 1 if value in column.values else 0
    return sum(1 << column.values.index(label) for label in value.split(",") if label)


def _text(column: Column, value: str) -> str:
    text = f"_utf8mb4 X'{value.encode().hex()}'"
    if column.charset != "utf8mb4":
        text = f"CONVERT({text} USING {_word(column, column.charset)})"
    return f"{text} COLLATE {_word(column, column.collation)}"


def _word(column: Column, name: str | None) -> str:
    if not name or not re.fullmatch(r"\w+", name, re.ASCII):
        raise codes.KEY_UNUSABLE.error(f"column {column.name} has no character set and collation that can be named")
    return name


def _stranger(column: Column) -> DefiniteError:
    return codes.CURSOR_UNFIT.error(f"a cursor does not fit the key column {column.name} {column.declared}")
