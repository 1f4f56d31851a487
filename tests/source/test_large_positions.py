"""Positions that no dump can start at: past 4 GiB in a file that one transaction made so large.

Most tests take a limit of some KB in place of 4 GiB: with it, positions past it occur everywhere. That the server
itself behaves so past 4 GiB is shown by the one long test.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.images.binlog.words import FORMAT, HEARTBEAT, HEARTBEAT_V2
from lakehouse_cdc.model import position
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.mysql import server as server_facts
from lakehouse_cdc.mysql.binlog.boundary import Cutter
from lakehouse_cdc.mysql.binlog.dump import BinlogDump
from lakehouse_cdc.mysql.binlog.scanner import BinlogScanner
from lakehouse_cdc.testing import MySqlServer
from tests.support.binlog_log import Buffer, starts
from tests.support.positions import binlog_end
from tests.support.servers import start_or_skip
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage, on_stage

_GIB = 1 << 30


def at(driver: Driver) -> Position:
    return Position(driver.offset["file"], driver.offset["pos"])


@pytest.fixture
def low_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """No dump can be requested from 3 KB of a file on, and nobody waits for the file to end."""
    monkeypatch.setattr(position, "START_LIMIT", 3000)
    monkeypatch.setattr(server_facts, "_ROTATION_SECONDS", 0.0)


def events(server: MySqlServer, start: Position, end: Position) -> list[bytes]:
    """The events of the file that a dump from `start` has until `end`, as they are in it."""
    found, scanner, cutter = [], BinlogScanner(start, lambda _: False), Cutter(start, end)
    with closing(server.connect()) as connection:
        dump = BinlogDump(connection, start, server_id=77_001, heartbeat_seconds=10)
        while not cutter.done:
            received = dump.read(500)
            assert received.size, f"nothing came after {scanner.position}"
            buffer = cutter.cut(received)
            list(scanner.scans(buffer))
            found += [buffer[at : at + size_of(buffer, at)].tobytes() for at in starts(buffer)]
    # without what the server makes up for its readers
    return [event for event in found if event[4] not in (FORMAT, HEARTBEAT, HEARTBEAT_V2) and not event[17] & 0x20]


def size_of(buffer: Buffer, at: int) -> int:
    return int.from_bytes(buffer[at + 9 : at + 13].tobytes(), "little")


def test_a_dump_that_skips_has_the_events_of_one_that_starts_there(
    any_stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = any_stage
    stage.create(rows=3)
    stage.run("FLUSH BINARY LOGS")
    places = []
    for i in range(6):
        stage.run(f"UPDATE t SET v = {i} + 1")
        places.append(Position(*stage.position()))
    expected = [events(stage.server, place, places[-1]) for place in places[:-1]]
    monkeypatch.setattr(position, "START_LIMIT", 5)
    for place, plain in zip(places[:-1], expected, strict=True):
        assert plain
        assert events(stage.server, place, places[-1]) == plain


@pytest.mark.usefixtures("low_limit")
def test_a_position_inside_an_event_is_refused(stage: Stage) -> None:
    stage.run("FLUSH BINARY LOGS")
    stage.create(rows=600)
    file, pos = stage.position()
    stage.run("FLUSH BINARY LOGS")
    with closing(stage.server.connect()) as connection:
        dump = BinlogDump(connection, Position(file, pos - 5), server_id=77_002, heartbeat_seconds=1)
        with pytest.raises(DefiniteError, match="no position between two events"):
            list(dump)


@pytest.mark.usefixtures("low_limit")
def test_the_stream_is_exact_where_most_positions_cannot_be_started_at(any_stage: Stage) -> None:
    """A snapshot, a backlog, DDL that ends a batch, and restarts, all past the limit."""
    stage = any_stage
    stage.create(rows=40)
    stage.run("INSERT INTO t SELECT id + 1, v FROM t")
    driver = stage.driver(splitBytes="500")
    for step in range(3):
        driver.batch(between=lambda: None)
        stage.run(f"UPDATE t SET v = v + 1 WHERE id > {100 * step}")
        stage.run(f"UPDATE t SET id = id + 1000 WHERE id < {100 * step}")
    stage.run("TRUNCATE t")
    stage.run("INSERT INTO t VALUES (1, 2), (3, 4)")
    stage.run("ALTER TABLE t ADD COLUMN more INT DEFAULT 5")
    stage.run("UPDATE t SET v = more")
    driver.restart()
    stage.drain_twice(driver)
    stage.same(driver)
    assert not at(driver).startable


@pytest.mark.usefixtures("low_limit")
def test_a_batch_ends_where_the_next_file_begins_rather_than_past_the_limit(stage: Stage) -> None:
    stage.create()
    stage.run("FLUSH BINARY LOGS")
    driver = stage.driver()
    stage.snapshot(driver)
    stage.transaction(*(f"INSERT INTO t VALUES ({i}, {i})" for i in range(60)))
    large = Position(*stage.position())
    assert not large.startable
    stage.run("FLUSH BINARY LOGS")
    assert driver.batch(between=lambda: None)
    reached = at(driver)
    assert reached.number > large.number
    assert reached.startable
    stage.drain(driver)
    stage.same(driver)


@pytest.mark.long
@pytest.mark.parametrize("version", ["mysql-8.0", "mysql-9", "mysql-5.7"])
def test_a_transaction_of_more_than_4_gib(version: str, tmp_path: Path) -> None:
    """Of a table that nobody captures, in an engine that keeps nothing; what is committed after it is captured."""
    options = {"max_allowed_packet": "1G", "binlog_checksum": "CRC32"}
    server = start_or_skip(version, options=options)  # type: ignore[arg-type]
    try:
        for stage in on_stage(server, "large", tmp_path):
            stage.create(rows=5)
            live, behind = stage.driver(), stage.driver(schemaFolder=str(stage.folder / "behind"))
            stage.snapshot(live)
            stage.snapshot(behind)
            stage.run("CREATE DATABASE other")
            stage.run("CREATE TABLE other.bh (i INT, t LONGTEXT) ENGINE = BLACKHOLE")
            stage.run("CREATE TABLE other.n (i INT)")
            stage.run(f"INSERT INTO other.n VALUES {', '.join(f'({i})' for i in range(70))}")
            file, before = stage.position()
            stage.run("INSERT INTO other.bh SELECT i, REPEAT('x', 64000000) FROM other.n")
            sizes = dict(row[:2] for row in stage.run("SHOW BINARY LOGS"))
            assert int(sizes[file]) - before > 4 * _GIB
            stage.run("UPDATE t SET v = 1")
            for driver in (live, behind):
                stage.drain(driver)
                stage.run("UPDATE t SET v = v + 1")
                stage.drain(driver)
                stage.same(driver)
            late = stage.driver(schemaFolder=str(stage.folder / "late"))
            stage.snapshot(late)
            stage.same(late)
            past = Position(file, int(sizes[file]) - rotation_size(file))
            assert not past.startable
            end = Position(*binlog_end(stage.connection))
            assert events(server, past, end)
    finally:
        server.stop()


def rotation_size(file: str) -> int:
    """A ROTATE event: a header, a position, a file's name and a checksum."""
    return 19 + 8 + len(file) + 4
