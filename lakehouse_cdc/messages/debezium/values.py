"""A field of Connect's schema as a column, and its values in JSON as bronze's: the other direction of `columns`.

A field says how its values are written, by its type and its logical name; it says MySQL's own type only where the
connector was asked to (`datatype.propagate.source.type`, the parameters `__debezium.source.column.*`), as the exact
mode of this project's sink is. Without that a column is the narrowest of MySQL's types that holds all that the field
can: a TINYINT is read as a SMALLINT, a VARCHAR as a LONGTEXT, a TIME has six digits of a second. What is not known here
is never guessed: such a field raises `Unreadable`.

Of one kind of value more is known with MySQL's type than without: a BIGINT UNSIGNED that is written as a signed number
(`bigint.unsigned.handling.mode: long`, the default) is read as what it was. Without it, it is a BIGINT, and such a
value is negative: nothing in the message says otherwise.

Sources: see `lakehouse_cdc.messages.debezium`; the page "Data type mappings" for the parameters.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from lakehouse_cdc.messages.debezium.columns import SOURCE
from lakehouse_cdc.messages.reading import Reason, Unreadable, Value, base64_bytes, double, flag, single, text
from lakehouse_cdc.messages.texts import source_type
from lakehouse_cdc.schema.table import Column
from lakehouse_cdc.schema.type_registry import SPATIAL, TYPES
from lakehouse_cdc.schema.types import MAX_DECIMAL

_EPOCH, _FIRST_DAY = datetime(1970, 1, 1), date(1970, 1, 1).toordinal()
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?Z")
_MICROS_OF_A_MILLI = 1000

# (Connect's type, logical name) -> the column where MySQL's type is not said
_PLAIN = {
    ("int8", ""): Column("", "tinyint"), ("int16", ""): Column("", "smallint"), ("int32", ""): Column("", "int"),
    ("int64", ""): Column("", "bigint"), ("float", ""): Column("", "float"), ("float32", ""): Column("", "float"),
    ("double", ""): Column("", "double"), ("float64", ""): Column("", "double"),
    ("boolean", ""): Column("", "bit", length=1), ("bytes", ""): Column("", "longblob"),
    ("string", ""): Column("", "longtext", charset="utf8mb4"), ("string", "io.debezium.data.Json"): Column("", "json"),
    ("string", "io.debezium.data.Enum"): Column("", "enum", charset="utf8mb4"),
    ("string", "io.debezium.data.EnumSet"): Column("", "set", charset="utf8mb4"),
    ("string", "io.debezium.time.ZonedTimestamp"): Column("", "timestamp", fraction=6),
    ("int32", "io.debezium.time.Date"): Column("", "date"),
    ("int32", "org.apache.kafka.connect.data.Date"): Column("", "date"),
    ("int32", "io.debezium.time.Year"): Column("", "year"),
    ("int64", "io.debezium.time.MicroTime"): Column("", "time", fraction=6),
    ("int64", "io.debezium.time.Timestamp"): Column("", "datetime", fraction=3),
    ("int64", "org.apache.kafka.connect.data.Timestamp"): Column("", "datetime", fraction=3),
    ("int64", "io.debezium.time.MicroTimestamp"): Column("", "datetime", fraction=6),
    ("struct", "io.debezium.data.geometry.Point"): Column("", "point"),
    ("struct", "io.debezium.data.geometry.Geometry"): Column("", "geometry"),
    ("array", "io.debezium.data.FloatVector"): Column("", "vector"),
}  # fmt: skip
_DECIMAL, _BITS = "org.apache.kafka.connect.data.Decimal", "io.debezium.data.Bits"
# the types of MySQL that a field of that kind may be of
_MAY_BE = {
    ("int16", ""): ("tinyint", "smallint"), ("int32", ""): ("smallint", "mediumint", "int"),
    ("int64", ""): ("int", "bigint"), ("float", ""): ("float",), ("double", ""): ("float", "double"),
    ("boolean", ""): ("bit", "tinyint"),
    ("bytes", ""): ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"),
    ("string", ""): ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "uuid", "inet4", "inet6"),
    ("bytes", _DECIMAL): ("decimal", "bigint"), ("bytes", _BITS): ("bit",),
    ("struct", "io.debezium.data.geometry.Point"): ("point",),
    ("struct", "io.debezium.data.geometry.Geometry"): SPATIAL,
}  # fmt: skip


def column_of(field: Mapping[str, Any]) -> Column:
    """The column of a field of a row's schema. Raises Unreadable for a type that is not known."""
    name, kind, logical = field.get("field"), field.get("type"), field.get("name") or ""
    parameters = field.get("parameters") or {}
    if not isinstance(name, str) or not isinstance(parameters, Mapping):
        raise Unreadable(Reason.NOT_THE_FORMAT, "a field of the schema has no name")
    nullable = field.get("optional") is True
    said = str(parameters.get(f"{SOURCE}type") or "").lower()
    plain = _plain(str(kind), logical, parameters)
    if plain is None or (said and said.split()[0] not in TYPES):
        raise Unreadable(Reason.UNKNOWN_TYPE, f"{name} has the type {said or kind} {logical}".rstrip())
    values: dict[str, Any] = {"name": name, "nullable": nullable}
    if plain.type in ("enum", "set"):
        values["values"] = tuple(str(parameters.get("allowed") or "").split(","))
    if not said:
        return _with(plain, values)
    own, *words = said.split()
    if own not in _MAY_BE.get((str(kind), logical), (plain.type,)):
        raise Unreadable(Reason.UNKNOWN_TYPE, f"{name} is {said}, which is not written as {kind} {logical}".rstrip())
    length, scale = (_number(parameters.get(f"{SOURCE}{what}")) for what in ("length", "scale"))
    values |= {"type": own, "unsigned": "unsigned" in words, "length": None, "precision": None, "fraction": 0}
    values |= {"charset": "utf8mb4" if TYPES[own].has_charset else None, "scale": None}
    if own == "decimal":
        values |= {"precision": length or 10, "scale": scale or 0}
    elif own in ("time", "datetime", "timestamp"):
        values["fraction"] = length or 0
    elif own in ("bit", "char", "varchar", "binary", "varbinary"):
        values["length"] = length
    return _with(plain, values)


def _with(plain: Column, values: Mapping[str, Any]) -> Column:
    return Column(**{**{k: v for k, v in plain.to_dict().items() if k != "captured"}, **values})


def _number(text: Any) -> int | None:
    return int(text) if isinstance(text, str) and text.isdecimal() else None


def _plain(kind: str, logical: str, parameters: Mapping[str, Any]) -> Column | None:
    if (kind, logical) == ("bytes", _DECIMAL):
        scale, precision = _number(parameters.get("scale")), _number(parameters.get("connect.decimal.precision"))
        return None if scale is None else Column("", "decimal", precision=precision or 65, scale=scale)
    if (kind, logical) == ("bytes", _BITS):
        length = _number(parameters.get("length"))
        return None if length is None else Column("", "bit", length=length)
    return _PLAIN.get((kind, logical))


def value_of(column: Column, field: Mapping[str, Any]) -> Value:
    """How the field's values are read, for that column. What a function of these raises is a value that is none."""
    kind, logical = str(field.get("type")), field.get("name") or ""
    if source_type(column) == "text":  # carried as text, or masked
        return text
    if logical == _DECIMAL:
        return _decimal(column, int((field.get("parameters") or {}).get("scale") or 0))
    if logical == _BITS:
        return _bits(column)
    if column.type == "timestamp":
        return zoned
    if column.type == "time":
        return lambda value: time_text(_whole(value), column.fraction)
    if column.type == "datetime":
        unit = 1 if logical == "io.debezium.time.MicroTimestamp" else _MICROS_OF_A_MILLI
        return lambda value: _EPOCH + timedelta(microseconds=_whole(value) * unit)
    if column.type == "bigint" and column.unsigned:
        return _unsigned
    if column.type == "date":
        return lambda value: date.fromordinal(_FIRST_DAY + _whole(value))
    if column.type == "tinyint" and kind == "boolean":  # as Debezium's TinyIntOneToBooleanConverter writes it
        return lambda value: int(flag(value))
    return _OTHERS[column.type] if column.type in _OTHERS else _BY_KIND[kind]


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError("no whole number")
    return value


def _unsigned(value: Any) -> Decimal:
    """A BIGINT UNSIGNED that is written as a signed number, or, without a schema, perhaps as bytes."""
    if isinstance(value, str):
        value = int.from_bytes(base64_bytes(value), "big", signed=True)
    if not -(2**63) <= _whole(value) < 2**64:
        raise ValueError("no number of 64 bits")
    return Decimal(value % 2**64)


def _decimal(column: Column, scale: int) -> Value:
    as_text = column.type == "decimal" and (column.precision or 10) > MAX_DECIMAL

    def read(value: Any) -> Any:
        unscaled = int.from_bytes(base64_bytes(value), "big", signed=True)
        number = Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))
        return format(number, "f") if as_text else number

    return read


def _bits(column: Column) -> Value:
    def read(value: Any) -> Any:
        number = int.from_bytes(base64_bytes(value), "little")
        if number >= 2 ** (column.length or 1):
            raise ValueError(f"more than {column.length} bits")
        return Decimal(number) if column.length == 64 else number

    return read


def zoned(value: Any) -> datetime:
    """A moment as ZonedTimestamp writes it, in UTC."""
    parts = _MOMENT.fullmatch(text(value))
    if parts is None:
        raise ValueError("no moment in UTC")
    whole, fraction = parts.groups()
    at = datetime.fromisoformat(whole).replace(tzinfo=timezone.utc)
    return at.replace(microsecond=int((fraction or "").ljust(6, "0")))


def time_text(micros: int, fraction: int) -> str:
    """A TIME as the server prints it, with that many digits of a second; of 838 hours and below zero, too."""
    seconds, rest = divmod(abs(micros), 1_000_000)
    if seconds >= 839 * 3600 or rest % 10 ** (6 - fraction):
        raise ValueError("no TIME of the column")
    shown = f"{'-' if micros < 0 else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return shown + (f".{rest:06}"[: 1 + fraction] if fraction else "")


def _geometry(value: Any) -> bytes:
    """As bronze has it: the SRID in four bytes, then WKB."""
    if not isinstance(value, dict):
        raise ValueError("no geometry")
    srid = 0 if value.get("srid") is None else _whole(value.get("srid"))  # a number of 32 bits, with a sign
    return struct.pack("<i" if srid < 0 else "<I", srid) + base64_bytes(value.get("wkb"))


def _floats(value: Any) -> list[float]:
    if not isinstance(value, list):
        raise ValueError("no list")
    return [single(one) for one in value]


_OTHERS: Mapping[str, Value] = {
    "float": single, "double": double, "json": text, "enum": text, "set": text, "year": _whole, "vector": _floats,
    **dict.fromkeys(SPATIAL, _geometry),
}  # fmt: skip
_BY_KIND: Mapping[str, Value] = {
    **dict.fromkeys(("int8", "int16", "int32", "int64"), _whole),
    "boolean": flag, "bytes": base64_bytes, "string": text,
}  # fmt: skip
