"""`target.engine: auto` on a real server: which tables are whose, and all that a pipeline does with either."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.cli.show import Screen
from lakehouse_cdc.lake.commits import newest_version
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.testing import MySqlServer
from tests.support.pipelines import pipeline
from tests.support.silver.engines import writers

AUTO: dict[str, Any] = {"target": {"engine": "auto"}}
TABLES = ("plain", "lines", "docs")


def change(run: Callable[..., None], n: int) -> None:
    """Each table has an update, a delete and an insert."""
    run(
        f"UPDATE plain SET n = n + 1, ts = '2001-02-03 04:05:06.{n:06}' WHERE id < 50",
        f"DELETE FROM plain WHERE id = {n}",
        f"INSERT INTO plain (id, n, name, at) VALUES ({1000 + n}, {n}, 'new', '1000-01-01 00:00:00')",
        "UPDATE `lines` SET price = price + 0.01 WHERE number = 1",
        f"DELETE FROM `lines` WHERE day = '2024-01-01' AND number = {n}",
        f"INSERT INTO `lines` VALUES ('2024-02-{n:02}', {n}, {n}.5)",
        f"UPDATE docs SET doc = JSON_SET(doc, '$.n', {n})",
    )


def last_writers(spark: SparkSession, lake: Pipeline, database: str) -> dict[str, str]:
    places = {name: lake.layout.silver_table(f"{database}.{name}") for name in TABLES}
    return {name: writers(place, newest_version(spark, place))[-1] for name, place in places.items()}


def engines(lake: Pipeline, database: str) -> dict[str, str]:
    found: dict[str, dict[str, Any]] = lake.status().to_json()["tables"]
    return {name.removeprefix(f"{database}."): table["engine"] for name, table in found.items()}


def rows(lake: Pipeline, database: str, position: str) -> list[tuple[int, int]]:
    found = lake.all_as_of(position=position)[f"{database}.plain"]
    return sorted((row["id"], row["n"]) for row in found.select("id", "n").collect())


@pytest.mark.long
@pytest.mark.one_server
def test_a_pipeline_over_tables_of_both_engines(
    spark: SparkSession,
    mysql: MySqlServer,
    run: Callable[..., None],
    database: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(
        "CREATE TABLE plain (id INT PRIMARY KEY, n INT, name VARCHAR(20), at DATETIME(6), ts TIMESTAMP(6) NULL)",
        "CREATE TABLE `lines` (day DATE, number SMALLINT, price DECIMAL(12, 2), PRIMARY KEY (day, number))",
        "CREATE TABLE docs (id INT PRIMARY KEY, doc JSON)",
        "INSERT INTO plain VALUES " + ", ".join(f"({i}, 0, 'ä{i}', NULL, NULL)" for i in range(100)),
        "INSERT INTO `lines` VALUES " + ", ".join(f"('2024-01-01', {i}, {i}.25)" for i in range(20)),
        "INSERT INTO docs VALUES (1, '{}'), (2, '[1]')",
    )
    lake = pipeline(spark, mysql, database, tmp_path, **AUTO)
    lake.run(once=True)
    assert engines(lake, database) == {"plain": "deltalake", "lines": "deltalake", "docs": "spark"}
    Screen().status(lake.status())
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines() if ".docs" in line] == ["spark"]
    seen: dict[str, list[tuple[int, int]]] = {}
    for n in (1, 2, 3):
        change(run, n)
        lake.run(once=True)
        assert last_writers(spark, lake, database) == {"plain": "deltalake", "lines": "deltalake", "docs": "spark"}
        assert (verified := lake.verify()).verified, verified.to_json()
        at = lake.status().bronze
        assert at is not None
        seen[f"{at.file}:{at.pos}"] = rows(lake, database, f"{at.file}:{at.pos}")
        if n == 2:
            assert not [one.left for one in lake.maintain() if one.left]
    assert [len(found) for found in seen.values()] == [100, 100, 100]
    # a column is renamed and another comes; the one table is Spark's from there on
    run("ALTER TABLE plain CHANGE n m INT", "ALTER TABLE `lines` ADD COLUMN note TEXT", "UPDATE plain SET m = -m")
    run("UPDATE `lines` SET note = 'ü' WHERE number = 1")
    lake.run(once=True)
    assert engines(lake, database) == {"plain": "spark", "lines": "deltalake", "docs": "spark"}
    run("UPDATE `lines` SET note = 'x'", "UPDATE plain SET name = 'y' WHERE id = 5")
    lake.run(once=True)
    assert last_writers(spark, lake, database) == {"plain": "spark", "lines": "deltalake", "docs": "spark"}
    assert (verified := lake.verify()).verified, verified.to_json()
    assert {position: rows(lake, database, position) for position in seen} == seen
