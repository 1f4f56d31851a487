"""Tables without a primary key on the whole road: in silver by a key that the user gives, as added rows, or not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.tables import exists
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
    names = {name: f"{database}.{name}" for name in ("keyed", "log", "alone")}
    run(
        *(f"CREATE TABLE {name} (a INT NOT NULL, b INT NOT NULL, note JSON)" for name in names),
        "INSERT INTO keyed VALUES (1, 1, '{}'), (1, 2, NULL), (2, 1, NULL)",
        *(f"INSERT INTO {name} VALUES (1, 1, '[]'), (1, 1, '[]'), (2, 1, NULL)" for name in ("log", "alone")),
    )
    tables = {names["keyed"]: {"key": ["a", "b"]}, names["log"]: {"append": True}}
    lake = pipeline(spark, mysql, database, tmp_path, tables=tables)
    refused = f"{names['alone']} has no primary key, so it is in bronze alone"
    assert [f.what for f in lake.doctor() if f.severity == "warning" and f.name == names["alone"]] == [refused]
    assert refused in lake.run(once=True).to_json()["quarantined"][names["alone"]]
    run(
        "UPDATE keyed SET b = 3 WHERE a = 2", "UPDATE keyed SET note = '[1]' WHERE b = 2", "DELETE FROM alone LIMIT 1",
        "INSERT INTO log VALUES (1, 1, '[]'), (5, 5, NULL)", "ALTER TABLE log ADD COLUMN more INT",
        "INSERT INTO log VALUES (5, 5, NULL, 1)",
    )  # fmt: skip
    lake.run(once=True)
    report = lake.verify()
    assert [(t.table, t.equal, t.rows) for t in report.tables] == [(names["keyed"], True, 3), (names["log"], True, 6)]
    assert set(report.quarantined) == {names["alone"]}
    assert refused in lake.status().tables[names["alone"]].quarantined
    assert not exists(spark, lake.layout.silver_table(names["alone"]))
    # what differs is told, also where no key tells it apart
    log = lake.layout.silver_table(names["log"])
    spark.sql(f"UPDATE {log.sql} SET a = 2 WHERE a = 1")
    different = {t.table: t for t in lake.verify().tables}[names["log"]]
    assert (different.differing, {d.kind for d in different.differences}) == (6, {"missing", "extra"})
    # a row of the log is changed: the table is set aside, until it is read again
    run("UPDATE log SET b = 9 WHERE a = 5 LIMIT 1")
    assert f"a row of {names['log']} was updated" in lake.run(once=True).to_json()["quarantined"][names["log"]]
    assert set(lake.verify().quarantined) == {names["alone"], names["log"]}
    lake.read_again([names["log"]])
    assert names["log"] not in lake.run(once=True).to_json()["quarantined"]
    report = lake.verify()
    assert all(t.equal for t in report.tables)
    assert set(report.quarantined) == {names["alone"]}
    # who promised a key that is none is told
    run("INSERT INTO keyed VALUES (1, 1, '{}')")
    lake.run(once=True)
    doubled = {t.table: t for t in lake.verify().tables}[names["keyed"]]
    assert (doubled.differing, [d.kind for d in doubled.differences]) == (1, ["missing"])
