"""Row images as the source's encoder writes them, in plain Python, and rows of every kind at random."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from decimal import Context, Decimal
from typing import Any

import numpy as np

from lakehouse_cdc.images.buffers import VariantBuffer
from lakehouse_cdc.model import variant
from lakehouse_cdc.model.variant import header, width
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.type_registry import Kind
from lakehouse_cdc.schema.types import Mapped, require

UTF8: Any = {"charset": "utf8mb4", "collation": "utf8mb4_0900_bin"}
# a column of each kind that silver has, and what makes others of it
EVERY_KIND = (
    Column("a tiny", "tinyint"), Column("Small", "smallint"), Column("n", "int"), Column("big", "bigint"),
    Column("u", "bigint", unsigned=True), Column("d4", "decimal", precision=9, scale=2),
    Column("d8", "decimal", precision=18, scale=18), Column("d16", "decimal", precision=38, scale=10),
    Column("d1", "decimal", precision=1, scale=0), Column("long", "decimal", precision=65, scale=30),
    Column("f", "float"), Column("d", "double"), Column("é`\"", "text", **UTF8),
    Column("t", "varchar", length=9, **UTF8),
    Column("bin", "blob"), Column("day", "date"), Column("at", "datetime", fraction=6),
    Column("ts", "timestamp", fraction=6), Column("bit", "bit", length=1), Column("bits", "bit", length=64),
    Column("time", "time"), Column("y", "year"), Column("v", "vector"), Column("hidden", "json", captured=False),
    Column("x.y", "enum", values=("a",), **UTF8),
)  # fmt: skip
_FIRST, _LAST = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)
_EXACT = Context(prec=80)
_EPOCH = datetime(1970, 1, 1)
_INTEGERS = {Kind.INT8: (3, 1), Kind.INT16: (4, 2), Kind.INT32: (5, 4), Kind.INT64: (6, 8)}
_TEXTS = ("", "a", "x" * 63, "x" * 64, "é" * 32, "日本" * 200, "😀", "\0", "y" * 70_000)


def image(schema: TableSchema, row: Mapping[str, Any]) -> bytes:
    """The image of a row: values in the table's order, fields in the names'."""
    names = sorted((c.name for c in schema.captured), key=str.encode)
    values, starts, at = [], {}, 0
    for column in schema.captured:
        starts[column.name] = at
        values.append(_value(require(column, schema.name), row[column.name]))
        at += len(values[-1])
    size, large = width(at), len(names) > 255
    id_size = width(len(names) - 1)
    out = bytes([((size - 1) | (id_size - 1) << 2 | large << 4) << 2 | variant.OBJECT])
    out += len(names).to_bytes(4 if large else 1, "little")
    out += b"".join(i.to_bytes(id_size, "little") for i in range(len(names)))
    out += b"".join(starts[name].to_bytes(size, "little") for name in names) + at.to_bytes(size, "little")
    return out + b"".join(values)


def buffer(images: Sequence[bytes | None]) -> VariantBuffer:
    """Images, of which some are not there, as the encoder leaves them."""
    ends = np.cumsum([0, *(len(one or b"") for one in images)])
    valid = np.array([one is not None for one in images])
    return VariantBuffer(ends, np.frombuffer(b"".join(one or b"" for one in images), np.uint8), valid)


def _value(mapped: Mapped, value: Any) -> bytes:
    if value is None:
        return b"\0"
    if mapped.kind in _INTEGERS:
        primitive, size = _INTEGERS[mapped.kind]
        return bytes([header(primitive)]) + int(value).to_bytes(size, "little", signed=True)
    if mapped.kind is Kind.DECIMAL:
        primitive, size = next((p, s) for n, p, s in ((9, 8, 4), (18, 9, 8), (38, 10, 16)) if mapped.precision <= n)
        unscaled = int(Decimal(value).scaleb(mapped.scale, _EXACT))
        return bytes([header(primitive), mapped.scale]) + unscaled.to_bytes(size, "little", signed=True)
    if mapped.kind in (Kind.FLOAT, Kind.DOUBLE):
        form, primitive = ("<Bf", variant.FLOAT) if mapped.kind is Kind.FLOAT else ("<Bd", variant.DOUBLE)
        return struct.pack(form, header(primitive), value)
    if mapped.kind is Kind.FLOATS:
        return _floats(value)
    return variant.encode(value)[0]  # texts, bytes, dates and times, true and false: in one form each


def _floats(values: list[float]) -> bytes:
    count, large = len(values), len(values) > 255
    size = width(5 * count)
    out = bytes([(size - 1 | large << 2) << 2 | variant.ARRAY]) + count.to_bytes(4 if large else 1, "little")
    out += b"".join((5 * i).to_bytes(size, "little") for i in range(count + 1))
    return out + b"".join(struct.pack("<Bf", header(variant.FLOAT), value) for value in values)


def random_row(chosen: random.Random, schema: TableSchema, nulls: float = 0.2) -> dict[str, Any]:
    """Of every captured column a value that its kind can have, edges among them, or NULL; the key's are not NULL."""
    return {
        c.name: None
        if c.name not in schema.key and chosen.random() < nulls
        else _random(chosen, require(c, schema.name))
        for c in schema.captured
    }


def _random(chosen: random.Random, mapped: Mapped) -> Any:
    kind = mapped.kind
    if kind in _INTEGERS:
        most = 1 << (8 * _INTEGERS[kind][1] - 1)
        return chosen.choice((0, -1, most - 1, -most, chosen.randrange(-most, most)))
    if kind is Kind.DECIMAL:
        most = 10**mapped.precision - 1
        digits = chosen.choice((0, 1, -1, most, -most, chosen.randrange(-most, most + 1)))
        return Decimal(digits).scaleb(-mapped.scale, _EXACT)
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        return (
            _single(chosen) if kind is Kind.FLOAT else chosen.choice((0.0, -0.0, 1e308, 5e-324, chosen.gauss(0, 1e9)))
        )
    if kind is Kind.FLOATS:
        return [_single(chosen) for _ in range(chosen.choice((0, 1, 3, 51, 52, 255, 256, 300)))]
    if kind is Kind.STRING:
        return chosen.choice((*_TEXTS, str(chosen.random())))
    if kind is Kind.BINARY:
        return chosen.choice((b"", b"\0", b"\xff" * 64, chosen.randbytes(chosen.randrange(100)), b"z" * 70_000))
    if kind is Kind.BOOLEAN:
        return chosen.random() < 0.5
    span = chosen.choice((timedelta(), _LAST - _FIRST, _EPOCH - _FIRST, chosen.random() * (_LAST - _FIRST)))
    moment = _FIRST + span
    if kind is Kind.DATE:
        return moment.date()
    return moment.replace(tzinfo=timezone.utc) if kind is Kind.TIMESTAMP else moment


def _single(chosen: random.Random) -> float:
    found = chosen.choice((0.0, -0.0, 1.5, 3.4028234663852886e38, 1e-45, chosen.gauss(0, 1)))
    (single,) = struct.unpack("<f", struct.pack("<f", found))
    assert math.isfinite(single)
    return float(single)


def plain(value: Any) -> Any:
    """A value that can be compared: floats by their sign and digits."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value.astimezone(timezone.utc) if isinstance(value, datetime) and value.tzinfo else value
