"""Statements that the user wants to be passed: they change no captured table."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.source.requests.requests import Signals
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage

TEXT = (
    "SET SESSION binlog_format = 'STATEMENT'",
    "UPDATE t SET v = 7 WHERE id < {}",
    "SET SESSION binlog_format = 'ROW'",
)


def text(stage: Stage, below: int = 0) -> None:
    """A statement in the log that changes the rows of t with a smaller id."""
    for sql in TEXT:
        stage.run(sql.format(below))


def stop(stage: Stage, driver: Driver) -> Position:
    """The statement at which the stream stops, as the hint names it."""
    with pytest.raises(DefiniteError) as caught:
        stage.drain(driver)
    driver.restart()
    named = re.search(r"lakehouse-cdc signal -c pipeline.yml pass (\S+)$", caught.value.hint)
    assert named is not None, caught.value.hint
    return Position.parse(named[1])


def signals(driver: Driver) -> Signals:
    return Signals(driver.options["schemaFolder"])


def passed(driver: Driver) -> list[str]:
    """The statements in the rows of bronze that say so."""
    after = [dict(c.after) for c in driver.log if c.op is Op.SCHEMA]
    return [str(row["statement"]) for row in after if row.get("passed")]


def streaming(stage: Stage) -> Driver:
    """A stream over the tables t and u, which stops at what it cannot follow."""
    stage.create(rows=3)
    stage.create("u", rows=3)
    driver = stage.driver(onError=json.dumps({"*.*": "stop"}))
    stage.snapshot(driver)
    stage.drain(driver)
    return driver


@pytest.fixture
def driver(any_stage: Stage) -> Driver:
    return streaming(any_stage)


@pytest.mark.every_server
def test_a_stream_passes_just_that_statement(any_stage: Stage, driver: Driver) -> None:
    stage = any_stage
    stage.run("UPDATE t SET v = 1")
    text(stage)
    stage.run("UPDATE u SET v = 2")
    text(stage)
    reads = len([c for c in driver.log if c.op is Op.READ])
    first = stop(stage, driver)
    assert stop(stage, driver) == first
    signals(driver).pass_statement(first, 1)
    second = stop(stage, driver)
    assert second > first
    signals(driver).pass_statement(second, 1)
    stage.run("UPDATE t SET v = 3")
    stage.drain_twice(driver)
    stage.same(driver)
    assert passed(driver)
    assert all("WHERE id < 0" in statement for statement in passed(driver))
    assert len([c for c in driver.log if c.op is Op.READ]) == reads
    assert signals(driver).passed(1) == {first, second}
    text(stage)
    assert stop(stage, driver) > second


def test_one_before_ddl_of_its_table_has_its_row_in_bronze_too(any_stage: Stage, driver: Driver) -> None:
    text(any_stage)
    for sql in ("UPDATE t SET v = 1", "ALTER TABLE t ADD COLUMN more INT", "UPDATE t SET more = 2"):
        any_stage.run(sql)
    signals(driver).pass_statement(stop(any_stage, driver), 1)
    any_stage.drain_twice(driver)
    any_stage.same(driver)
    assert len(passed(driver)) == 1


def test_a_position_of_another_epoch_says_nothing(any_stage: Stage, driver: Driver) -> None:
    text(any_stage)
    place = stop(any_stage, driver)
    signals(driver).pass_statement(place, 2)
    assert stop(any_stage, driver) == place


def test_what_is_not_passed_has_the_table_read_again(any_stage: Stage, driver: Driver) -> None:
    """Of statements that are alike, in one batch."""
    text(any_stage)
    place = stop(any_stage, driver)
    driver.options["onError"] = "{}"
    driver.restart()
    signals(driver).pass_statement(place, 1)
    text(any_stage, below=9)
    any_stage.drain_twice(driver)
    any_stage.same(driver)
    assert len(passed(driver)) == 1
    assert any(c.op is Op.END and c.table == any_stage.name() for c in driver.log)


def test_of_an_xa_transaction_it_is_the_commit_that_is_passed(stage: Stage) -> None:
    driver = streaming(stage)
    stage.run("SET SESSION binlog_format = 'STATEMENT'")
    for sql in ("XA START 'x'", "UPDATE t SET v = 7 WHERE id < 0", "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'"):
        stage.run(sql)
    stage.run("SET SESSION binlog_format = 'ROW'")
    signals(driver).pass_statement(stop(stage, driver), 1)
    stage.run("UPDATE t SET v = 3")
    stage.drain_twice(driver)
    stage.same(driver)


def test_a_statement_that_did_change_the_table_is_noticed(stage: Stage) -> None:
    """Its rows do not fit the columns that it had."""
    driver = streaming(stage)
    for sql in ("ALTER TABLE t ADD COLUMN total TIMESTAMP", "ALTER TABLE t MODIFY v BIGINT", "UPDATE u SET v = 2"):
        stage.run(sql)
    signals(driver).pass_statement(stop(stage, driver), 1)
    driver.options["onError"] = "{}"
    driver.restart()
    stage.run("UPDATE t SET v = 5")
    stage.drain_twice(driver)
    stage.same(driver)
    states: dict[str, Any] = driver.offset["tables"]
    assert not any(state.get("quarantined") for state in states.values())
