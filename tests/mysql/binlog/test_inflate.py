"""Values of COMPRESSED columns: every form that they are stored in, and bytes that no server writes."""

from __future__ import annotations

import random
import struct
import tracemalloc
import zlib
from itertools import product
from typing import Any

import numpy as np
import pytest

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.images.binlog.row_events import RowEvents
from lakehouse_cdc.images.program import ProgramSet
from lakehouse_cdc.images.rows.decode import count_rows, decode_rows
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.variant import decode
from lakehouse_cdc.mysql.binlog.compression import columns
from lakehouse_cdc.mysql.binlog.compression.columns import countable, inflated
from lakehouse_cdc.mysql.binlog.scan import Scan
from lakehouse_cdc.mysql.binlog.scanner import BinlogScanner
from lakehouse_cdc.schema.table import Column, TableSchema
from tests.support.binlog_log import event, format_event, query_event
from tests.support.images.guarded import guarded_copy
from tests.support.rounds import rounds

ID = Column("id", "int", nullable=False)
SCHEMA = TableSchema(
    "d",
    "t",
    (
        *(ID, Column("v", "varbinary", length=255), Column("out", "varbinary", length=30, captured=False)),
        *(Column("b", "blob"), Column("long", "longtext", charset="utf8mb4"), Column("n", "varbinary", length=9)),
    ),
    ("id",),
)
PLAIN = TableSchema("d", "p", (ID, Column("v", "varbinary", length=9)), ("id",))
BOTH = {"d.t": SCHEMA, "d.p": PLAIN}
# types and their metadata: INT; compressed VARBINARY(255), VARBINARY(30), BLOB, LONGTEXT; VARBINARY(9)
SHAPE = b"\1\0\1d\0\1t\0\6\x03\x8d\x8d\x8c\x8c\x0f\x08\0\1\x1f\0\2\4\x09\0\x3e"
PLAIN_SHAPE = b"\1\0\1d\0\1p\0\2\x03\x0f\2\x09\0\2"
PREFIXES = (2, 1, 2, 4, 1)  # bytes of the lengths in front, behind the INT
WRITE, UPDATE = 30, 31
HEAD, BITS = b"\6", b"\x3f"
UPDATE_EVENT = np.array([1], np.uint8)
NOISE = random.Random(1).randbytes(70_000)


def stored(value: bytes, *, raw: bool = True, size_bytes: int = 0, size: int | None = None) -> bytes:
    """A value as the server compresses it, or with a size that it does not have."""
    deflate = zlib.compressobj(9, wbits=-15 if raw else 15)
    stream = deflate.compress(value) + deflate.flush()
    size = len(value) if size is None else size
    size_bytes = size_bytes or max((size.bit_length() + 7) // 8, 1)
    return bytes((0x80 | 8 * raw | size_bytes,)) + size.to_bytes(size_bytes, "big") + stream


def image(number: int, v: bytes | None, b: bytes | None, long: bytes = b"\0long") -> bytes:
    """A row, its values as they are stored."""
    values = (v, b"any", b, long, b"n")
    null = sum(2 << i for i, value in enumerate(values) if value is None)
    filled = (len(x).to_bytes(size, "little") + x for x, size in zip(values, PREFIXES, strict=True) if x is not None)
    return bytes((null,)) + struct.pack("<i", number) + b"".join(filled)


def scan_of(*events: tuple[int, bytes]) -> Scan:
    """Rows events of the table, by their content, between two of a plain table in one transaction."""
    plain = (WRITE, b"\x18" + bytes(7) + b"\2\0\2\3\0" + struct.pack("<i", 7) + b"\x05plain")
    maps = (19, b"\x17" + bytes(5) + SHAPE), (19, b"\x18" + bytes(5) + PLAIN_SHAPE)
    content = ((kind, b"\x17" + bytes(7) + b"\2\0" + body) for kind, body in events)
    made = [format_event()]
    made.append(query_event("BEGIN", 4 + made[0].size))
    for kind, body in (*maps, plain, *content, plain, (16, bytes(8))):
        made.append(event(kind, body, 4 + sum(map(len, made))))
    return BinlogScanner(Position("m.000001", 4), BOTH).feed(np.concatenate(made))


def read(scan: Scan) -> list[dict[str, Any]]:
    """The images of all changes, before and after; the rows are as many as can be counted without inflating any."""
    schemas = [BOTH[table.name] for table in scan.tables]
    found = inflated(scan, schemas)
    programs = ProgramSet.of(schemas, [table.types for table in found.tables])
    out = decode_rows(guarded_copy(found.buffer), found.rows, programs)
    stripped = [countable(table) for table in scan.tables]
    counted = count_rows(scan.buffer, scan.rows, ProgramSet.of(stripped, [table.types for table in scan.tables]))
    assert counted.tolist() == count_rows(found.buffer, found.rows, programs).tolist()
    tables = found.rows.table[out.event].tolist()
    images = [(t, side[i]) for i, t in enumerate(tables) for side in (out.before, out.after)]
    return [decode(value, programs.metadata[t]) for t, value in images if value is not None]


def one(v: bytes, b: bytes = b"") -> Scan:
    return scan_of((WRITE, HEAD + BITS + image(1, v, b)))


def test_every_form_of_a_value() -> None:
    forms = {
        b"": b"", b"\0": b"", b"\0x": b"x", b"\0" + NOISE[:255]: NOISE[:255], None: None,
        stored(b"x" * 100): b"x" * 100, stored(b"x" * 100, raw=False): b"x" * 100, stored(b"x" * 255): b"x" * 255,
        stored(b"x" * 100, size_bytes=4): b"x" * 100, stored(NOISE[:40]): NOISE[:40], stored(b"\0"): b"\0",
    }  # fmt: skip
    pairs = list(product(forms, forms))
    text = "é😀" * 20_000
    rows = [image(i, v, b, stored(text.encode()) if i == 5 else b"\0long") for i, (v, b) in enumerate(pairs)]
    half = len(rows) // 2 * 2
    events = [
        (WRITE, HEAD + BITS + b"".join(rows)),
        (UPDATE, HEAD + 2 * BITS + b"".join(rows[:half])),
        (UPDATE, HEAD + 2 * BITS),
        (WRITE, HEAD + BITS + b"".join(rows[:half])),
    ]
    first, *found, last = read(scan_of(*events))
    assert first == last == {"id": 7, "v": b"plain"}
    expected = [
        {"id": i, "v": forms[v], "b": forms[b], "long": text if i == 5 else "long", "n": b"n"}
        for i, (v, b) in enumerate(pairs)
    ]
    assert found == expected + expected[:half] * 2


def test_the_longest_values() -> None:
    most = (b"\0" + NOISE[:65_534], stored(b"x" * 65_535))
    found = read(scan_of((WRITE, HEAD + BITS + b"".join(image(i, b"", b) for i, b in enumerate(most)))))
    assert [row["b"] for row in found[1:-1]] == [NOISE[:65_534], b"x" * 65_535]


def test_a_scan_that_was_not_inflated_is_not_decoded() -> None:
    scan = one(stored(b"x" * 100))
    with pytest.raises(DefiniteError, match=r"column v of d\.t has binlog type 141"):
        ProgramSet.of([BOTH[table.name] for table in scan.tables], [table.types for table in scan.tables])


def test_without_compressed_columns_nothing_is_copied() -> None:
    scan = scan_of()
    plain = [BOTH[table.name] for table in scan.tables]
    assert inflated(scan, plain).buffer is scan.buffer
    left_out = TableSchema("d", "t", tuple(c if c.name == "id" else Column(c.name, c.type, captured=False)
                                           for c in SCHEMA.columns), ("id",))  # fmt: skip
    scan = one(b"\x99", b"\x99")
    assert inflated(scan, [left_out, PLAIN]) is scan


STREAM = stored(b"x" * 100)


@pytest.mark.parametrize(
    ("v", "b"),
    [
        (STREAM[:-1], b""),
        (STREAM[:2], b""),
        (STREAM[:1], b""),
        (STREAM + b"\0", b""),
        (stored(b"x" * 100, size=99), b""),
        (stored(b"x" * 100, size=101), b""),
        (stored(b"x" * 100, size=0), b""),
        (stored(b"x" * 100, size_bytes=7, size=1 << 50), b""),
        (b"\x88" + STREAM[2:], b""),  # no size
        (stored(b"x" * 256), b""),
        (b"\0" + NOISE[:256], b""),
        (b"\x81" + STREAM[1:], b""),  # raw and said to be in a frame
        (b"\x99" + STREAM[1:], b""),  # another method
        (b"\x09" + STREAM[1:], b""),
        (b"\x01x", b""),
        (b"", stored(b"x" * 65_536)),
        (b"", stored(b"x" * 100, raw=False)[:-1] + b"\x99"),  # Adler-32
    ],
)
def test_values_that_are_refused(v: bytes, b: bytes) -> None:
    with pytest.raises(DefiniteError, match=f"column {'v' if v else 'b'} of d.t does not hold") as caught:
        read(one(v, b))
    assert "m.000001:" in caught.value.where


@pytest.mark.parametrize(("size", "claimed"), [(50_000_000, 100), (100, (1 << 30) - 1)])
def test_no_size_is_believed(size: int, claimed: int) -> None:
    scan = scan_of((WRITE, HEAD + BITS + image(1, b"", b"", stored(bytes(size), size=claimed))))
    tracemalloc.start()
    with pytest.raises(DefiniteError, match=r"column long of d\.t "):
        inflated(scan, [BOTH[table.name] for table in scan.tables])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


def test_more_than_memory_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "LARGEST", 1 << 20)
    rows = HEAD + BITS + b"".join(image(i, b"", stored(bytes(60_000))) for i in range(10))
    read(scan_of((WRITE, rows)))
    with pytest.raises(DefiniteError, match="Exclude the large columns"):
        read(scan_of((WRITE, rows), (WRITE, rows)))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"\5" + BITS + image(1, b"", b""), "another number of columns"),
        (HEAD + b"\x2f" + image(1, b"", b""), "does not hold all columns"),
        (HEAD + BITS + image(1, STREAM, b"")[:-1], "cut off"),
        (HEAD + BITS + image(1, STREAM, b"") + b"\0", "cut off"),
        (HEAD, "malformed"),
    ],
)
def test_rows_that_are_refused(content: bytes, what: str) -> None:
    scan = scan_of((WRITE, content))
    with pytest.raises(DefiniteError, match=what):
        read(scan)


def test_damage() -> None:
    """An error that says where, or rows that are not much larger than what they were made of."""
    dice = random.Random(1)
    forms = (b"", STREAM, stored(NOISE[:200], raw=False), b"\0text", None)
    rows = b"".join(image(i, v, b) for i, (v, b) in enumerate(product(forms, (STREAM, b"\0text"))))
    content = HEAD + 2 * BITS + rows
    values = columns._Values(scan_of().tables[0], SCHEMA)
    programs = ProgramSet.of([SCHEMA], [values.table.types])
    no, none = np.zeros(1, np.int64), np.zeros(1, np.int32)
    refused = 0
    for _ in range(rounds(500)):
        damaged = bytearray(content[: dice.choice((len(content), dice.randrange(1, len(content))))])
        for _ in range(dice.randrange(4)):
            at = dice.randrange(len(damaged))
            damaged[at] = dice.choice((0, 1, 0x7F, 0x80, 0x88, 0xFF, damaged[at] ^ 1 << dice.randrange(8)))
        try:
            pieces = values.plain(guarded_copy(np.frombuffer(bytes(damaged), np.uint8)), 2, "here")
            plain = guarded_copy(np.frombuffer(b"".join(pieces), np.uint8))
            assert plain.size < 4 * len(content)
            decode_rows(plain, RowEvents(no, no + plain.size, UPDATE_EVENT, none, none), programs)
        except DefiniteError as error:
            assert error.where  # noqa: PT017
            refused += 1
    assert rounds(250) < refused < rounds(490)
