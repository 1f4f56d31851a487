"""Values as MySQL's programs print them, and as JSON has them, read as bronze's: for Canal and Maxwell.

Moments are text with a space, a TIMESTAMP in UTC; a TIME is as the server prints it. Dates that no calendar has are no
values. Numbers may come as JSON's numbers or as text: both are exact, for JSON's are read with all their digits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, timezone
from decimal import Context, Decimal
from typing import Any

from lakehouse_cdc.messages.reading import Value, double, single, text
from lakehouse_cdc.messages.texts import source_type
from lakehouse_cdc.schema.table import Column
from lakehouse_cdc.schema.types import MAX_DECIMAL

_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?")
_TIME = re.compile(r"-?\d{2,3}:[0-5]\d:[0-5]\d(?:\.(\d{1,6}))?")
_EXACT = Context(prec=100)
_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "year")


def value_of(column: Column, binary: Value) -> Value | None:
    """How that column's values are read; `binary` reads bytes. None for a type that the format writes otherwise."""
    kind = source_type(column)
    if kind == "text":
        return text
    if kind in _INTEGERS:
        return _unsigned if kind == "bigint" and column.unsigned else whole
    if kind == "bit":
        return _bits(column)
    if kind == "decimal":
        return _decimal(column)
    if kind in ("datetime", "timestamp"):
        return _moment_of(timezone.utc if kind == "timestamp" else None)
    if kind == "time":
        return _time_of(column.fraction)
    if kind in _BINARY:
        return binary
    return _OTHERS.get(kind)


def whole(held: Any) -> int:
    """A whole number, or its text."""
    if isinstance(held, str):
        if not re.fullmatch(r"-?[0-9]{1,20}", held):
            raise ValueError("no whole number")
        return int(held)
    if not isinstance(held, int) or isinstance(held, bool):
        raise ValueError("no whole number")
    return held


def _unsigned(held: Any) -> Decimal:
    number = whole(held)
    if number < 0:
        raise ValueError("below zero")
    return Decimal(number)


def _bits(column: Column) -> Value:
    def read(held: Any) -> Any:
        number = int(held) if isinstance(held, bool) else whole(held)
        if not 0 <= number < 2 ** (column.length or 1):
            raise ValueError(f"no {column.length} bits")
        if column.length == 1:
            return bool(number)
        return Decimal(number) if column.length == 64 else number

    return read


def _decimal(column: Column) -> Value:
    """With the column's digits after the point, neither more nor fewer."""
    scale, as_text = column.scale or 0, (column.precision or 10) > MAX_DECIMAL

    def read(held: Any) -> Any:
        if isinstance(held, bool) or not isinstance(held, int | Decimal | str):
            raise ValueError("no number")
        if isinstance(held, str) and not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", held):
            raise ValueError("no number")
        number = Decimal(held)
        exact = number.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
        if exact != number:
            raise ValueError(f"more than {scale} digits after the point")
        return format(exact, "f") if as_text else exact

    return read


def _moment_of(zone: timezone | None) -> Value:
    def read(held: Any) -> datetime:
        parts = _MOMENT.fullmatch(text(held))
        if parts is None:
            raise ValueError("no moment")
        day, time, fraction = parts.groups()
        at = datetime.fromisoformat(f"{day} {time}")
        return at.replace(microsecond=int((fraction or "").ljust(6, "0")), tzinfo=zone)

    return read


def _time_of(fraction: int) -> Callable[[Any], str]:
    def read(held: Any) -> str:
        parts = _TIME.fullmatch(text(held))
        if parts is None or len(parts[1] or "") != fraction:
            raise ValueError(f"no TIME with {fraction} digits of a second")
        return str(held)

    return read


def _day(held: Any) -> date:
    return date.fromisoformat(text(held))


def _number(held: Any) -> float:
    return double(Decimal(held) if isinstance(held, str) else held)


def _single(held: Any) -> float:
    return single(Decimal(held) if isinstance(held, str) else held)


def _floats(held: Any) -> list[float]:
    listed = json.loads(held, parse_float=Decimal) if isinstance(held, str) else held
    if not isinstance(listed, list):
        raise ValueError("no list")
    return [single(one) for one in listed]


_BINARY = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_OTHERS: Mapping[str, Value] = {
    "float": _single, "double": _number, "date": _day, "vector": _floats,
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum"), text),
    **dict.fromkeys(("uuid", "inet4", "inet6"), text),
}  # fmt: skip
