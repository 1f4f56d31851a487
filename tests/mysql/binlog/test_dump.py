"""A dump from a real server: whole events, idle and busy, large ones, and every way in which it can be refused."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.errors import DefiniteError, TransientError, codes
from lakehouse_cdc.images.binlog.packets import MORE, strip_packets
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.mysql.binlog.dump import BinlogDump
from lakehouse_cdc.mysql.binlog.framing import strip_few
from lakehouse_cdc.mysql.binlog.scanner import BinlogScanner
from lakehouse_cdc.testing import MySqlServer
from tests.remedies import remedy
from tests.support.binlog_log import Log, as_listed, joined, scan_all, starts

UUID = "6e5bd1a5-0f1d-4b5c-9a47-0d2c6a3a9f11"
# MySQL 8.0 may end a dump, with no reason, whose log is rotated just as it sends a heartbeat: one in ten here, at 0.2 s
_NONE_MEANWHILE = 60


@pytest.mark.parametrize("tls", [False, True])
def test_the_bytes_are_those_of_the_file(log: Log, mysql: MySqlServer, database: str, tls: bool) -> None:
    log.run("FLUSH BINARY LOGS", f"CREATE TABLE {database}.t (a INT PRIMARY KEY, b VARCHAR(90))")
    for n in range(30):
        log.run(f"INSERT INTO {database}.t VALUES ({n}, REPEAT('x', {n}))")
    end = log.end
    connection = mysql.connect(ssl_disabled=not tls)
    assert (connection.ssl is not None and bool(connection.ssl)) or not tls
    received = joined(log.buffers(Position(end.file, 4), connection=connection))
    rotate = int.from_bytes(received[9:13].tobytes(), "little")
    assert received[4] == 4  # made up by the server
    file = next(Path(mysql.directory).rglob(end.file)).read_bytes()[4 : end.pos]
    body = bytearray(received[rotate:].tobytes()[: len(file)])
    description = int.from_bytes(body[9:13], "little")
    assert body[description:] == file[description:]  # a format description in use differs in a flag and its checksum


def test_an_event_of_more_than_16_mb_is_joined(log: Log, database: str) -> None:
    log.run(f"CREATE TABLE {database}.t (a INT PRIMARY KEY, b LONGBLOB)")
    start = log.end
    sizes = (20_000_000, 0xFFFFFF - 200, 0xFFFFFF + 5, 2 * 0xFFFFFF)
    for n, size in enumerate(sizes):
        log.run(f"INSERT INTO {database}.t VALUES ({n}, REPEAT('{n}', {size}))")
    scans = scan_all(BinlogScanner(start, lambda _: True), log.buffers(start))
    bodies = [
        scan.buffer[scan.rows.start[i] : scan.rows.end[i]].tobytes() for scan in scans for i in range(len(scan.rows))
    ]
    assert [body[-size:] for body, size in zip(bodies, sizes, strict=True)] == [
        str(n).encode() * size for n, size in enumerate(sizes)
    ]
    assert as_listed(scans).rows == log.listed(start, database).rows


def test_every_length_around_a_full_packet(log: Log, database: str) -> None:
    """A packet of exactly 0xffffff bytes is followed by an empty one."""
    log.run(f"CREATE TABLE {database}.t (a INT PRIMARY KEY, b LONGBLOB)")
    start = log.end
    log.run(f"INSERT INTO {database}.t VALUES (0, REPEAT('x', 0xffff))")
    overhead = max(row_sizes(log, start)) - 0xFFFF
    for n, wanted in enumerate(range(0xFFFFFF - 2, 0xFFFFFF + 2)):  # the status byte counts, too
        log.run(f"INSERT INTO {database}.t VALUES ({n + 1}, REPEAT('x', {wanted - 1 - overhead}))")
    assert 0xFFFFFF - 1 in row_sizes(log, start)
    scans = scan_all(BinlogScanner(start, lambda _: True), log.buffers(start))
    assert as_listed(scans).rows == log.listed(start, database).rows


def row_sizes(log: Log, start: Position) -> list[int]:
    listed = log.ask(f"SHOW BINLOG EVENTS IN '{start.file}' FROM {start.pos}")
    return [end - pos for _, pos, kind, _, end, _ in listed if kind == "Write_rows"]


def drain(dump: BinlogDump, times: int = 50, timeout: float = 0.2) -> None:
    for _ in range(times):
        dump.read(timeout)


def test_an_idle_server_is_heard_and_new_events_come_at_once(log: Log, database: str) -> None:
    log.run(f"CREATE TABLE {database}.t (a INT PRIMARY KEY)")
    start = log.end
    dump, scanner = log.dump(start, heartbeat_seconds=0.2), BinlogScanner(start, lambda _: True)
    heard, until = 0, time.monotonic() + 2
    while time.monotonic() < until:
        scan = scanner.feed(dump.read(0.1))
        heard += scan.buffer.size > 0
        assert scan.boundary == start
    assert heard >= 3
    log.run(f"INSERT INTO {database}.t VALUES (1)")
    began = time.monotonic()
    while scanner.boundary < log.end:
        scanner.feed(dump.read(5))
    assert time.monotonic() - began < 2


def test_a_time_out_gives_nothing_and_loses_nothing(log: Log, database: str) -> None:
    start = log.end
    dump = log.dump(start, heartbeat_seconds=30)
    while dump.read(0.5).size:
        pass
    began = time.monotonic()
    assert dump.read(0.3).size == 0
    assert 0.2 < time.monotonic() - began < 2
    log.run(f"CREATE TABLE {database}.t (a INT)")
    assert dump.read(5).size


def test_silence_is_a_transient_error(log: Log) -> None:
    dump = log.dump(log.end, heartbeat_seconds=60)
    dump._silence = 0.5  # as if the server had promised a heartbeat every sixth of a second
    with pytest.raises(TransientError, match="neither events nor heartbeats"):
        drain(dump)


@pytest.mark.mysql
def test_a_purged_file_and_an_impossible_position(plain_log: Log) -> None:
    old = plain_log.end
    plain_log.run("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    plain_log.run(f"PURGE BINARY LOGS TO '{plain_log.end.file}'")
    with pytest.raises(DefiniteError, match=rf"{old.file} is purged.*source.on_gap"):
        plain_log.dump(old).read(10)
    beyond = Position(plain_log.end.file, 10**8)
    with pytest.raises(DefiniteError, match=rf"{beyond} is no longer.*source.on_gap"):
        plain_log.dump(beyond).read(10)


def test_a_position_inside_an_event(log: Log) -> None:
    inside = Position(log.end.file, log.end.pos - 5)
    with pytest.raises(DefiniteError, match="is no longer, or never was, a position"):
        drain(log.dump(inside))


def test_the_right_to_read_is_named(log: Log, mysql: MySqlServer) -> None:
    log.run("CREATE USER IF NOT EXISTS 'norights'@'127.0.0.1' IDENTIFIED BY 'pw'")
    dump = log.dump(log.end, connection=mysql.connect(user="norights", password="pw"))
    with pytest.raises(DefiniteError, match=r"GRANT REPLICATION SLAVE ON \*\.\*"):
        dump.read(10)
    with pytest.raises(DefiniteError):
        dump.read(10)  # the same again
    log.run("DROP USER 'norights'@'127.0.0.1'")


@remedy(codes.SERVER_ID_TAKEN)
def test_a_second_reader_under_the_same_name_ends_the_first(log: Log) -> None:
    first = log.dump(log.end, server_id=41_999, replica_uuid=UUID, heartbeat_seconds=_NONE_MEANWHILE)
    first.read(5)
    second = log.dump(log.end, server_id=41_999, replica_uuid=UUID, heartbeat_seconds=_NONE_MEANWHILE)
    with pytest.raises(TransientError, match="server_id") as ended:
        drain(first)
    assert second.read(5).size
    assert ended.value.code is codes.SERVER_ID_TAKEN
    assert ended.value.hint == "give each reader its own server_id (source.server_ids)"
    other = log.dump(log.end, server_id=42_000, heartbeat_seconds=_NONE_MEANWHILE)
    log.run("FLUSH BINARY LOGS")
    assert other.read(5).size
    assert second.read(5).size


def test_a_killed_connection_is_a_transient_error(log: Log, mysql: MySqlServer) -> None:
    connection = mysql.connect()
    number = connection.thread_id()  # type: ignore[no-untyped-call]  # the stub has no annotations here
    dump = log.dump(log.end, connection=connection, heartbeat_seconds=0.2)
    dump.read(5)
    log.run(f"KILL {number}")
    with pytest.raises(TransientError):
        drain(dump)


@pytest.mark.parametrize(("pos", "server_id"), [(3, 1), (4, 0), (4, 1 << 32)])
def test_what_the_protocol_cannot_say(log: Log, pos: int, server_id: int) -> None:
    with pytest.raises(DefiniteError):
        log.dump(Position("mysql-bin.000001", pos), server_id=server_id)


def framed(payloads: list[bytes]) -> bytes:
    packets = b""
    for sequence, payload in enumerate(payloads, start=1):
        packets += len(payload).to_bytes(3, "little") + bytes([sequence & 0xFF]) + payload
    return packets


@pytest.mark.parametrize("size", [0xFFFFFF - 2, 0xFFFFFF - 1, 0xFFFFFF, 2 * 0xFFFFFF - 1])
def test_an_event_in_several_packets_is_the_same_without_compiled_code(size: int) -> None:
    payload = b"\0" + b"\0" * 9 + size.to_bytes(4, "little") + b"x" * (size - 13)
    parts = [payload[at : at + 0xFFFFFF] for at in range(0, len(payload), 0xFFFFFF)]
    parts += [b""] if len(parts[-1]) == 0xFFFFFF else []
    raw = np.frombuffer(framed(parts), dtype=np.uint8).copy()
    outs = [np.empty(raw.size, dtype=np.uint8) for _ in range(2)]
    answers = [strip(raw, raw.size, 1, out) for strip, out in zip((strip_packets, strip_few), outs, strict=True)]
    assert answers == [(MORE, raw.size, size, len(parts) + 1)] * 2
    assert outs[0][:size].tobytes() == outs[1][:size].tobytes() == payload[1:]


@given(st.binary(max_size=80), st.integers(0, 80))
def test_any_bytes_in_place_of_packets_are_an_error_or_wait(junk: bytes, keep: int) -> None:
    event = b"\0" * 9 + (25).to_bytes(4, "little") + b"\0" * 12
    whole = framed([b"\0" + event, b"\0" + event])
    raw = np.frombuffer(whole[:keep] + junk, dtype=np.uint8).copy()
    out = np.empty(raw.size, dtype=np.uint8)
    why, consumed, produced, _ = answer = strip_packets(raw, raw.size, 1, out)
    plain = np.empty(raw.size, dtype=np.uint8)
    assert strip_few(raw, raw.size, 1, plain) == answer
    assert plain[:produced].tobytes() == out[:produced].tobytes()
    assert 0 <= consumed <= raw.size
    assert 0 <= produced <= max(raw.size, 0)
    assert out[:produced].size == sum(1 for _ in starts(out[:produced])) * 25 or junk
    if not junk:
        assert (why, produced) == (MORE, keep // 30 * 25)
