"""MySQL into bronze into topics, and from there into another bronze and silver: silver is the same."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from itertools import product
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
from tests.support.schema_registry import Registry, running
from tests.support.servers import connected

pytestmark = pytest.mark.timeout(900)


def from_topics(
    spark: SparkSession, broker: Broker, home: Path, topics: list[str], format: str = "debezium-json", **more: Any
) -> Pipeline:
    """A pipeline from these topics; `more` are its other sections, and keys of `kafka`."""
    kafka = {"bootstrap_servers": broker.address, "topics": topics, "format": format, **more.get("kafka", {})}
    config = {
        "name": "copy",
        "source": {"kafka": kafka},
        "target": {"path": "copy", "bronze": "bronze", "silver": "silver"},
        "tables": more.get("tables", {}),
    }
    return Pipeline(PipelineConfig.parse(config), spark, home=home)


def silver_rows(spark: SparkSession, lake: Pipeline, table: str, without: tuple[str, ...] = ()) -> list[Any]:
    """The rows of a silver table, without where they are in the log, and without some columns."""
    frame = spark.read.format("delta").load(str(lake.layout.silver_table(table)))
    own = lake.layout.own.all_forms
    shown = [f"to_json({f.name}) AS {f.name}" if f.dataType.simpleString() == "variant" else f"`{f.name}`"
             for f in frame.schema.fields if f.name not in (*own, *without)]  # fmt: skip
    return sorted(map(tuple, frame.selectExpr(*shown).collect()), key=str)


def silver_types(spark: SparkSession, lake: Pipeline, table: str) -> dict[str, str]:
    frame = spark.read.format("delta").load(str(lake.layout.silver_table(table)))
    return {f.name: f.dataType.simpleString() for f in frame.schema.fields}


@pytest.fixture
def source(mysql: MySqlServer, database: str) -> Iterator[pymysql.cursors.Cursor]:
    with closing(connected(mysql, database=database)) as connection, connection.cursor() as cursor:
        yield cursor


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running() as started:
        yield started


SOURCE = {
    "id": "INT PRIMARY KEY", "big": "BIGINT UNSIGNED", "tiny": "TINYINT", "money": "DECIMAL(12,3)", "f": "FLOAT",
    "d": "DOUBLE", "flag": "BIT(1)", "flags": "BIT(10)", "name": "VARCHAR(20)", "t": "TEXT", "raw": "VARBINARY(9)",
    "day": "DATE", "span": "TIME(2)", "moment": "DATETIME(3)", "instant": "TIMESTAMP(6) NULL", "y": "YEAR",
    "size": "ENUM('small','large')", "tags": "SET('a','b','c')", "doc": "JSON",
}  # fmt: skip
VALUES = (
    "18446744073709551615, -7, -7.125, 0.1, 2.5, 1, 513, 'ü 😀', 'text', x'00ff', '2024-02-29', '-12:34:56.78',"
    " '2024-02-29 12:34:56.789', '2024-02-29 12:34:56.123456', 2024, 'large', 'a,c', '{\"a\": [1, 2.5, null]}'"
)


@pytest.mark.long
@pytest.mark.parametrize(
    ("format", "exact"),
    [*product(("debezium-json", "canal-json", "maxwell"), (True, False)), ("debezium-avro", True)],
)
def test_silver_is_the_same_whatever_the_format(
    spark: SparkSession, mysql: MySqlServer, database: str, source: Any, broker: Broker, tmp_path: Path, format: str,
    exact: bool, registry: Registry,
) -> None:  # fmt: skip
    """The snapshot, changes, a change of a key, a truncation and rows that are read again."""
    of_avro = {"registry": registry.url} if format == "debezium-avro" else {}
    prefix = f"f{uuid.uuid4().hex[:8]}"
    kafka = {
        "bootstrap_servers": broker.address, "format": format, "exact": exact, "partitions": 2,
        "topic": f"{prefix}.{{database}}.{{table}}", "schemas": exact and format == "debezium-json", **of_avro,
    }  # fmt: skip
    lake = pipeline(spark, mysql, database, tmp_path, prefix, sinks={"out": {"kafka": kafka}})
    source.execute(f"CREATE TABLE t ({', '.join(f'{name} {kind}' for name, kind in SOURCE.items())})")
    source.execute("SET time_zone = '+00:00'")
    nulls = ", ".join(["NULL"] * (len(SOURCE) - 1))
    source.execute(f"INSERT INTO t VALUES (1, {VALUES}), (2, {nulls}), (3, {VALUES}), (4, {VALUES})")
    without = ("doc",) if format == "maxwell" and exact else ()  # the document's text is a document, too
    columns = {name: kind.removesuffix(" PRIMARY KEY").removesuffix(" NULL") for name, kind in SOURCE.items()}
    told = not (exact and format.startswith("debezium")) and format != "canal-json"
    tables = {f"{database}.t": {"columns": columns}} if told else {}
    copy = from_topics(spark, broker, tmp_path, [f"{prefix}.{database}.t"], format, tables=tables, kafka=of_avro)
    steps = (
        [],
        ["UPDATE t SET big = 7, doc = NULL WHERE id = 2", "UPDATE t SET id = 30 WHERE id = 3",
         "DELETE FROM t WHERE id = 1", f"INSERT INTO t VALUES (5, {VALUES})"],
        ["DELETE FROM t WHERE id = 5", "TRUNCATE TABLE t", f"INSERT INTO t VALUES (4, {VALUES}), (6, {nulls})"],
    )[: 3 if exact else 2]  # fmt: skip
    name = f"{database}.t"
    for statements in steps:
        for statement in statements:
            source.execute(statement)
        lake.run(once=True)
        copy.run(once=True)
        assert copy.status().dead_letters == {}
        assert silver_rows(spark, copy, name, without) == silver_rows(spark, lake, name, without)
    if told or exact or format == "canal-json":
        assert silver_types(spark, copy, name) == silver_types(spark, lake, name)


@pytest.mark.long
def test_a_new_column_evolves_the_copy(
    spark: SparkSession, mysql: MySqlServer, database: str, source: Any, broker: Broker, tmp_path: Path
) -> None:
    prefix, name = f"d{uuid.uuid4().hex[:8]}", f"{database}.t"
    kafka = {
        "bootstrap_servers": broker.address, "exact": True, "schemas": True, "partitions": 2,
        "topic": f"{prefix}.{{database}}.{{table}}",
    }  # fmt: skip
    lake = pipeline(spark, mysql, database, tmp_path, prefix, sinks={"out": {"kafka": kafka}})
    source.execute("CREATE TABLE t (id INT PRIMARY KEY, v BIGINT UNSIGNED, name VARCHAR(20))")
    source.execute("INSERT INTO t VALUES (1, 18446744073709551615, 'one'), (2, 2, NULL), (3, 3, 'drei')")
    lake.run(once=True)
    copy = from_topics(spark, broker, tmp_path, [f"{prefix}.{name}"])
    report = copy.run(once=True)
    assert report.rows[name]["r"] == 3
    assert silver_rows(spark, copy, name) == silver_rows(spark, lake, name)
    source.execute("UPDATE t SET id = 30 WHERE id = 3")
    source.execute("ALTER TABLE t ADD COLUMN d INT")
    source.execute("INSERT INTO t VALUES (5, 5, 'five', 6)")
    source.execute("DELETE FROM t WHERE id = 1")
    lake.run(once=True)
    copy.run(once=True)
    assert silver_rows(spark, copy, name) == silver_rows(spark, lake, name)
    assert silver_types(spark, copy, name) == silver_types(spark, lake, name)
    assert copy.status().dead_letters == {}
