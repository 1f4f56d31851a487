"""Payloads that no server should send: each an error with its position, or at most other rows; never a crash."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse_cdc.errors import CdcError, DefiniteError
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.mysql.binlog.compression import events
from lakehouse_cdc.mysql.binlog.scan import Scan
from lakehouse_cdc.mysql.binlog.scanner import BinlogScanner
from tests.support.binlog_log import Buffer, Log, event, joined, query_event, starts
from tests.support.images.guarded import guarded_copy
from tests.support.payloads import NONE, PAYLOAD, fields, inner_events, packed_event, payload, sealed
from tests.support.rounds import rounds

MANY = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Sample(NamedTuple):
    """The log up to a GTID, a compressed transaction of two tables, what follows; the transaction's plain events."""

    start: Position
    before: Buffer
    packed: Buffer
    behind: Buffer
    inner: list[bytes]

    @property
    def pos(self) -> int:
        """Where the payload begins."""
        return int.from_bytes(self.packed[13:17].tobytes(), "little") - self.packed.size

    def scan(self, packed: Buffer) -> list[Scan]:
        """With another payload in the place of this one, and nothing behind."""
        return [*BinlogScanner(self.start, lambda _: True).scans(guarded_copy(np.concatenate((self.before, packed))))]


@pytest.fixture
def sample(log: Log, database: str) -> Sample:
    log.run(f"USE {database}", "CREATE TABLE a (i INT PRIMARY KEY, t TEXT)", "CREATE TABLE b (i INT PRIMARY KEY)")
    statements = ("BEGIN", "INSERT INTO a VALUES (1, 'x'), (2, REPEAT('y', 9000))", "INSERT INTO b VALUES (1)")
    start = log.end
    log.run(*statements, "COMMIT", "DELETE FROM a", "DELETE FROM b")
    plain = inner_events(joined(log.buffers(start)))
    kinds = [e[4] for e in plain]
    first, last = kinds.index(2), kinds.index(16)
    start = log.end
    log.run("SET SESSION binlog_transaction_compression = ON", *statements, "COMMIT", "DELETE FROM a")
    log.run("SET SESSION binlog_transaction_compression = OFF", "DROP TABLE a")
    whole = joined(log.buffers(start))
    places = starts(whole)
    n = next(n for n, at in enumerate(places) if whole[at + 4] == PAYLOAD)
    before, packed, behind = np.split(whole, [places[n], places[n + 1]])
    return Sample(start, before, packed, behind, plain[first : last + 1])


@pytest.fixture(autouse=True, params=[events.PIECE, 40])
def guarded_memory(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """What is expanded, at once or piece by piece, ends where the memory ends."""
    plain: Callable[[list[Any]], Buffer] = events._joined
    monkeypatch.setattr(events, "PIECE", request.param)
    monkeypatch.setattr(events, "_joined", lambda pieces: guarded_copy(plain(pieces)))


def test_a_payload_of_our_making_is_taken(sample: Sample) -> None:
    inner = b"".join(sample.inner)
    found = [sample.scan(sample.packed), *(sample.scan(payload(inner, sample.pos, kind=kind)) for kind in (0, NONE))]
    assert {len(scans) > 1 for scans in found} == {len(inner) > events.PIECE}
    assert [sum(len(scan.rows) for scan in scans) for scans in found] == [3, 3, 3]
    assert {sum(scan.ended for scan in scans) for scans in found} == {1}
    for scans, packed in zip(found[1:], (0, NONE), strict=True):
        end = sample.pos + payload(inner, sample.pos, kind=packed).size
        assert {end, *(place for scan in scans for place in scan.row_end.tolist())} == {end}
        assert scans[-1].boundary.pos == scans[-1].end.pos == end


@MANY
@given(st.data())
def test_every_changed_byte_is_noticed(sample: Sample, data: st.DataObject) -> None:
    """The checksum covers the whole event; what its type would have become, the events behind it show."""
    damaged = sample.packed.copy()
    at = data.draw(st.one_of(st.integers(0, 60), st.integers(0, damaged.size - 1)))
    damaged[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(DefiniteError) as caught:
        sample.scan(np.concatenate((damaged, sample.behind)))
    assert caught.value.where


@MANY
@given(st.data())
def test_damage_under_a_right_checksum(sample: Sample, data: st.DataObject) -> None:
    """An error, or a result: of rows that were changed in the stream, nothing else can tell."""
    damaged = sample.packed.copy()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.one_of(st.integers(19, 50), st.integers(19, damaged.size - 5)))
        damaged[at] = data.draw(st.integers(0, 255))
    size = data.draw(st.integers(19, damaged.size - 4)) if data.draw(st.booleans()) else damaged.size - 4
    attempt(sample, sealed(damaged[:size].tobytes()))


@MANY
@given(st.data())
def test_damage_of_the_inner_events(sample: Sample, data: st.DataObject) -> None:
    inner = bytearray(b"".join(sample.inner))
    places = [sum(map(len, sample.inner[:n])) for n in range(len(sample.inner))]
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.one_of(st.sampled_from(places), st.integers(0, len(inner) - 1)))
        near = min(at + data.draw(st.integers(0, 40)), len(inner) - 1)
        inner[near] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(1, len(inner)))
    attempt(sample, payload(bytes(inner[: cut if data.draw(st.booleans()) else len(inner)]), sample.pos))


def attempt(sample: Sample, packed: Buffer) -> None:
    try:
        sample.scan(packed)
    except CdcError as error:
        assert error.where  # noqa: PT017


def test_random_streams_and_fields(sample: Sample) -> None:
    dice = random.Random(1)
    stream = pa.compress(b"".join(sample.inner), codec="zstd", asbytes=True)
    for _ in range(rounds(200)):
        numbers = [
            (dice.randrange(5), dice.choice((0, 1, 255, dice.randrange(1 << dice.randrange(1, 64))))) for _ in "abc"
        ]
        body = dice.choice((stream, dice.randbytes(dice.randrange(60)), stream[: dice.randrange(len(stream))]))
        head = dice.choice(
            (fields(*numbers), fields(*numbers)[: dice.randrange(9)], dice.randbytes(dice.randrange(30)))
        )
        attempt(sample, packed_event(head + body, sample.pos))


@pytest.mark.parametrize("part", ["one byte less", "cut in the middle"])
def test_a_payload_that_is_cut_off(sample: Sample, part: str) -> None:
    with pytest.raises(DefiniteError, match="cut off"):
        sample.scan(sample.packed[: -1 if part == "one byte less" else sample.packed.size // 2])


def size_claims(size: int) -> list[int]:
    return [0, 1, size - 1, size + 1, 2 * size, 1 << 31, 1 << 40, (1 << 64) - 1]


def test_the_stated_size_is_what_must_come_out(sample: Sample) -> None:
    inner = b"".join(sample.inner)
    began = time.monotonic()
    for kind in (0, NONE):
        for claim in size_claims(len(inner)):
            with pytest.raises(DefiniteError, match=r"compressed|malformed") as caught:
                sample.scan(payload(inner, sample.pos, kind=kind, size=claim))
            assert f":{sample.pos}, event type 40" in caught.value.where
    assert time.monotonic() - began < 20


def test_fields_that_are_not_known(sample: Sample) -> None:
    inner = b"".join(sample.inner)
    stream = pa.compress(inner, codec="zstd", asbytes=True)
    size, packed = (3, len(inner)), (1, len(stream))
    with pytest.raises(DefiniteError, match="a method that is not known: 7"):
        sample.scan(packed_event(fields((2, 7), size, packed) + stream, sample.pos))
    bad: list[tuple[tuple[int, int], ...]] = [
        *(((2, 0), size, packed, (4, 1)), ((2, 0), size, packed, packed), ((2, 0), packed), (size, packed)),
        *(((2, 0), size), (), ((2, 0), size, (1, len(stream) - 1))),
    ]
    for numbers in bad:
        with pytest.raises(DefiniteError, match="malformed"):
            sample.scan(packed_event(fields(*numbers) + stream, sample.pos))
    with pytest.raises(DefiniteError, match=r"does not hold what it says|malformed"):  # the checksum, taken for a part
        sample.scan(packed_event(fields((2, 0), size, (1, len(stream) + 4)) + stream, sample.pos))
    wrong_length = fields((2, 0), size, packed).replace(b"\x02\x01\x00", b"\x02\x02\x00", 1)
    with pytest.raises(DefiniteError, match="malformed"):
        sample.scan(packed_event(wrong_length + stream, sample.pos))


def test_a_checksum_where_the_file_has_none(sample: Sample) -> None:
    with pytest.raises(DefiniteError, match="malformed"):
        sample.scan(payload(b"".join(sample.inner), sample.pos, checksum=0))


def bare(body: bytes, kind: int) -> bytes:
    return struct.pack("<IBIIIH", 0, kind, 1, 19 + len(body), 0, 0) + body


GTID = bare(b"\0" + bytes(15) + b"\1" + (1).to_bytes(8, "little") + bytes(17), 33)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda inner: inner[:-1], "one whole transaction"),
        (lambda inner: inner[:1], "one whole transaction"),
        (lambda inner: inner + inner, "one whole transaction"),
        (lambda inner: [*inner, bare(b"x", 29)], "one whole transaction"),
        (lambda inner: inner[1:], "where none of its type can be"),
        (lambda inner: [GTID, *inner], "where none of its type can be"),
        (lambda inner: [*inner[:-1], GTID, inner[-1]], "where none of its type can be"),
        (lambda inner: [*inner, GTID], "where none of its type can be"),
        (
            lambda inner: [inner[0], payload(b"".join(inner), 4).tobytes(), inner[-1]],
            "where none of its type can be",
        ),
        *(
            (lambda inner, kind=kind: [inner[0], bare(bytes(60), kind), *inner[1:]], "where none of its type can be")
            for kind in (3, 4, 15, 27, 34, 35, 36, 37, 41, 42, 165, 166, 171)
        ),
        (lambda inner: [inner[0], bare(bytes(60), 26), *inner[1:]], "INCIDENT"),
        (lambda inner: [inner[0], bare(bytes(60), 60), *inner[1:]], "type 60, which is not known"),
        (lambda inner: [inner[0], *inner[2:]], "without a table map"),
        (lambda inner: [*inner[:-1], inner[-1][:-1]], "cut off"),
        (lambda inner: [*inner[:-1], inner[-1] + b"x"], "cut off"),
        (lambda inner: [b"\0"], "cut off"),
    ],
)
def test_what_a_payload_must_not_hold(sample: Sample, change: Callable[[list[bytes]], list[bytes]], what: str) -> None:
    with pytest.raises(DefiniteError, match=what) as caught:
        sample.scan(payload(b"".join(change(sample.inner)), sample.pos))
    assert f":{sample.pos}, event type" in caught.value.where  # not a place within


def test_a_payload_stands_behind_its_gtid(sample: Sample) -> None:
    gtid = starts(sample.before)[-1]
    scanner = BinlogScanner(sample.start, lambda _: True)
    scanner.feed(sample.before[:gtid])
    inner = b"".join(sample.inner)
    with pytest.raises(DefiniteError, match="where none of its type can be"):
        scanner.feed(payload(inner, scanner.position.pos))
    begin = query_event("BEGIN", sample.pos)
    with pytest.raises(DefiniteError, match="where none of its type can be"):
        sample.scan(np.concatenate((begin, payload(inner, sample.pos + begin.size))))
    with pytest.raises(DefiniteError, match="does not end where its header says"):
        sample.scan(payload(inner, sample.pos + 1))


def test_what_stands_in_front_of_a_broken_one_is_judged_first(sample: Sample) -> None:
    broken = sample.packed.copy()
    broken[-10] ^= 1
    with pytest.raises(DefiniteError, match="type 60, which is not known"):
        sample.scan(np.concatenate((event(60, b"", sample.pos), broken)))
    with pytest.raises(DefiniteError, match="checksum"):
        sample.scan(broken)
