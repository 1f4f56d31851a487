"""One row to one VARIANT object, and the object of its key.

The values come first, in the table's order, after room for the header; then the header is written, whose offsets have
the fewest bytes that hold the object's size. The room is a guess (what the table's last row needed), and where it was
wrong the values are shifted: so the bytes depend on the row alone. A key is made of the row's finished values.

"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lakehouse_cdc.images.buffers import Sink
from lakehouse_cdc.images.bytes_io import (
    SPARE,
    Bytes,
    Matrix,
    Step,
    at_offset,
    copy,
    little,
    move,
    pointer,
    put,
    store4,
)
from lakehouse_cdc.images.compiled import inlined, part
from lakehouse_cdc.images.hashing.masking import MASK_ROOM, write_masked
from lakehouse_cdc.images.hashing.sha256 import WORK
from lakehouse_cdc.images.opcodes import (
    COUNT,
    FIRST,
    FIXED,
    GROWTH,
    HEAD,
    KEY_COUNT,
    KEY_FIRST,
    KEY_HEAD,
    MASK,
    OP,
    PREFIX,
    SLOT,
    SLOTS,
    STEP_FIELDS,
    TABLE_FIELDS,
    UNKNOWN,
    WIDTH,
)
from lakehouse_cdc.images.program import Program
from lakehouse_cdc.images.rows.values import write_value
from lakehouse_cdc.images.status import FULL, TOO_LARGE, TRUNCATED, UNKNOWN_LENGTH
from lakehouse_cdc.model.variant import MAX_SIZE, NULL, OBJECT

STEP, NEEDED, BODY = range(3)  # what `report` holds; BODY: where the last image's values begin
REPORT_FIELDS = 3
_SLACK = 24 + max(MASK_ROOM, SPARE)  # no value takes more bytes besides its content


class Table(NamedTuple):
    """One table's part of a `Program`, as pointers."""

    steps: Matrix
    row: Step
    keys: Step
    pool: Bytes


class Scratch(NamedTuple):
    """What the writers note: begin and end of each field, counted from the first value; the last size of an offset (one
    for each table); what a status does not say: the step at which it arose, how many bytes of output are needed; what
    masks work in."""

    starts: Step
    ends: Step
    hint: Step
    report: Step
    work: Step

    @classmethod
    def of(cls, fields: int, tables: int) -> Scratch:
        """For rows of up to `fields` columns of so many tables."""
        starts, ends, report = (np.zeros(size, np.int64) for size in (fields, fields, REPORT_FIELDS))
        return cls(starts, ends, np.ones(tables, np.int64), report, np.zeros(WORK, np.int64))


class Output(NamedTuple):
    """A sink as pointers, and its room in bytes."""

    data: Bytes
    room: int
    offsets: Step
    valid: Bytes


@part
def table_of(program: Program, table: int) -> Table:
    """Pointers to what the program has of one table."""
    row = at_offset(pointer(program.tables), table * TABLE_FIELDS)
    steps = at_offset(pointer(program.steps), row[FIRST] * STEP_FIELDS)
    return Table(steps, row, at_offset(pointer(program.keys), row[KEY_FIRST]), pointer(program.pool))


@part
def scratch_of(scratch: Scratch, table: int) -> Scratch:
    """The same as pointers, with the table's own hint."""
    return Scratch(
        pointer(scratch.starts), pointer(scratch.ends), at_offset(pointer(scratch.hint), table),
        pointer(scratch.report), pointer(scratch.work),
    )  # fmt: skip


@part
def pointers(sink: Sink) -> Output:
    """A sink as pointers, with its room in bytes."""
    return Output(pointer(sink.data), sink.data.size, pointer(sink.offsets), pointer(sink.valid))


@part
def lenenc(buf: Bytes, at: int, end: int) -> tuple[int, int]:
    """A length-encoded integer: (number, position after it); a number below 0 is minus a status."""
    if at >= end:
        return -TRUNCATED, at
    first = np.int64(buf[at])
    if first < 251:
        return first, at + 1
    size = 2 if first == 252 else 3 if first == 253 else 8 if first == 254 else 0
    if size == 0 or at + 1 + size > end or (size == 8 and little(buf, at + 5, 4) != 0):
        return -TRUNCATED, at
    return little(buf, at + 1, min(size, 4)), at + 1 + size


@inlined
def value_extent(buf: Bytes, at: int, end: int, step: Step) -> tuple[int, int]:
    """(bytes of the value, where they begin), proven to lie before `end`; below 0: minus a status."""
    size = step[FIXED]
    if size < 0:
        size, at = _length(buf, at, end, step[PREFIX])
        if size < 0:
            return size, at
    if step[OP] == UNKNOWN:
        return -UNKNOWN_LENGTH, at
    if size > end - at:
        return -TRUNCATED, at
    return size, at


@inlined
def _length(buf: Bytes, at: int, end: int, prefix: int) -> tuple[int, int]:
    """The length in front of a value, of so many bytes or length-encoded (0), as `lenenc`; most are of one byte."""
    if at < end and (prefix == 1 or (prefix == 0 and buf[at] < 251)):
        return np.int64(buf[at]), at + 1
    return _long_length(buf, at, end, prefix)


@part
def _long_length(buf: Bytes, at: int, end: int, prefix: int) -> tuple[int, int]:
    if prefix == 0:
        return lenenc(buf, at, end)
    if at + prefix > end:
        return -TRUNCATED, at
    return little(buf, at, prefix), at + prefix


@inlined
def is_null(buf: Bytes, bitmap: int, bit: int) -> bool:
    """Whether a bit of a bitmap is set."""
    byte: int = buf[bitmap + (bit >> 3)]
    return (byte >> (bit & 7)) & 1 != 0


@part
def _head_size(fields: int, size: int) -> int:
    id_size = 1 if fields <= 256 else 2
    return 1 + (1 if fields <= 255 else 4) + fields * id_size + (fields + 1) * size


@part
def _offset_size(total: int) -> int:
    return 1 if total < 1 << 8 else 2 if total < 1 << 16 else 3 if total < 1 << 24 else 4


@part
def _head(out: Bytes, to: int, size: int, head: Bytes, fields: int) -> int:
    """All of an object's header but its offsets, most of it as the program has it; the position after it."""
    id_size, large = 1 if fields <= 256 else 2, 1 if fields > 255 else 0
    out[to] = ((size - 1) | (id_size - 1) << 2 | large << 4) << 2 | OBJECT
    return move(head, 0, (4 if large else 1) + fields * id_size, out, to + 1)


@part
def _offsets(out: Bytes, to: int, size: int, starts: Step, fields: int, total: int) -> None:
    """Where each field begins, and where the last value ends."""
    if size == 1:
        for field in range(fields):
            out[to + field] = starts[field]
    else:  # what is too many of each four bytes is overwritten by the next
        for field in range(fields):
            store4(out, to + field * size, starts[field])
    put(out, to + fields * size, total, size)


@part
def write_image(
    buf: Bytes,
    at: int,
    end: int,
    limit: int,
    bitmap: int,
    bit: int,
    present: int,
    table: Table,
    out: Bytes,
    room: int,
    to: int,
    scratch: Scratch,
) -> tuple[int, int]:
    """The row whose values begin at `at`: (position after it, output position after its image or minus a status).

    It ends before `end`, the buffer at `limit`. `bitmap` is where its NULL bits begin, `bit` that of its first column.
    `present` is where the bits of the columns that the row has begin, or -1 where it has all; those that it lacks have
    no NULL bit, and must be excluded ones. `out` has `room` bytes.
    """
    body = to + _head_size(table.row[SLOTS], scratch.hint[0])
    pos, columns = body, table.row[COUNT]
    for column in range(columns):
        if present >= 0 and not is_null(buf, present, column):
            continue
        step = at_offset(table.steps, column * STEP_FIELDS)
        slot = step[SLOT]
        null = is_null(buf, bitmap, bit)
        bit += 1
        size = 0
        if not null:
            size, at = value_extent(buf, at, end, step)
            if size < 0:
                scratch.report[STEP] = column
                return at, size
        if slot < 0:
            at += size
            continue
        needed = pos + _SLACK + size * step[GROWTH] + step[WIDTH]
        if needed > room or size > MAX_SIZE:
            scratch.report[STEP], scratch.report[NEEDED] = column, needed
            return at, -(TOO_LARGE if size > MAX_SIZE else FULL)
        begin = pos
        if null:
            out[pos] = NULL
            pos += 1
        else:
            mask = step[MASK]
            pos = write_value(buf, at, size, limit, step, table.pool, out, pos)
            if pos < 0:
                scratch.report[STEP] = column
                return at, pos
            if mask != 0:
                pos = write_masked(out, begin, pos, at_offset(table.pool, mask), scratch.work)
        scratch.starts[slot], scratch.ends[slot] = begin - body, pos - body
        at += size
    return at, _finish(out, room, to, body, pos, table, scratch)


@part
def _finish(out: Bytes, room: int, to: int, body: int, pos: int, table: Table, scratch: Scratch) -> int:
    """Write the header before the values, which lie in out[body:pos]."""
    total, fields = pos - body, table.row[SLOTS]
    size: int = _offset_size(total)
    begin = to + _head_size(fields, size)
    if begin + total > room or total > MAX_SIZE - (begin - to):
        scratch.report[NEEDED] = begin + total
        return -FULL if total <= MAX_SIZE - (begin - to) else -TOO_LARGE
    if begin < body:
        for i in range(total):
            out[begin + i] = out[body + i]
    elif begin > body:
        for i in range(total - 1, -1, -1):
            out[begin + i] = out[body + i]
    scratch.hint[0] = size
    scratch.report[BODY] = begin
    at = _head(out, to, size, at_offset(table.pool, table.row[HEAD]), fields)
    _offsets(out, at, size, scratch.starts, fields, total)
    return begin + total


@part
def write_key(image: Bytes, limit: int, table: Table, out: Bytes, room: int, to: int, scratch: Scratch) -> int:
    """The key's object from the values of an image that was just written; the position after it, or -FULL.

    The image's memory ends at `limit`.
    """
    fields, body = table.row[KEY_COUNT], scratch.report[BODY]
    total: int = 0
    for k in range(fields):
        total += scratch.ends[table.keys[k]] - scratch.starts[table.keys[k]]
    size = _offset_size(total)
    needed = to + _head_size(fields, size) + total
    if needed > room:
        scratch.report[NEEDED] = needed
        return -FULL
    if needed + SPARE > room:
        limit = 0
    at = _head(out, to, size, at_offset(table.pool, table.row[KEY_HEAD]), fields)
    pos: int = at + (fields + 1) * size
    offset = 0
    for k in range(fields):
        at = put(out, at, offset, size)
        begin, length = scratch.starts[table.keys[k]], scratch.ends[table.keys[k]] - scratch.starts[table.keys[k]]
        pos = copy(image, body + begin, length, limit, out, pos)
        offset += length
    put(out, at, offset, size)
    return pos
