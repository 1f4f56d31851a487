"""Small files of a silver table: put together now and then, not in every batch."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.apply.compaction import has_turn
from tests.support.bronze_writer import Lake
from tests.support.delta_library import delta_table
from tests.support.silver.changes import N, apply, begin, insert, table

NAMES = st.text(min_size=1, max_size=20)


@pytest.mark.unit
@given(name=NAMES, first=st.integers(0, 10**9), step=st.integers(1, 1000))
def test_no_rhythm_of_batches_avoids_it(name: str, first: int, step: int) -> None:
    turns = [has_turn(name, first + i * step) for i in range(2_000)]
    assert 20 <= sum(turns) <= 120  # of 62 or so


@pytest.mark.unit
@given(batch=st.integers(0, 10**9))
def test_a_batch_is_not_the_turn_of_all_tables(batch: int) -> None:
    assert sum(has_turn(f"shop.table_{i}", batch) for i in range(1_000)) < 100


@pytest.mark.long
def test_a_batch_rewrites_small_files_only_in_its_turn(spark: SparkSession, tmp_path: Path) -> None:
    """In a process that has added none of the table's files."""
    schema = table("orders", N)
    lake = Lake(spark, tmp_path, {schema.name: schema})
    last = apply(lake, Applier(spark, lake.layout), [begin(schema), insert(schema, 2, 2, n=2)], None)
    _forget_files(spark)
    applier, compacted = Applier(spark, lake.layout), []
    for pos in range(3, 6):
        before = len(_operations(spark, lake))
        last = apply(lake, applier, [insert(schema, pos, pos, n=pos)], last)
        compacted.append("OPTIMIZE" in _operations(spark, lake)[before:] and not has_turn(schema.name, last))
    assert not any(compacted)


@pytest.mark.long
def test_its_turn_puts_them_together(spark: SparkSession, tmp_path: Path) -> None:
    schema = table("orders", N)
    lake = Lake(spark, tmp_path, {schema.name: schema})
    last = apply(lake, Applier(spark, lake.layout), [begin(schema), insert(schema, 2, 2, n=2)], None)
    while not has_turn(schema.name, last + 1):
        last = lake.commit([]).version
    _forget_files(spark)
    apply(lake, Applier(spark, lake.layout), [insert(schema, 3, 3, n=3)], last)
    assert _operations(spark, lake)[-1] == "OPTIMIZE"


def _forget_files(spark: SparkSession) -> None:
    """Leave Delta in this process without its counts of small files, as in a new one."""
    jvm = spark._jvm
    assert jvm is not None
    jvm.org.apache.spark.sql.delta.stats.AutoCompactPartitionStats.instance(spark._jsparkSession).resetTestOnly()


def _operations(spark: SparkSession, lake: Lake) -> list[str]:
    """Those of the silver table's versions, the oldest first."""
    versions = delta_table(spark, lake.layout.silver_table("shop.orders")).history()
    return [row["operation"] for row in versions.orderBy("version").collect()]
