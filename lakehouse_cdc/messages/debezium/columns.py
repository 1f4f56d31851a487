"""A column in Debezium's JSON: its values, and its schema as Connect's JsonConverter writes one.

By default values are as the connector's own defaults have them; then one kind of value is read as another: a BIGINT
UNSIGNED from 2^63 on is a negative number (`bigint.unsigned.handling.mode: long`). `exact` writes all such columns as
Decimal (`precise`); everything else is exact in both. Times, dates and moments are in the adaptive modes
(`time.precision.mode: adaptive_time_microseconds`), decimals as bytes (`decimal.handling.mode: precise`).

Sources: see `lakehouse_cdc.messages.debezium`; `MySqlGeometry` and `Point` for geometries.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from lakehouse_cdc.messages.texts import (
    Moments,
    Piece,
    base64,
    days,
    floats,
    micros,
    millis,
    number,
    quoted,
    single,
    source_type,
    truth,
)
from lakehouse_cdc.schema.table import Column
from lakehouse_cdc.schema.type_registry import SPATIAL

Schema = dict[str, Any]
_TIME = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_BYTE_ORDERS = {0: ">", 1: "<"}  # of well-known binary
_POINT = 1
SOURCE = "__debezium.source.column."  # how the names of parameters begin that have MySQL's own type
_MILLISECONDS = 3  # digits of a second up to which a DATETIME is in milliseconds


@dataclass(frozen=True)
class Form:
    """How a column is written: `kind` is Connect's type, `name` the logical one; `inside` what a struct has."""

    kind: str
    piece: Piece
    name: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    inside: Mapping[str, Any] = field(default_factory=dict)

    def schema(self, optional: bool) -> Schema:
        """As JsonConverter writes it, without the name of the field."""
        schema: Schema = {"type": self.kind, **self.inside, "optional": optional}
        if self.name:
            schema |= {"name": self.name, "version": 1}
        return schema | ({"parameters": dict(self.parameters)} if self.parameters else {})


def form_of(column: Column, *, exact: bool) -> Form:
    """How that column is written."""
    kind = source_type(column)
    if kind in _INTEGERS:
        return _integer(column, exact)
    if kind == "decimal":
        return _decimal(column.precision or 10, column.scale or 0)
    if kind == "bit":
        return _bits(column.length or 1)
    if kind == "datetime":
        return _datetime(column.fraction)
    if kind == "timestamp":
        return Form("string", Moments(column.fraction, "T", "Z"), "io.debezium.time.ZonedTimestamp")
    if kind in ("enum", "set"):
        name = "io.debezium.data.Enum" if kind == "enum" else "io.debezium.data.EnumSet"
        return Form("string", quoted, name, {"allowed": ",".join(column.values)})
    if kind in SPATIAL:
        return _POINTS if kind == "point" else _GEOMETRIES
    if kind in _BYTES:
        return Form("bytes", base64)
    return _OTHERS.get(kind, _TEXT)


def source_parameters(column: Column) -> dict[str, str]:
    """MySQL's own type, as Debezium adds it to a field's schema where `datatype.propagate.source.type` asks for it.

    A column that is carried as text, or masked, is a TEXT there.
    """
    kind = source_type(column)
    said = {"type": f"{kind.upper()}{' UNSIGNED' if column.unsigned and kind == column.type else ''}"}
    if kind == "decimal":
        said |= {"length": str(column.precision or 10), "scale": str(column.scale or 0)}
    elif kind in ("time", "datetime", "timestamp") and column.fraction:
        said["length"] = str(column.fraction)
    elif kind in ("bit", "char", "varchar", "binary", "varbinary") and column.length is not None:
        said["length"] = str(column.length)
    return {f"{SOURCE}{name}": value for name, value in said.items()}


_BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_INTEGERS = {"tinyint": 0, "smallint": 1, "mediumint": 2, "int": 2, "bigint": 3}  # an UNSIGNED one is the next
_WIDTHS = ("int16", "int16", "int32", "int64")


def _integer(column: Column, exact: bool) -> Form:
    if column.type == "bigint" and column.unsigned:
        return _decimal(20, 0) if exact else Form("int64", as_signed)
    # UNSIGNED SMALLINT and INT need the next width; a TINYINT has 16 bits, a MEDIUMINT 32, either way
    wider = column.unsigned and column.type in ("smallint", "int")
    return Form(_WIDTHS[_INTEGERS[column.type] + wider], number)


def as_signed(value: Any) -> str:
    """The number of 64 bits that has the same ones."""
    whole = int(value)
    return str(whole - 2**64 if whole >= 2**63 else whole)


@dataclass(frozen=True)
class Unscaled:
    """The piece of a decimal: it without its point as big-endian bytes in two's complement, the fewest that hold it."""

    scale: int

    def __call__(self, value: Any) -> str:
        text = format(Decimal(value), "f")
        whole, _, fraction = text.partition(".")
        unscaled = int(whole + fraction.ljust(self.scale, "0"))
        if text.startswith("-") and unscaled > 0:  # "-0.5": the sign of a whole part that is zero
            unscaled = -unscaled
        size = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
        return base64(unscaled.to_bytes(size, "big", signed=True))


def _decimal(precision: int, scale: int) -> Form:
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return Form("bytes", Unscaled(scale), "org.apache.kafka.connect.data.Decimal", parameters)


def _bits(length: int) -> Form:
    if length == 1:
        return Form("boolean", truth)
    size = (length + 7) // 8
    return Form(
        "bytes", lambda value: base64(int(value).to_bytes(size, "little")), "io.debezium.data.Bits",
        {"length": str(length)},
    )  # fmt: skip


def _datetime(fraction: int) -> Form:
    if fraction <= _MILLISECONDS:
        return Form("int64", millis, "io.debezium.time.Timestamp")
    return Form("int64", micros, "io.debezium.time.MicroTimestamp")


def _time(value: str) -> str:
    """Microseconds, of 838 hours and below zero, too."""
    parsed = _TIME.fullmatch(value)
    assert parsed is not None, "a TIME is as the server prints it"
    sign, hours, minutes, seconds, fraction = parsed.groups()
    whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
    micros = whole * 1_000_000 + int((fraction or "").ljust(6, "0"))
    return str(-micros if sign else micros)


def _geometry(value: bytes) -> str:
    return f'{{"wkb":{base64(value[4:])},"srid":{_srid(value)}}}'


def _srid(value: bytes) -> str:
    """Bronze has the SRID in four bytes in front; Debezium leaves 0 out."""
    (srid,) = struct.unpack("<I", value[:4])
    return str(srid) if srid else "null"


def _point(value: bytes) -> str:
    wkb = value[4:]
    order = _BYTE_ORDERS[wkb[0]]
    kind, x, y = struct.unpack(f"{order}Idd", wkb[1:21])
    assert kind == _POINT, "a column of points has points alone"
    return f'{{"x":{x!r},"y":{y!r},"wkb":{base64(wkb)},"srid":{_srid(value)}}}'


def _fields(*named: tuple[str, str, bool]) -> dict[str, Any]:
    return {"fields": [{"type": kind, "optional": optional, "field": name} for name, kind, optional in named]}


_TEXT = Form("string", quoted)
_POINTS = Form(
    "struct", _point, "io.debezium.data.geometry.Point",
    inside=_fields(("x", "double", False), ("y", "double", False), ("wkb", "bytes", True), ("srid", "int32", True)),
)  # fmt: skip
_GEOMETRIES = Form(
    "struct", _geometry, "io.debezium.data.geometry.Geometry",
    inside=_fields(("wkb", "bytes", False), ("srid", "int32", True)),
)  # fmt: skip
_OTHERS = {
    "date": Form("int32", days, "io.debezium.time.Date"),
    "time": Form("int64", _time, "io.debezium.time.MicroTime"),
    "year": Form("int32", number, "io.debezium.time.Year"),
    "json": Form("string", quoted, "io.debezium.data.Json"),
    "float": Form("float", single),
    "double": Form("double", repr),
    "vector": Form(
        "array", floats, "io.debezium.data.FloatVector", inside={"items": {"type": "float", "optional": False}}
    ),
}
