"""Rows of bronze of every kind, at random."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from lakehouse_cdc.model.bronze_arrow import ARROW, SHARED
from tests.support.bronze_writer import variant_column

TABLES = ("shop.t", "shop.\u00fcber a/b%20=c", "s.1.50", "shop.it's {odd}")
BEGAN = datetime(2024, 2, 29, 23, 59, 59, 999_001, timezone.utc)


def random_rows(random: Random, n: int) -> pa.RecordBatch:
    """n rows of bronze, of any table and op; images may be NULL, a scalar, deep, or long."""

    def image() -> Any:
        kinds = (
            None,
            7,
            "x" * random.randrange(300),
            {"id": random.randrange(9), "b": None},
            [1, {"c": Decimal("1.5")}],
        )
        return random.choice(kinds)

    where = [
        {
            "server_uuid": "u",
            "file": "binlog.000001",
            "pos": random.randrange(2**40),
            "gtid": random.choice((None, "g:1")),
        }
        for _ in range(n)
    ]
    ops = [random.choice("rcudtsx") for _ in range(n)]
    columns = [
        pa.array([Decimal(random.randrange(10**37)) for _ in range(n)], pa.decimal128(38, 0)),
        pa.array(ops),
        pa.array([random.choice(TABLES) for _ in range(n)]),
        *(variant_column([image() for _ in range(n)]) for _ in range(2)),
        variant_column([{"columns": [random.choice((7, "x", None))]} if op == "s" else image() for op in ops]),
        pa.array([BEGAN + timedelta(microseconds=random.randrange(5000)) for _ in range(n)], pa.timestamp("us", "UTC")),
        pa.array(where, ARROW.field("position").type),
        pa.array([random.choice(("a", "b")) for _ in range(n)]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW)


def as_shared(random: Random, column: Any, kind: pa.DataType) -> Any:
    """A column as the source makes it: dictionaries, in any order, also of what no row of it says."""
    if pa.types.is_struct(kind):
        inner = [as_shared(random, column.field(i), field.type) for i, field in enumerate(kind)]
        return pa.StructArray.from_arrays(inner, fields=list(kind), mask=column.is_null())
    if not pa.types.is_dictionary(kind):
        return column
    said = set(column.to_pylist()) - {None}
    entries = [*said, *({"not said", "\U0001f600", ""} if kind.value_type == pa.string() else {b"", b"\xff"} - said)]
    entries = random.sample(entries, len(entries))
    places = {value: i for i, value in enumerate(entries)}
    at = pa.array([places.get(value) for value in column.to_pylist()], pa.int32())
    return pa.DictionaryArray.from_arrays(at, pa.array(list(places), kind.value_type))


def shared(random: Random, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows as the source makes them."""
    columns = [as_shared(random, column, kind) for column, kind in zip(batch.columns, SHARED.types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=SHARED)
