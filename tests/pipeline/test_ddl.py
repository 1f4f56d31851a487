"""DDL that is followed, on the whole road: silver is the source behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import ConfigError
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.testing import MySqlServer
from tests.pipeline.test_run import bronze, pipeline

PARTITIONS = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS THAN MAXVALUE)"


@pytest.fixture
def run(mysql_client: pymysql.Connection[Any], database: str) -> Callable[..., None]:
    """`run(*statements)` in the test's own database."""

    def execute(*statements: str) -> None:
        with mysql_client.cursor() as cursor:
            cursor.execute(f"USE {database}")
            for sql in statements:
                cursor.execute(sql)

    return execute


def test_truncated_tables_and_partitions(
    spark: SparkSession, mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path
) -> None:
    run(
        "CREATE TABLE whole (id INT PRIMARY KEY, v INT)",
        f"CREATE TABLE parts (id INT PRIMARY KEY, v INT) {PARTITIONS}",
        *(f"INSERT INTO {name} VALUES {', '.join(f'({n}, 0)' for n in range(10))}" for name in ("whole", "parts")),
    )
    lake = pipeline(spark, mysql, database, tmp_path)
    lake.run(once=True)
    run(
        "CREATE INDEX i ON whole (v)", "UPDATE whole SET v = 1", "TRUNCATE TABLE whole",
        "INSERT INTO whole VALUES (1, 2), (20, 2)", "UPDATE parts SET v = 1", "ALTER TABLE parts TRUNCATE PARTITION p0",
        "INSERT INTO parts VALUES (2, 3)",
    )  # fmt: skip
    lake.run(once=True)
    report = lake.verify()
    assert report.verified, report.to_json()
    assert {t.table: t.silver_rows for t in report.tables} == {f"{database}.whole": 2, f"{database}.parts": 6}
    assert all(t.complete for t in report.tables)
    found = Counter(tuple(r) for r in bronze(spark, lake).select("source_table", "op").collect())
    assert found[(f"{database}.whole", "t")] == found[(f"{database}.parts", "x")] == 1


def test_silver_evolves(
    spark: SparkSession, mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path
) -> None:
    """All in one run of the stream, and again in the next: columns come, go, change, and change places.

    One table is frozen: its columns follow those of the source, and no other comes.
    """
    for name in ("t", "cold"):
        run(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, a INT, b VARCHAR(20))",
            f"INSERT INTO {name} VALUES {', '.join(f'({n}, {n}, {n})' for n in range(10))}",
        )
    lake = pipeline(spark, mysql, database, tmp_path, tables={f"{database}.cold": {"schema_changes": "freeze"}})
    lake.run(once=True)
    run(
        "UPDATE t SET a = a + 1 WHERE id < 5", "ALTER TABLE t ADD COLUMN c DATETIME(3) AFTER id",
        "INSERT INTO t VALUES (20, NOW(3), 1, 'x')", "ALTER TABLE t CHANGE a x BIGINT, CHANGE b a VARCHAR(30)",
        "UPDATE t SET x = 5000000000 WHERE id = 3", "DELETE FROM t WHERE id = 4",
        "ALTER TABLE cold ADD COLUMN c INT NOT NULL DEFAULT 5, CHANGE a x BIGINT", "UPDATE cold SET x = 9 WHERE id = 3",
        "ALTER TABLE cold CHANGE id ident BIGINT", "DELETE FROM cold WHERE ident = 5",
    )  # fmt: skip
    lake.run(once=True)
    report = lake.verify()
    assert report.verified, report.to_json()
    silver = read(spark, lake.layout.silver_table(f"{database}.t"))
    assert dict(silver.dtypes) == {
        "id": "int", "c": "timestamp_ntz", "x": "bigint", "a": "string", "_seq": "decimal(38,0)",
        "_commit_ts": "timestamp",
    }  # fmt: skip
    cold = read(spark, lake.layout.silver_table(f"{database}.cold"))
    assert cold.columns == ["id", "a", "b", "_seq", "_commit_ts"]
    assert sorted((r.id, r.a, r.b) for r in cold.collect()) == [
        (n, 9 if n == 3 else n, str(n)) for n in range(10) if n != 5
    ]  # fmt: skip
    assert lake.status().tables[f"{database}.cold"].ignored == ("c",)
    run(
        "ALTER TABLE cold DROP COLUMN b", "INSERT INTO cold VALUES (11, 11, 11)",
        "ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT 7, DROP COLUMN c", "UPDATE t SET n = 8 WHERE id = 5",
        "ALTER TABLE t MODIFY x VARCHAR(30)", "INSERT INTO t (id, x) VALUES (30, 'many')",
        "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (n, id)", "UPDATE t SET n = 9 WHERE id = 6",
    )  # fmt: skip
    lake.run(once=True)
    report = lake.verify()
    assert report.verified, report.to_json()
    assert all(t.complete for t in report.tables)
    cold = read(spark, lake.layout.silver_table(f"{database}.cold"))
    assert sorted((r.id, r.b) for r in cold.where("id > 7").collect()) == [(8, "8"), (9, "9"), (11, None)]
    mine = f"source_table = '{database}.t'"
    statements = spark.sql(f"SELECT statement FROM {lake.layout.schemas.sql} WHERE {mine} ORDER BY seq").collect()
    assert [str(row.statement)[:7] for row in statements] == ["None", *["ALTER T"] * 5]


def test_tables_come_and_go_under_a_name(
    spark: SparkSession, mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path
) -> None:
    """One stays dropped, one is made anew, one goes through gh-ost, one cannot be followed for a while."""
    names = ("lost", "anew", "live", "stuck")
    run(
        *(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)" for name in names),
        *(f"INSERT INTO {name} VALUES {', '.join(f'({n}, {n})' for n in range(10))}" for name in names),
    )
    lake = pipeline(spark, mysql, database, tmp_path)
    lake.run(once=True)
    run(
        "UPDATE lost SET v = 70 WHERE id = 7", "DROP TABLE lost, anew",
        "CREATE TABLE anew (v VARCHAR(9), id INT PRIMARY KEY)", "INSERT INTO anew VALUES ('x', 1), ('y', 11)",
        "CREATE TABLE _live_gho LIKE live", "ALTER TABLE _live_gho ADD COLUMN w INT NOT NULL DEFAULT 3",
        "INSERT INTO _live_gho (id, v) SELECT id, v FROM live", "RENAME TABLE live TO _live_del, _live_gho TO live",
        "UPDATE live SET w = 4 WHERE id = 5", "DROP TABLE _live_del", "ALTER TABLE stuck DROP PRIMARY KEY",
    )  # fmt: skip
    reason = {f"{database}.stuck": f"{database}.stuck has no primary key, which is not supported yet"}
    assert lake.run(once=True).to_json()["quarantined"] == reason
    report = lake.verify()
    assert not report.verified
    assert report.quarantined == reason
    assert all(t.equal for t in report.tables)
    found = {name: str(lake.layout.silver_table(f"{database}.{name}")) for name in names}
    assert {t.table: (t.silver_rows, t.complete) for t in report.tables} == {
        f"{database}.anew": (2, True), f"{database}.live": (10, True)
    }  # fmt: skip
    lost = spark.read.format("delta").load(found["lost"])
    assert sorted((r.id, r.v) for r in lost.collect()) == [(n, 70 if n == 7 else n) for n in range(10)]
    status = lake.status()
    assert {name: status.tables[f"{database}.{name}"].snapshot for name in names} == {
        "lost": "dropped", "anew": "done", "live": "done", "stuck": "quarantined"
    }  # fmt: skip
    assert set(status.tables) == {f"{database}.{name}" for name in names}
    with pytest.raises(ConfigError, match="no captured table matches"):
        lake.read_again([f"{database}.lost"])
    run("ALTER TABLE stuck ADD PRIMARY KEY (id)", "DELETE FROM stuck WHERE id > 5")
    assert lake.read_again(["*.stuck"]) == [f"{database}.stuck"]
    lake.run(once=True)
    report = lake.verify()
    assert report.verified, report.to_json()
    assert {t.table: t.silver_rows for t in report.tables}[f"{database}.stuck"] == 6
