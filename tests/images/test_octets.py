"""Reads and writes of more bytes than a value has: never outside of what is allowed, and the same result."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from lakehouse_cdc.images.buffers import Sink
from lakehouse_cdc.images.bytes_io import SPARE, copy, little, load8, pointer, put, store4, store8
from lakehouse_cdc.images.compiled import compiled
from lakehouse_cdc.images.program import ProgramSet
from lakehouse_cdc.images.rows.image import NEEDED, Scratch
from lakehouse_cdc.images.rows.result_set import read_rows
from lakehouse_cdc.images.status import DONE, FULL
from lakehouse_cdc.model.variant import decode
from lakehouse_cdc.schema.table import Column, TableSchema
from tests.support.images.guarded import guarded, guarded_copy

NUMBERS = {
    Column("a", "tinyint"): (-128, -1, 0, 127),
    Column("b", "smallint", unsigned=True): (0, 0x7FFF, 0x8000, 0xFFFF),
    Column("c", "mediumint"): (-(1 << 23), -1, 1, (1 << 23) - 1),
    Column("d", "int", unsigned=True): (0, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF),
    Column("e", "bigint"): (-(1 << 63), -1, 1, (1 << 63) - 1),
}
WIRE_BYTES = (1, 2, 4, 4, 8)


@compiled
def copied(buf: Any, at: int, size: int, limit: int, out: Any, to: int) -> int:
    end: int = copy(pointer(buf), at, size, limit, pointer(out), to)
    return end


@compiled
def numbers(buf: Any, at: int, size: int, out: Any) -> tuple[int, int]:
    store8(pointer(out), 1, load8(pointer(buf), at))
    store4(pointer(out), 9, load8(pointer(buf), at))
    number = little(pointer(buf), at, size)
    return number, put(pointer(out), 13, number, size)


def test_copies_of_every_size_at_every_distance_from_the_end() -> None:
    dice = random.Random(1)
    for size in range(2 * SPARE):
        for beyond in range(SPARE + 2):
            at, to = dice.randrange(9), dice.randrange(9)
            buf = guarded_copy(np.frombuffer(dice.randbytes(at + size + beyond), np.uint8))
            out = guarded(to + max(size, SPARE))
            out[:to] = 0xEE
            assert copied(buf, at, size, len(buf), out, to) == to + size
            assert out[to : to + size].tobytes() == buf[at : at + size].tobytes()
            assert (out[:to] == 0xEE).all()


def test_numbers_from_and_to_anywhere() -> None:
    dice = random.Random(2)
    for at in range(20):
        for size in range(1, 8):
            raw = dice.randbytes(at + 8)
            out = guarded(13 + size)
            number, end = numbers(guarded_copy(np.frombuffer(raw, np.uint8)), at, size, out)
            assert number == int.from_bytes(raw[at : at + size], "little")
            assert end == 13 + size
            assert out.tobytes() == b"\0" + raw[at:] + raw[at : at + 4] + raw[at : at + size]


def image(program: ProgramSet, row: bytes, beyond: bytes) -> tuple[bytes, bytes]:
    """Image and key of a row in a buffer with more after it, into outputs with no more room than is asked for."""
    buf = guarded_copy(np.frombuffer(row + beyond, np.uint8))
    scratch, room = Scratch.of(len(program.schemas[0].columns), 1), [0, 0]
    while True:
        key, after = (Sink(guarded(size), guarded(2, np.int64), guarded(1)) for size in room)
        state, starts, ends = np.zeros(2, np.int64), np.zeros(1, np.int64), np.array([len(row)])
        status = read_rows(buf, starts, ends, 1, program.wire, state, key, after, scratch)
        if status == DONE:
            return after.data[: after.offsets[1]].tobytes(), key.data[: key.offsets[1]].tobytes()
        assert status == FULL
        short = 1 if scratch.report[NEEDED] > room[1] else 0
        room[short] = int(scratch.report[NEEDED])


def test_an_image_does_not_depend_on_what_comes_after_its_row() -> None:
    dice = random.Random(3)
    schema = TableSchema("db", "t", (Column("s", "varchar", length=300, charset="utf8mb4"), *NUMBERS), ("d", "s"))
    program = ProgramSet.of([schema])
    for size in (*range(9), 15, 16, 17, 31, 32, 33, 69):
        text = "".join(dice.choices("abcdefgh ", k=size))
        values = [dice.choice(chosen) for chosen in NUMBERS.values()]
        signed = (not column.unsigned for column in NUMBERS)
        fixed = [v.to_bytes(n, "little", signed=s) for v, n, s in zip(values, WIRE_BYTES, signed, strict=True)]
        row = b"\0\0" + bytes([size]) + text.encode() + b"".join(fixed)
        found = {image(program, row, dice.randbytes(length)) for length in (*range(9), 15, 16, 17, 31, 63, 64, 65, 80)}
        [(after, key)] = found
        expected = {"s": text, **dict(zip("abcde", values, strict=True))}
        assert decode(after, program.metadata[0]) == expected
        assert decode(key, program.key_metadata[0]) == {"d": expected["d"], "s": text}


def test_nulls_and_masks_beside_short_values() -> None:
    columns = (
        Column("id", "int"),
        Column("n", "int"),
        Column("s", "char", length=9, charset="utf8mb4", mask="keep:1:0"),
    )
    program = ProgramSet.of([TableSchema("db", "t", columns, ("id",))])
    row = b"\0\x08" + (7).to_bytes(4, "little") + b"\x06abc   "
    for length in range(80):
        after, key = image(program, row, b"\xaa" * length)
        assert decode(after, program.metadata[0]) == {"id": 7, "n": None, "s": "a**"}
        assert decode(key, program.key_metadata[0]) == {"id": 7}
