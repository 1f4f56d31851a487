"""Pipelines in a folder of their own, and what is in their tables."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymysql
from pyspark.sql import DataFrame, SparkSession

from lakehouse_cdc.pipeline.config.model import PipelineConfig
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.pipeline.report import RunReport
from lakehouse_cdc.testing import MySqlServer
from tests.support.waiting import until


def pipeline(
    spark: SparkSession | None, server: MySqlServer, database: str, home: Path, name: str = "shop", **changes: Any
) -> Pipeline:
    """A pipeline over all tables of a database; `changes` go into its sections."""
    target = {"path": "lakehouse", "bronze": "bronze", "silver": "silver", **changes.get("target", {})}
    config = PipelineConfig.parse(
        {
            "name": name,
            "source": {"url": server.url, "tables": [f"{database}.*"], **changes.get("source", {})},
            "target": {k: v for k, v in target.items() if v is not None},
            "run": changes.get("run", {}),
            "tables": changes.get("tables", {}),
            "sinks": changes.get("sinks", {}),
        }
    )
    return Pipeline(config, spark, home=home)


@contextmanager
def running(spark: SparkSession, lake: Pipeline) -> Iterator[list[RunReport]]:
    """A run beside the block, from when its streams work until the block ends; its report is there afterwards."""
    reports: list[RunReport] = []
    thread = threading.Thread(target=lambda: reports.append(lake.run(every_seconds=0.2)))
    thread.start()
    try:
        until(lambda: at_work(spark))
        yield reports
    finally:
        until(lambda: _ended(spark, thread))


def _ended(spark: SparkSession, run: threading.Thread) -> bool:
    """Stop the streams, which ends the run as well; one that was about to start them again has others afterwards."""
    for query in spark.streams.active:
        query.stop()
    run.join(1)
    return not run.is_alive()


def at_work(spark: SparkSession) -> bool:
    """Whether there are streams, and each has completed a trigger."""
    return bool(spark.streams.active) and all(query.lastProgress for query in spark.streams.active)


def bronze(spark: SparkSession, lake: Pipeline) -> DataFrame:
    return spark.read.format("delta").load(str(lake.layout.changes))


def assert_each_event_once(rows: DataFrame) -> None:
    keyed = rows.selectExpr("source_table", "op", "to_json(key) AS key", "seq")
    assert keyed.distinct().count() == keyed.count()


def files(folder: Path) -> dict[str, int]:
    """Every file below a folder and when it was changed."""
    found = (Path(at, name) for at, _, names in os.walk(folder) for name in names)
    return {str(path): path.stat().st_mtime_ns for path in found}


def small_table(connection: pymysql.Connection[Any], database: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, secret VARCHAR(20), v INT)")
        cursor.execute(f"INSERT INTO {database}.t VALUES (1, 'hush', 10), (2, 'hush', 20), (3, 'hush', 30)")


def ops(spark: SparkSession, lake: Pipeline) -> list[tuple[str, int]]:
    rows = bronze(spark, lake).where("op <> 's'")
    return [tuple(r) for r in rows.selectExpr("op", "key:id::int AS id").orderBy("seq", "id").collect()]
