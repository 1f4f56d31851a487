"""A stream whose connections and server fail all the time, while it reads what is being written: 200 faults.

Spark's part is played here (see `tests.support.source.driver`). What the stream gives up on ends its process, and the
next one continues from the offsets, as a pipeline does. Then nothing is lost, and nothing there twice.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from lakehouse_cdc.errors import TransientError
from lakehouse_cdc.source import retry
from lakehouse_cdc.testing import MySqlServer
from tests.faults import of_network, of_server
from tests.faults.counters import misfits
from tests.faults.kinds import Tally, World, draw
from tests.faults.writers import Writers
from tests.support.relay import relay
from tests.support.servers import connected
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage, on_stage

FAULTS = 100
SOONER, SHORTER = 10, 4  # what is waited before another try, and for how long a fault is there


@pytest.fixture
def any_stage(any_server: MySqlServer, any_database: str, tmp_path: Path) -> Iterator[Stage]:
    """A stage on each server in turn."""
    yield from on_stage(any_server, any_database, tmp_path)


def held(driver: Driver, table: str) -> list[tuple[str, int, int]]:
    """(op, id, n) of the rows that the stream has emitted of the counters."""
    rows = [(one.op.value, dict(one.after)) for one in driver.log if one.table == table and one.op.value in "cur"]
    return [(op, image["id"], image["n"]) for op, image in rows]


def batch(driver: Driver, rng: random.Random) -> bool:
    """Whether it came to an end, and was not given up on; every fifth is executed twice, to the same bytes."""
    try:
        driver.batch(between=(lambda: None) if rng.random() < 0.2 else None)
    except TransientError:
        driver.restart()
        return False
    return True


def test_a_stream_under_faults(any_stage: Stage, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """100 faults on each of two servers: it waits a tenth of the time before it tries again, since these pass soon."""
    monkeypatch.setattr(retry, "_WAITS", tuple(wait / SOONER for wait in retry._WAITS))
    stage, rng = any_stage, random.Random(seed)
    stage.create(rows=400)
    kinds = [*of_network.KINDS, *of_server.of(stage.server.version, of_server.SHARED)]
    tally, given_up = Tally(), 0
    writers = Writers(stage.server, stage.database, rate=50, seed=seed)
    with relay(stage.server.port) as network, closing(connected(stage.server)) as admin:
        world = World(stage.server, network, rng, writers, admin)
        driver = stage.driver(url=f"mysql://cdc@127.0.0.1:{network.port}", chunkRows="10", chunksPerTrigger="1")
        over = threading.Event()

        def inject() -> None:
            while tally.made.total() < FAULTS and not over.is_set():
                over.wait(rng.uniform(0.05, 0.15))
                tally.inject(draw(kinds, rng), world, lambda seconds: over.wait(seconds / SHORTER))

        with writers, ThreadPoolExecutor() as beside:
            injecting = beside.submit(inject)
            try:
                while not injecting.done():
                    given_up += not batch(driver, rng)
            finally:
                over.set()
            injecting.result()
        stage.snapshot(driver)
        stage.drain(driver)
    print(f"{tally.table(kinds)}\n{given_up} times given up; {writers.transactions} transactions")
    assert tally.made.total() == FAULTS
    assert writers.transactions > FAULTS / 2
    stage.same(driver, "t", "counters")
    assert misfits(held(driver, stage.name("counters")), writers.source()) == []
