"""MySQL into bronze into topics, and from there into another bronze and silver: silver is the same."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.pipeline.config.model import PipelineConfig
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.testing import MySqlServer
from tests.support.kafka_broker import Broker
from tests.support.pipelines import pipeline
from tests.support.servers import connected

pytestmark = pytest.mark.timeout(900)
FORMATS: list[tuple[str, dict[str, Any]]] = [
    ("debezium-json", {"exact": True, "schemas": True}), ("debezium-json", {}), ("canal-json", {}),
    ("canal-json", {"exact": True}), ("maxwell", {}), ("maxwell", {"exact": True}),
]  # fmt: skip


def from_topics(
    spark: SparkSession, broker: Broker, home: Path, topics: list[str], format: str = "debezium-json", **more: Any
) -> Pipeline:
    """A pipeline from these topics; `more` are its other sections, and keys of `source.kafka`."""
    kafka = {"bootstrap_servers": broker.address, "topics": topics, "format": format, **more.get("kafka", {})}
    config = {
        "name": "copy",
        "source": {"kafka": kafka},
        "target": {"path": "copy", "bronze": "bronze", "silver": "silver"},
        "tables": more.get("tables", {}),
    }
    return Pipeline(PipelineConfig.parse(config), spark, home=home)


def silver_rows(spark: SparkSession, lake: Pipeline, table: str) -> list[Any]:
    """The rows of a silver table, without where they are in the log."""
    frame = spark.read.format("delta").load(str(lake.layout.silver_table(table)))
    own = lake.layout.own.all_forms
    shown = [f"to_json({f.name}) AS {f.name}" if f.dataType.simpleString() == "variant" else f"`{f.name}`"
             for f in frame.schema.fields if f.name not in own]  # fmt: skip
    return sorted(map(tuple, frame.selectExpr(*shown).collect()), key=str)


def silver_types(spark: SparkSession, lake: Pipeline, table: str) -> dict[str, str]:
    frame = spark.read.format("delta").load(str(lake.layout.silver_table(table)))
    return {f.name: f.dataType.simpleString() for f in frame.schema.fields}


@pytest.fixture
def source(mysql: MySqlServer, database: str) -> Iterator[pymysql.cursors.Cursor]:
    with closing(connected(mysql, database=database)) as connection, connection.cursor() as cursor:
        yield cursor


def test_debezium_s_messages_make_the_same_silver(
    spark: SparkSession, mysql: MySqlServer, database: str, source: Any, broker: Broker, tmp_path: Path
) -> None:
    prefix = f"d{uuid.uuid4().hex[:8]}"
    kafka = {
        "bootstrap_servers": broker.address, "exact": True, "schemas": True, "partitions": 2,
        "topic": f"{prefix}.{{database}}.{{table}}",
    }  # fmt: skip
    lake = pipeline(spark, mysql, database, tmp_path, prefix, sinks={"out": {"kafka": kafka}})
    source.execute("CREATE TABLE t (id INT PRIMARY KEY, v BIGINT UNSIGNED, name VARCHAR(20))")
    source.execute("INSERT INTO t VALUES (1, 18446744073709551615, 'one'), (2, 2, NULL), (3, 3, 'drei')")
    lake.run(once=True)
    copy = from_topics(spark, broker, tmp_path, [f"{prefix}.{database}.t"])
    report = copy.run(once=True)
    assert report.rows[f"{database}.t"]["r"] == 3
    assert silver_rows(spark, copy, f"{database}.t") == silver_rows(spark, lake, f"{database}.t")
    source.execute("UPDATE t SET v = 7 WHERE id = 2")
    source.execute("UPDATE t SET id = 30 WHERE id = 3")
    source.execute("DELETE FROM t WHERE id = 1")
    source.execute("INSERT INTO t VALUES (4, 4, 'four')")
    lake.run(once=True)
    copy.run(once=True)
    assert silver_rows(spark, copy, f"{database}.t") == silver_rows(spark, lake, f"{database}.t")
    assert silver_types(spark, copy, f"{database}.t") == silver_types(spark, lake, f"{database}.t")
    source.execute("ALTER TABLE t ADD COLUMN d INT NOT NULL DEFAULT 5")
    source.execute("INSERT INTO t VALUES (5, 5, 'five', 6)")
    lake.run(once=True)
    copy.run(once=True)
    assert silver_rows(spark, copy, f"{database}.t") == silver_rows(spark, lake, f"{database}.t")
    assert copy.status().dead_letters == {}
