"""The metrics of a run: what they say of its batches, when they are written, and that they never fail it."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from lakehouse_cdc.bronze.sink import BronzeBatch
from lakehouse_cdc.bronze.tables import create_bronze
from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.lake.tables import create, exists
from lakehouse_cdc.model.commit_note import SourcePoint
from lakehouse_cdc.model.log_retention import Headroom
from lakehouse_cdc.model.source_lag import Lag
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.model.verification import Verification
from lakehouse_cdc.ops.metrics import COLUMNS, Metrics, record_verification
from lakehouse_cdc.ops.source_watch import Look
from lakehouse_cdc.silver.apply.stream import SilverBatch
from lakehouse_cdc.testing import MySqlServer, Shop, ShopWriter
from tests.support.pipelines import bronze as changes
from tests.support.pipelines import pipeline

DATABASE = "metrics_shop"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout("shop", "bronze", "silver", path=str(tmp_path))


def read(spark: SparkSession, layout: Layout) -> DataFrame:
    return spark.read.format("delta").load(str(layout.metrics))


def rows(spark: SparkSession, layout: Layout) -> list[Row]:
    return read(spark, layout).orderBy("at", "layer").collect()


def commits(spark: SparkSession, layout: Layout) -> int:
    """How often rows were appended."""
    return spark.sql(f"DESCRIBE HISTORY {layout.metrics.sql}").where("operation = 'WRITE'").count()


def standing(seconds_ago: float | None = 5.0) -> SourcePoint:
    commit_ts = 0 if seconds_ago is None else int((time.time() - seconds_ago) * 1e6)
    return SourcePoint(1, "uuid", "binlog.000002", 400, commit_ts=commit_ts)


def of_bronze(version: int, counts: dict[str, dict[str, int]], at: SourcePoint | None = None) -> BronzeBatch:
    return BronzeBatch(version - 1, version, at or standing(), counts, 2.5)


def of_silver(batch: int, after: int | None, last: int) -> SilverBatch:
    return SilverBatch(batch, last, standing(), ("shop.a",), {}, after, 1.5)


@pytest.mark.long
def test_what_a_row_says(spark: SparkSession, layout: Layout) -> None:
    metrics = Metrics(spark, layout)
    metrics.bronze(of_bronze(1, {"shop.a": {"s": 1, "r": 10, "c": 2}, "shop.b": {"s": 1, "r": 5}}))
    metrics.bronze(of_bronze(2, {}, standing(None)))
    metrics.flush()
    first, second = rows(spark, layout)
    assert (first.layer, first.batch, first.bronze_version) == ("bronze", 0, 1)
    assert (first.position.file, first.position.pos, first.position.epoch) == ("binlog.000002", 400, 1)
    assert (first.rows, first.tables, first.ops) == (17, {"shop.a": 12, "shop.b": 5}, {"s": 2, "r": 15, "c": 2})
    assert first.seconds == 2.5
    assert 5.0 <= first.lag_seconds < 10.0
    assert (first["at"] - first.commit_ts).total_seconds() == pytest.approx(first.lag_seconds, abs=0.01)
    assert (second.rows, second.tables, second.commit_ts, second.lag_seconds) == (0, {}, None, None)


@pytest.mark.parametrize(
    ("told", "after", "last", "expected"),
    [
        ([1, 2], None, 2, 30),
        ([4, 5], 3, 5, 90),
        ([4, 5], 3, 4, 40),
        ([4, 6], 3, 6, 100),  # 5 is somebody's OPTIMIZE
        ([4, 5], 2, 5, None),  # 3 is of an earlier run
        ([4, 5], 3, 6, None),  # 6 may be a batch that bronze has not told of yet
        ([], 3, 4, None),
    ],
)
def test_silvers_rows_are_those_of_its_commits_where_all_are_known(
    spark: SparkSession, layout: Layout, told: list[int], after: int | None, last: int, expected: int | None
) -> None:
    metrics = Metrics(spark, layout)
    for version in told:
        metrics.bronze(of_bronze(version, {"shop.a": {"c": 10 * version}}))
    metrics.silver(of_silver(0, after, last))
    metrics.flush()
    found = rows(spark, layout)[-1]
    assert (found.layer, found.bronze_version, found.rows) == ("silver", last, expected)
    assert found.tables == (None if expected is None else {"shop.a": expected})


def test_each_commit_counts_once(spark: SparkSession, layout: Layout) -> None:
    """Also one that bronze tells of behind silver, which then belongs to no batch."""
    metrics = Metrics(spark, layout)
    metrics.bronze(of_bronze(1, {"shop.a": {"c": 1}}))
    metrics.silver(of_silver(0, None, 2))
    metrics.bronze(of_bronze(2, {"shop.a": {"c": 2}}))
    metrics.bronze(of_bronze(3, {"shop.a": {"c": 4}}))
    metrics.silver(of_silver(1, 2, 3))
    metrics.flush()
    assert [row.rows for row in rows(spark, layout) if row.layer == "silver"] == [None, 4]


def test_rows_are_written_together(spark: SparkSession, layout: Layout) -> None:
    metrics = Metrics(spark, layout, every_seconds=1.0)
    for version in range(1, 6):
        metrics.bronze(of_bronze(version, {}))
        metrics.tick()
    assert commits(spark, layout) == 0
    time.sleep(1.0)
    metrics.tick()
    metrics.tick()
    metrics.flush()  # nothing is left
    assert commits(spark, layout) == 1
    assert read(spark, layout).count() == 5


def test_what_cannot_be_written_is_logged_and_written_later(
    spark: SparkSession, layout: Layout, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    metrics = Metrics(spark, layout)
    metrics.bronze(of_bronze(1, {}))
    log = Path(str(layout.metrics)) / "_delta_log"
    log.rename(tmp_path / "away")
    log.write_text("in its way")
    metrics.flush()
    assert "1 rows of" in caplog.text
    assert [r.levelno for r in caplog.records if r.name.endswith("metrics")] == [logging.WARNING]
    log.unlink()
    (tmp_path / "away").rename(log)
    metrics.bronze(of_bronze(2, {}))
    metrics.flush()
    assert [row.batch for row in rows(spark, layout)] == [0, 1]


def test_a_table_of_somebody_else(spark: SparkSession, layout: Layout) -> None:
    Metrics(spark, layout)
    with pytest.raises(DefiniteError, match="belongs to the pipeline shop"):
        Metrics(spark, Layout("other", "bronze", path=layout.path))


@pytest.mark.long
def test_a_run_tells_of_all_its_batches(spark: SparkSession, mysql: MySqlServer, tmp_path: Path) -> None:
    shop = Shop(mysql.connect, DATABASE, seed=3)
    shop.create()
    try:
        shop.load(500)
        lake = pipeline(spark, mysql, DATABASE, tmp_path, target={"metrics": True})
        with ShopWriter(shop, rate=20):
            reports = [lake.run(once=True) for _ in range(2)]
    finally:
        shop.drop()
    found = read(spark, lake.layout).where("layer <> 'source'")
    for layer in ("bronze", "silver"):
        assert found.where(f"layer = '{layer}'").count() == sum(report.batches[layer] for report in reports)
    held = changes(spark, lake).where("op <> 's'").groupBy("source_table").count().collect()
    for layer in ("bronze", "silver"):
        counted = found.where(f"layer = '{layer}'").selectExpr("explode(tables) AS (name, n)")
        assert {r.name: r.n for r in counted.groupBy("name").sum("n").toDF("name", "n").collect()} == {
            row.source_table: row["count"] for row in held
        }
    assert found.where("seconds <= 0 OR lag_seconds < 0 OR rows IS NULL").count() == 0
    last = found.orderBy("bronze_version", ascending=False).first()
    assert last is not None
    assert reports[-1].source_point is not None
    assert (last.position.file, last.position.pos) == (
        reports[-1].source_point["file"],
        reports[-1].source_point["pos"],
    )
    assert 2 <= commits(spark, lake.layout) <= found.count()  # at the end of both, and each minute of a slow one


def test_without_them_there_is_no_table(spark: SparkSession, layout: Layout) -> None:
    create_bronze(spark, layout)
    assert not exists(spark, layout.metrics)


def look(lag_bytes: int, seconds: float | None = 3600.0) -> Look:
    return Look(time.time(), standing(), Lag(lag_bytes, 7.0, 6.0), Headroom(seconds, "age"))


def test_what_was_seen_of_the_log(spark: SparkSession, layout: Layout) -> None:
    metrics, seen = Metrics(spark, layout), look(1000)
    metrics.looked(seen)
    metrics.looked(seen)  # not again so soon
    metrics.bronze(of_bronze(1, {"shop.a": {"c": 1}}, seen.point))
    metrics.bronze(of_bronze(2, {"shop.a": {"c": 1}}))  # which is further than what was seen
    metrics.silver(of_silver(0, None, 2))
    metrics.flush()
    assert rows(spark, layout)[0].lag_seconds == 7.0
    found = [(row.layer, row.lag_bytes, row.caught_up_seconds, row.retention_seconds) for row in rows(spark, layout)]
    assert found == [
        ("source", 1000, 6.0, 3600.0), ("bronze", 1000, 6.0, 3600.0), ("bronze", None, None, 3600.0),
        ("silver", None, None, None),
    ]  # fmt: skip


def test_a_table_of_an_earlier_release_gets_the_columns(spark: SparkSession, layout: Layout) -> None:
    create(spark, layout.metrics, COLUMNS[:-5], pipeline="shop", comment="", properties={"delta.appendOnly": "true"})
    metrics = Metrics(spark, layout)
    metrics.looked(look(5))
    metrics.flush()
    assert [row.lag_bytes for row in rows(spark, layout)] == [5]
    Metrics(spark, layout)


def test_a_verification_leaves_a_row(spark: SparkSession, layout: Layout) -> None:
    """0 and NULL are two things: all rows are equal, and nobody knows."""
    found = Verification(time.time(), "silver", 7, 1.5, {"shop.a": 0, "shop.b": None}, {"shop.c": "why"})
    record_verification(spark, layout, found)
    [row] = rows(spark, layout)
    assert (row.layer, row.rows, row.seconds) == ("verify_silver", 7, 1.5)
    assert (row.differing, row.quarantined) == ({"shop.a": 0, "shop.b": None}, {"shop.c": "why"})
    assert (row.position, row.lag_seconds, row.tables) == (None, None, None)


def test_a_verification_that_cannot_be_written_is_logged(
    spark: SparkSession, layout: Layout, caplog: pytest.LogCaptureFixture
) -> None:
    Metrics(spark, layout)
    others = Layout("other", "bronze", path=layout.path)
    record_verification(spark, others, Verification(time.time(), "bronze", 7, 1.5, {}, {}))
    assert "belongs to the pipeline shop" in caplog.text
    assert rows(spark, layout) == []
