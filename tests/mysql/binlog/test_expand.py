"""Compressed events of MariaDB, as 10.11 wrote them: expanded they are the plain events, at the positions they had."""

from __future__ import annotations

import random
import struct
import zlib

import numpy as np
import pytest

from lakehouse_cdc.errors import CdcError, DefiniteError
from lakehouse_cdc.images.binlog.words import MARKER
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.mysql.binlog.compression.events import expand
from lakehouse_cdc.mysql.binlog.scanner import BinlogScanner
from tests.support.binlog_log import Buffer, event, format_event, query_event
from tests.support.images.guarded import guarded_copy
from tests.support.payloads import packed_event, sealed
from tests.support.rounds import rounds

HEAD, CRC = 19, 4
QUERY = bytes.fromhex(
    "9fb9016ba50100000082000000f1ee000000000500000000000000010000230000000000010100002054000000000603737464042d002d002d0081"
    "21000000000000006400815f789c73f409710d52087174f27155285170f6f7f575f50b51504f54284b2daa54c8c9cf4b5748cecfcd4dcd2b51"
    "48241da80300d05020d3d3e61590"
)
INSERT = bytes.fromhex(
    "9fb9016ba601000000400000003e020000000017000000000001000203820266789cfbc3c8c0c0a0c358310a88067f98c04156390a880600f2"
    "181cd11feca12e"
)
UPDATE = bytes.fromhex(
    "9fb9016ba701000000580000004803000000001700000000000100020303820530789cfbc3c8c0c0a0c358310a88067f404116371a6424802a92"
    "c11f2670baac1c0544037090c58d06190980f4740900ded669ad592293da"
)
ALTER = b"ALTER TABLE t COMMENT 'a very long comment " + b"a" * 51 + b"'"


def row(number: int, text: bytes) -> bytes:
    return struct.pack("<BIH", 0xFC, number, len(text)) + text


def retyped(packed: bytes, kind: int) -> Buffer:
    """The same under another type; as version 2, with the length of extra data that there is not."""
    head = bytearray(packed[:-CRC])
    head[4] = kind
    if kind >= 169:
        head[HEAD + 8 : HEAD + 8] = b"\x02\0"
    return sealed(bytes(head))


def single(packed: Buffer) -> tuple[int, int, bytes]:
    """Size and checksum by the marker, and the plain event."""
    found = expand(guarded_copy(packed), 0)
    assert found.fault is None
    assert found.later is None
    data = found.data
    size, tail, inner = struct.unpack("<IIQ", data[HEAD:MARKER].tobytes())
    assert data[4] == packed[4]
    assert data[13:17].tobytes() == packed[13:17].tobytes()
    assert inner == data.size - MARKER == int.from_bytes(data[MARKER + 9 : MARKER + 13].tobytes(), "little")
    return size, tail, data[MARKER:].tobytes()


def test_a_statement() -> None:
    size, tail, plain = single(np.frombuffer(QUERY, np.uint8))
    assert (size, tail, plain[4]) == (len(QUERY), CRC, 2)
    assert plain[:4] + plain[5:9] + plain[13:HEAD] == QUERY[:4] + QUERY[5:9] + QUERY[13:HEAD]
    assert plain[HEAD:].endswith(b"\0d\0" + ALTER)


@pytest.mark.parametrize(("packed", "plain"), [(166, 23), (167, 24), (168, 25), (169, 30), (170, 31), (171, 32)])
def test_rows(packed: int, plain: int) -> None:
    sample = UPDATE if packed in (167, 170) else INSERT
    x, y = (c * 300 for c in (b"x", b"y"))
    z = b"z" * 50
    rows = row(1, x) + row(1, x + z) + row(2, y) + row(2, y + z) if sample is UPDATE else row(1, x) + row(2, y)
    size, tail, found = single(retyped(sample, packed))
    bitmaps = b"\x03\x03" if sample is UPDATE else b"\x03"
    extra = b"\x02\0" if packed >= 169 else b""
    assert (size, tail, found[4]) == (len(sample) + len(extra), CRC, plain)
    assert found[HEAD:] == sample[HEAD : HEAD + 8] + extra + b"\x02" + bitmaps + rows


def test_a_scan_counts_the_compressed_sizes() -> None:
    shape = b"\x01\0\x01d\0\x01t\0\x02\x03\xfc\x01\x02\x02"
    pieces, pos = [format_event()], 4 + format_event().size

    def add(made: Buffer) -> int:
        nonlocal pos
        pieces.append(made)
        pos += made.size
        return pos

    ends = []
    for _ in range(2):
        add(query_event("BEGIN", pos))
        add(event(19, b"\x17" + bytes(5) + shape, pos))
        ends += [add(packed_event(p[HEAD:-CRC], pos, kind=p[4])) for p in (INSERT, UPDATE)]
        add(event(16, bytes(8), pos))
    add(packed_event(QUERY[HEAD:-CRC], pos, kind=165))
    scan = BinlogScanner(Position("m.000001", 4), lambda _: True).feed(np.concatenate(pieces))
    assert scan.row_end.tolist() == ends
    assert (scan.end.pos, scan.boundary.pos, scan.ended) == (pos, pos, 3)
    assert [(s.text, s.position.pos) for s in scan.statements] == [(ALTER.decode(), pos)]


def test_without_checksums() -> None:
    bare = np.frombuffer(INSERT[:9] + struct.pack("<I", len(INSERT) - CRC) + INSERT[13:-CRC], np.uint8)
    assert single(bare) == (bare.size, 0, single(np.frombuffer(INSERT, np.uint8))[2])


@pytest.mark.parametrize(
    ("record", "what"),
    [
        (b"\x82\x02\x66", "does not hold"),  # nothing behind the size
        (b"\x82\x02\x65" + zlib.compress(b"x" * 614), "does not hold"),
        (b"\x82\x02\x67" + zlib.compress(b"x" * 614), "does not hold"),
        (b"\x84\xff\xff\xff\xff" + zlib.compress(b"x" * 614), "does not hold"),
        (b"\x81\x00" + zlib.compress(b""), "does not hold"),
        (b"\x82\x02\x66" + zlib.compress(b"x" * 614)[:-1], "does not hold"),
        (b"\x82\x02\x66" + zlib.compress(b"x" * 614) + b"x", "malformed"),
        (b"\x92\x02\x66" + zlib.compress(b"x" * 614), "malformed"),  # another algorithm
        (b"\x02\x02\x66" + zlib.compress(b"x" * 614), "malformed"),
        (b"\x80" + zlib.compress(b"x" * 614), "malformed"),
        (b"\x82\x02", "does not hold"),
        (b"", "malformed"),
    ],
)
def test_records_that_are_refused(record: bytes, what: str) -> None:
    made = packed_event(INSERT[HEAD : HEAD + 10] + record, 4, kind=166)
    fault = expand(guarded_copy(made), 0).fault
    assert isinstance(fault, DefiniteError)
    assert what in fault.what


def test_a_wrong_checksum() -> None:
    damaged = np.frombuffer(INSERT[:-1] + b"x", np.uint8)
    found = expand(damaged, 0)
    assert isinstance(found.fault, DefiniteError)
    assert "checksum" in found.fault.what
    assert found.data.size == MARKER  # nothing behind it is there


def test_damage() -> None:
    dice = random.Random(1)
    for sample in (QUERY, INSERT, UPDATE):
        for _ in range(rounds(300)):
            head = bytearray(sample[: dice.choice((len(sample) - CRC, dice.randrange(HEAD, len(sample))))])
            for _ in range(dice.randrange(4)):
                head[dice.randrange(HEAD, len(head)) if len(head) > HEAD else 18] = dice.randrange(256)
            kind = dice.choice((sample[4], *range(165, 172)))
            try:
                expand(guarded_copy(retyped(bytes(head) + bytes(CRC), kind)), 0)
            except CdcError:
                raise AssertionError("a fault is given back, not raised") from None
