"""Tables of the session's catalog that lie in a folder: tasks write bronze's files there, and Spark has the tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake import catalog_folder
from lakehouse_cdc.lake.catalog_folder import by_folder
from lakehouse_cdc.model.table_layout import Table
from lakehouse_cdc.pipeline.config.model import PipelineConfig
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.pipeline.run.exclusive import exclusive
from lakehouse_cdc.testing import MySqlServer


@pytest.fixture
def schema(spark: SparkSession, database: str) -> Iterator[str]:
    """The name of a schema that is not there, and gone at the end."""
    name = f"raw_{database}".lower()
    yield name
    spark.sql(f"DROP SCHEMA IF EXISTS spark_catalog.{name} CASCADE")


def pipeline(spark: SparkSession, mysql: MySqlServer, database: str, schema: str, home: Path) -> Pipeline:
    target = {"catalog": "spark_catalog", "checkpoints": "checkpoints", "bronze": schema}
    source = {"url": mysql.url, "tables": [f"{database}.*"]}
    return Pipeline(PipelineConfig.parse({"name": "shop", "source": source, "target": target}), spark, home=home)


def writers(folder: str) -> list[str]:
    """Who has made each version of a table that has rows in it."""
    said = []
    for commit in sorted(Path(folder, "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        if any("add" in action for action in actions):
            [info] = [action["commitInfo"] for action in actions if "commitInfo" in action]
            said.append(str(info["engineInfo"]))
    return said


def test_bronze_is_written_by_tasks_and_read_by_name(
    spark: SparkSession, mysql: MySqlServer, database: str, schema: str, run: Callable[..., None], tmp_path: Path
) -> None:
    run("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    lake = pipeline(spark, mysql, database, schema, tmp_path)
    lake.run(once=True)
    run("UPDATE t SET v = 10 WHERE id = 1", "DELETE FROM t WHERE id = 2", "ALTER TABLE t ADD COLUMN w INT")
    lake.run(once=True)
    changes, schemas = (str(by_folder(spark, one).path) for one in (lake.layout.changes, lake.layout.schemas))
    assert set(writers(changes) + writers(schemas)) == {"lakehouse-cdc"}
    held = spark.sql(
        "SELECT op, variant_get(coalesce(key, before), '$.id', 'int') AS id, count(*) AS n "
        f"FROM {lake.layout.changes.sql} WHERE op <> 's' GROUP BY ALL ORDER BY ALL"
    )
    assert [tuple(row) for row in held.collect()] == [("d", 2, 1), ("r", 1, 1), ("r", 2, 1), ("r", 3, 1), ("u", 1, 1)]
    assert spark.table(lake.layout.schemas.sql).count() == 2
    lake.maintain()
    assert lake.verify(layer="bronze").verified


def test_spark_writes_the_same_where_no_folder_is_known(
    spark: SparkSession, mysql: MySqlServer, database: str, schema: str, run: Callable[..., None], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    run("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    lake = pipeline(spark, mysql, database, schema, tmp_path)
    monkeypatch.setattr(catalog_folder, "SESSION_CATALOG", "of no name")
    lake.run(once=True)
    monkeypatch.undo()
    changes = str(by_folder(spark, lake.layout.changes).path)
    assert all(who.startswith("Apache-Spark") for who in writers(changes))
    run("INSERT INTO t VALUES (3, 3)")
    lake.run(once=True)  # of the batches that Spark has committed none comes again
    assert writers(changes)[-1] == "lakehouse-cdc"
    assert lake.verify(layer="bronze").verified
    assert spark.table(lake.layout.changes.sql).where("op <> 's'").count() == 3


def test_another_process_does_not_write_to_them_meanwhile(
    spark: SparkSession, mysql: MySqlServer, database: str, schema: str, run: Callable[..., None], tmp_path: Path
) -> None:
    run("CREATE TABLE t (id INT PRIMARY KEY)")
    lake = pipeline(spark, mysql, database, schema, tmp_path)
    with exclusive(lake.state, "a hint"):
        lock = (lake.state / "writing").stat().st_ino
    with lake.writing("a hint"):
        held = {int(line.split()[5].split(":")[2]) for line in Path("/proc/locks").read_text().splitlines()}
        assert lock in held


def test_what_is_in_no_folder_stays_as_it_is(spark: SparkSession, schema: str, tmp_path: Path) -> None:
    absent = Table(schema, "absent", catalog="spark_catalog")
    assert by_folder(spark, absent) is absent
    elsewhere = Table(schema, "changes", catalog="main")
    assert by_folder(spark, elsewhere) is elsewhere
    spark.sql(f"CREATE SCHEMA spark_catalog.{schema}")
    spark.sql(f"CREATE TABLE spark_catalog.{schema}.plain (id INT) USING parquet")
    plain = Table(schema, "plain", catalog="spark_catalog")
    assert by_folder(spark, plain) is plain
    spark.sql(f"CREATE TABLE spark_catalog.{schema}.placed (id INT) USING delta LOCATION '{tmp_path}/of it'")
    assert by_folder(spark, Table(schema, "placed", catalog="spark_catalog")).path == f"{tmp_path}/of it"
