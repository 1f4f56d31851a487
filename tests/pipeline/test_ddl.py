"""DDL that is followed, on the whole road: silver is the source behind it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import ConfigError
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.testing import MySqlServer
from tests.support.pipelines import pipeline


@pytest.mark.long
def test_silver_evolves(
    spark: SparkSession, mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path
) -> None:
    """All in one run of the stream, and again in the next: columns come, go, change, and change places."""
    run(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20))",
        f"INSERT INTO t VALUES {', '.join(f'({n}, {n}, {n})' for n in range(10))}",
    )
    lake = pipeline(spark, mysql, database, tmp_path)
    lake.run(once=True)
    run(
        "UPDATE t SET a = a + 1 WHERE id < 5", "ALTER TABLE t ADD COLUMN c DATETIME(3) AFTER id",
        "INSERT INTO t VALUES (20, NOW(3), 1, 'x')", "ALTER TABLE t CHANGE a x BIGINT, CHANGE b a VARCHAR(30)",
        "UPDATE t SET x = 5000000000 WHERE id = 3", "DELETE FROM t WHERE id = 4",
    )  # fmt: skip
    lake.run(once=True)
    report = lake.verify()
    assert report.verified, report.to_json()
    silver = read(spark, lake.layout.silver_table(f"{database}.t"))
    assert dict(silver.dtypes) == {
        "id": "int", "c": "timestamp_ntz", "x": "bigint", "a": "string", "_seq": "decimal(38,0)",
        "_commit_ts": "timestamp",
    }  # fmt: skip
    run(
        "ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT 7, DROP COLUMN c", "UPDATE t SET n = 8 WHERE id = 5",
        "ALTER TABLE t MODIFY x VARCHAR(30)", "INSERT INTO t (id, x) VALUES (30, 'many')",
        "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (n, id)", "UPDATE t SET n = 9 WHERE id = 6",
    )  # fmt: skip
    lake.run(once=True)
    report = lake.verify()
    assert report.verified, report.to_json()
    assert all(t.complete for t in report.tables)
    statements = spark.sql(f"SELECT statement FROM {lake.layout.schemas.sql} ORDER BY seq").collect()
    assert [str(row.statement)[:7] for row in statements] == ["None", *["ALTER T"] * 5]


@pytest.mark.long
def test_a_frozen_table_keeps_its_columns_and_is_quarantined_for_what_they_cannot_hold(
    spark: SparkSession, mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path
) -> None:
    run(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20))",
        f"INSERT INTO t VALUES {', '.join(f'({n}, {n}, {n})' for n in range(10))}",
    )
    name = f"{database}.t"
    lake = pipeline(spark, mysql, database, tmp_path, tables={name: {"schema_changes": "freeze"}})
    lake.run(once=True)
    run(
        "ALTER TABLE t ADD COLUMN c INT NOT NULL DEFAULT 5, CHANGE a x BIGINT", "UPDATE t SET x = 9 WHERE id = 3",
        "ALTER TABLE t CHANGE id ident BIGINT", "DELETE FROM t WHERE ident = 5", "ALTER TABLE t DROP COLUMN b",
        "INSERT INTO t VALUES (11, 11, 11)",
    )  # fmt: skip
    lake.run(once=True)
    report = lake.verify()
    assert report.verified, report.to_json()
    cold = read(spark, lake.layout.silver_table(name))
    assert cold.columns == ["id", "a", "b", "_seq", "_commit_ts"]
    there = [(n, 9 if n == 3 else n, str(n)) for n in range(10) if n != 5]
    assert sorted((r.id, r.a, r.b) for r in cold.collect()) == [*there, (11, 11, None)]
    assert lake.status().tables[name].ignored == ("c",)
    run("INSERT INTO t VALUES (12, 5000000000, 1)", "UPDATE t SET x = 8 WHERE ident = 11")
    reason = lake.run(once=True).to_json()["quarantined"]
    assert f"does not fit the frozen column {name}.a" in reason[name]
    report = lake.verify()
    assert (report.verified, report.quarantined, report.tables) == (False, reason, ())
    status = lake.status().tables[name]
    assert (status.snapshot, status.quarantined) == ("quarantined", reason[name])
    run("UPDATE t SET x = 12 WHERE ident = 12")
    assert lake.run(once=True).to_json()["quarantined"] == {}
    report = lake.verify()
    assert report.verified, report.to_json()
    rows = read(spark, lake.layout.silver_table(name)).where("id > 10").collect()
    assert sorted((r.id, r.a) for r in rows) == [(11, 8), (12, 12)]


@pytest.mark.long
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
        "UPDATE live SET w = 4 WHERE id = 5", "DROP TABLE _live_del", "ALTER TABLE stuck ENGINE = BLACKHOLE",
    )  # fmt: skip
    reason = lake.run(once=True).to_json()["quarantined"]
    assert reason.keys() == {f"{database}.stuck"}
    assert f"{database}.stuck has the engine BLACKHOLE" in reason[f"{database}.stuck"]
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
    run("ALTER TABLE stuck ENGINE = InnoDB", "INSERT INTO stuck VALUES (0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)")
    assert lake.read_again(["*.stuck"]) == [f"{database}.stuck"]
    lake.run(once=True)
    report = lake.verify()
    assert report.verified, report.to_json()
    assert {t.table: t.silver_rows for t in report.tables}[f"{database}.stuck"] == 6
