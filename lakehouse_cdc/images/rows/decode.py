"""The second pass over binlog events: row images to VARIANT images, one output row for each change.

An update that moves a row to another key is two changes, the delete of the old key and the insert of the new, for each
key's history must make sense by itself. Identity of a key is its stored bytes, so its VARIANT bytes decide. Ordinals
count output rows through a whole transaction, over all its events.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.images.binlog.row_events import RowEvents
from lakehouse_cdc.images.buffers import Sink, VariantBuffer, grown
from lakehouse_cdc.images.bytes_io import Bytes
from lakehouse_cdc.images.program import ProgramSet
from lakehouse_cdc.images.rows.image import NEEDED, REPORT_FIELDS, STEP, Scratch
from lakehouse_cdc.images.rows.walk import (
    AT,
    EVENT,
    KEY,
    ORDINAL,
    ROOM,
    ROWS,
    SHORT_OF,
    STATE_FIELDS,
    Changes,
    Events,
    Heads,
    count,
    walk,
)
from lakehouse_cdc.images.status import FULL, OTHER_WIDTH, failure


@dataclass(frozen=True)
class ChangeImages:
    """`n` changes in the log's order; each array has one entry a change.

    `event` is an index into the RowEvents, `op` is ord of c, u or d, `ordinal` counts from 0 through the transaction.
    `key` and `before` of u and d are the old row's, `after` of c and u (and c's key) the new row's. `ordinals` is how
    many ordinals the last event's transaction has used so far: the next buffer's `ordinal_base`, if it continues there.
    """

    n: int
    event: npt.NDArray[np.int32]
    op: npt.NDArray[np.uint8]
    ordinal: npt.NDArray[np.int64]
    key: VariantBuffer
    before: VariantBuffer
    after: VariantBuffer
    ordinals: int


def decode_rows(
    buffer: Bytes, events: RowEvents, programs: ProgramSet, *, where: Callable[[int], str] = str
) -> ChangeImages:
    """All changes of `events`, whose bytes lie in `buffer` (C-contiguous; copied if it is read-only).

    `where` names an event, by its index, in errors. Raises DefiniteError, with table and column, for bytes that the
    schema does not explain, an image that lacks a captured column, zero and impossible dates, and a row too large for a
    VARIANT.
    """
    buffer, columns = _checked(buffer, events, programs)
    size = max(0, int((events.end - events.start).sum()))
    rows = len(events) + size // 64 + 2
    heads = Heads(np.empty(rows, np.int32), np.empty(rows, np.uint8), np.empty(rows, np.int64))
    out = Changes(heads, Sink.of(rows, 16 * rows), Sink.of(rows, 1024 + size), Sink.of(rows, 1024 + size))
    scratch = Scratch.of(max((len(s.columns) for s in programs.schemas), default=0), len(programs.schemas))
    state = np.zeros(STATE_FIELDS, np.int64)
    state[AT], state[ORDINAL] = -1, events.ordinal_base
    while status := walk(buffer, columns, programs.binlog, state, out, scratch):
        if status != FULL:
            raise _failure(status, events, programs, int(state[EVENT]), int(scratch.report[STEP]), where)
        out = _larger(out, int(state[SHORT_OF]), int(scratch.report[NEEDED]))
    n = int(state[ROWS])
    key, before, after = (VariantBuffer.of(sink, n) for sink in out[1:])
    event, op, ordinal = out.heads
    return ChangeImages(n, event[:n], op[:n], ordinal[:n], key, before, after, ordinals=int(state[ORDINAL]))


def _larger(out: Changes, short: int, needed: int) -> Changes:
    """The same output with twice the room where it is short."""
    if short == ROOM:
        heads, rows = out.heads, 2 * len(out.heads.op)
        longer = Heads(grown(heads.event, rows), grown(heads.op, rows), grown(heads.ordinal, rows))
        return Changes(longer, out.key.with_rows(rows), out.before.with_rows(rows), out.after.with_rows(rows))
    sinks = list(out[1:])
    sink = sinks[short - KEY]
    sinks[short - KEY] = sink.with_bytes(max(2 * len(sink.data), needed))
    return Changes(out.heads, *sinks)


def count_rows(
    buffer: Bytes, events: RowEvents, programs: ProgramSet, *, where: Callable[[int], str] = str
) -> npt.NDArray[np.int64]:
    """How many rows each event has, an update counted once: the walk of `decode_rows` that leaves values unread.

    Raises DefiniteError as that does, but for what only a value can show.
    """
    buffer, columns = _checked(buffer, events, programs)
    counts, report = np.zeros(len(events), np.int64), np.zeros(REPORT_FIELDS, np.int64)
    state = np.zeros(STATE_FIELDS, np.int64)
    if status := count(buffer, columns, programs.binlog, counts, state, report):
        raise _failure(status, events, programs, int(state[EVENT]), int(report[STEP]), where)
    return counts


def _checked(buffer: Bytes, events: RowEvents, programs: ProgramSet) -> tuple[Bytes, Events]:
    """Arrays of the one kind that the kernels are compiled for, with indices that are inside."""
    if len(events) and not (events.table.min() >= 0 and events.table.max() < len(programs.schemas)):
        raise codes.INVARIANT_BROKEN.error("a rows event of a table that has no schema")
    if not buffer.flags.writeable or not buffer.flags.c_contiguous:
        buffer = np.array(buffer, dtype=np.uint8, order="C")
    return buffer, Events(
        np.require(events.start, requirements=["C", "W"]),
        np.require(events.end, requirements=["C", "W"]),
        np.require(events.kind, requirements=["C", "W"]),
        np.require(events.table, requirements=["C", "W"]),
        np.require(events.txn, requirements=["C", "W"]),
    )


def _failure(
    status: int, events: RowEvents, programs: ProgramSet, event: int, step: int, where: Callable[[int], str]
) -> DefiniteError:
    schema = programs.schemas[int(events.table[event])]
    column = None if status == OTHER_WIDTH else schema.columns[step]
    place = where(event)
    return failure(status, schema, column, where=place, position=place)
