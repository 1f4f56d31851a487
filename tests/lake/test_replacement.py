"""Files in the place of others: readers of the table see the new ones, and readers of changes see nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.lake.direct.replacement import Replacement, require_replaceable
from lakehouse_cdc.lake.engines.direct import DirectEngine
from lakehouse_cdc.lake.tables import alter, create, read
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.table_layout import Table

COLUMNS = (("n", "bigint"), ("s", "string"))


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Table:
    """A table of five rows that takes no more than appends, and has a change data feed."""
    made = Table("bronze", "t", root=str(tmp_path))
    properties = {"delta.appendOnly": "true", "delta.enableChangeDataFeed": "true"}
    create(spark, made, COLUMNS, pipeline="shop", comment="", properties=properties)
    for first in (0, 3):
        alter(spark, made, f"INSERT INTO {made.sql} SELECT id, concat('clear ', id) FROM range({first}, {first + 3})")
    return made


def hide(spark: SparkSession, table: Table) -> bool:
    return DirectEngine(spark).rewrite(table, COLUMNS, lambda row: {**row, "s": None}, ["n"])


def streamed(spark: SparkSession, table: Table, place: Path) -> list[int]:
    """What a stream finds that continues where it was."""
    found: list[int] = []
    rows = spark.readStream.format("delta").load(str(table))
    query = rows.writeStream.foreachBatch(lambda batch, _: found.extend(row["n"] for row in batch.collect()))
    query.option("checkpointLocation", str(place)).trigger(availableNow=True).start().awaitTermination()
    return sorted(found)


def test_readers_of_changes_see_nothing(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    assert streamed(spark, table, tmp_path / "stream") == [0, 1, 2, 3, 4, 5]
    assert hide(spark, table)
    assert sorted(map(tuple, read(spark, table).collect())) == [(n, None) for n in range(6)]
    assert Versions(2, 3).rows(spark, table).count() == 0
    alter(spark, table, f"INSERT INTO {table.sql} VALUES (6, 'more')")
    assert [tuple(row) for row in Versions(2, 4).rows(spark, table).collect()] == [(6, "more")]
    assert streamed(spark, table, tmp_path / "stream") == [6]
    assert streamed(spark, table, tmp_path / "another") == [0, 1, 2, 3, 4, 5, 6]


def test_what_changes_nothing_writes_nothing(spark: SparkSession, table: Table) -> None:
    assert hide(spark, table)
    assert not hide(spark, table)
    assert len([*Path(str(table), "_delta_log").glob("*.json")]) == 4


def test_a_file_that_another_has_replaced_is_refused(spark: SparkSession, table: Table) -> None:
    slow = Replacement(table)
    files = slow.files({})
    assert hide(spark, table)
    with pytest.raises(Exception, match=r"(?i)concurrent"):
        slow.commit(files, [])
    assert read(spark, table).count() == 6


def test_a_table_of_a_catalog_is_refused(spark: SparkSession) -> None:
    with pytest.raises(DefiniteError) as refused:
        require_replaceable(spark, Table("bronze", "t", catalog="main"))
    assert refused.value.code is codes.REDACTION_UNSUPPORTED
