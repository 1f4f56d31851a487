"""Bytes that no server should send: each one an error with its position, none passed over, none a crash."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse_cdc.errors import CdcError, DefiniteError
from lakehouse_cdc.model.gtid import GtidSet
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.mysql.binlog import rare_events as rare
from lakehouse_cdc.mysql.binlog.scanner import BinlogScanner
from tests.support.binlog_log import Buffer, Log, damage, event, format_event, joined, query_event, starts

SOURCE = "4aa07ab1-e57a-11f1-a9a1-02fc00000001"


@pytest.fixture
def sample(log: Log, database: str) -> tuple[Position, Buffer]:
    """A file with a transaction of two tables, one over several events, DDL and a rotation."""
    log.run("FLUSH BINARY LOGS")
    start = Position(log.end.file, 4)
    log.run(f"USE {database}", "CREATE TABLE a (i INT PRIMARY KEY, t TEXT)", "CREATE TABLE b (i INT PRIMARY KEY)")
    log.run("BEGIN", "INSERT INTO a VALUES (1, 'x'), (2, REPEAT('y', 9000))", "INSERT INTO b VALUES (1)", "COMMIT")
    log.run("UPDATE a, b SET t = 'z', b.i = 2 WHERE a.i = b.i", "DELETE FROM a", "FLUSH BINARY LOGS")
    return start, joined(log.buffers(start))


def scan(sample: tuple[Position, Buffer], buffer: Buffer) -> None:
    BinlogScanner(sample[0], lambda _: True).feed(buffer)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_bytes_never_crash(sample: tuple[Position, Buffer], data: st.DataObject) -> None:
    damaged = damage(data, sample[1])
    cut = data.draw(st.integers(0, damaged.size))
    try:
        scan(sample, damaged[: cut if data.draw(st.booleans()) else damaged.size])
    except CdcError as error:
        assert error.where  # noqa: PT017


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_truncated_buffer_is_an_error(sample: tuple[Position, Buffer], data: st.DataObject) -> None:
    whole = sample[1]
    cut = data.draw(st.integers(1, whole.size - 1).filter(lambda n: n not in starts(whole)))
    with pytest.raises(DefiniteError, match="cut off"):
        scan(sample, whole[:cut])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_lost_event_is_an_error(sample: tuple[Position, Buffer], data: st.DataObject) -> None:
    """A ROTATE is not missed, since a file may end without (after a crash), nor are the last events of all."""
    whole = sample[1]
    places = [*starts(whole), whole.size]
    real = [n for n in range(1, len(places) - 4) if whole[places[n] + 4] != 4]
    lost = data.draw(st.sampled_from(real))
    with pytest.raises(DefiniteError):
        scan(sample, np.concatenate((whole[: places[lost]], whole[places[lost + 1] :])))


def test_transactions_lost_at_the_end_of_a_file_are_missed(log: Log, database: str) -> None:
    log.run("FLUSH BINARY LOGS", f"CREATE TABLE {database}.t (a INT PRIMARY KEY)")
    start = Position(log.end.file, 4)
    log.run(f"INSERT INTO {database}.t VALUES (1)", "FLUSH BINARY LOGS")
    whole = joined(log.buffers(start))
    at_gtid = max(at for at in starts(whole) if whole[at + 4] == 33)
    made_up = max(at for at in starts(whole) if whole[at + 4] == 4)
    BinlogScanner(start, lambda _: True).feed(whole)
    with pytest.raises(DefiniteError, match="did not hold"):
        BinlogScanner(start, lambda _: True).feed(np.concatenate((whole[:at_gtid], whole[made_up:])))


KNOWN = {2, 3, 4, 5, 9, 11, 13, 14, 15, 16, 17, 18, 19, *range(23, 26), *range(27, 43), *range(165, 172)}


@pytest.mark.parametrize("kind", sorted(set(range(256)) - KNOWN))
def test_a_type_that_is_not_read_stops_the_scan(header: Buffer, kind: int) -> None:
    scanner = BinlogScanner(Position("mysql-bin.000001", 4), lambda _: False)
    scanner.feed(header)
    with pytest.raises(DefiniteError) as caught:
        scanner.feed(event(kind, b"\0" * 40, scanner.position.pos))
    assert str(scanner.position) in caught.value.where
    assert str(kind) in caught.value.where
    assert scanner.position.pos == 4 + header.size
    with pytest.raises(DefiniteError):
        scanner.feed(header[:0])  # spent


@pytest.fixture
def header() -> Buffer:
    return format_event()


def test_positions_go_on_beyond_4_gib(header: Buffer) -> None:
    """The header's 32 bits wrap; the sum does not."""
    start = Position("mysql-bin.000001", (1 << 32) - 60)
    mid_file = header.copy()
    mid_file[13:17] = 0  # sent again for a start in mid-file
    scanner = BinlogScanner(start, lambda _: False)
    scan = scanner.feed(np.concatenate((mid_file, query_event("CREATE VIEW v AS SELECT 1", start.pos))))
    assert scan.end.pos > 1 << 32
    assert scan.boundary == scan.end == scan.boundaries()[0]
    with pytest.raises(DefiniteError, match="does not end where its header says"):
        scanner.feed(query_event("CREATE VIEW v AS SELECT 1", start.pos))


def rotate(file: str, pos: int, *, made_up: bool = False, to: int = 4) -> Buffer:
    found: Buffer = event(4, to.to_bytes(8, "little") + file.encode(), pos, flags=0x20 if made_up else 0).copy()
    if made_up:
        found[13:17] = 0
    found[-4:] = np.frombuffer(zlib.crc32(found[:-4].tobytes()).to_bytes(4, "little"), dtype=np.uint8)
    return found


def test_rotations(header: Buffer) -> None:
    scanner = BinlogScanner(Position("log.000001", 4), lambda _: False)
    end = 4 + header.size
    scan = scanner.feed(np.concatenate((rotate("log.000001", 0, made_up=True), header, rotate("log.000002", end))))
    assert scan.files == ("log.000001", "log.000002")
    assert scanner.boundary == Position("log.000002", 4)
    # a crash leaves a file without its ROTATE; the server's own says where it goes on, with or without a checksum
    scanner.feed(np.concatenate((rotate("log.000002", 0, made_up=True), header, rotate("log.000003", 0, made_up=True))))
    assert scanner.position == Position("log.000003", 4)


@pytest.mark.parametrize(
    ("file", "to"), [("log.000003", 4), ("log.000001", 4), ("other.000002", 4), ("log.000002", 120), ("log", 4)]
)
def test_a_rotation_to_another_place_than_the_next_file(header: Buffer, file: str, to: int) -> None:
    scanner = BinlogScanner(Position("log.000001", 4), lambda _: False)
    scanner.feed(header)
    with pytest.raises(DefiniteError):
        scanner.feed(rotate(file, scanner.position.pos, to=to))


def test_a_file_does_not_end_inside_a_transaction(header: Buffer) -> None:
    scanner = BinlogScanner(Position("log.000001", 4), lambda _: False)
    scanner.feed(np.concatenate((header, query_event("BEGIN", 4 + header.size))))
    with pytest.raises(DefiniteError, match="inside a transaction"):
        scanner.feed(rotate("log.000002", 0, made_up=True))


@pytest.mark.parametrize("text", ["COMMIT", "ROLLBACK", "SAVEPOINT a", "XA END X'61'", "START TRANSACTION"])
def test_control_outside_of_a_transaction(header: Buffer, text: str) -> None:
    scanner = BinlogScanner(Position("log.000001", 4), lambda _: False)
    with pytest.raises(DefiniteError, match="where none of its type can be"):
        scanner.feed(np.concatenate((header, query_event(text, 4 + header.size))))


def test_events_before_a_format_description() -> None:
    with pytest.raises(DefiniteError, match="where none of its type can be"):
        BinlogScanner(Position("log.000001", 4), lambda _: False).feed(query_event("BEGIN", 4))


def test_tagged_gtids_as_9_7_writes_them() -> None:
    short = (
        "027000000002948102f4c5029503f422c503a502850204f103000000020404060661626308480a500c7fa469ba43c46006107d04128312"
        "0b"
    )
    large = (
        "027a00000002948102f4c5029503f422c503a502850204f10300000002041f0088526a74060661626308040a0c0c7fe526bf43c46006"
        "1091041283120b"
    )
    assert rare.tagged_gtid(bytes.fromhex(short), "") == rare.TaggedGtid(f"{SOURCE}:abc", 1, 1795245926410660)
    assert rare.tagged_gtid(bytes.fromhex(large), "").number == 10**12
    for cut in range(len(short) // 2):
        with pytest.raises(DefiniteError):
            rare.tagged_gtid(bytes.fromhex(short)[:cut], "")


def test_previous_gtids_with_tags_as_9_7_writes_them() -> None:
    uuid = SOURCE.replace("-", "")
    one, two = (1).to_bytes(8, "little").hex(), (2).to_bytes(8, "little").hex()
    body = f"0102000000000001{uuid}00{one}{one}{(20).to_bytes(8, 'little').hex()}{uuid}06616263{one}{one}{two}"
    assert rare.previous_gtids(bytes.fromhex(body), "") == GtidSet.parse(f"{SOURCE}:1-19:abc:1")
    plain = f"{one}{uuid}{one}{one}{two}"
    assert rare.previous_gtids(bytes.fromhex(plain), "") == GtidSet.parse(f"{SOURCE}:1")
