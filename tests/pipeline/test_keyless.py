"""Tables without a primary key on the whole road: in silver by a key that the user gives, as added rows, as copies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.testing import MySqlServer
from tests.support.pipelines import pipeline


@pytest.mark.long
def test_tables_without_a_primary_key(
    spark: SparkSession,
    mysql: MySqlServer,
    run: Callable[..., None],
    database: str,
    tmp_path: Path,
) -> None:
    names = {name: f"{database}.{name}" for name in ("keyed", "log", "copies")}
    run(
        *(f"CREATE TABLE {name} (a INT NOT NULL, b INT NOT NULL, note JSON)" for name in names),
        "INSERT INTO keyed VALUES (1, 1, '{}'), (1, 2, NULL), (2, 1, NULL)",
        *(f"INSERT INTO {name} VALUES (1, 1, '[]'), (1, 1, '[]'), (2, 1, NULL)" for name in ("log", "copies")),
    )
    tables = {names["keyed"]: {"key": ["a", "b"]}, names["log"]: {"append": True}}
    lake = pipeline(spark, mysql, database, tmp_path, tables=tables)
    assert [f.what for f in lake.doctor() if f.severity == "warning" and f.name == names["copies"]] == []
    lake.run(once=True)
    run(
        "UPDATE keyed SET b = 3 WHERE a = 2", "UPDATE keyed SET note = '[1]' WHERE b = 2",
        "DELETE FROM copies WHERE a = 1 LIMIT 1", "INSERT INTO copies SELECT 2, 1, NULL FROM keyed",
        "UPDATE copies SET b = 2 WHERE a = 2 LIMIT 2",
        "INSERT INTO log VALUES (1, 1, '[]'), (5, 5, NULL)", "ALTER TABLE log ADD COLUMN more INT",
        "INSERT INTO log VALUES (5, 5, NULL, 1)",
    )  # fmt: skip
    lake.run(once=True)
    report = lake.verify()
    rows = {"copies": 5, "keyed": 3, "log": 6}
    assert [(t.table, t.equal, t.rows) for t in report.tables] == [
        (names[name], True, n) for name, n in sorted(rows.items())
    ]
    assert lake.verify("bronze").verified
    assert lake.status().healthy
    # what differs is told, also where no key tells it apart
    log = lake.layout.silver_table(names["log"])
    spark.sql(f"UPDATE {log.sql} SET a = 2 WHERE a = 1")
    different = {t.table: t for t in lake.verify().tables}[names["log"]]
    assert (different.differing, {d.kind for d in different.differences}) == (6, {"missing", "extra"})
    # a row of the log is changed: the table is set aside, until it is read again
    run("UPDATE log SET b = 9 WHERE a = 5 LIMIT 1")
    assert f"a row of {names['log']} was updated" in lake.run(once=True).to_json()["quarantined"][names["log"]]
    assert set(lake.verify().quarantined) == {names["log"]}
    lake.read_again([names["log"]])
    assert names["log"] not in lake.run(once=True).to_json()["quarantined"]
    assert lake.verify().verified
    # who promised a key that is none is told
    run("INSERT INTO keyed VALUES (1, 1, '{}')")
    lake.run(once=True)
    doubled = {t.table: t for t in lake.verify().tables}[names["keyed"]]
    assert (doubled.differing, [d.kind for d in doubled.differences]) == (1, ["missing"])


@pytest.mark.long
def test_the_silver_table_of_a_key_that_comes_and_goes(
    spark: SparkSession, mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path
) -> None:
    """By statements and by the configuration; silver is exact after each run, and as of the positions between."""
    run("CREATE TABLE t (a INT NOT NULL, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2), (2, 2)")
    name, settings = f"{database}.t", dict[str, object]()
    held = dict[str, list[tuple[int, int]]]()

    def follow() -> None:
        lake = pipeline(spark, mysql, database, tmp_path, tables={name: settings} if settings else {})
        report = lake.run(once=True)
        assert lake.verify().verified
        assert lake.verify("bronze").verified
        assert lake.status().healthy
        assert report.source_point is not None
        at = f"{report.source_point['file']}:{report.source_point['pos']}"
        held[at] = sorted((row["a"], row["v"]) for row in read(spark, lake.layout.silver_table(name)).collect())
        for position, rows in [*held.items()][-2:]:
            then = lake.as_of(name, position=position)
            assert sorted((row["a"], row["v"]) for row in then.collect()) == rows, position

    follow()
    run("INSERT INTO t VALUES (1, 1)", "DELETE FROM t WHERE a = 2 LIMIT 1")
    follow()
    run("DELETE FROM t WHERE a = 1 LIMIT 1", "ALTER TABLE t ADD PRIMARY KEY (a)", "UPDATE t SET v = 9 WHERE a = 1")
    follow()
    run("ALTER TABLE t DROP PRIMARY KEY", "INSERT INTO t VALUES (1, 9), (1, 9)", "ALTER TABLE t MODIFY v BIGINT")
    follow()
    run("TRUNCATE t", "INSERT INTO t VALUES (4, 4), (5, 5)")
    follow()
    settings["key"] = ["a"]
    run("UPDATE t SET v = 6 WHERE a = 5")
    follow()
