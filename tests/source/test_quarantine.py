"""A table that cannot be followed any more is left off, by name and with the reason, and the others go on."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.model.changelog import Op, fold
from lakehouse_cdc.source.requests.requests import Signals
from lakehouse_cdc.source.test_hooks import Step
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage

LABELLED = ["ALTER TABLE t ADD COLUMN e ENUM('a') CHARACTER SET binary"]
TWICE = ["ALTER TABLE t ADD COLUMN total TIMESTAMP", "ALTER TABLE t MODIFY v BIGINT"]  # NULL or not: a setting says it
VIRTUAL = ["ALTER TABLE t ADD COLUMN seen INT AS (v / 2) VIRTUAL"]
MENDED = {
    LABELLED[0]: "ALTER TABLE t DROP COLUMN e",
    VIRTUAL[0]: "ALTER TABLE t DROP COLUMN seen",
}


def state(stage: Stage, driver: Driver, table: str = "t") -> dict[str, Any]:
    found: dict[str, Any] = driver.offset["tables"][stage.name(table)]
    return found


def mend(stage: Stage, driver: Driver) -> None:
    Signals(driver.options["schemaFolder"]).request(stage.name())
    stage.drain_twice(driver)


def changed(driver: Driver, stage: Stage) -> list[str]:
    """What the s rows of the table say, but for its first."""
    found = [c for c in driver.log if c.op is Op.SCHEMA and c.before is not None and c.table == stage.name()]
    return [dict(c.after).get("quarantined", "changed") for c in found]


@pytest.mark.parametrize("ddl", [LABELLED, VIRTUAL])
def test_one_table_is_left_off_and_the_others_go_on(stage: Stage, ddl: list[str]) -> None:
    stage.create(rows=12)
    stage.create("u", rows=3)
    driver = stage.driver(generated="fail")
    stage.snapshot(driver)
    stage.run("UPDATE t SET v = 1")
    before = stage.images()
    for sql in ddl:
        stage.run(sql)
    stage.run("UPDATE t SET v = 2")
    stage.run("UPDATE u SET v = 2")
    stage.drain_twice(driver)
    stage.same_rows(driver, "u")
    assert {image for (table, _), (_, image) in fold(driver.log).items() if table == stage.name()} == set(before)
    [reason] = changed(driver, stage)
    assert reason == state(stage, driver)["quarantined"]
    assert ("column e" in reason, "virtual" in reason) == tuple(ddl is one for one in (LABELLED, VIRTUAL))
    driver.restart()
    stage.run("UPDATE t SET v = 3")
    stage.run("UPDATE u SET v = 3")
    stage.drain_twice(driver)
    stage.same_rows(driver, "u")
    mend(stage, driver)  # which does not help yet
    assert state(stage, driver)["quarantined"] == reason
    stage.run(MENDED[ddl[0]])
    stage.drain_twice(driver)
    assert state(stage, driver)["quarantined"] == reason
    mend(stage, driver)
    assert "quarantined" not in state(stage, driver)
    stage.run("DELETE FROM t WHERE id = 10")
    stage.drain_twice(driver)
    stage.same_rows(driver, "t", "u")
    assert changed(driver, stage) == [reason, "changed"]
    assert not Signals(driver.options["schemaFolder"]).requests()


@pytest.mark.parametrize("masked", [False, True])
def test_one_that_cannot_be_followed_in_a_backlog_is_read_again(stage: Stage, masked: bool) -> None:
    """Unless a column is masked: what it is called by now is not known, so somebody has to say so."""
    stage.create(rows=12)
    stage.create("u", rows=3)
    stage.run("ALTER TABLE t ADD COLUMN secret INT")
    driver = stage.driver(masks='{"*.t": {"secret": null}}' if masked else "{}")
    stage.snapshot(driver)
    for sql in (
        "UPDATE t SET v = 1",
        *TWICE,
        "UPDATE t SET v = 2",
        "UPDATE u SET v = 2",
        "DELETE FROM t WHERE id < 20",
    ):
        stage.run(sql)
    stage.drain(driver)  # by one process
    reason = state(stage, driver).get("quarantined", "")
    assert ("altered again since" in reason) == masked
    if masked:
        mend(stage, driver)
    stage.same_rows(driver, "t", "u")
    stage.run("UPDATE t SET v = 3 WHERE id = 20")
    stage.drain_twice(driver)
    stage.same_rows(driver, "t", "u")
    assert changed(driver, stage) == [reason or "changed", "changed"]


@pytest.mark.parametrize("step", [*Step, None])
@pytest.mark.parametrize("batch", [2, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 4))])
def test_at_any_moment(stage: Stage, at: Callable[..., None], step: Step | None, batch: int) -> None:
    stage.create(rows=30)
    stage.create("u", rows=30)
    driver = stage.driver(generated="fail")
    for _ in range(batch - 1):
        driver.batch()
        stage.run("UPDATE t SET v = v + 1")

    def act() -> None:
        stage.run("UPDATE u SET v = v + 1")
        stage.run(VIRTUAL[0])

    if step is not None:
        at(step, act)
    driver.batch()
    if step is None:
        act()
    stage.drain_twice(driver)
    assert "virtual" in state(stage, driver)["quarantined"]
    stage.same_rows(driver, "u")
    stage.run(MENDED[VIRTUAL[0]])
    mend(stage, driver)
    stage.same_rows(driver, "t", "u")


def test_a_table_that_is_born_so(stage: Stage) -> None:
    stage.create("u", rows=3)
    driver = stage.driver()
    stage.snapshot(driver)
    stage.run("CREATE TABLE t (id ENUM('', '1') PRIMARY KEY, v INT)")
    stage.run("INSERT INTO t VALUES ('1', 1)")
    stage.run("UPDATE u SET v = 2")
    stage.drain_twice(driver)
    assert "an empty label" in state(stage, driver)["quarantined"]
    assert not [c for c in driver.log if c.table == stage.name()]
    driver.restart()
    stage.run("ALTER TABLE t MODIFY id INT")
    stage.run("UPDATE u SET v = 3")
    stage.drain_twice(driver)
    mend(stage, driver)
    stage.run("UPDATE t SET v = 2")
    stage.drain_twice(driver)
    stage.same(driver, "t", "u")
    assert not Signals(driver.options["schemaFolder"]).requests()


@pytest.mark.one_server
@pytest.mark.parametrize("gone", ["DROP TABLE t", "RENAME TABLE t TO {other}.t"])
@pytest.mark.parametrize("born", [True, False])
def test_the_quarantine_of_one_that_is_dropped_ends(any_stage: Stage, gone: str, born: bool) -> None:
    """And a new table of its name is another one, whether the stream sees it come or it is there at once."""
    stage = any_stage
    other = f"{stage.database}_other"
    stage.run(f"CREATE DATABASE {other}")
    stage.create(rows=3)
    stage.create("u", rows=3)
    driver = stage.driver()
    stage.snapshot(driver)
    stage.run(LABELLED[0])
    stage.run("INSERT INTO t (id) VALUES (7)")
    stage.drain_twice(driver)
    assert "quarantined" in state(stage, driver)
    stage.run(gone.format(other=other))
    if born:
        stage.drain_twice(driver)
        assert "quarantined" not in state(stage, driver)
    stage.run(f"DROP DATABASE {other}")
    stage.create(rows=2, first=100)
    stage.run("UPDATE u SET v = 3")
    stage.drain_twice(driver)
    assert "quarantined" not in state(stage, driver)
    stage.same_rows(driver, "t", "u")


GONE_AND_BACK = {
    "rename": ["CREATE TABLE {b}.x (id INT PRIMARY KEY, v INT)", "DROP TABLE {a}.t", "RENAME TABLE {b}.x TO {a}.t"],
    "replace": ["CREATE OR REPLACE TABLE {a}.t (id INT PRIMARY KEY, v INT)"],
    "database": ["DROP DATABASE {a}", "CREATE DATABASE {a}", "CREATE TABLE {a}.t (id INT PRIMARY KEY, v INT)"],
}


@pytest.mark.parametrize("snapshot", ["initial", "never"])
@pytest.mark.parametrize("how", GONE_AND_BACK)
def test_another_table_of_its_name_is_captured_without_what_it_held(any_stage: Stage, how: str, snapshot: str) -> None:
    """All in one backlog: it is gone before the other one is there."""
    stage = any_stage
    if how == "replace" and not stage.server.version.startswith("mariadb"):
        pytest.skip("MySQL has no CREATE OR REPLACE TABLE")
    a, b = f"{stage.database}_a", f"{stage.database}_b"
    t = f"{a}.t"
    for database in (a, b):
        stage.run(f"CREATE DATABASE {database}")
    try:
        stage.run(f"CREATE TABLE {t} (id INT PRIMARY KEY, v INT)")
        stage.create("u", rows=3)
        driver = stage.driver(snapshot=snapshot, tables=f"{stage.database}.*,{a}.*")
        stage.drain(driver)
        stage.run(f"INSERT INTO {t} VALUES (1, 1), (2, 2)")
        stage.run(LABELLED[0].replace("TABLE t", f"TABLE {t}"))
        stage.run("UPDATE u SET v = 1")
        stage.drain_twice(driver)
        assert "quarantined" in driver.offset["tables"][t]
        for sql in GONE_AND_BACK[how]:
            stage.run(sql.format(a=a, b=b))
        stage.run(f"INSERT INTO {t} VALUES (100, 100)")
        stage.run("UPDATE u SET v = 2")
        stage.drain_twice(driver)
        assert "quarantined" not in driver.offset["tables"][t]
        stage.run(f"INSERT INTO {t} VALUES (101, 101)")
        stage.drain_twice(driver)
    finally:
        for database in (a, b):
            stage.run(f"DROP DATABASE IF EXISTS {database}")
    held = {dict(image)["id"] for (table, _), (_, image) in fold(driver.log).items() if table == t}
    assert held == ({101} if snapshot == "never" else {100, 101})


@pytest.mark.parametrize("ddl", ["ALTER TABLE t ADD COLUMN n INT", LABELLED[0], "DROP TABLE t", "RENAME TABLE t TO u"])
def test_where_the_user_says_so_the_stream_stops_instead(stage: Stage, ddl: str) -> None:
    stage.create(rows=3)
    stage.create("w", rows=3)
    driver = stage.driver(schemaChanges=json.dumps({f"{stage.database}.*": "stop", stage.name("w"): "evolve"}))
    stage.snapshot(driver)
    stage.run("ALTER TABLE w ADD COLUMN n INT")
    stage.run("CREATE INDEX i ON t (v)")
    stage.run("UPDATE t SET v = 1")
    stage.run("UPDATE w SET v = 1")
    stage.run(ddl)
    for _ in range(2):
        with pytest.raises(DefiniteError, match=f"{ddl.split()[0]} TABLE.*schema_changes is stop"):
            driver.batches(9)
        driver.restart()
    assert sum(c.op is Op.UPDATE for c in driver.log) == 6
    driver.options["schemaChanges"] = "{}"
    driver.restart()
    stage.run("UPDATE w SET v = 5")
    stage.drain_twice(driver)
    stage.same(driver, "w")
    assert set(driver.offset["tables"]) >= {stage.name(), stage.name("w")}


def test_a_new_table_that_cannot_be_captured_stops_it_too(stage: Stage) -> None:
    stage.create(rows=3)
    driver = stage.driver(schemaChanges=json.dumps({"*.*": "stop"}))
    stage.snapshot(driver)
    stage.run("CREATE TABLE floating (v ENUM('') PRIMARY KEY)")
    stage.run("UPDATE t SET v = 2")
    with pytest.raises(DefiniteError, match=r"floating holds v enum.*: an ENUM with an empty label"):
        driver.batches(2)
    stage.run("DROP TABLE floating")
    stage.drain(driver)
    stage.same(driver)


UNFIT = {  # what cannot be captured, a word of the reason, and what helps
    "labelled": (
        "CREATE TABLE labelled (id ENUM('1', '2', '') PRIMARY KEY, v INT)",
        "an empty label",
        "MODIFY id BIGINT NOT NULL",
    ),
    "dependent": (
        "CREATE TABLE dependent (id INT PRIMARY KEY, v INT, seen INT AS (v / 2) VIRTUAL)",
        "generated column",
        "DROP COLUMN seen",
    ),
}


@pytest.mark.every_server
def test_a_first_start_leaves_off_what_cannot_be_captured(any_stage: Stage) -> None:
    stage = any_stage
    stage.create(rows=12)
    for table, (ddl, _, _) in UNFIT.items():
        stage.run(ddl)
        stage.run(f"INSERT INTO `{table}` (id, v) VALUES (1, 1), (2, 2)")
    driver = stage.driver(generated="fail")
    driver.batch()
    reasons = {table: state(stage, driver, table).get("quarantined") for table in UNFIT}
    for table, (_, word, _) in UNFIT.items():
        assert word in (reasons[table] or ""), table
    for table in ("t", *UNFIT):
        stage.run(f"UPDATE `{table}` SET v = v + 1")
    stage.drain_twice(driver)
    stage.same_rows(driver, "t")
    assert {change.table for change in driver.log} == {stage.name()}
    driver.restart()
    fixed = {table: alter for table, (_, _, alter) in UNFIT.items()}
    for table, alter in fixed.items():
        stage.run(f"ALTER TABLE `{table}` {alter}")
        Signals(driver.options["schemaFolder"]).request(stage.name(table))
    stage.drain_twice(driver)
    for table in ("t", *fixed):
        stage.run(f"DELETE FROM `{table}` WHERE id < 2")
    stage.drain_twice(driver)
    for table in ("t", *fixed):
        stage.same_rows(driver, table)
    assert not Signals(driver.options["schemaFolder"]).requests()
    assert [table for table in UNFIT if "quarantined" in state(stage, driver, table)] == []


@pytest.mark.parametrize("alone", [True, False])
def test_a_first_start_fails_where_no_table_is_left_or_the_table_may_not_be_left_off(stage: Stage, alone: bool) -> None:
    stage.run(UNFIT["labelled"][0])
    if not alone:
        stage.create()
    more: Any = {} if alone else {"schemaChanges": json.dumps({stage.name("labelled"): "stop"})}
    with pytest.raises(DefiniteError, match="an empty label") as caught:
        stage.driver(**more).batch()
    assert caught.value.code is codes.KEY_UNUSABLE


def test_one_that_the_user_may_not_see_any_more_stays_so(stage: Stage) -> None:
    """It is not known to be gone."""
    stage.create(rows=3)
    stage.create("u", rows=3)
    user = f"'{stage.database}'@'127.0.0.1'"
    stage.run(f"CREATE USER {user} IDENTIFIED BY 'seen'")
    stage.run(f"GRANT REPLICATION SLAVE, REPLICATION CLIENT, PROCESS ON *.* TO {user}")
    for table in ("t", "u", "w"):
        stage.run(f"CREATE TABLE IF NOT EXISTS {table} (id INT PRIMARY KEY)")
        stage.run(f"GRANT SELECT ON {stage.database}.{table} TO {user}")
    driver = stage.driver(url=f"mysql://{stage.database}@127.0.0.1:{stage.server.port}", password="seen")
    try:
        stage.snapshot(driver)
        stage.run(LABELLED[0])
        stage.drain_twice(driver)
        assert "quarantined" in state(stage, driver)
        stage.run(f"REVOKE SELECT ON {stage.database}.t FROM {user}")
        stage.run("DROP TABLE w")
        stage.run("CREATE TABLE w (id INT PRIMARY KEY) SELECT 1 AS id")
        stage.drain_twice(driver)
        assert "quarantined" in state(stage, driver)
        stage.same_rows(driver, "u", "w")
    finally:
        stage.run(f"DROP USER {user}")
