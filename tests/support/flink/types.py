"""What a column is in Flink's SQL, by format, and a value that Flink read as bronze has it.

A type is the nearest one that Flink reads without loss. Where that is a STRING or BYTES of something else, the guide to
the sink says so.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Context, Decimal
from typing import Any

from lakehouse_cdc.messages.formats import FormatName
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.type_registry import SPATIAL

MAX_DECIMAL = 38  # digits of a DECIMAL of Flink's
_EPOCH = datetime(1970, 1, 1)
_EXACT = Context(prec=80)
_BINARY = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_INTEGERS = {"tinyint": "TINYINT", "smallint": "SMALLINT", "mediumint": "INT", "int": "INT", "bigint": "BIGINT"}
_UNSIGNED = {"tinyint": "SMALLINT", "smallint": "INT", "mediumint": "INT", "int": "BIGINT"}


@dataclass(frozen=True)
class FlinkType:
    """A type as Flink's SQL writes it, and what its values, as the process prints them, are in bronze."""

    sql: str
    value: Callable[[Any], Any]


def row_type(types: Mapping[str, FlinkType]) -> str:
    """The ROW of these columns."""
    columns = (f"`{name.replace('`', '``')}` {one.sql}" for name, one in types.items())
    return f"ROW<{', '.join(columns)}>"


def types_of(format: FormatName, schema: TableSchema, *, exact: bool) -> dict[str, FlinkType]:
    """Of each column the type by which it is read from that format."""
    return {column.name: type_of(format, column, exact=exact) for column in schema.captured}


def image(types: Mapping[str, FlinkType], values: list[Any]) -> dict[str, Any]:
    """A row that Flink read, as bronze has it."""
    return {
        name: None if value is None else one.value(value)
        for (name, one), value in zip(types.items(), values, strict=True)
    }


def type_of(format: FormatName, column: Column, *, exact: bool) -> FlinkType:
    """The same of one column."""
    kind = "text" if column.carried == "text" or column.mask else column.type
    if kind in _INTEGERS and not (kind == "bigint" and column.unsigned):
        return FlinkType(_UNSIGNED[kind] if column.unsigned else _INTEGERS[kind], int)
    if kind == "year":
        return FlinkType("INT", int)
    if kind == "float":
        return FlinkType("FLOAT", _single)
    if kind == "double":
        return FlinkType("DOUBLE", float)
    by_format = {"debezium-json": _of_debezium, "canal-json": _of_canal, "maxwell": _of_maxwell}[format]
    return by_format(kind, column, exact) or _STRING


def _of_debezium(kind: str, column: Column, exact: bool) -> FlinkType | None:
    if kind == "bigint":
        return FlinkType("BYTES", lambda held: _unscaled(held, 0)) if exact else FlinkType("BIGINT", Decimal)
    if kind == "decimal":
        return FlinkType("BYTES", lambda held: _of_precision(column, _unscaled(held, column.scale or 0)))
    if kind == "bit" and column.length != 1:
        return FlinkType("BYTES", lambda held: int.from_bytes(_bytes(held), "little"))
    if kind == "point":
        return FlinkType("ROW<x DOUBLE, y DOUBLE, wkb BYTES, srid BIGINT>", _point)
    if kind in SPATIAL:
        return FlinkType("ROW<wkb BYTES, srid BIGINT>", lambda held: _geometry(*held))
    if kind == "date":
        return FlinkType("INT", lambda held: date(1970, 1, 1) + timedelta(days=held))
    if kind == "datetime":
        unit = timedelta(milliseconds=1) if column.fraction <= 3 else timedelta(microseconds=1)
        return FlinkType("BIGINT", lambda held: _EPOCH + held * unit)
    if kind == "timestamp":
        return FlinkType("TIMESTAMP_LTZ(6)", _instant)
    if kind == "time":
        return FlinkType("BIGINT", lambda held: _time(held, column.fraction))
    return _common(kind)


def _of_canal(kind: str, column: Column, _: bool) -> FlinkType | None:
    if kind == "bit" and column.length == 1:
        return FlinkType("INT", bool)  # a BOOLEAN of "1" is false
    if kind in _BINARY or kind in SPATIAL:
        return FlinkType("STRING", lambda held: held.encode("latin-1"))
    if kind == "vector":
        return FlinkType("STRING", lambda held: [_single(one) for one in json.loads(held)])
    return _of_text_formats(kind, column) or _common(kind)


def _of_maxwell(kind: str, column: Column, exact: bool) -> FlinkType | None:
    if kind == "set":
        return FlinkType("ARRAY<STRING>", ",".join)
    if kind in SPATIAL:
        return FlinkType("BYTES", _bytes)
    if kind == "json" and not exact:
        return FlinkType("STRING", Document)
    return _of_text_formats(kind, column) or _common(kind)


def _of_text_formats(kind: str, column: Column) -> FlinkType | None:
    if kind == "bigint":
        return FlinkType("DECIMAL(20, 0)", Decimal)
    if kind == "decimal":
        precision, scale = column.precision or 10, column.scale or 0
        if precision > MAX_DECIMAL:
            return FlinkType("STRING", lambda held: format(Decimal(held), f".{scale}f"))
        return FlinkType(f"DECIMAL({precision}, {scale})", Decimal)
    if kind == "bit" and column.length != 1:
        return FlinkType("DECIMAL(20, 0)", int)
    if kind == "date":
        return FlinkType("DATE", date.fromisoformat)
    if kind in ("datetime", "timestamp"):
        return FlinkType("TIMESTAMP(6)", _instant if kind == "timestamp" else _moment)
    return None


def _common(kind: str) -> FlinkType | None:
    if kind in _BINARY:
        return FlinkType("BYTES", _bytes)
    if kind == "bit":
        return FlinkType("BOOLEAN", bool)
    if kind == "vector":
        return FlinkType("ARRAY<FLOAT>", lambda held: [_single(one) for one in held])
    return None


class Document(str):
    """What Flink makes of a JSON document as a STRING: the text of an object or a list, a scalar as it is."""

    def says(self, text: str) -> bool:
        """Whether it is what Flink makes of the document with that text."""
        document = json.loads(text)
        if isinstance(document, dict | list):
            return bool(json.loads(self) == document)
        return str(self) == (document if isinstance(document, str) else json.dumps(document))


def _bytes(held: str) -> bytes:
    return base64.b64decode(held, validate=True)


def _unscaled(held: str, scale: int) -> Decimal:
    return Decimal(int.from_bytes(_bytes(held), "big", signed=True)).scaleb(-scale, _EXACT)


def _of_precision(column: Column, number: Decimal) -> Any:
    return format(number, f".{column.scale or 0}f") if (column.precision or 10) > MAX_DECIMAL else number


def _point(held: list[Any]) -> bytes:
    x, y, wkb, srid = held
    assert struct.unpack("<dd", _bytes(wkb)[5:]) == (float(x), float(y))
    return _geometry(wkb, srid)


def _geometry(wkb: str, srid: int | None) -> bytes:
    return struct.pack("<I", srid or 0) + _bytes(wkb)


def _moment(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def _instant(micros: int) -> datetime:
    return _moment(micros).replace(tzinfo=timezone.utc)


def _time(micros: int, fraction: int) -> str:
    seconds, rest = divmod(abs(micros), 1_000_000)
    text = f"{'-' if micros < 0 else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return text + (f".{rest:06}"[: 1 + fraction] if fraction else "")


def _single(value: Any) -> float:
    (single,) = struct.unpack("<f", struct.pack("<f", float(value)))
    return float(single)


_STRING = FlinkType("STRING", str)
