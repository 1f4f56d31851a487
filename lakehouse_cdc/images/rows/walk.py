"""The kernels of `rows`: walk rows events, write each row wholly or not at all.

Every extent is checked against the end of its event before it is read, so damaged bytes give a status, never a read
outside the buffer. Layout: MySQL's `mysql::binlog::event::Rows_event`, versions 1 and 2, from the count of columns on.

An event says which columns its images hold. One that is captured must be there; one that is excluded may be missing
(MariaDB 11.8.9 leaves generated columns out of updates and deletes, and binlog_row_image other columns). An image that
is no row of its table (see `versions`) is passed over: its values may be anything.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lakehouse_cdc.images.binlog.row_events import DELETE, UPDATE, WRITE
from lakehouse_cdc.images.buffers import Sink
from lakehouse_cdc.images.bytes_io import Bytes, Step, at_offset, pointer
from lakehouse_cdc.images.compiled import compiled, part
from lakehouse_cdc.images.opcodes import COUNT, END, KEY_COUNT, SLOT, STEP_FIELDS
from lakehouse_cdc.images.program import Program
from lakehouse_cdc.images.rows.image import (
    STEP,
    Output,
    Scratch,
    Table,
    is_null,
    lenenc,
    pointers,
    scratch_of,
    table_of,
    write_image,
    write_key,
)
from lakehouse_cdc.images.rows.versions import is_current, pass_over
from lakehouse_cdc.images.status import DONE, FULL, OTHER_WIDTH, PARTIAL_IMAGE, TRUNCATED

OP_INSERT, OP_UPDATE, OP_DELETE = ord("c"), ord("u"), ord("d")

# `state`: where the walk is; AT is -1 before an event is opened. Of the open event, for its images before and after:
# where the bits of present columns are (-1: all are), and the bytes of a row's NULL bits
EVENT, AT, ROWS, ORDINAL, SHORT_OF, OLD_PRESENT, OLD_NULLS, NEW_PRESENT, NEW_NULLS = range(9)
STATE_FIELDS = 9
ROOM, KEY, BEFORE, AFTER = range(4)  # SHORT_OF: the output that has no room for the next row


class Heads(NamedTuple):
    """For each output row: the index of its event, c, u or d, and its place in the transaction."""

    event: npt.NDArray[np.int32]
    op: npt.NDArray[np.uint8]
    ordinal: npt.NDArray[np.int64]


class Changes(NamedTuple):
    """The output: all with room for the same number of rows."""

    heads: Heads
    key: Sink
    before: Sink
    after: Sink


class Events(NamedTuple):
    """The arrays of `RowEvents`."""

    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    kind: npt.NDArray[np.uint8]
    table: npt.NDArray[np.int32]
    txn: npt.NDArray[np.int32]


@part
def open_event(buf: Bytes, at: int, end: int, kind: int, table: Table, state: Step, report: Step) -> int:
    """The position of the first row, or minus a status: the count of columns, one or two bitmaps of present columns."""
    columns = table.row[COUNT]
    width, at = lenenc(buf, at, end)
    if width < 0:
        return -TRUNCATED
    if width != columns:
        return -OTHER_WIDTH
    size = (columns + 7) >> 3
    for image in range(2 if kind == UPDATE else 1):
        if size > end - at:
            return -TRUNCATED
        present_columns = 0
        for column in range(columns):
            if is_null(buf, at, column):
                present_columns += 1
            elif column == table.row[END] or at_offset(table.steps, column * STEP_FIELDS)[SLOT] >= 0:
                report[STEP] = column
                return -PARTIAL_IMAGE
        present, nulls = np.int64(-1) if present_columns == columns else np.int64(at), (present_columns + 7) >> 3
        if image == 0:
            state[OLD_PRESENT], state[OLD_NULLS] = present, nulls
        state[NEW_PRESENT], state[NEW_NULLS] = present, nulls
        at += size
    return at


class Outputs(NamedTuple):
    """`Changes` as pointers."""

    event: npt.NDArray[np.int32]
    op: Bytes
    ordinal: Step
    key: Output
    before: Output
    after: Output


@compiled
def walk(buf: Bytes, events: Events, program: Program, state: Step, out: Changes, scratch: Scratch) -> int:
    """Decode from where `state` says; DONE, FULL (see SHORT_OF), or what is wrong at EVENT and `report[STEP]`."""
    source, rows, limit = pointer(buf), out.heads.op.size, buf.size
    heads = pointer(out.heads.event), pointer(out.heads.op), pointer(out.heads.ordinal)
    outputs = Outputs(*heads, pointers(out.key), pointers(out.before), pointers(out.after))
    while state[EVENT] < events.start.size:
        e = state[EVENT]
        kind, t, end = np.int64(events.kind[e]), np.int64(events.table[e]), events.end[e]
        table, notes = table_of(program, t), scratch_of(scratch, t)
        if state[AT] < 0:
            if e > 0 and events.txn[e] != events.txn[e - 1]:
                state[ORDINAL] = 0
            if events.start[e] < 0 or end > limit:
                return TRUNCATED
            at = open_event(source, events.start[e], end, kind, table, pointer(state), notes.report)
            if at < 0:
                return -at
            state[AT] = at
        while state[AT] < end:
            if state[ROWS] + 2 > rows:
                state[SHORT_OF] = ROOM
                return FULL
            at = _row(source, state[AT], end, limit, kind, table, pointer(state), outputs, notes)
            if at < 0:
                return -at
            state[AT] = at
        state[EVENT] += 1
        state[AT] = -1
    return DONE


@part
def _row(
    buf: Bytes, at: int, end: int, limit: int, kind: int, table: Table, state: Step, out: Outputs, scratch: Scratch
) -> int:
    """One change from its one or two images, or none; the position after it, or minus a status."""
    row = state[ROWS]
    old = new = False
    key_at, old_at, new_at = out.key.offsets[row], out.before.offsets[row], out.after.offsets[row]
    key_end, old_end, new_end, new_key = key_at, old_at, new_at, key_at
    if kind != WRITE:
        present, nulls = state[OLD_PRESENT], state[OLD_NULLS]
        at, old_end, key_end = _image(
            buf, at, end, limit, present, nulls, table, out.before, old_at, out.key, key_at, scratch
        )
        if at < 0:
            state[SHORT_OF] = BEFORE if old_end < 0 else KEY
            return at
        old = old_end > old_at
    if kind != DELETE:
        present, nulls = state[NEW_PRESENT], state[NEW_NULLS]
        at, new_end, new_key = _image(
            buf, at, end, limit, present, nulls, table, out.after, new_at, out.key, key_end, scratch
        )
        if at < 0:
            state[SHORT_OF] = AFTER if new_end < 0 else KEY
            return at
        new = new_end > new_at
    keyed = table.row[KEY_COUNT] > 0
    moved = old and new and _differ(out.key.data, key_at, key_end, new_key)
    if old and (moved or not new):
        _emit(state, out, keyed, key_end, True, old_end, False, new_at)
    if new:
        updated = old and not moved
        _emit(state, out, keyed, key_end if updated else new_key, updated, old_end, True, new_end)
    return at


@part
def _image(
    buf: Bytes,
    at: int,
    end: int,
    limit: int,
    present: int,
    nulls: int,
    table: Table,
    image: Output,
    to: int,
    key: Output,
    key_to: int,
    scratch: Scratch,
) -> tuple[int, int, int]:
    """(position after the image, output positions after the object and its key); minus a status in the first.

    Then the second is below 0 if the image was at fault, and not if the key had no room. Nothing is put out for an
    image that is no row of its table.
    """
    if nulls > end - at:
        scratch.report[STEP] = 0
        return -TRUNCATED, -1, key_to
    current = is_current(buf, at, end, present, nulls, table, scratch.report)
    if current == 0:
        at, _ = pass_over(buf, at, end, present, nulls, table.row[COUNT], table, scratch.report)
        return at, (to if at >= 0 else -1), key_to
    if current < 0:
        return current, -1, key_to
    at, pos = write_image(
        buf, at + nulls, end, limit, at, np.int64(0), present, table, image.data, image.room, to, scratch
    )
    if pos < 0:
        return pos, -1, key_to
    if table.row[KEY_COUNT] == 0:
        return at, pos, key_to
    key_end = write_key(image.data, image.room, table, key.data, key.room, key_to, scratch)
    return (at if key_end >= 0 else key_end), pos, key_end


@part
def _differ(keys: Bytes, old: int, new: int, end: int) -> bool:
    """Whether keys[old:new] and keys[new:end] are different bytes."""
    if new - old != end - new:
        return True
    same = True
    for i in range(new - old):
        same = same and keys[old + i] == keys[new + i]
    return not same


@part
def _emit(
    state: Step, out: Outputs, keyed: bool, key_end: int, old: bool, old_end: int, new: bool, new_end: int
) -> None:
    """Append the row whose images are in place and end there; which there are says what it is."""
    row = state[ROWS]
    out.event[row], out.ordinal[row] = state[EVENT], state[ORDINAL]
    out.op[row] = (OP_UPDATE if new else OP_DELETE) if old else OP_INSERT
    out.key.offsets[row + 1], out.before.offsets[row + 1], out.after.offsets[row + 1] = key_end, old_end, new_end
    out.key.valid[row], out.before.valid[row], out.after.valid[row] = keyed, old, new
    state[ROWS] += 1
    state[ORDINAL] += 1


@compiled
def count(buf: Bytes, events: Events, program: Program, counts: Step, state: Step, report: Step) -> int:
    """Rows of each event, by extents alone; DONE, or what is wrong at EVENT and `report[STEP]`."""
    source, places, notes = pointer(buf), pointer(state), pointer(report)
    for e in range(events.start.size):
        state[EVENT] = e
        kind, end = np.int64(events.kind[e]), events.end[e]
        table = table_of(program, np.int64(events.table[e]))
        if events.start[e] < 0 or end > buf.size:
            return TRUNCATED
        at = open_event(source, events.start[e], end, kind, table, places, notes)
        images = 0
        while 0 <= at < end:
            if images % 2 == 0:
                present, nulls = state[OLD_PRESENT], state[OLD_NULLS]
            else:
                present, nulls = state[NEW_PRESENT], state[NEW_NULLS]
            at, _ = pass_over(source, at, end, present, nulls, table.row[COUNT], table, notes)
            images += 1
        if at < 0:
            return -at
        if kind == UPDATE and images % 2:
            report[STEP] = 0
            return TRUNCATED
        counts[e] = images // 2 if kind == UPDATE else images
    return DONE
