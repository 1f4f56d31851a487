"""A table read again on request: once, exactly, under writes, whatever dies in between; what was wrong is mended."""

from __future__ import annotations

import random

import pytest

from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.source.requests.requests import Signals
from tests.support.source.driver import Driver
from tests.support.source.passes import passes
from tests.support.source.stage import Stage


def spoil(stage: Stage, driver: Driver) -> None:
    """Bronze of which a row was lost, and which holds one that the source never had."""
    lost = next(c for c in driver.log if c.op is Op.READ and c.table == stage.name())
    driver.log.remove(lost)
    image = (("id", 999_999), ("v", 1))
    driver.log.append(Change(1, Op.INSERT, stage.name(), (("id", 999_999),), None, image))


@pytest.mark.parametrize("rows_in_a_chunk", ["3", "1000"], ids=["in several batches", "in one batch"])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_pass_mends_the_table_under_writes(stage: Stage, rows_in_a_chunk: str, restarts: bool) -> None:
    stage.create(rows=40)
    stage.create("other", rows=3)
    driver = stage.driver(chunkRows=rows_in_a_chunk)
    stage.snapshot(driver)
    spoil(stage, driver)
    signals = Signals(driver.options["schemaFolder"])
    signals.request(stage.name())
    chance = random.Random(5)

    def write() -> None:
        stage.run("UPDATE t SET v = v + 1 WHERE id = %s", [10 * chance.randrange(40)])
        stage.run("DELETE FROM t WHERE id = %s", [10 * chance.randrange(40)])
        stage.run("REPLACE INTO t VALUES (%s, 7)", [chance.randrange(400)])

    read = len(driver.log)
    for _ in range(40):
        write()
        driver.batch(between=write)
        if restarts:
            driver.restart()
        if passes(driver) and not signals.requests():
            break
    stage.drain(driver)
    assert len(passes(driver)) == 1
    assert signals.requests() == {}
    again = [change.table for change in driver.log[read:] if change.op is Op.READ]
    assert set(again) == {stage.name()}
    assert len(again) >= 30
    # the changelog was spoilt on purpose: only its end is asked for
    stage.same_rows(driver, "t", "other")


def test_a_request_is_taken_up_by_an_idle_run_once(stage: Stage) -> None:
    stage.create(rows=12)
    driver = stage.driver(chunkRows="5", available_now=True)
    stage.drain(driver)
    spoil(stage, driver)
    Signals(driver.options["schemaFolder"]).request(stage.name())
    for _ in range(2):
        driver.restart()
        while driver.batch():
            pass
    assert len(passes(driver)) == 1
    stage.same_rows(driver)


def test_an_offset_that_was_never_kept_takes_nothing_up(stage: Stage) -> None:
    stage.create(rows=12)
    driver = stage.driver()
    stage.snapshot(driver)
    signals = Signals(driver.options["schemaFolder"])
    signals.request(stage.name())
    for _ in range(3):
        assert driver.plan()  # offered, and then the process dies
        stage.run("UPDATE t SET v = v + 1 LIMIT 1")
        driver.restart()
    assert signals.requests()
    stage.drain(driver)
    assert len(passes(driver)) == 1
    assert not signals.requests()
    stage.same(driver)


def test_a_request_during_a_pass_is_another_pass(stage: Stage) -> None:
    stage.create(rows=30)
    driver = stage.driver(chunkRows="3", chunksPerTrigger="1")
    signals = Signals(driver.options["schemaFolder"])
    assert driver.batch()
    signals.request(stage.name())  # its first snapshot goes on
    stage.snapshot(driver)
    assert passes(driver) == []
    while not driver.offset["tables"][stage.name()]["cursor"]:
        assert driver.batch()
    signals.request(stage.name())
    for _ in range(60):
        if not driver.batch() and not signals.requests():
            break
    stage.drain(driver)
    assert len(passes(driver)) == 2
    stage.same(driver)


def test_a_request_for_another_table_is_void(stage: Stage) -> None:
    stage.create(rows=3)
    driver = stage.driver()
    stage.snapshot(driver)
    signals = Signals(driver.options["schemaFolder"])
    signals.request("no.such table/é")
    assert signals.requests() == {"no.such table/é": ""}
    stage.run("UPDATE t SET v = 1")
    stage.drain(driver)
    assert signals.requests() == {}
    assert passes(driver) == []
