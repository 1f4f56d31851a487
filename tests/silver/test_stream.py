"""The stream from bronze to silver: whole commits, positions, and reading a table as it stood."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.lake.direct.file_listing import only_appended
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.changelog import fold
from lakehouse_cdc.silver.apply.stream import SilverBatch, start, version_at
from lakehouse_cdc.silver.tables.progress import applied
from lakehouse_cdc.sinks import stream
from tests.support.bronze_writer import Lake
from tests.support.delta_library import forget, library
from tests.support.silver.changes import begin, delete, insert, table


def offset(version: int, index: int = -1, starting: bool = False) -> dict[str, Any]:
    """A Delta source's offset, as Spark stores it."""
    return {"reservoirVersion": version, "index": index, "isStartingVersion": starting}


def test_a_batch_holds_whole_commits() -> None:
    assert Versions.between(None, offset(5)) == Versions(None, 4)
    assert Versions.between(offset(5), offset(7)) == Versions(4, 6)
    for inside in (offset(5, index=0), offset(5, index=3, starting=True)):
        with pytest.raises(DefiniteError, match="inside commit 5"):
            Versions.between(None, inside)


@pytest.mark.long
def test_silver_follows_bronze_and_says_where_it_stands(spark: SparkSession, tmp_path: Path) -> None:
    one, two = table("one"), table("two")
    lake = Lake(spark, tmp_path, {s.name: s for s in (one, two)})
    checkpoint = str(tmp_path / "silver checkpoint")
    done: list[SilverBatch] = []

    def run() -> None:
        start(spark, lake.layout, checkpoint, on_batch=done.append).awaitTermination()

    def stands() -> tuple[int, int, int]:
        found = applied(SparkReader(spark), lake.layout, checkpoint)
        assert found is not None
        return found.bronze_version, found.bronze_batch, found.source_point.pos

    assert applied(SparkReader(spark), lake.layout, checkpoint) is None
    lake.commit([begin(one), begin(two), insert(one, 2, 1), insert(two, 2, 1)])
    lake.commit([insert(one, 3, 2)])
    run()
    assert stands() == (2, 1, 3)
    lake.commit([delete(one, 4, 1)])
    run()
    lake.commit([])  # the source has moved on, but nothing of ours has changed
    assert stands() == (4, 3, 0)
    lake.commit([insert(one, 5, 7)])
    assert stands() == (4, 3, 0)
    run()
    assert stands() == (5, 4, 5)

    assert [(b.bronze_version, b.source_point.pos, b.tables) for b in done] == [
        (2, 3, ("shop.one", "shop.two")),
        (3, 4, ("shop.one",)),
        (5, 5, ("shop.one",)),
    ]
    assert {**lake.silver(one.name), **lake.silver(two.name)} == fold(lake.written)
    before, place = version_at(spark, lake.layout.silver_table(one.name), 2), lake.layout.silver_table(one.name)
    assert sorted(row["id"] for row in read(spark, place, before).collect()) == [1, 2]
    assert version_at(spark, place, 4) == version_at(spark, place, 3)
    assert version_at(spark, lake.layout.silver_table(two.name), 5) == 1


@pytest.mark.long
def test_the_first_batch_is_the_same_however_much_of_the_log_is_there(spark: SparkSession, tmp_path: Path) -> None:
    """Also where bronze was optimized, or its log cleaned; and a batch that was cut off comes again."""
    one = table("one")
    lake = Lake(spark, tmp_path, {one.name: one})
    log = Path(str(lake.layout.changes.path), "_delta_log")
    done: list[SilverBatch] = []

    def run(checkpoint: str) -> list[SilverBatch]:
        """What a query takes, from the log or as Delta does; `done` has both."""
        done.clear()
        start(spark, lake.layout, str(tmp_path / checkpoint), on_batch=done.append).awaitTermination()
        found = list(done)
        with patch.object(stream, "only_appended", lambda *_: False):
            start(spark, lake.layout, str(tmp_path / f"{checkpoint} whole"), on_batch=done.append).awaitTermination()
        assert found == done[len(found) :]
        return found

    lake.commit([])
    run("empty")
    lake.commit([begin(one), insert(one, 2, 1)])
    lake.commit([insert(one, 3, 2)])
    run("empty")
    assert only_appended(spark, lake.layout.changes)
    [first] = run("new")
    assert (first.after, first.bronze_version, first.source_point.pos) == (None, 3, 3)
    for name in ("0", ".0.crc"):
        (tmp_path / "new" / "commits" / name).unlink()
        (tmp_path / "new whole" / "commits" / name).unlink()
    assert run("new") == [first]
    spark.sql(f"OPTIMIZE {lake.layout.changes.sql}").collect()
    assert only_appended(spark, lake.layout.changes)
    assert run("optimized") == [replace(first, bronze_version=4)]
    library(spark).DeltaLog.forTable(spark._jsparkSession, str(lake.layout.changes.path)).checkpoint()
    (log / f"{0:020}.json").unlink()
    forget(spark)
    assert not only_appended(spark, lake.layout.changes)
    assert run("cleaned") == [replace(first, bronze_version=4)]
    assert lake.silver(one.name) == fold(lake.written)
