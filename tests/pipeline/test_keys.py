"""Tables whose key is a unique index, or over prefixes or floating point numbers: bronze, silver, verify."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.testing import MySqlServer
from tests.support.pipelines import pipeline

UNIQUE = "(a INT NOT NULL, b VARCHAR(9) NOT NULL, v INT, UNIQUE u (b, a))"
TABLES = {  # definitions, and settings
    "by_index": (UNIQUE, {}),
    "versions": (UNIQUE, {"scd": 2}),
    "marked": (UNIQUE, {"deletes": "soft"}),
    "by_prefix": ("(a INT, b VARCHAR(30), v INT, PRIMARY KEY (b(3)))", {}),
    "by_double": ("(d DOUBLE, a INT, v INT, PRIMARY KEY (d, a))", {}),
    "versions_by_float": ("(d FLOAT PRIMARY KEY, a INT, v INT)", {"scd": 2}),
    "added": (UNIQUE, {"append": True}),
    "without": (UNIQUE, {"key": []}),
}
ROWS = {
    "b": [(1, "'one'"), (2, "'two'"), (3, "'three'"), (4, "'four'")],
    "d": [(1, "-0e0"), (2, "0.1"), (3, "5592405.5"), (4, "-1.5")],
}
ZEROS = ("by_double", "versions_by_float")


@pytest.fixture
def lake(spark: SparkSession, mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path) -> Pipeline:
    for table, (definition, _) in TABLES.items():
        column = "b" if "b VARCHAR" in definition else "d"
        rows = ", ".join(f"({a}, {value}, {a})" for a, value in ROWS[column])
        run(f"CREATE TABLE {table} {definition}", f"INSERT INTO {table} (a, {column}, v) VALUES {rows}")
    settings = {f"{database}.{table}": given for table, (_, given) in TABLES.items() if given}
    return pipeline(spark, mysql, database, tmp_path, tables=settings)


def verified(lake: Pipeline) -> None:
    silver, bronze = lake.verify(), lake.verify("bronze")
    assert silver.verified
    assert bronze.verified
    assert silver.left_out == bronze.left_out == {}
    assert {result.table.split(".")[1] for result in silver.tables} == {*TABLES}
    assert {result.table.split(".")[1] for result in bronze.tables} == {*TABLES}


def not_in_silver(lake: Pipeline) -> set[str]:
    return {name.split(".")[1] for name, table in lake.status().tables.items() if table.quarantined}


@pytest.mark.long
def test_keys(lake: Pipeline, spark: SparkSession, run: Callable[..., None], database: str) -> None:
    assert [finding for finding in lake.doctor() if finding.severity == "error"] == []
    lake.run(once=True)
    verified(lake)
    for table in TABLES.keys() - {"added"}:
        run(f"UPDATE {table} SET v = v + 1 WHERE a = 3", f"DELETE FROM {table} WHERE a = 2")
    for table in ZEROS:  # the same key to the server, and another image
        run(f"UPDATE {table} SET d = 0e0 WHERE a = 1")
    for table in ("by_index", "versions", "marked", "by_prefix"):
        run(f"UPDATE {table} SET b = 'other' WHERE a = 4", f"INSERT INTO {table} VALUES (5, 'five', 5)")
    run("INSERT INTO added VALUES (5, 'five', 5)")
    lake.run(once=True)
    verified(lake)
    assert not_in_silver(lake) == set()
    for table in ZEROS:
        current = read(spark, lake.layout.silver_table(f"{database}.{table}"))
        if table == "versions_by_float":
            current = current.where("__END_AT IS NULL")
        assert sorted(str(row["d"]) for row in current.collect()) == ["-1.5", "0.0", "5592405.5"]


@pytest.mark.long
def test_another_key(lake: Pipeline, run: Callable[..., None]) -> None:
    lake.run(once=True)
    run(
        "ALTER TABLE by_index DROP INDEX u, ADD UNIQUE w (a)",
        "ALTER TABLE versions ADD PRIMARY KEY (a)",
        "ALTER TABLE by_prefix DROP PRIMARY KEY, ADD PRIMARY KEY (a)",
        "UPDATE by_index SET b = 'x'", "UPDATE versions SET b = 'x', v = 7",
        "UPDATE by_prefix SET b = 'x'", "DELETE FROM by_index WHERE a = 1",
    )  # fmt: skip
    lake.run(once=True)
    verified(lake)


@pytest.mark.long
def test_a_key_that_goes_and_comes(lake: Pipeline, run: Callable[..., None]) -> None:
    """Silver counts copies in between."""
    lake.run(once=True)
    run("UPDATE by_index SET v = 9", "ALTER TABLE by_index DROP INDEX u", "UPDATE by_index SET v = 10 WHERE a = 1")
    lake.run(once=True)
    verified(lake)
    run("ALTER TABLE by_index ADD UNIQUE (a)", "DELETE FROM by_index WHERE a = 2")
    lake.run(once=True)
    verified(lake)
    assert not_in_silver(lake) == set()


@pytest.mark.long
def test_damage_is_repaired(lake: Pipeline, spark: SparkSession, database: str) -> None:
    lake.run(once=True)
    damaged = [f"{database}.{table}" for table in ("by_index", "by_prefix", "by_double")]
    for name in damaged:
        silver = f"delta.`{lake.layout.silver_table(name).path}`"
        spark.sql(f"UPDATE {silver} SET v = 100 WHERE a = 1")
        spark.sql(f"DELETE FROM {silver} WHERE a = 2")
    report = lake.verify()
    assert {result.table for result in report.tables if not result.equal} == {*damaged}
    # rows by their keys where the source can look for them, else the whole table
    assert lake.repair(report) == {damaged[0]: 2, damaged[1]: None, damaged[2]: None}
    lake.run(once=True)
    verified(lake)
