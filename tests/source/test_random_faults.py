"""Random faults in random tables: whatever happens to one, the others are exact, and it is exact again afterwards.

At every committed offset fold(bronze) is the source for each table that is not quarantined. A table that is quarantined
has just what the source had before the fault, until it is taken up again. Every batch is executed twice, by two
processes, with more writes in between, and must give the same bytes.
"""

from __future__ import annotations

import random

import pytest

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.source import test_hooks
from lakehouse_cdc.source.requests.requests import Signals
from lakehouse_cdc.source.requests.set_aside import SetAside
from tests.support.source.driver import Driver
from tests.support.source.faults import FaultyTables, Judge
from tests.support.source.stage import Stage


def step(driver: Driver, world: FaultyTables, judge: Judge, faulty: float) -> bool:
    """A batch, executed twice. Of a table that it cannot read a note is made, and the batch is planned anew."""
    before = driver.offset
    failure = None
    try:
        moved = driver.batch(between=lambda: world.some(2, faulty=faulty), altered=lambda: altered(driver, world))
    except DefiniteError as error:
        failure = error
    if failure is not None:
        assert SetAside(driver.options["schemaFolder"]).note(failure, "digest"), f"noted in vain: {failure}"
        driver.restart()
        return True
    if moved:
        judge.check(driver, before)
    return moved


def altered(driver: Driver, world: FaultyTables) -> list[str]:
    assert driver.planned is not None
    end = (driver.planned[1]["file"], driver.planned[1]["pos"])
    return [name for name, place in world.altered.items() if place > end]


def play(stage: Stage, seed: int, tables: int, batches: int) -> Judge:
    world = FaultyTables(stage, random.Random(seed), tables)
    driver, judge = stage.driver(), Judge(world)
    test_hooks.install(lambda _, __: world.some(1, faulty=0.1))
    try:
        for _ in range(batches):
            step(driver, world, judge, 0.1)
            if world.chosen.random() < 0.2:
                driver.restart()
            world.some(3, faulty=0.2)
            if world.chosen.random() < 0.1:
                mended(driver, world)
    finally:
        test_hooks.install(None)
    for _ in range(2):  # a table may be quarantined for what was in the log before it was mended
        mended(driver, world)
        for _ in range(80):
            if not step(driver, world, judge, 0.0):
                break
    stage.drain(driver)
    assert not [name for name, state in driver.offset["tables"].items() if "quarantined" in state]
    stage.same_rows(driver, *world.tables)
    print(
        f"{dict(world.faults)}; {judge.quarantined} quarantines; {judge.compared} comparisons, {judge.batches} batches"
    )
    assert judge.compared > judge.batches
    return judge


def mended(driver: Driver, world: FaultyTables) -> None:
    world.mend()
    signals = Signals(driver.options["schemaFolder"])
    for name, state in driver.offset.get("tables", {}).items():
        if "quarantined" in state:
            signals.request(name)


@pytest.mark.one_server
def test_a_short_time(any_stage: Stage, seed: int) -> None:
    play(any_stage, seed, tables=4, batches=8)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_many_times(any_stage: Stage, seed: int) -> None:
    assert play(any_stage, seed, tables=3 + seed % 4, batches=40).quarantined
