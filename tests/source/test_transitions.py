"""DDL that the stream follows: TRUNCATE, and what changes rows without saying how, at every moment of the algorithm."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lakehouse_cdc.model.changelog import Op, fold
from lakehouse_cdc.source.requests.requests import Signals
from lakehouse_cdc.source.test_hooks import Step
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage

PARTITIONS = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (60), PARTITION p1 VALUES LESS THAN MAXVALUE)"
AGAIN = ["TRUNCATE PARTITION p0", "DROP PARTITION p0", "EXCHANGE PARTITION p0 WITH TABLE away.u"]


@pytest.fixture
def away(stage: Stage) -> Iterator[None]:
    """A table that is not captured, with a row that `t` may get."""
    stage.run("CREATE DATABASE away")
    stage.run("CREATE TABLE away.u (id INT PRIMARY KEY, v INT)")
    stage.run("INSERT INTO away.u VALUES (7, 7)")
    yield
    stage.run("DROP DATABASE away")


def finish(stage: Stage, driver: Driver) -> None:
    """Some more of everything, each batch executed twice; then bronze is the source."""
    stage.run("INSERT INTO t VALUES (1, 1), (61, 5)")
    while driver.batch(between=lambda: None):
        pass
    stage.run("UPDATE t SET v = v + 1")
    stage.drain(driver)
    assert all(state["done"] for state in driver.offset["tables"].values())
    if any(change.op is Op.END for change in driver.log):
        stage.same_rows(driver)  # rows that the log says nothing of are no valid changelog until they are read again
    else:
        stage.same(driver)


@pytest.mark.parametrize("step", [*Step, None])
@pytest.mark.parametrize("batch", [2, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 3))])
def test_truncate_at_any_moment(stage: Stage, at: Callable[..., None], step: Step | None, batch: int) -> None:
    stage.create(rows=30)
    driver = stage.driver()
    for _ in range(batch - 1):
        driver.batch()
        stage.run("UPDATE t SET v = v + 1")

    def act() -> None:
        stage.run("TRUNCATE TABLE t")
        stage.run("INSERT INTO t VALUES (0, 9), (10, 9), (100, 9), (280, 9)")

    if step is not None:
        at(step, act)
    driver.batch()
    if step is None:
        act()
    finish(stage, driver)


def test_truncated_again_and_again_in_a_backlog(any_stage: Stage) -> None:
    stage = any_stage
    stage.create(rows=12)
    stage.create("other", rows=12)
    driver = stage.driver()
    stage.snapshot(driver)
    for n in range(3):
        stage.run("UPDATE t SET v = v + 1")
        stage.run(f"INSERT INTO other VALUES ({n + 1}, 1)")
        stage.run("TRUNCATE t" if n != 1 else f"truncate table `{stage.database}`.`t` -- away")
        stage.run(f"INSERT INTO t VALUES ({n + 1}, 1), ({n + 2}, 2)")
        stage.run("FLUSH BINARY LOGS")
    stage.drain(driver)
    stage.same(driver, "t", "other")
    assert [change.op for change in driver.log if change.op is Op.TRUNCATE] == [Op.TRUNCATE] * 3


def test_a_snapshot_alone_ends_when_no_ddl_can_have_been_met(stage: Stage, at: Callable[..., None]) -> None:
    stage.create(rows=8)
    driver = stage.driver(snapshot="only", chunksPerTrigger="9")

    def act() -> None:
        stage.run("TRUNCATE TABLE t")
        stage.run("INSERT INTO t VALUES (5, 5)")

    at(Step.BEFORE_SELECT, act)
    while driver.batch():
        pass
    stage.same(driver)


@pytest.mark.usefixtures("away")
@pytest.mark.parametrize("step", [*Step, None])
@pytest.mark.parametrize("ddl", AGAIN)
def test_rows_that_change_without_a_word_are_read_again(
    stage: Stage, at: Callable[..., None], step: Step | None, ddl: str
) -> None:
    stage.run(f"CREATE TABLE t (id INT PRIMARY KEY, v INT) {PARTITIONS}")
    stage.run(f"INSERT INTO t VALUES {', '.join(f'({10 * i}, 0)' for i in range(12))}")
    driver = stage.driver()
    driver.batch()

    def act() -> None:
        stage.run("UPDATE t SET v = v + 1")
        stage.run(f"ALTER TABLE t {ddl}")

    if step is not None:
        at(step, act)
    driver.batch()
    if step is None:
        stage.snapshot(driver)
        act()
    finish(stage, driver)
    assert driver.log[-1].op is not Op.READ
    assert [change.op for change in driver.log].count(Op.END) <= 1


@pytest.mark.usefixtures("away")
def test_a_table_that_is_read_again_twice(stage: Stage) -> None:
    stage.run(f"CREATE TABLE t (id INT PRIMARY KEY, v INT) {PARTITIONS}")
    stage.run(f"INSERT INTO t VALUES {', '.join(f'({10 * i}, 0)' for i in range(30))}")
    driver = stage.driver()
    stage.snapshot(driver)
    stage.run("ALTER TABLE t TRUNCATE PARTITION p0")
    driver.batch()
    driver.batch()
    stage.run("UPDATE t SET v = 4")
    stage.run("ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE away.u")
    finish(stage, driver)
    stage.run("TRUNCATE TABLE t")
    finish(stage, driver)


def test_windows_begin_behind_ddl(stage: Stage) -> None:
    """Though the floor, which here takes its time, is far behind."""
    stage.create(rows=30)
    driver = stage.driver(settle="age", settleSeconds="2")
    driver.batch()
    stage.run("UPDATE t SET v = 1")
    stage.run("TRUNCATE TABLE t")
    stage.run("INSERT INTO t VALUES (5, 5), (500, 5)")
    finish(stage, driver)
    assert driver.offset["floor"] < driver.offset["tables"][stage.name()]["floor"]


def test_a_pass_ends_when_no_ddl_can_have_been_met(stage: Stage, at: Callable[..., None]) -> None:
    stage.run(f"CREATE TABLE t (id INT PRIMARY KEY, v INT) {PARTITIONS}")
    stage.run(f"INSERT INTO t VALUES {', '.join(f'({10 * i}, 0)' for i in range(12))}")
    driver = stage.driver(chunkRows="6", chunksPerTrigger="1")
    stage.snapshot(driver)
    Signals(driver.options["schemaFolder"]).request(stage.name())
    while not driver.offset["tables"][stage.name()]["cursor"]:
        stage.run("UPDATE t SET v = 1 WHERE id = 110")
        driver.batch()
    at(Step.BEFORE_SELECT, lambda: stage.run("ALTER TABLE t TRUNCATE PARTITION p1"))
    driver.batch()
    assert driver.offset["tables"][stage.name()]["done"]
    assert len(fold(driver.log)) == 12  # the chunk has met the statement
    finish(stage, driver)


@pytest.mark.parametrize(
    ("step", "before"), [*((step, 0) for step in Step), *((Step.AFTER_POSITION, n) for n in (1, 2, 3, 5, 6))]
)
def test_a_table_that_is_born(stage: Stage, at: Callable[..., None], step: Step, before: int) -> None:
    """It is read as of a position behind its birth, however much is done to it before and after W is read."""
    stage.create(rows=12)
    driver = stage.driver()
    driver.batch()
    birth = [
        "CREATE TABLE later (id INT PRIMARY KEY)", "ALTER TABLE later ADD COLUMN v INT",
        "INSERT INTO later VALUES (1, 1), (2, 2)", "RENAME TABLE later TO u", "TRUNCATE TABLE u",
        "INSERT INTO u VALUES (3, 3), (4, 4)", "ALTER TABLE u MODIFY v BIGINT", "UPDATE u SET v = 5",
    ]  # fmt: skip

    def act(first: int, last: int) -> None:
        for sql in birth[first:last]:
            stage.run(sql)

    if before:
        at(Step.BEFORE_POSITION, lambda: act(0, before))
    at(step, lambda: act(before, len(birth)))
    driver.batches(4)
    finish(stage, driver)
    stage.run("DELETE FROM u WHERE id = 3")
    stage.drain(driver)
    stage.same(driver, "t", "u")
    assert set(driver.offset["tables"]) == {stage.name("t"), stage.name("u")}
