"""How a batch is cut into splits: by files, and by transactions inside a file; and what must not depend on it."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext

from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.position import FIRST_EVENT, Position
from lakehouse_cdc.model.seq import unpack
from lakehouse_cdc.mysql.binlog.dump import BinlogDump
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.reading import task
from lakehouse_cdc.source.splits import BinlogSplit
from tests.support.source.driver import Driver, exact_bytes
from tests.support.source.stage import Stage


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
        ids.append(task.replica_id(options))
    assert len(set(ids)) == 63
    assert set(ids) == set(range(6001, 6064))
    used = unique_ids(monkeypatch)
    stage.snapshot(driver)
    stage.run("UPDATE t SET v = 1")
    stage.drain(driver)
    assert used[0] == 6000
    assert set(used) == {6000, ids[-1]}


def test_readers_with_the_same_ids_both_go_on(any_stage: Stage) -> None:
    """The server ends the older of two dumps with one id; its reader takes another."""
    any_stage.create(rows=20)
    drivers = [any_stage.driver(serverIds="6000-6040", schemaFolder=f"{any_stage.folder}/{n}") for n in range(2)]
    for n in range(12):
        any_stage.run(f"UPDATE t SET v = {n}")
        for driver in drivers:
            driver.batch()
    for driver in drivers:
        any_stage.drain(driver)
        any_stage.same(driver)


def test_each_folder_has_its_own_ids_by_default() -> None:
    given = {"url": "mysql://a@b", "tables": "a.*"}
    ranges = {SourceOptions.parse({**given, "schemaFolder": f"/lake/{n}"}).server_ids for n in range(50)}
    assert len(ranges) == 50
    assert all(last - first == 9_999 and last < 2**32 for first, last in ranges)
