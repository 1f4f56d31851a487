"""Constraints that a person gave a silver table: it is kept on, and one that a row violates stops that table alone.

NOT NULL is what a catalog wants of a primary key's columns. Databricks sets it by `ALTER COLUMN ... SET NOT NULL`.
Open-source Delta refuses that for a table that is there, so what such a statement commits is written into Delta's log
here: the column is not nullable, and writers see to that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.table_layout import Table
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.testing import MySqlServer
from tests.remedies import remedy
from tests.support.delta_library import forget, snapshot
from tests.support.documents import blocks
from tests.support.pipelines import pipeline

pytestmark = [pytest.mark.long, pytest.mark.one_server, pytest.mark.timeout(1200)]
INVARIANTS = "invariants"  # the feature by which writers refuse NULL in such a column


def set_not_null(spark: SparkSession, table: Table, *columns: str) -> None:
    """Declare columns of a Delta table NOT NULL, in one commit."""
    newest = snapshot(spark, table)
    metadata, protocol = json.loads(newest.metadata().json()), json.loads(newest.protocol().json())
    schema = json.loads(metadata["metaData"]["schemaString"])
    for field in schema["fields"]:
        field["nullable"] = field["nullable"] and field["name"] not in columns
    metadata["metaData"]["schemaString"] = json.dumps(schema)
    features = {*protocol["protocol"]["writerFeatures"], INVARIANTS}
    protocol["protocol"]["writerFeatures"] = sorted(features)
    commit = Path(str(table.path), "_delta_log", f"{newest.version() + 1:020}.json")
    commit.write_text("\n".join(map(json.dumps, (protocol, metadata))))
    forget(spark)


def not_null(spark: SparkSession, table: Table) -> set[str]:
    """The columns of a Delta table that are declared so."""
    schema = json.loads(json.loads(snapshot(spark, table).metadata().json())["metaData"]["schemaString"])
    return {field["name"] for field in schema["fields"] if not field["nullable"]}


def quarantined(lake: Pipeline, name: str) -> str:
    """Why silver does not follow a table; "" if it does. The others are followed."""
    reasons = {table: one.quarantined or "" for table, one in lake.status().tables.items()}
    assert [table for table, reason in reasons.items() if reason and table != name] == []
    return reasons[name]


def follow(spark: SparkSession, reason: str) -> None:
    """Execute the statement that the reason ends with."""
    assert codes.SILVER_CONSTRAINT_VIOLATED.label in reason, reason
    [statement] = re.findall(r"take it back, and run again: (ALTER TABLE .*)$", reason)
    spark.sql(statement)


@remedy(codes.SILVER_CONSTRAINT_VIOLATED)
def test_a_table_whose_key_is_declared_is_kept_on(
    spark: SparkSession, mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path
) -> None:
    name = f"{database}.t"
    run("CREATE TABLE t (id INT, line INT, v INT, PRIMARY KEY (id, line))", "CREATE TABLE other (id INT PRIMARY KEY)")
    run("INSERT INTO t VALUES (1, 1, 1), (1, 2, 2), (2, 1, 3)", "INSERT INTO other VALUES (1)")
    lake = pipeline(spark, mysql, database, tmp_path, target={"engine": "spark"})
    lake.run(once=True)
    table = lake.layout.silver_table(name)
    set_not_null(spark, table, "id", "line")
    run("INSERT INTO t VALUES (3, 1, 4)", "UPDATE t SET v = 9 WHERE id = 1", "DELETE FROM t WHERE id = 2")
    run("UPDATE t SET line = 7 WHERE line = 2")  # another key
    run("ALTER TABLE t ADD w INT DEFAULT 5", "INSERT INTO t VALUES (4, 1, 1, 1)")
    run("ALTER TABLE t MODIFY id BIGINT", "INSERT INTO t VALUES (5000000000, 1, 1, 1)")
    lake.run(once=True)
    run("TRUNCATE t", "INSERT INTO t VALUES (1, 1, 1, 1)")
    run("ALTER TABLE t RENAME COLUMN line TO place", "INSERT INTO t VALUES (2, 2, 2, 2)")
    lake.run(once=True)
    assert quarantined(lake, name) == ""
    assert not_null(spark, table) == {"id", "place"}
    # the source's key is another one now, without a column that has NULL
    run("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id), MODIFY place INT NULL")
    run("INSERT INTO t VALUES (9, NULL, 1, 1)", "INSERT INTO other VALUES (2)")
    lake.run(once=True)
    reason = quarantined(lake, name)
    assert f"the constraint of the column place, which the silver table of {name} was given" in reason
    follow(spark, reason)
    lake.run(once=True)
    assert quarantined(lake, name) == ""
    assert lake.verify().verified


def test_so_is_one_with_a_check(
    spark: SparkSession, mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path
) -> None:
    """By Delta's own statements."""
    name = f"{database}.t"
    run("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    lake = pipeline(spark, mysql, database, tmp_path)
    lake.run(once=True)
    spark.sql(f"ALTER TABLE {lake.layout.silver_table(name).sql} ADD CONSTRAINT positive CHECK (v > 0)")
    run("UPDATE t SET v = 3 WHERE id = 1")
    lake.run(once=True)
    assert quarantined(lake, name) == ""
    run("UPDATE t SET v = -3 WHERE id = 1")
    lake.run(once=True)
    follow(spark, quarantined(lake, name))
    lake.run(once=True)
    assert quarantined(lake, name) == ""
    assert lake.verify().verified


def test_the_statements_of_the_guide_are_statements(spark: SparkSession) -> None:
    """Open-source Spark, which executes none of them, takes them for what they are."""
    [block] = blocks("sql", "docs/guides/databricks.md")
    parser = spark._jsparkSession.sessionState().sqlParser()
    statements = [text.strip() for text in block.split(";") if text.strip()]
    assert [parser.parsePlan(statement).nodeName() for statement in statements] == ["AlterColumns", "AddConstraint"]
