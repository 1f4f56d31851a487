"""A pipeline whose work a server of Spark Connect does, with tables in a folder that it shares with the client."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.checkpoint import Checkpoint
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.testing import MySqlServer
from tests.support.connect_server import answer, client, configuration

FOLDER = {"path": "lakehouse", "bronze": "bronze", "silver": "silver"}
OF_FORMS = [
    "tables:", '  "*.h": {scd: 2}', '  "*.s": {deletes: soft}', '  "*.a": {append: true}',
]  # fmt: skip
TABLES = [
    "CREATE TABLE t (id INT PRIMARY KEY, v INT, name VARCHAR(30))", "CREATE TABLE h (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE s (id INT PRIMARY KEY, v INT)", "CREATE TABLE n (a INT, b INT)", "CREATE TABLE a (x INT)",
    "INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')", "INSERT INTO h VALUES (1, 1), (2, 2)",
    "INSERT INTO s VALUES (1, 1), (2, 2)", "INSERT INTO n VALUES (1, 1), (1, 1), (2, 2)", "INSERT INTO a VALUES (1)",
]  # fmt: skip
CHANGES = [
    "UPDATE t SET v = v + 1", "DELETE FROM t WHERE id = 2", "UPDATE h SET v = v + 10", "DELETE FROM h WHERE id = 2",
    "DELETE FROM s WHERE id = 1", "DELETE FROM n WHERE a = 1 LIMIT 1", "INSERT INTO a VALUES (2)",
]  # fmt: skip
ALTERED = [
    "ALTER TABLE t ADD COLUMN extra INT DEFAULT 7", "INSERT INTO t (id, v, name) VALUES (30, 30, 'y')",
    "ALTER TABLE t RENAME COLUMN name TO title", "ALTER TABLE h MODIFY v BIGINT", "UPDATE h SET v = v + 1",
    "TRUNCATE TABLE s", "INSERT INTO s VALUES (9, 9)",
]  # fmt: skip

Run = Callable[..., None]


def ops(report: Any, database: str) -> dict[str, dict[str, int]]:
    """Of a run, by table: rows by their op."""
    return {
        name.removeprefix(f"{database}."): {op: n for op, n in of.items() if op != "rows"}
        for name, of in report["tables"].items()
    }


@pytest.fixture
def file(connect: str, mysql: MySqlServer, database: str, tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.yml"
    path.write_text(configuration(mysql.url, connect, database, FOLDER, OF_FORMS))
    return path


def test_a_pipeline_changes_between_a_server_and_a_session_of_its_own(
    spark: SparkSession, file: Path, database: str, run: Run
) -> None:
    """One checkpoint, one epoch: nothing is read again, whoever drives the streams."""
    run("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    assert ops(answer("run", "--once", "-c", file), database) == {"t": {"r": 2, "s": 1}}
    run("UPDATE t SET v = 5 WHERE id = 1", "INSERT INTO t VALUES (3, 3)")
    classic = Pipeline.from_yaml(file, spark)
    assert ops(classic.run(once=True).to_json(), database) == {"t": {"u": 1, "c": 1}}
    run("ALTER TABLE t ADD COLUMN w INT DEFAULT 4", "DELETE FROM t WHERE id = 2")
    assert ops(answer("run", "--once", "-c", file), database) == {"t": {"s": 1, "d": 1}}
    place = Checkpoint(classic.checkpoint("bronze"))
    assert place.planned is None
    run("UPDATE t SET w = 8 WHERE id = 3")
    assert ops(classic.run(once=True).to_json(), database) == {"t": {"u": 1}}
    assert classic.verify().verified
    rows = {row["id"]: (row["v"], row["w"]) for row in silver(spark, classic, f"{database}.t")}
    assert rows == {1: (5, 4), 3: (3, 8)}
    said = answer("status", "-c", file)
    assert said["position"]["epoch"] == 1


def silver(spark: SparkSession, lake: Pipeline, table: str) -> list[Any]:
    return spark.read.format("delta").load(str(lake.layout.silver_table(table).path)).collect()


@pytest.mark.long
def test_all_forms_and_ddl(file: Path, database: str, run: Run) -> None:
    """By deltalake where it can, by SQL's MERGE where it cannot; `verify` and `as-of` on the same server."""
    run(*TABLES)
    positions = []
    for statements in ([], CHANGES, ALTERED, ["UPDATE t SET v = 0", "DELETE FROM n", "UPDATE h SET v = 0"]):
        run(*statements)
        report = answer("run", "--once", "-c", file)
        assert (report["quarantined"], report["restarts"]) == ({}, 0)
        positions.append(f"{report['position']['file']}:{report['position']['pos']}")
        assert answer("verify", "-c", file)["verified"] is True
    assert {one["left"] for one in answer("maintain", "-c", file)["tables"]} == {""}
    table = f"{database}.t"
    rows = [answer("as-of", table, "--position", at, "-c", file)["tables"][table] for at in positions[:2]]
    assert rows == [3, 2]


@pytest.mark.long
def test_a_client_that_is_killed_leaves_what_the_next_one_continues(file: Path, database: str, run: Run) -> None:
    """At many of its commits, files of the checkpoint among them; in the end every change is there, once."""
    run(*TABLES)
    died = 0
    for number in (1, 4, 9, 12, 17, 23, 31):
        done = client("run", "--once", "-c", file, code=None, environment={"DIE_AT": str(number)})
        assert done.returncode in (0, -9), done.stderr
        died += done.returncode == -9
        run("UPDATE t SET v = v + 1", "INSERT INTO n VALUES (7, 7)", "UPDATE h SET v = v + 1 WHERE id = 1")
    assert died >= 4
    answer("run", "--once", "-c", file)
    assert answer("verify", "-c", file)["verified"] is True
    assert answer("verify", "--layer", "bronze", "-c", file)["verified"] is True
