"""Maintenance: few files of many, in the order of the key, beside a writer; old files go where nobody needs them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.lake.commits import history
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.model.changelog import Change, fold
from lakehouse_cdc.model.table_layout import Layout, Table
from lakehouse_cdc.ops import maintain as ops
from lakehouse_cdc.ops.maintain import Maintained, maintain
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.apply.stream import start
from tests.support.bronze_writer import Lake
from tests.support.delta_library import delta_table
from tests.support.silver.changes import apply, begin, delete, insert, table

ONE = table("one")


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A table to which keys came in any order, in several batches; any two files are too many."""
    monkeypatch.setattr(ops, "_SPARE", -2)
    monkeypatch.setattr(ops, "_REST_SECONDS", 0.2)
    return Lake(spark, tmp_path, {ONE.name: ONE})


def grown(lake: Lake, batches: int) -> Lake:
    """With silver's stream behind each batch."""
    for n in range(batches):
        pos = 10 * (n + 1)
        came = [insert(ONE, pos, key) for key in range(n, 100, batches)]
        gone = [delete(ONE, pos + 1, n - 1)] if n else []
        lake.commit([*([begin(ONE)] if n == 0 else []), *came, *gone], {})
        start(lake.spark, lake.layout, silver(lake)).awaitTermination()
    return lake


def silver(lake: Lake) -> str:
    return str(lake.folder / "silver checkpoint")


def by_table(found: list[Maintained]) -> dict[str, Maintained]:
    return {Path(one.table).name: one for one in found}


def versions(lake: Lake) -> dict[Table, int]:
    layout = lake.layout
    tables = (layout.changes, layout.schemas, layout.silver_table(ONE.name), layout.tombstones(ONE.name), layout.ledger)
    return {one: history(lake.spark, one, 1)[0].version for one in tables}


@pytest.mark.long
def test_few_files_of_many_that_hold_the_same(spark: SparkSession, lake: Lake) -> None:
    with pytest.raises(DefiniteError, match="nothing has been read yet"):
        maintain(spark, Layout("tests", "b", "s", path=str(lake.folder / "nowhere")), silver(lake))
    grown(lake, 3)
    found = by_table(maintain(spark, lake.layout, silver(lake)))
    assert set(found) == {"changes", "schemas", "one", "one__tombstones", "ledger"}
    assert all((one.conflicts, one.left, one.since) == (0, "", "") for one in found.values())
    for name in ("changes", "one", "one__tombstones", "ledger"):
        assert found[name].files_before > 1
        assert found[name].files == 1
    assert lake.silver(ONE.name) == fold(lake.written)
    assert read(spark, lake.layout.changes).count() == len(lake.written)
    before = versions(lake)
    maintain(spark, lake.layout, silver(lake))
    assert {t: v for t, v in versions(lake).items() if t.name != "one"} == {
        t: v for t, v in before.items() if t.name != "one"
    }
    assert all(c.note is None for c in history(spark, lake.layout.silver_table(ONE.name), 1))


@pytest.mark.long
def test_a_silver_table_is_put_into_the_order_of_its_key(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a MERGE would have to read every file. The files are made so small here that there are several."""
    grown(lake, 2)
    place = lake.layout.silver_table(ONE.name)

    def overlaps() -> int:
        ranges = read(spark, place).groupBy(F.input_file_name()).agg(F.min("id"), F.max("id")).collect()
        spans = sorted((row[1], row[2]) for row in ranges)
        assert len(spans) > 1
        return sum(1 for (_, high), (low, _) in pairwise(spans) if low <= high)

    assert overlaps() > 0
    monkeypatch.setitem(ops._SETTINGS, "spark.databricks.delta.optimize.maxFileSize", "1500")
    maintain(spark, lake.layout, silver(lake))
    assert overlaps() == 0
    assert lake.silver(ONE.name) == fold(lake.written)


@pytest.fixture
def another(lake: Lake) -> Iterator[threading.Semaphore]:
    """Somebody who puts the silver table's files together each time that it is released."""
    asked, over = threading.Semaphore(0), threading.Event()

    def run() -> None:
        session, place = lake.spark.newSession(), lake.layout.silver_table(ONE.name)
        while asked.acquire() and not over.is_set():
            ops._goes_through(lambda: session.sql(f"OPTIMIZE {place.sql} ZORDER BY (id)").collect())

    thread = threading.Thread(target=run)
    thread.start()
    yield asked
    over.set()
    asked.release()
    thread.join()


@pytest.mark.long
def test_silver_goes_on_beside_somebody_who_puts_files_together(
    spark: SparkSession, lake: Lake, another: threading.Semaphore, caplog: pytest.LogCaptureFixture
) -> None:
    """One of two commits fails; silver's part is done again, and nothing is lost or doubled by either."""
    applier = Applier(spark, lake.layout)
    done = apply(lake, applier, [begin(ONE), *(insert(ONE, 2, key) for key in range(200))], None)
    ends = time.monotonic() + 180
    pos = 10
    while "put together meanwhile" not in caplog.text and time.monotonic() < ends:
        another.release(3)  # fewer than silver's tries: then it must go through
        changes: list[Change] = [delete(ONE, pos, pos), insert(ONE, pos + 1, 1000 + pos)]
        done = apply(lake, applier, changes, done)
        assert lake.silver(ONE.name) == fold(lake.written)
        pos += 10
    assert "put together meanwhile" in caplog.text


@pytest.mark.long
def test_what_is_deleted_and_how_far_back_one_can_still_read(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown(lake, 2)
    found = by_table(maintain(spark, lake.layout, silver(lake), vacuum=True))
    # nothing is as old as that: every version stays, from the first on
    assert found["one"].since.startswith("binlog.000001:10 (")
    assert not found["changes"].left
    assert read(spark, lake.layout.silver_table(ONE.name), version=1).count() == 50
    # as if a week had gone by since silver was here last
    lake.commit([insert(ONE, 50, 500)], {})
    monkeypatch.setattr(ops, "_KEEPS", -timedelta(days=7))
    late = by_table(maintain(spark, lake.layout, silver(lake), vacuum=True))
    assert late["changes"].left == "silver has not applied all that is as old as what would go"
    assert late["changes"].since == ""
    start(spark, lake.layout, silver(lake)).awaitTermination()
    assert lake.silver(ONE.name) == fold(lake.written)
    now = by_table(maintain(spark, lake.layout, silver(lake), vacuum=True))
    assert now["changes"].left == ""
    assert now["one"].since.startswith("binlog.000001:50 (")


@pytest.mark.long
def test_what_is_kept_as_a_table_says(spark: SparkSession, lake: Lake) -> None:
    grown(lake, 1)
    place = lake.layout.silver_table(ONE.name)
    spark.sql(f"ALTER TABLE {place.sql} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 30 days')")
    month, week = (ops._horizon(spark, one) for one in (place, lake.layout.changes))
    assert timedelta(days=22.9) < week - month < timedelta(days=23.1)


@pytest.mark.long
def test_a_table_of_somebody_else_is_left_alone(spark: SparkSession, lake: Lake) -> None:
    grown(lake, 1)
    theirs = lake.layout.silver_table(ONE.name)
    spark.sql(f"ALTER TABLE {theirs.sql} SET TBLPROPERTIES ('lakehouse_cdc.pipeline' = 'other')")
    before = versions(lake)
    with pytest.raises(DefiniteError, match="belongs to the pipeline other"):
        maintain(spark, lake.layout, silver(lake))
    assert versions(lake) == before
    assert delta_table(spark, theirs).detail().head() is not None
