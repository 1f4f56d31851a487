"""Settings of silver's tables are changed on a running pipeline: `plan` says what that does, a run does it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.testing import MySqlServer
from tests.support.pipelines import bronze, pipeline

# settings of `t` and of `k`, which has no primary key; each follows the one before
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "history": ({"scd": 2}, {}),
    "computed": ({"scd": 2, "computed": {"twice": "n * 2"}}, {}),
    "current": ({}, {}),
    "soft": ({"deletes": "soft"}, {}),
    "rename": ({"rename": {"n": "number", "id": "the id"}}, {}),
    "filter": ({"filter": "n % 2 = 0"}, {}),
    "metadata": ({"metadata": {"of": "table_name"}}, {}),
    "freeze": ({"schema_changes": "freeze"}, {}),
    "evolve": ({}, {}),
    "key": ({}, {"key": ["a", "b"]}),
    "other key": ({}, {"key": ["b", "a"], "scd": 2}),
    "key again": ({}, {"key": ["a"]}),
}


@pytest.mark.long
def test_one_after_the_other(
    spark: SparkSession, mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path
) -> None:
    run("CREATE TABLE t (id INT PRIMARY KEY, n INT)", "CREATE TABLE k (a INT NOT NULL, b INT NOT NULL, n INT)")
    run("CREATE TABLE u (id INT PRIMARY KEY, n INT)")
    run(
        *(
            f"INSERT INTO {table} VALUES ({values})"
            for table, values in (("t", "1, 1"), ("u", "1, 1"), ("k", "1, 1, 1"))
        )
    )

    def configured(t: dict[str, Any], k: dict[str, Any]) -> Any:
        settings = {f"{database}.t": t, f"{database}.k": {"key": ["a"], **k}}
        return pipeline(spark, mysql, database, tmp_path, tables=settings)

    lake, before_t, before_k = configured({}, {}), dict[str, Any](), dict[str, Any]()
    lake.run(once=True)
    for number, name in enumerate(CHANGES, start=2):
        if name == "freeze":
            lake = configured(*CHANGES[name])
            lake.run(once=True)
            run("ALTER TABLE t ADD COLUMN later INT DEFAULT 7")
        lake = configured(*CHANGES[name])
        t, k = CHANGES[name]
        rebuilt = {f"{database}.t"} if t != before_t and name != "freeze" else set()
        read_again = {f"{database}.k"} if k.get("key") != before_k.get("key") else set()
        before_t, before_k = t, k
        plan, before = lake.plan(), reads(spark, lake)
        assert {line.split(":")[0] for line in plan} == rebuilt | read_again, (name, plan)
        run(*(f"INSERT INTO {table} (id, n) VALUES ({number}, {number})" for table in "tu"))
        run(f"INSERT INTO k VALUES ({number}, {number}, 0)", "UPDATE k SET n = n + 1, b = b + 1")
        run("UPDATE t SET n = n + 1", "DELETE FROM t WHERE id = 2")
        report = lake.run(once=True)
        assert [notice for notice in report.notices if notice in plan] == plan, name
        verified = lake.verify()
        assert verified.verified, (name, verified.to_json())
        assert len(verified.tables) == 3
        assert lake.status().healthy, name
        assert lake.plan() == []
        assert reads(spark, lake) == before | {table: before[table] + number for table in read_again}
    assert not [path for path in (tmp_path / "lakehouse" / "silver").iterdir() if "__rebuilt" in path.name]


def reads(spark: SparkSession, lake: Any) -> dict[str, int]:
    return dict(bronze(spark, lake).where("op = 'r'").groupBy("source_table").count().collect())


@pytest.mark.long
def test_the_history_is_that_of_bronze(
    spark: SparkSession, mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path
) -> None:
    """Nothing of it is lost for the time in which silver held the rows of now; without new rows, too."""
    run("CREATE TABLE t (id INT PRIMARY KEY, n INT)", "INSERT INTO t VALUES (1, 0)")
    lake = pipeline(spark, mysql, database, tmp_path)
    lake.run(once=True)
    for n in (1, 2, 3):
        run(f"UPDATE t SET n = {n}")
    lake.run(once=True)
    lake = pipeline(spark, mysql, database, tmp_path, tables={f"{database}.t": {"scd": 2}})
    [sentence] = lake.plan()
    assert "built again from bronze" in sentence
    report = lake.run(once=True)
    assert sentence in report.notices
    silver = spark.read.format("delta").load(str(lake.layout.silver_table(f"{database}.t")))
    assert sorted(row["n"] for row in silver.collect()) == [0, 1, 2, 3]
    assert lake.verify().verified


@pytest.mark.long
def test_a_table_that_several_go_into_keeps_its_form(
    spark: SparkSession, mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path
) -> None:
    """Its parts are quarantined, nobody else is, and the hint says what can be done."""
    run(*(f"CREATE TABLE {table} (id INT PRIMARY KEY, n INT)" for table in ("p1", "p2", "t")))
    run(*(f"INSERT INTO {table} VALUES (1, 1)" for table in ("p1", "p2", "t")))
    lake = pipeline(spark, mysql, database, tmp_path, tables={f"{database}.p?": {"into": "p"}})
    lake.run(once=True)
    run(*(f"INSERT INTO {table} VALUES (2, 2)" for table in ("p1", "p2", "t")))
    lake = pipeline(spark, mysql, database, tmp_path, tables={f"{database}.p?": {"into": "p", "scd": 2}})
    assert lake.plan() == []
    lake.run(once=True)
    status = lake.status()
    assert {name.split(".")[1] for name, table in status.tables.items() if table.quarantined} == {"p1", "p2"}
    assert status.tables[f"{database}.t"].quarantined is None or not status.tables[f"{database}.t"].quarantined
    place = lake.layout.silver_table(f"{database}.p1")
    Path(place.path or "").rename(tmp_path / "moved away")
    run(*(f"INSERT INTO {table} VALUES (3, 3)" for table in ("p1", "p2", "t")))
    lake = pipeline(spark, mysql, database, tmp_path, tables={f"{database}.p?": {"into": "p", "scd": 2}})
    lake.run(once=True)
    assert lake.status().healthy
    assert lake.verify().verified


@pytest.mark.long
@pytest.mark.parametrize("by", ["configuration", "server"])
def test_a_table_without_a_key_is_given_one(
    spark: SparkSession, mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path, by: str
) -> None:
    """Until then silver holds it as a multiset; after the read that follows, by its key."""
    run("CREATE TABLE k (a INT NOT NULL, n INT)", "INSERT INTO k VALUES (1, 1), (2, 2), (3, 3)")
    run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    lake = pipeline(spark, mysql, database, tmp_path)
    lake.run(once=True)
    run("UPDATE k SET n = 20 WHERE a = 2", "DELETE FROM k WHERE a = 3")
    lake.run(once=True)
    silver = str(lake.layout.silver_table(f"{database}.k"))
    assert "_row_copy" in spark.read.format("delta").load(silver).columns
    assert lake.verify().verified
    if by == "server":
        run("ALTER TABLE k ADD PRIMARY KEY (a)")
    else:
        lake = pipeline(spark, mysql, database, tmp_path, tables={f"{database}.k": {"key": ["a"]}})
        assert lake.plan() == [f"{database}.k: its key is (a); the table is read again"]
    run("INSERT INTO k VALUES (4, 4)", "UPDATE k SET n = 10 WHERE a = 1")
    lake.run(once=True)
    verified = lake.verify()
    assert verified.verified, verified.to_json()
    assert len(verified.tables) == 2
    rows = spark.read.format("delta").load(silver)
    assert "_row_copy" not in rows.columns
    assert sorted((row["a"], row["n"]) for row in rows.collect()) == [(1, 10), (2, 20), (4, 4)]


@pytest.mark.long
def test_a_key_is_taken_away_and_given_again(
    spark: SparkSession, mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path
) -> None:
    """Silver continues as a multiset, and with the key again; nothing else is read again."""
    run("CREATE TABLE k (a INT NOT NULL, n INT)", "INSERT INTO k VALUES (1, 1), (2, 2)")
    run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    keyed = {f"{database}.k": {"key": ["a"]}}
    pipeline(spark, mysql, database, tmp_path, tables=keyed).run(once=True)
    run("INSERT INTO k VALUES (3, 3)", "INSERT INTO t VALUES (2)")
    lake = pipeline(spark, mysql, database, tmp_path)
    assert lake.plan() == [f"{database}.k: it has no key any more; the table is read again"]
    lake.run(once=True)
    assert lake.status().healthy
    assert lake.verify().verified
    run("INSERT INTO k VALUES (3, 3)", "UPDATE k SET n = 10 WHERE a = 3 LIMIT 1", "INSERT INTO t VALUES (3)")
    lake.run(once=True)
    assert lake.verify().verified
    run("DELETE FROM k WHERE n = 10")
    lake = pipeline(spark, mysql, database, tmp_path, tables=keyed)
    lake.run(once=True)
    assert lake.status().healthy
    verified = lake.verify()
    assert verified.verified, verified.to_json()
    assert reads(spark, lake)[f"{database}.t"] == 1
    assert len(verified.tables) == 2
