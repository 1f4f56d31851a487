"""The dump lags behind the status, and connections end: readers wait, stop, or try again, and never give out a part.

With sync_binlog = 1 and a slow group commit the server reports a position for a second before any dump can reach it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from typing import Any

import pymysql
import pytest
from pymysqlreplication import BinLogStreamReader

from lakehouse_cdc.errors import TransientError
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.source.reading.log_reader import LogReader
from lakehouse_cdc.source.spark.stream import MySqlCdcSource
from lakehouse_cdc.source.splits import BinlogSplit
from lakehouse_cdc.source.state.state_store import SchemaStore
from lakehouse_cdc.source.test_hooks import Step
from lakehouse_cdc.testing import MySqlServer
from tests.support.servers import connected
from tests.support.source.driver import Driver, changes, exact_bytes
from tests.support.source.stage import Stage

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:pymysqlreplication.*")
_SECONDS = 2.0


@pytest.fixture
def lagging(mysql: MySqlServer) -> Iterator[None]:
    """A dump gets each commit two seconds after the server's position has moved past it."""
    with closing(connected(mysql)) as root, root.cursor() as cursor:
        cursor.execute(f"SET GLOBAL sync_binlog = 1, GLOBAL binlog_group_commit_sync_delay = {int(_SECONDS * 1e6)}")
        yield
        cursor.execute("SET GLOBAL sync_binlog = 0, GLOBAL binlog_group_commit_sync_delay = 0")


def delivered(stage: Stage, start: Position) -> Position:
    """How far a dump that is not ours gets from `start` at this moment."""
    settings = {"host": "127.0.0.1", "port": stage.server.port, "user": "root", "passwd": ""}
    stream = BinLogStreamReader(
        connection_settings=settings, server_id=7_002, log_file=start.file, log_pos=start.pos, resume_stream=True,
        filter_non_implemented_events=False,
    )  # fmt: skip
    with closing(stream):
        for _ in stream:
            pass
        return Position(stream.log_file, stream.log_pos)


@contextmanager
def in_the_background(stage: Stage, sql: str) -> Iterator[Future[Any]]:
    """A statement of another session, which the server's position has passed already and whose commit lasts."""
    before = stage.position()
    with ThreadPoolExecutor() as pool, closing(connected(stage.server, database=stage.database)) as other:
        written = pool.submit(other.cursor().execute, sql)
        while stage.position() == before:
            time.sleep(0.001)
        yield written
        written.result()


def dumps(stage: Stage) -> set[int]:
    return {int(row[0]) for row in stage.run("SHOW PROCESSLIST") if row[4] == "Binlog Dump"}


def kill(stage: Stage, threads: set[int]) -> None:
    for thread in threads:
        with suppress(pymysql.err.OperationalError):  # an earlier test's, which ended by itself in between
            stage.run(f"KILL {thread}")
    while dumps(stage) & threads:
        time.sleep(0.001)


def ready(stage: Stage) -> Driver:
    stage.create(rows=20)
    driver = stage.driver()
    stage.snapshot(driver)
    stage.drain(driver)
    return driver


# ---------------------------------------------------------------- behind the status


def test_the_next_position_is_one_that_a_dump_delivered(stage: Stage, lagging: None) -> None:
    driver = ready(stage)
    start = Position(driver.offset["file"], driver.offset["pos"])
    with in_the_background(stage, "UPDATE t SET v = 1"):
        tip = Position(*stage.position())
        assert delivered(stage, start) < tip  # else this would prove nothing
        assert driver.plan()
        assert driver.planned is not None
        end = Position(driver.planned[1]["file"], driver.planned[1]["pos"])
        assert end <= delivered(stage, start)
        assert end == tip
    driver.batch()
    assert sum(c.op is Op.UPDATE for c in driver.log) == 20
    stage.same(driver)


def test_the_first_position_is_one_that_a_dump_delivered(stage: Stage, lagging: None) -> None:
    stage.create(rows=8)
    start = Position(*stage.position())
    driver = stage.driver()
    with in_the_background(stage, "UPDATE t SET v = 1"):
        assert delivered(stage, start) == start
        assert driver.plan()
        assert driver.planned is not None
        assert Position(driver.planned[1]["file"], driver.planned[1]["pos"]) <= delivered(stage, start)
    stage.snapshot(driver)
    stage.same(driver)


def test_a_reader_blocks_until_the_high_watermark_is_delivered(stage: Stage, lagging: None) -> None:
    driver = ready(stage)
    options, store = driver.reader._options, SchemaStore(str(stage.folder))
    schema = store.get(driver.offset["tables"][stage.name()]["schema"])
    start = Position(*stage.position())
    stage.run("UPDATE t SET v = v + 1")
    assert driver.plan()
    [split] = [p for p in driver.reader.partitions(*(driver.planned or ({}, {}))) if isinstance(p, BinlogSplit)]
    with in_the_background(stage, "UPDATE t SET v = 8"):
        high = Position(*stage.position())
        assert delivered(stage, start) < high
        with LogReader(options, start, high, [schema], split.identity, 7_003) as log:
            parts = list(log)
        assert sum(part.changes.n for part in parts) == 40
        assert parts[-1].scan.end == high


# ---------------------------------------------------------------- connections that end


def test_a_dump_that_ends_before_the_high_watermark_is_tried_again(
    stage: Stage, lagging: None, at: Callable[..., None]
) -> None:
    """The server ends the dump of a chunk's window while it waits: the rows are those of an attempt in peace."""
    stage.create(rows=20)
    driver = stage.driver(chunkRows="100", chunksPerTrigger="1")
    assert driver.plan()
    killed: set[int] = set()
    backgrounds: list[Any] = []

    def write() -> None:
        backgrounds.append(in_the_background(stage, "UPDATE t SET v = 5 WHERE id < 100"))
        backgrounds[-1].__enter__()

    def end_the_next(known: set[int]) -> None:
        with closing(connected(stage.server, database=stage.database)) as own, own.cursor() as cursor:
            until = time.monotonic() + 20
            while not killed and time.monotonic() < until:
                cursor.execute("SHOW PROCESSLIST")
                found = {int(row[0]) for row in cursor.fetchall() if row[4] == "Binlog Dump"} - known
                for thread in found:
                    with suppress(pymysql.err.OperationalError):
                        cursor.execute(f"KILL {thread}")
                    killed.add(thread)
                time.sleep(0.001)

    at(Step.AFTER_SELECT, write)
    killer = threading.Thread(target=end_the_next, args=[dumps(stage)])
    killer.start()
    first = driver.read()
    killer.join()
    backgrounds[0].__exit__(None, None, None)
    assert killed, "no dump was met"
    assert exact_bytes(driver.read()) == exact_bytes(first)
    assert [dict(c.after)["v"] for c in changes(first) if c.op is Op.READ] == [0] * 20


def test_a_split_that_loses_its_dump_midway_fails_and_is_read_again_whole(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows were given out, so the task must fail: Spark discards them, and the next attempt gives all."""
    stage.run("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v LONGTEXT)")
    driver = stage.driver(settle="gtid", splitBytes="100000000")
    stage.snapshot(driver)
    for _ in range(40):
        stage.run("INSERT INTO t (v) VALUES (REPEAT('x', 1000000))")
    assert driver.plan()
    [part] = driver.reader.partitions(*(driver.planned or ({}, {})))
    driver.reader.stop()
    rows = iter(MySqlCdcSource(dict(driver.options)).streamReader(None).read(part))  # type: ignore[arg-type]
    next(rows)
    kill(stage, dumps(stage))
    with pytest.raises(TransientError):
        list(rows)
    batches = list(MySqlCdcSource(dict(driver.options)).streamReader(None).read(part))  # type: ignore[arg-type]
    assert [dict(c.after)["id"] for c in changes(batches)] == list(range(1, 41))


def test_the_driver_s_own_dump_is_ended_by_the_server(stage: Stage) -> None:
    """The planner connects again and goes on at the offset."""
    driver = ready(stage)
    stage.run("UPDATE t SET v = 1")
    assert driver.batch()
    kill(stage, dumps(stage))
    stage.run("UPDATE t SET v = 2")
    stage.drain(driver)
    stage.same(driver)


@pytest.mark.long
def test_the_server_restarts_under_the_stream(stage: Stage) -> None:
    with MySqlServer.start() as server:
        with closing(connected(server)) as connection:
            connection.cursor().execute("CREATE DATABASE s")
            connection.select_db("s")
            mine = Stage(server, connection, "s", stage.folder)
            mine.create(rows=30)
            driver = mine.driver()
            driver.batch()
            mine.run("UPDATE t SET v = 1")
        server.kill()
        again = threading.Timer(0.5, server.restart)
        again.start()
        driver.batch()
        again.join()
        with closing(connected(server, database="s")) as mine.connection:
            mine.run("DELETE FROM t WHERE id < 40")
            mine.drain(driver)
            mine.same(driver)
            driver.stop()
