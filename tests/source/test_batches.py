"""How a batch is bounded, and how it is cut: limits, AvailableNow, idle sources, splits of files and parts of files."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.streaming.datasource import ReadMaxBytes, ReadMaxRows

from lakehouse_cdc.model.changes import Op
from lakehouse_cdc.model.position import FIRST_EVENT, Position
from lakehouse_cdc.model.seq import unpack
from lakehouse_cdc.mysql.binlog.dump import BinlogDump
from lakehouse_cdc.source import read
from lakehouse_cdc.source.hooks import Step
from lakehouse_cdc.source.planner import Planner
from lakehouse_cdc.source.splits import BinlogSplit
from tests.source.conftest import Stage
from tests.source.driver import Driver, exact_bytes


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


# ---------------------------------------------------------------- splits


def backlog(stage: Stage, files: int) -> Driver:
    """A stream with a backlog: per file, a transaction of thousands of rows over three tables and some small ones."""
    for table in ("a", "b", "c"):
        stage.create(table)
    driver = stage.driver(splitBytes="20000", chunkRows="100000")
    stage.snapshot(driver)
    series = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT i + {}, 0 FROM n"
    for n in range(files):
        inserts = [f"INSERT INTO {table} {series.format(1000 * n)}" for table in ("a", "b", "c")]
        keys = "UPDATE a SET id = -id WHERE id > 0 LIMIT 100"
        stage.transaction(*inserts, keys, "UPDATE b SET v = v + 1 ORDER BY id DESC LIMIT 500")
        for i in range(60):
            stage.run(f"UPDATE c SET v = v + 1 WHERE id = {1000 * n + 1 + i}")
        if n < files - 1:
            stage.run("FLUSH BINARY LOGS")
    return driver


def binlog_splits(driver: Driver) -> list[BinlogSplit]:
    assert driver.planned is not None
    return [p for p in driver.reader.partitions(*driver.planned) if isinstance(p, BinlogSplit)]


def check_transactions(batches: list[pa.RecordBatch], files: int) -> None:
    """Each is whole, and its ordinals count through it without a hole."""
    ordinals: defaultdict[str, list[int]] = defaultdict(list)
    for batch in batches:
        for row in batch.to_pylist():
            ordinals[row["position"]["gtid"]].append(unpack(int(row["seq"])).ordinal)
    assert len(ordinals) == files * 61
    assert sorted(len(v) for v in ordinals.values()) == [1] * (60 * files) + [3 * 900 + 2 * 100 + 500] * files
    for found in ordinals.values():
        assert sorted(found) == list(range(len(found)))


def test_a_backlog_of_files_is_cut_into_as_many_splits_and_more(stage: Stage) -> None:
    files = 4
    driver = backlog(stage, files)
    assert driver.plan()
    splits = binlog_splits(driver)
    assert len(splits) > files
    assert all(s.end.number - s.start.number in (0, 1) for s in splits)
    assert all(s.start.number == s.end.number or s.end.pos == FIRST_EVENT for s in splits)
    assert [s.end for s in splits[:-1]] == [s.start for s in splits[1:]]  # disjoint, and without a hole
    assert all(a.start < a.end for a in splits)
    many = driver.read()
    driver.restart()
    assert len(binlog_splits(driver)) == files  # a replay knows the files only
    assert exact_bytes(driver.read()) == exact_bytes(many)
    check_transactions(many, files)
    stage.drain(driver)
    stage.same(driver, "a", "b", "c")


def test_many_splits_of_a_file_give_what_one_gives(stage: Stage) -> None:
    driver = backlog(stage, 1)
    assert driver.plan()
    splits = binlog_splits(driver)
    assert len(splits) >= 2
    sizes = [b.start.pos - a.start.pos for a, b in pairwise(splits)]
    assert min(sizes) >= 20_000
    many = driver.read()
    driver.restart()
    assert len(binlog_splits(driver)) == 1
    assert exact_bytes(driver.read()) == exact_bytes(many)
    check_transactions(many, 1)
    stage.drain(driver)
    stage.same(driver, "a", "b", "c")


def test_a_transaction_larger_than_any_buffer_keeps_its_ordinals(stage: Stage) -> None:
    """It comes in several buffers and record batches, and is one transaction all the same."""
    for table in ("a", "b"):
        stage.run(f"CREATE TABLE {table} (id INT PRIMARY KEY, v LONGTEXT)")
    driver = stage.driver()
    stage.snapshot(driver)
    inserts = (f"INSERT INTO {'ab'[n % 2]} VALUES ({n}, REPEAT('x', 600000)), ({-n}, '')" for n in range(1, 21))
    stage.run("UPDATE a SET v = 0")
    stage.transaction(*inserts, "UPDATE a SET id = id + 1000 WHERE v = ''")
    assert driver.plan()
    batches = driver.read()
    assert len(batches) > 1
    ordinals = [unpack(int(row["seq"])).ordinal for batch in batches for row in batch.select(["seq"]).to_pylist()]
    assert ordinals == list(range(60))
    stage.drain(driver)
    stage.same(driver, "a", "b")


def test_a_split_ends_where_the_next_file_begins(stage: Stage) -> None:
    """(file N, its end) and (file N + 1, 4) are one place: a batch may end at either, and nothing is read twice."""
    stage.create(rows=3)
    driver = stage.driver()
    stage.snapshot(driver)
    for n in range(4):
        stage.run(f"UPDATE t SET v = {n + 1}")
        if n % 2:
            driver.batch()
        stage.run("FLUSH BINARY LOGS")
        driver.batch()
    stage.drain(driver)
    stage.same(driver)
    assert sum(c.op is Op.UPDATE for c in driver.log) == 12
    assert Position(driver.offset["file"], driver.offset["pos"]).number >= 4


def unique_ids(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []
    begin = BinlogDump.__init__

    def noting(self: BinlogDump, *args: Any, server_id: int, **more: Any) -> None:
        found.append(server_id)
        begin(self, *args, server_id=server_id, **more)

    monkeypatch.setattr(BinlogDump, "__init__", noting)
    return found


def test_each_reader_has_a_replica_id_of_its_own(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planner has the first of the range; task attempts have others; two that run at once differ."""

    class Attempt:
        """What Spark tells a task."""

        def __init__(self, number: int) -> None:
            self.number = number

        def taskAttemptId(self) -> int:
            return self.number

    stage.create(rows=3)
    driver = stage.driver(serverIds="6000-6063")
    options = driver.reader._options
    ids = []
    for number in range(200, 263):
        monkeypatch.setattr(TaskContext, "get", lambda number=number: Attempt(number))
        ids.append(read.replica_id(options))
    assert len(set(ids)) == 63
    assert set(ids) == set(range(6001, 6064))
    used = unique_ids(monkeypatch)
    stage.snapshot(driver)
    stage.run("UPDATE t SET v = 1")
    stage.drain(driver)
    assert used[0] == 6000
    assert set(used) == {6000, ids[-1]}
