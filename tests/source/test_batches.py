"""How a batch is bounded: limits, AvailableNow, idle sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadMaxBytes, ReadMaxRows

from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.source.planning.planner import Planner
from lakehouse_cdc.source.test_hooks import Step
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage


def gtids(batches: list[pa.RecordBatch]) -> Counter[str]:
    """How many rows each transaction has among the changes."""
    return Counter(
        row["position"]["gtid"] for batch in batches for row in batch.to_pylist() if row["op"] in ("c", "u", "d")
    )


def drained(stage: Stage, driver: Driver) -> list[Counter[str]]:
    """Read on until nothing is left; of each batch, its transactions."""
    found = []
    while driver.plan():
        found.append(gtids(driver.read()))
        assert driver.batch()
    assert (driver.offset["file"], driver.offset["pos"]) == stage.position()
    return found


# ---------------------------------------------------------------- limits


def test_max_rows_cuts_at_transaction_boundaries(stage: Stage) -> None:
    stage.create(rows=100)
    driver = stage.driver(chunkRows="50", limit=ReadMaxRows(7))
    stage.snapshot(driver)
    for n in range(8):
        stage.transaction(*(f"UPDATE t SET v = v + 1 WHERE id = {10 * (5 * n + i)}" for i in range(3)))
    stage.run("UPDATE t SET v = -1")  # far more than the limit: it goes alone, and whole
    stage.transaction("UPDATE t SET v = -2 LIMIT 2")
    batches = drained(stage, driver)
    assert [sum(b.values()) for b in batches] == [9, 9, 106, 2]
    assert all(b <= 1 for b in Counter(g for batch in batches for g in batch).values()), "a transaction was cut"
    assert sorted(n for b in batches for n in b.values()) == [2] + [3] * 8 + [100]
    stage.same(driver)


def test_max_rows_counts_captured_rows_only(stage: Stage) -> None:
    stage.create(rows=3)
    stage.run("CREATE TABLE other (id INT PRIMARY KEY AUTO_INCREMENT)")
    driver = stage.driver(tables=stage.name(), limit=ReadMaxRows(2))
    stage.snapshot(driver)
    for _ in range(20):
        stage.run("INSERT INTO other VALUES ()")
    stage.run("UPDATE t SET v = 1 LIMIT 1")
    assert [sum(b.values()) for b in drained(stage, driver)] == [1]


def test_max_bytes_cuts_at_transaction_boundaries(stage: Stage) -> None:
    stage.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(10000))")
    driver = stage.driver(maxBytesPerTrigger="5000", limit=ReadMaxBytes(5000))
    stage.snapshot(driver)
    for n in range(6):
        stage.transaction(*(f"INSERT INTO t VALUES ({10 * n + i}, REPEAT('x', 1000))" for i in range(3)))
    stage.run("INSERT INTO t SELECT id + 100, REPEAT('y', 9000) FROM t")
    stage.run("DELETE FROM t WHERE id = 101")
    batches = drained(stage, driver)
    assert [sum(b.values()) for b in batches] == [6, 6, 6, 18, 1]
    stage.same(driver)


def test_chunks_wait_until_the_log_is_near_its_tip(stage: Stage) -> None:
    """Else their windows would reach from far behind to the tip, again and again."""
    stage.create(rows=100)
    driver = stage.driver(maxBytesPerTrigger="500", limit=ReadMaxBytes(500))
    driver.batch()
    cursor = driver.offset["tables"][stage.name()]["cursor"]
    assert cursor
    for n in range(5):
        stage.run(f"UPDATE t SET v = {n + 1} ORDER BY id LIMIT 8")
    moved: list[bool] = []
    near: list[bool] = []
    while not any(moved):
        assert driver.batch()
        moved.append(driver.offset["tables"][stage.name()]["cursor"] != cursor)
        near.append((driver.offset["file"], driver.offset["pos"]) == stage.position())
    assert moved == near
    assert len(near) > 2
    stage.drain(driver)
    stage.same(driver)


# ---------------------------------------------------------------- AvailableNow


def test_available_now_ends_under_constant_writes(stage: Stage, at: Callable[..., None]) -> None:
    """It holds all that was there when the last chunk was planned, and stops however much comes behind."""
    stage.create(rows=40)
    planned_at: list[tuple[str, int]] = []
    driver = stage.driver(available_now=True)

    def write() -> None:
        stage.run("UPDATE t SET v = v + 1 LIMIT 3")

    for step in Step:
        at(step, write, times=10_000)
    for batches in range(100):
        if not driver.batch():
            assert batches <= 8
            break
        if not planned_at and driver.offset["tables"][stage.name()]["done"]:
            planned_at.append(stage.position())
        for _ in range(5):
            write()
    else:
        raise AssertionError("AvailableNow does not end")
    for step in Step:
        at(step, lambda: None, times=0)
    assert planned_at
    assert planned_at[0] <= (driver.offset["file"], driver.offset["pos"]) < stage.position()
    assert not driver.batch()  # frozen: nothing more, whatever was written since
    following = Driver(driver.options, offset=driver.offset, log=driver.log, available_now=True)
    stage.drivers.append(following)
    stage.drain(following)
    stage.same(following)


# ---------------------------------------------------------------- idle sources


def test_a_move_without_rows_is_offered_now_and_then(stage: Stage) -> None:
    """Writes elsewhere only: the offset still moves, else it would age out of the log; but few batches are made."""
    stage.create(rows=3)
    stage.run("CREATE TABLE other (id INT PRIMARY KEY AUTO_INCREMENT)")
    driver = stage.driver(tables=stage.name(), idleSeconds="30")
    stage.snapshot(driver)
    now = [1000.0]
    driver.reader._planner = Planner(driver.reader._options, clock=lambda: now[0])
    stage.run("INSERT INTO other VALUES ()")
    assert driver.batch()
    before = driver.offset
    for _ in range(3):
        now[0] += 9.9
        stage.run("INSERT INTO other VALUES ()")
        assert not driver.batch()
    now[0] += 0.4
    assert driver.batch()
    assert (driver.offset["file"], driver.offset["pos"]) == stage.position()
    assert driver.offset["tables"] == before["tables"]
    now[0] += 100
    assert not driver.batch()  # no move, no batch
    stage.run("INSERT INTO other VALUES ()")
    assert driver.batch()
    stage.run("INSERT INTO other VALUES ()")
    stage.run("UPDATE t SET v = 1 LIMIT 1")  # a captured row does not wait
    assert driver.batch()
    assert [c.op for c in driver.log][-1] is Op.UPDATE


def test_an_idle_server_hangs_nothing(stage: Stage) -> None:
    stage.create(rows=23)
    driver = stage.driver()
    stage.snapshot(driver)
    assert driver.batch()  # it says that the last chunks met no DDL
    assert not driver.batch()
    driver.restart()
    assert not driver.batch()
    stage.same(driver)


@pytest.mark.parametrize("step", Step)
def test_the_log_rotates_inside_the_window(stage: Stage, at: Callable[..., None], step: Step) -> None:
    stage.create(rows=23)

    def rotate() -> None:
        for sql in ("FLUSH BINARY LOGS", "UPDATE t SET v = v + 1", "FLUSH BINARY LOGS", "FLUSH BINARY LOGS"):
            stage.run(sql)

    at(step, rotate, times=6)
    driver = stage.driver()
    stage.snapshot(driver)
    at(step, rotate, times=0)
    stage.drain(driver)
    stage.same(driver)
