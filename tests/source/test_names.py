"""Tables that are dropped, renamed, replaced and made anew: what has the name is what is captured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakehouse_cdc.model.changelog import Op, fold
from lakehouse_cdc.source.test_hooks import Step
from tests.support.servers import new_database
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage

MORE = "INSERT INTO t (id, v) VALUES (1, 1), (2, 2)"
BORN = "CREATE TABLE t (id INT PRIMARY KEY, v INT)"
OTHER = "CREATE TABLE t (v VARCHAR(20), id BIGINT NOT NULL, w INT DEFAULT 3, PRIMARY KEY (id))"
# the cut-over of each tool, as it runs it; the triggers that one of them sets are not needed here
GH_OST = [
    "CREATE TABLE _t_gho LIKE t", "ALTER TABLE _t_gho ADD COLUMN w BIGINT NOT NULL DEFAULT 7",
    "CREATE TABLE _t_ghc (id BIGINT AUTO_INCREMENT PRIMARY KEY, hint VARCHAR(64))",
    "INSERT IGNORE INTO _t_gho (id, v) SELECT id, v FROM t", "CREATE TABLE _t_del (id INT PRIMARY KEY)",
    "DROP TABLE _t_del", "RENAME TABLE t TO _t_del, _t_gho TO t", "DROP TABLE _t_del", "DROP TABLE _t_ghc",
]  # fmt: skip
PT_OSC = [
    "CREATE TABLE _t_new LIKE t", "ALTER TABLE _t_new ADD COLUMN w BIGINT NOT NULL DEFAULT 7, DROP COLUMN v",
    "INSERT LOW_PRIORITY IGNORE INTO _t_new (id) SELECT id FROM t", "RENAME TABLE t TO _t_old, _t_new TO t",
    "DROP TABLE IF EXISTS _t_old",
]  # fmt: skip


def changed(driver: Driver, stage: Stage, table: str = "t") -> list[tuple[Any, bool]]:
    """(statement, is it a drop) of each change of the table that bronze holds."""
    found = [c for c in driver.log if c.op is Op.SCHEMA and c.before is not None and c.table == stage.name(table)]
    return [(dict(c.after)["statement"], "dropped" in dict(c.after)) for c in found]


def rows(driver: Driver, stage: Stage, table: str = "t") -> int:
    return sum(name == stage.name(table) for name, _ in fold(driver.log))


def finish(stage: Stage, driver: Driver, *tables: str) -> None:
    """All that is there, each batch executed twice; then bronze is the source, in all tables."""
    stage.drain_twice(driver)
    assert all(state["done"] for state in driver.offset["tables"].values())
    stage.same_rows(driver, *(tables or ("t",)))


@pytest.mark.parametrize("ddl", ["DROP TABLE t", "DROP TABLE IF EXISTS nothing, t", "RENAME TABLE t TO other.t"])
def test_a_table_that_is_gone_keeps_its_rows(stage: Stage, ddl: str) -> None:
    stage.create(rows=12)
    stage.create("u", rows=3)
    driver = stage.driver()
    stage.snapshot(driver)
    with new_database(stage.server) as elsewhere:
        ddl = ddl.replace("other", elsewhere)
        stage.run("UPDATE t SET v = 5 WHERE id < 30")
        before = stage.images()
        stage.run(ddl)
        stage.run("UPDATE u SET v = 7")
        finish(stage, driver, "u")
    [(said, dropped)] = changed(driver, stage)
    assert said.split()[0] == ddl.split()[0]  # the server writes some statements in words of its own
    assert dropped
    assert rows(driver, stage) == len(before)
    driver.restart()
    stage.run("UPDATE u SET v = 8")
    finish(stage, driver, "u")


@pytest.mark.parametrize("step", [*Step, None])
@pytest.mark.parametrize("again", [(), (BORN, MORE), (OTHER, MORE)])
@pytest.mark.parametrize("batch", [*(pytest.param(n, marks=pytest.mark.long) for n in (1, 2)), 4])
def test_dropped_at_any_moment(
    stage: Stage, at: Callable[..., None], step: Step | None, again: tuple[str, ...], batch: int
) -> None:
    stage.create(rows=30)
    stage.create("u", rows=3)
    driver = stage.driver()
    for _ in range(batch - 1):
        driver.batch()
        stage.run("UPDATE t SET v = v + 1")

    def act() -> None:
        stage.run("UPDATE t SET v = v + 1")
        for sql in ("DROP TABLE t", *again):
            stage.run(sql)

    if step is not None:
        at(step, act)
    driver.batch()
    if step is None:
        act()
    finish(stage, driver, *(["t", "u"] if again else ["u"]))
    if again:
        stage.run("DELETE FROM t WHERE id = 1")
        finish(stage, driver, "t", "u")
    elif stage.name() in driver.offset["tables"]:
        assert driver.offset["tables"][stage.name()]["dropped"]


@pytest.mark.parametrize("step", [*Step, None])
@pytest.mark.parametrize("tool", [GH_OST, PT_OSC])
def test_an_online_schema_change(stage: Stage, at: Callable[..., None], step: Step | None, tool: list[str]) -> None:
    stage.create(rows=30)
    driver = stage.driver()
    driver.batch()

    def act() -> None:
        for sql in tool:
            stage.run(sql)
            if "RENAME" not in sql:
                stage.run("UPDATE t SET id = id + 1 WHERE id = 290")

    if step is not None:
        at(step, act)
        stage.run("UPDATE t SET v = v + 1")
    else:
        act()
    driver.batch()
    stage.run("INSERT INTO t (id, w) VALUES (5, 5)")
    finish(stage, driver)
    [(statement, dropped)] = changed(driver, stage)
    assert statement.startswith("RENAME TABLE")
    assert not dropped
    assert set(driver.offset["tables"]) == {stage.name()}


def test_swaps_and_chains(any_stage: Stage) -> None:
    stage = any_stage
    for n, table in enumerate(("t", "u", "w")):
        stage.create(table, rows=4 + n)
    driver = stage.driver()
    stage.snapshot(driver)
    stage.run("RENAME TABLE t TO x, u TO t, x TO u")
    stage.run("INSERT INTO t (id, v) VALUES (99, 1)")
    finish(stage, driver, "t", "u", "w")
    stage.run("RENAME TABLE w TO x, t TO w, x TO t, u TO x")
    stage.run("DELETE FROM w WHERE id = 99")
    finish(stage, driver, "t", "w", "x")
    stage.run("RENAME TABLE w TO y, y TO w")
    finish(stage, driver, "t", "w", "x")
    assert [dropped for _, dropped in changed(driver, stage, "u")] == [False, True]
    assert [dropped for _, dropped in changed(driver, stage, "w")] == [False]
    assert rows(driver, stage, "u") == 4


def test_a_backlog_of_names(any_stage: Stage) -> None:
    """All of it found at once, later: what a name stood for meanwhile cannot be told, what it stands for now can."""
    stage = any_stage
    stage.create(rows=5)
    stage.create("u", rows=3)
    driver = stage.driver()
    stage.snapshot(driver)
    for sql in (
        MORE, "DROP TABLE t", BORN, MORE, "ALTER TABLE t ADD c INT DEFAULT 4", "RENAME TABLE t TO t2", OTHER, MORE,
        "RENAME TABLE u TO u2, t2 TO u", "ALTER TABLE u ADD d INT", "UPDATE u SET d = 5", "DROP TABLE u2",
    ):  # fmt: skip
        stage.run(sql)
        stage.run("FLUSH BINARY LOGS")
    finish(stage, driver, "t", "u")
    stage.run("INSERT INTO u (id) VALUES (77)")
    finish(stage, driver, "t", "u")


def test_a_database_that_is_dropped_and_made_anew(stage: Stage) -> None:
    stage.create(rows=5)
    stage.create("u", rows=3)
    driver = stage.driver()
    stage.snapshot(driver)
    stage.run(MORE)
    stage.run(f"DROP DATABASE {stage.database}")
    while driver.batch():
        pass
    assert [state["dropped"] for state in driver.offset["tables"].values()] == [True, True]
    assert rows(driver, stage) == 7
    stage.run(f"CREATE DATABASE {stage.database}")
    stage.connection.select_db(stage.database)
    stage.run(OTHER)
    stage.run(MORE)
    finish(stage, driver)
    assert [dropped for _, dropped in changed(driver, stage)] == [True, False]


def test_replaced_by_what_was_not_captured(stage: Stage) -> None:
    """Also where the name alone is captured, so that nothing matches for a while."""
    stage.create(rows=5)
    stage.run(OTHER.replace("TABLE t", "TABLE u"))
    stage.run("INSERT INTO u (id, v) VALUES (10, 'ten')")
    driver = stage.driver(tables=stage.name())
    stage.snapshot(driver)
    stage.run("DROP TABLE t")
    driver.batches(2)
    driver.restart()
    driver.batches(2)
    stage.run("RENAME TABLE u TO t")
    stage.run("UPDATE t SET w = 9")
    finish(stage, driver)
    assert set(driver.offset["tables"]) == {stage.name()}


def test_a_table_of_which_nothing_was_read_is_forgotten(stage: Stage) -> None:
    stage.create(rows=5)
    stage.create("u", rows=3)
    driver = stage.driver(chunksPerTrigger="1")
    assert driver.plan()
    assert driver.planned is not None
    waiting = [name for name, state in driver.planned[1]["tables"].items() if not (state["cursor"] or state["done"])]
    assert waiting == [stage.name("u")]
    driver.batch()
    stage.run("DROP TABLE u")
    finish(stage, driver)
    assert set(driver.offset["tables"]) == {stage.name()}
    assert changed(driver, stage, "u") == []


def test_without_a_snapshot_the_rows_of_one_that_is_gone_go_when_the_next_comes(stage: Stage) -> None:
    stage.create(rows=5)
    driver = stage.driver(snapshot="never")
    driver.batch()
    stage.run(MORE)
    stage.run("DROP TABLE t")
    while driver.batch():
        pass
    assert rows(driver, stage) == 2
    stage.run(BORN)
    while driver.batch():
        pass
    stage.run("INSERT INTO t VALUES (9, 9)")
    stage.drain(driver)
    stage.same_rows(driver)


def all_now(driver: Driver, **options: str) -> Driver:
    """A stream that goes on where `driver` stands, and ends with what is there."""
    driver.stop()
    more = Driver({**driver.options, **options}, offset=driver.offset, log=driver.log, available_now=True)
    while more.batch():
        pass
    more.stop()
    return more


def test_what_is_there_now_are_also_tables_that_came_back_in_the_last_batch(stage: Stage) -> None:
    stage.create(rows=5)
    stage.create("u", rows=3)
    driver = stage.driver()
    stage.snapshot(driver)
    stage.drain(driver)
    for sql in ("RENAME TABLE t TO _t_old", "RENAME TABLE _t_old TO t", "ALTER TABLE u ADD c INT"):
        stage.run(sql)
    now = all_now(driver)
    stage.same_rows(now, "t", "u")
    assert "dropped" not in now.offset["tables"][stage.name()]


def test_what_is_there_now_are_also_tables_that_are_newly_asked_for(stage: Stage) -> None:
    """Nothing happens at the source meanwhile."""
    stage.create(rows=5)
    stage.create("u", rows=3)
    driver = stage.driver(tables=stage.name())
    stage.snapshot(driver)
    stage.drain(driver)
    now = all_now(driver, tables=f"{stage.database}.*")
    stage.same_rows(now, "t", "u")
    assert all_now(now).offset == now.offset
