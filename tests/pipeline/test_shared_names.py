"""Tables of two databases, names that differ in case, or that a catalog does not take: who has no silver table.

A first run takes all of them into bronze, and says so of each.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import TableError, codes
from lakehouse_cdc.testing import MySqlServer
from tests.remedies import remedy
from tests.support.pipelines import pipeline
from tests.support.servers import new_database


@pytest.mark.long
@remedy(codes.SILVER_NAME_AMBIGUOUS)
def test_the_others_are_given_names_of_their_own(
    spark: SparkSession,
    mysql: MySqlServer,
    mysql_client: pymysql.Connection[Any],
    run: Callable[..., None],
    database: str,
    tmp_path: Path,
) -> None:
    with new_database(mysql) as other:
        for name in ("t", "T", f"{other}.t"):
            run(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {name} VALUES (1, 1), (2, 2)")
        tables = [f"{database}.T", f"{database}.t", f"{other}.t"]
        selected = {"tables": [f"{database}.*", f"{other}.*"]}
        lake = pipeline(spark, mysql, database, tmp_path, source=selected)
        [warning] = [finding for finding in lake.doctor() if "have the same silver table" in finding.what]
        assert warning.severity == "warning"
        lake.run(once=True)
        run("UPDATE t SET v = 3", "UPDATE T SET v = 4", f"UPDATE {other}.t SET v = 5")
        lake.run(once=True)
        first, *others = sorted(tables)
        status = lake.status()
        assert {name: bool(table.quarantined) for name, table in status.tables.items()} == {
            first: False,
            **dict.fromkeys(others, True),
        }
        assert status.bronze is not None
        position = f"{status.bronze.file}:{status.bronze.pos}"
        assert set(lake.as_of(first, position=position).columns) > {"id", "v"}
        for name in others:
            assert f"is that of {first}, so {name} has none" in status.tables[name].quarantined
            with pytest.raises(TableError) as refused:
                lake.as_of(name, position=position)
            assert refused.value.code is codes.SILVER_NAME_AMBIGUOUS
            assert "silver_name" in refused.value.hint
        report = lake.verify()
        assert [result.table for result in report.tables] == [first]
        assert set(report.quarantined) == set(others)
        lake.maintain()
        named = {name: {"silver_name": "{database}__{table}"} for name in others}
        lake = pipeline(spark, mysql, database, tmp_path, source=selected, tables=named)
        lake.run(once=True)
        run("DELETE FROM t WHERE id = 1", "DELETE FROM T WHERE id = 1", f"DELETE FROM {other}.t WHERE id = 1")
        lake.run(once=True)
        assert lake.status().healthy
        report = lake.verify()
        assert report.verified
        assert [(result.table, result.rows) for result in report.tables] == [(name, 1) for name in sorted(tables)]


@pytest.mark.long
@remedy(codes.SILVER_NAME_UNUSABLE)
def test_a_name_that_the_catalog_does_not_take(
    spark: SparkSession, mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path
) -> None:
    for name in ("`a-b`", "t"):
        run(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {name} VALUES (1, 1), (2, 2)")
    schemas = {layer: f"{database}_{layer}" for layer in ("bronze", "silver")}
    target = {"path": None, "catalog": "spark_catalog", "checkpoints": str(tmp_path / "checkpoints"), **schemas}
    for schema in schemas.values():
        spark.sql(f"CREATE SCHEMA {schema}")
    try:
        lake, odd = pipeline(spark, mysql, database, tmp_path, target=target), f"{database}.a-b"
        [warning] = [finding for finding in lake.doctor() if finding.name == odd]
        assert "takes no table called a-b" in warning.what
        lake.run(once=True)
        run("UPDATE `a-b` SET v = 3", "UPDATE t SET v = 3")
        lake.run(once=True)
        reasons = {name: table.quarantined for name, table in lake.status().tables.items() if table.quarantined}
        assert [*reasons] == [odd]
        assert [result.table for result in lake.verify().tables if result.equal] == [f"{database}.t"]
        hint = re.fullmatch(
            rf"{codes.SILVER_NAME_UNUSABLE.label}: .*; set silver_name for it under tables: \"(\S+)\":"
            r" \{(silver_name): \"NAME\"\}, where NAME has letters of ASCII, digits and _ alone, and run again",
            reasons[odd],
        )
        assert hint, reasons[odd]
        lake = pipeline(spark, mysql, database, tmp_path, target=target, tables={hint[1]: {hint[2]: "a_b"}})
        lake.run(once=True)
        run("DELETE FROM `a-b` WHERE id = 1")
        lake.run(once=True)
        assert lake.status().healthy
        report = lake.verify()
        assert report.verified
        assert {result.table for result in report.tables} == {odd, f"{database}.t"}
    finally:
        for schema in schemas.values():
            spark.sql(f"DROP SCHEMA {schema} CASCADE")
