"""DDL that cannot be read, or concerns no captured table, and what must not be passed over.

DDL of other tables is none of the stream's business, nor is DDL that leaves columns, key and rows as they are. A chunk
whose window meets DDL emits nothing, and the planner does not go on without its rows. Rows that were logged as text
have tests of their own (`test_text_dml`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.source.test_hooks import Step
from tests.support.servers import connected, start_or_skip
from tests.support.source.driver import changes, exact_bytes
from tests.support.source.stage import Stage, on_stage

# where their quotes end depends on a mode that the session has set
MODE = "SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'"
DDL = ["ALTER TABLE t COMMENT 'a\\b'", "ALTER TABLE t DROP COLUMN v, COMMENT 'a\\b'"]


@pytest.mark.parametrize("ddl", DDL)
def test_ddl_of_a_captured_table_whose_quotes_depend_on_the_mode(any_stage: Stage, ddl: str) -> None:
    """Also where it cannot be read the table is followed; and no other one is concerned."""
    stage = any_stage
    stage.create(rows=12)
    stage.create("other", rows=12)
    driver = stage.driver()
    stage.snapshot(driver)
    stage.run("UPDATE t SET v = 1 LIMIT 2")
    stage.run(MODE)
    for n in range(2):
        stage.run(ddl)
        stage.run(f"INSERT INTO t (id) VALUES ({n + 1})")
        if n == 0 and "DROP" in ddl:
            stage.run("ALTER TABLE t ADD COLUMN v INT DEFAULT 4")
        stage.run("UPDATE other SET v = v + 1")
    stage.drain_twice(driver)
    stage.same_rows(driver, "t", "other")
    assert not any(state.get("quarantined") for state in driver.offset["tables"].values())
    assert {change.table for change in driver.log if change.op is Op.END} <= {stage.name()}


@pytest.mark.parametrize("ddl", DDL)
@pytest.mark.parametrize("step", Step)
def test_ddl_around_a_chunk_s_window_invents_and_loses_nothing(
    stage: Stage, at: Callable[..., None], step: Step, ddl: str
) -> None:
    """At each moment of the second batch: what was planned can be finished, again and again.

    Rows that were emitted are the source's at W, where all of them had v = 1; or none at all."""
    stage.create(rows=30)
    driver = stage.driver()
    driver.batch()
    stage.run("UPDATE t SET v = 1")
    stage.run(MODE)
    at(step, lambda: stage.run(ddl))
    assert driver.plan()
    assert driver.planned is not None
    batches = driver.read()
    driver.restart()
    again = driver.read()
    read = [c for c in changes(batches) if c.op is Op.READ]
    changes_columns = "DROP" in ddl
    if step is Step.BEFORE_SELECT and changes_columns:
        assert read == []
        assert exact_bytes(again) == exact_bytes(batches)
    if step not in (Step.BEFORE_POSITION, Step.AFTER_POSITION):
        assert all(dict(c.after) == {"id": dict(c.key)["id"], "v": 1} for c in read)  # type: ignore[call-overload]
        read_later = [c for c in changes(again) if c.op is Op.READ]
        assert read_later == ([] if changes_columns else read)
    driver.log += changes(batches)
    driver.offset = driver.planned[1]
    stage.drain(driver)
    stage.same_rows(driver)


def test_ddl_before_the_first_offset_is_history(stage: Stage) -> None:
    stage.create(rows=12)
    stage.run("ALTER TABLE t ADD COLUMN n INT DEFAULT 3")
    stage.run("UPDATE t SET n = 4 LIMIT 5")
    driver = stage.driver()
    stage.snapshot(driver)
    stage.drain(driver)
    stage.same(driver)


def test_ddl_between_the_first_position_and_the_schemas(stage: Stage, at: Callable[..., None]) -> None:
    """W is chosen anew behind it."""
    stage.create(rows=12)
    at(Step.AFTER_POSITION, lambda: stage.run("ALTER TABLE t ADD COLUMN n INT DEFAULT 3"))
    driver = stage.driver()
    stage.snapshot(driver)
    stage.run("UPDATE t SET n = 5 LIMIT 3")
    stage.drain(driver)
    stage.same(driver)


@pytest.mark.parametrize("step", [*Step, None])
def test_ddl_of_other_tables_stops_nothing(stage: Stage, at: Callable[..., None], step: Step | None) -> None:
    stage.create(rows=23)
    stage.create("other", rows=3)
    driver = stage.driver(tables=stage.name())

    def act() -> None:
        for sql in (
            "ALTER TABLE other ADD COLUMN n INT", "ALTER TABLE other DROP COLUMN n", "TRUNCATE TABLE other",
            "UPDATE t SET v = v + 1", "CREATE TABLE tt LIKE t", "INSERT INTO tt SELECT * FROM t", "DROP TABLE tt",
            "CREATE TABLE tt AS SELECT 1 AS t", "RENAME TABLE tt TO ttt", "DROP TABLE ttt", "ANALYZE TABLE other",
        ):  # fmt: skip
            stage.run(sql)

    if step is not None:
        at(step, act, times=2)
    driver.batch()
    if step is None:
        act()
    stage.drain(driver)
    stage.same(driver)


@pytest.mark.parametrize("step", [*Step, None])
def test_ddl_that_changes_nothing_is_passed(stage: Stage, at: Callable[..., None], step: Step | None) -> None:
    stage.create(rows=23)

    def act() -> None:
        for sql in (
            "CREATE INDEX i ON t (v)", "UPDATE t SET v = v + 1", "ALTER TABLE t DROP INDEX i, COMMENT = 'x'",
            "ALTER TABLE t MODIFY v INT NULL DEFAULT 7, ALGORITHM = COPY", "INSERT INTO t (id) VALUES (2 + 10 * @n)",
            "ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 3", "ALTER TABLE t REMOVE PARTITIONING", "SET @n = @n + 1",
        ):  # fmt: skip
            stage.run(sql)

    stage.run("SET @n = 0")
    if step is not None:
        at(step, act, times=2)
    driver = stage.driver()
    driver.batch()
    if step is None:
        act()
    stage.drain(driver)
    stage.same(driver)
    assert all(state["done"] for state in driver.offset["tables"].values())


@pytest.mark.mysql
def test_ddl_is_seen_whatever_the_case_of_its_names(tmp_path: Path) -> None:
    """Where names do not depend on case, a statement is logged with the names that the session gave."""
    with start_or_skip("mysql-5.7", options={"lower_case_table_names": "1"}) as server:
        for stage in on_stage(server, "cased", tmp_path):
            stage.create(rows=3)
            driver = stage.driver()
            stage.snapshot(driver)
            stage.run("UPDATE CASED.T SET v = 1")
            stage.run("CREATE INDEX i ON Cased.T (v)")
            stage.drain(driver)
            stage.same(driver)
            stage.run("ALTER TABLE Cased.T ADD COLUMN n INT")
            stage.run("UPDATE cased.t SET N = 5 LIMIT 2")
            stage.drain(driver)
            stage.same(driver)
            stage.create("other", rows=5)
            stage.run("RENAME TABLE Cased.T TO Cased.U, CASED.OTHER TO Cased.t")
            stage.drain(driver)
            stage.same_rows(driver, "t", "u")


# ---------------------------------------------------------------- rows as text


def test_an_image_without_all_columns_stops_the_stream(stage: Stage) -> None:
    """binlog_row_image is a session's affair; where the rows are read, it is refused with table and position."""
    stage.create(rows=3)
    driver = stage.driver()
    stage.snapshot(driver)
    with closing(connected(stage.server, database=stage.database)) as other:
        other.cursor().execute("SET SESSION binlog_row_image = MINIMAL")
        other.cursor().execute("UPDATE t SET v = 5 WHERE id = 10")
    with pytest.raises(DefiniteError, match="binlog_row_image") as found:
        driver.batch()
    assert stage.name() in str(found.value)


def test_a_rolled_back_transaction_is_no_change(stage: Stage) -> None:
    stage.create(rows=3)
    driver = stage.driver()
    stage.snapshot(driver)
    for sql in ("BEGIN", "UPDATE t SET v = 9", "SAVEPOINT s", "DELETE FROM t", "ROLLBACK TO s", "COMMIT"):
        stage.run(sql)
    for sql in ("BEGIN", "UPDATE t SET v = 11", "ROLLBACK"):
        stage.run(sql)
    stage.drain(driver)
    stage.same(driver)
    assert [c.op for c in driver.log if c.op not in (Op.READ, Op.SCHEMA)] == [Op.UPDATE] * 3
