"""The digest of a row: the same by Spark and beside it, another for each row, whatever a session is set to."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from lakehouse_cdc.images.typed.columns import arrow_type
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.type_registry import TYPES, Kind
from lakehouse_cdc.schema.types import require
from lakehouse_cdc.silver.batch.row_digest import BY_SPARK_ALONE, by_arrow, by_spark
from tests.support.silver.histories import TEXT

_UTC = timezone.utc
_TIMES = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))
VALUES: dict[str, tuple[Column, st.SearchStrategy[Any]]] = {
    "i8": (Column("i8", "tinyint"), st.integers(-128, 127)),
    "i16": (Column("i16", "smallint"), st.integers(-(2**15), 2**15 - 1)),
    "i32": (Column("i32", "int"), st.integers(-(2**31), 2**31 - 1)),
    "i64": (Column("i64", "bigint"), st.integers(-(2**63), 2**63 - 1)),
    "u64": (Column("u64", "bigint", unsigned=True), st.integers(0, 2**64 - 1).map(Decimal)),
    "money": (Column("money", "decimal", precision=12, scale=6), st.decimals(-99999, 99999, places=6)),
    "tiny": (Column("tiny", "decimal", precision=38, scale=30), st.decimals(-9, 9, places=30) |
             st.sampled_from([Decimal("0E-30"), Decimal("1E-30"), Decimal("-1E-30"), Decimal("1E-7").quantize(
                 Decimal("1E-30"))])),
    "text": (Column("text", "text", **TEXT), st.text()),
    "bytes": (Column("bytes", "blob"), st.binary()),
    "day": (Column("day", "date"), st.dates(date(1, 1, 1))),
    "at": (Column("at", "datetime", fraction=6), _TIMES),
    "instant": (Column("instant", "timestamp", fraction=6), st.datetimes(
        datetime(1902, 1, 1), datetime(9999, 12, 31), timezones=st.just(_UTC))),
    "bit": (Column("bit", "bit", length=1), st.booleans()),
}  # fmt: skip
SCHEMA = TableSchema("shop", "log", tuple(column for column, _ in VALUES.values()), ())
ROWS = st.lists(
    st.fixed_dictionaries({name: values | st.none() for name, (_, values) in VALUES.items()}), min_size=1, max_size=10
)


def test_every_kind_is_here_or_sparks() -> None:
    kinds = {require(column, "t").kind for column in SCHEMA.columns}
    assert kinds == frozenset(Kind) - BY_SPARK_ALONE
    assert {declared.kind for declared in TYPES.values() if declared.kind} <= frozenset(Kind)


@settings(max_examples=25, deadline=None)
@given(rows=ROWS)
def test_spark_and_arrow_agree(spark: SparkSession, rows: list[dict[str, Any]]) -> None:
    kinds = pa.schema([(column.name, arrow_type(require(column, "t"))) for column in SCHEMA.columns])
    table = pa.Table.from_pylist(rows, schema=kinds)
    found = spark.createDataFrame(table).select(by_spark(SCHEMA).alias("d")).collect()
    assert [row["d"] for row in found] == by_arrow(table, SCHEMA)


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_no_setting_changes_it(spark: SparkSession, ansi: str) -> None:
    """Berlin set its clocks back at 01:00 UTC: both instants are printed as 02:30."""
    schema = TableSchema("shop", "log", (VALUES["instant"][0], VALUES["tiny"][0]), ())
    instants = [datetime(2023, 10, 29, 0, 30, tzinfo=_UTC) + timedelta(hours=n) for n in (0, 1)]
    kinds = pa.schema([(column.name, arrow_type(require(column, "t"))) for column in schema.columns])
    rows = pa.Table.from_pylist([{"instant": at, "tiny": Decimal("1E-30")} for at in instants], schema=kinds)
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    session.conf.set("spark.sql.ansi.enabled", ansi)
    frame = session.createDataFrame([(at,) for at in instants], "instant timestamp")
    frame = frame.selectExpr("instant", "CAST('1E-30' AS DECIMAL(38,30)) AS tiny")
    assert [row["d"] for row in frame.select(by_spark(schema).alias("d")).collect()] == by_arrow(rows, schema)
    assert len({*by_arrow(rows, schema)}) == 2
