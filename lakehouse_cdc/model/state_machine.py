"""The state machine of a captured table: one table of (phase, event), and nothing else decides a transition.

**Invariant.** `advance` is the only maker of a `TableState` besides the loader of offsets, and it makes what `TABLE`
says. A pair that is not in the table is an error: it stops the stream before anything is offered.

**Why the rows are as they are.**

- A chunk that crossed a DDL emitted nothing, and its batch is committed. So a cursor that moved is confirmed by the
  next batch, which has read the log from this one's end on, before anything else happens to the table: every other
  event but the end of the table is refused in `Unconfirmed` and `CaughtUp`.
- Chunks of one batch follow each other, so `Unconfirmed` moves on from where the batch began.
- What the log of one server held after a position is not known any more once another server's continues it. So every
  read that is not confirmed by then counts as one that crossed a DDL.
- The rows of a table without a key are read at once, and rows that come twice would be two rows. So one that crossed a
  DDL is not put back: it is read again, and the end of that pass deletes what it read before.
- A table of which nothing has been emitted is never read *again*: `Waiting` stays where it is, and may be forgotten.
- A table that a statement in the log created is empty there: its pass is complete at its birth.
- A pass that begins ends the repair of single keys; so does the end of the table.

**Guards.** tests/model/test_state_machine.py has an example of each row and refuses every other pair;
tests/model/test_offset_json.py holds what is stored; tests/source runs it on real servers.
docs/reference/table-states.md is made from the table (`lakehouse_cdc.spec.table_states`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.table_events import (
    ChunkPlanned,
    DdlCrossed,
    EpochBegun,
    Event,
    LastChunkPlanned,
    ReadsConfirmed,
    RepairAsked,
    RepairRetried,
    RereadAsked,
    RowsChanged,
    SchemaChanged,
    ServerReplaced,
    TableBorn,
    TableDeselected,
    TableDiscovered,
    TableDropped,
    TableRecorded,
    TableRefused,
    TableTruncated,
)
from lakehouse_cdc.model.table_state import (
    Absent,
    CaughtUp,
    Complete,
    Cursor,
    Dropped,
    FirstPass,
    Pass,
    Phase,
    PutBack,
    Quarantined,
    Reading,
    Repair,
    Repaired,
    RepairPending,
    RepairRead,
    RepeatedPass,
    Streaming,
    TableState,
    Unconfirmed,
    Waiting,
    is_published,
    since_of,
)

Moving = Waiting | Reading | Unconfirmed | PutBack  # phases in which chunks are planned


def _refused(before: Phase | Repair | None, event: Event) -> DefiniteError:
    """An event that cannot happen to a table in its phase, or to a repair."""
    return codes.TRANSITION_REFUSED.error(
        f"a table's state {type(before).__name__} has no transition for {type(event).__name__}"
    )


# ---------------------------------------------------------------------- rules: what follows a phase after an event


def _stay(phase: Phase, _: Event) -> Phase:
    return phase


def _start(_: Phase, event: TableDiscovered) -> Phase:
    return Waiting() if event.snapshots else Streaming()


def _start_over(phase: Dropped | Quarantined, event: TableDiscovered) -> Phase:
    """What has been emitted of the table goes with the end of a repeated pass."""
    again = event.snapshots and is_published(phase)
    return Reading(RepeatedPass(event.seq), []) if again else _start(phase, event)


def _born(phase: Absent | Dropped, event: TableBorn) -> Phase:
    return Complete(FirstPass(since_of(phase))) if event.snapshots else Streaming(since_of(phase))


def _recorded(_: Absent, __: TableRecorded) -> Phase:
    return Complete(FirstPass())


def _forget(_: Phase, __: Event) -> Phase:
    return Absent()


def _drop(phase: Phase, _: TableDropped) -> Phase:
    return Dropped(since_of(phase)) if is_published(phase) else Absent()


def _refuse(phase: Phase, event: TableRefused) -> Phase:
    return Quarantined(event.reason, is_published(phase), since_of(phase))


def _read_again(_: Phase, event: EpochBegun | RereadAsked | RowsChanged | SchemaChanged) -> Phase:
    return Reading(RepeatedPass(event.seq), [])


def _change_while_read(phase: Reading | PutBack, event: SchemaChanged) -> Phase:
    return phase if event.values_kept and event.key_order_kept else _read_again(phase, event)


def _change(phase: Complete, event: SchemaChanged) -> Phase:
    return phase if event.values_kept else _read_again(phase, event)


def _position_of(phase: Moving) -> tuple[Pass, Cursor]:
    """The pass, and where its cursor is confirmed."""
    match phase:
        case Waiting():
            return FirstPass(), []
        case Unconfirmed():
            return phase.in_pass, phase.moved_from
        case Reading() | PutBack():
            return phase.in_pass, phase.cursor


def _move(phase: Moving, event: ChunkPlanned) -> Phase:
    in_pass, moved_from = _position_of(phase)
    return Unconfirmed(in_pass, event.to, moved_from)


def _move_to_the_end(phase: Moving, _: LastChunkPlanned) -> Phase:
    return CaughtUp(*_position_of(phase))


def _confirm(phase: Unconfirmed, _: ReadsConfirmed) -> Phase:
    return Reading(phase.in_pass, phase.cursor)


def _complete(phase: CaughtUp, _: ReadsConfirmed) -> Phase:
    return Complete(phase.in_pass)


def _put_back(phase: Unconfirmed | CaughtUp, event: DdlCrossed | ServerReplaced) -> Phase:
    if event.reread is not None:
        return Reading(RepeatedPass(event.reread), [])
    return PutBack(phase.in_pass, phase.moved_from, True if isinstance(phase, CaughtUp) else phase.cursor)


# ---------------------------------------------------------------------- the table


@dataclass(frozen=True)
class Row:
    """What follows, and the phases that it can be."""

    then: Callable[[Any, Any], Phase]
    to: tuple[type[Phase], ...]


def _staying(*phases: type[Phase]) -> dict[type[Phase], Row]:
    return {phase: Row(_stay, (phase,)) for phase in phases}


def _each(row: Row, *phases: type[Phase]) -> dict[type[Phase], Row]:
    return dict.fromkeys(phases, row)


_SETTLED = (Waiting, Reading, PutBack, Complete, Streaming)  # captured, and no read of them is unconfirmed
_CROSSED: Mapping[type[Phase], Row] = {
    **_each(Row(_put_back, (PutBack, Reading)), Unconfirmed, CaughtUp),
    **_staying(*_SETTLED, Dropped, Quarantined),
}
_BY_EVENT: Mapping[type[Event], Mapping[type[Phase], Row]] = {
    TableDiscovered: {
        **_each(Row(_start, (Waiting, Streaming)), Absent, Waiting),
        Dropped: Row(_start_over, (Reading, Streaming)),
        Quarantined: Row(_start_over, (Waiting, Reading, Streaming)),
    },
    TableBorn: _each(Row(_born, (Complete, Streaming)), Absent, Dropped),
    TableRecorded: {Absent: Row(_recorded, (Complete,))},
    TableDropped: {
        Waiting: Row(_drop, (Absent,)),
        **_each(Row(_drop, (Dropped,)), Reading, Unconfirmed, PutBack, CaughtUp, Complete, Streaming, Dropped),
        Quarantined: Row(_drop, (Absent, Dropped)),
    },
    TableRefused: _each(Row(_refuse, (Quarantined,)), Absent, *_SETTLED, Dropped, Quarantined),
    TableDeselected: {Waiting: Row(_forget, (Absent,))},
    EpochBegun: {Waiting: Row(_read_again, (Reading,)), **_staying(Streaming)},
    SchemaChanged: {
        **_each(Row(_change_while_read, (Reading,)), Reading),
        PutBack: Row(_change_while_read, (PutBack, Reading)),
        Complete: Row(_change, (Complete, Reading)),
        **_staying(Waiting, Streaming),
    },
    RowsChanged: {**_each(Row(_read_again, (Reading,)), Reading, PutBack, Complete), **_staying(Waiting, Streaming)},
    TableTruncated: _staying(*_SETTLED),
    ChunkPlanned: _each(Row(_move, (Unconfirmed,)), Waiting, Reading, Unconfirmed, PutBack),
    LastChunkPlanned: _each(Row(_move_to_the_end, (CaughtUp,)), Waiting, Reading, Unconfirmed, PutBack),
    ReadsConfirmed: {
        Unconfirmed: Row(_confirm, (Reading,)),
        CaughtUp: Row(_complete, (Complete,)),
        **_staying(*_SETTLED, Dropped, Quarantined),
    },
    DdlCrossed: _CROSSED,
    ServerReplaced: _CROSSED,
    RereadAsked: _each(Row(_read_again, (Reading,)), Complete, Streaming),
    RepairAsked: _staying(Complete, Streaming),
    RepairRetried: _staying(Complete, Streaming),
}
TABLE: Mapping[tuple[type[Phase], type[Event]], Row] = {
    (phase, event): row for event, rows in _BY_EVENT.items() for phase, row in rows.items()
}


def advance(state: TableState | None, event: Event) -> TableState | None:
    """The state after an event; None is that of a table which is not in the offset.

    Raises DefiniteError (TRANSITION_REFUSED) where the event cannot happen.
    """
    before = Absent() if state is None else state.phase
    row = TABLE.get((type(before), type(event)))
    if row is None:
        raise _refused(before, event)
    phase = row.then(before, event)
    if isinstance(phase, Absent):
        return None
    schema = _schema(state, event)
    if isinstance(phase, Dropped | Quarantined):
        return TableState(schema, phase)
    began = since_of(phase) != since_of(before) or isinstance(event, TableDiscovered | TableBorn)
    repair = None if state is None or began else _repair(state.repair, event)
    return TableState(schema, phase, _floor(state, event), repair)


def advanced(state: TableState | None, event: Event) -> TableState:
    """`advance`, for events after which the table is in the offset."""
    after = advance(state, event)
    if after is None:
        raise _refused(Absent() if state is None else state.phase, event)
    return after


# ---------------------------------------------------------------------- what is independent of the phase


def _schema(state: TableState | None, event: Event) -> str:
    match event:
        case TableDiscovered(schema) | TableBorn(schema) | TableRecorded(schema) | SchemaChanged(schema):
            return schema
        case TableRefused(schema=schema) if state is None:
            return schema
    if state is None:
        raise _refused(Absent(), event)
    return state.schema


def _floor(state: TableState | None, event: Event) -> Position | None:
    match event:
        case TableDiscovered(floor=floor) | TableBorn(floor=floor):
            return floor
        case SchemaChanged(floor=floor) | RowsChanged(floor=floor) | TableTruncated(floor):
            return floor
        case ServerReplaced():
            return None  # that of the stream is after it
    return None if state is None else state.floor


def _repair(repair: Repair | None, event: Event) -> Repair | None:
    """Keys are pending until they have been read in a batch whose reads crossed no DDL."""
    match event, repair:
        case ReadsConfirmed(), RepairRead(_, seq):
            return Repaired(seq)
        case ((DdlCrossed() | ServerReplaced()), RepairRead(keys)):
            return RepairPending(keys)
        case RepairAsked(keys, seq), None | Repaired():
            return RepairRead(keys, seq)
        case RepairRetried(seq), RepairPending(keys):
            return RepairRead(keys, seq)
        case ((RepairAsked() | RepairRetried()), _):
            raise _refused(repair, event)
    return repair
