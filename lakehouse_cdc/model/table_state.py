"""The state of one table in an offset: its phase, and what is independent of the phase.

A table is read in passes. Events of keys that the first pass has not reached yet wait for their chunk: below `bound`
events pass. In a repeated pass (the table was read before) every event passes, and the pass ends with an x row, which
deletes what is older than the seq at which it began.

The chunks of a batch emit nothing if they crossed a DDL of their table after that batch's position, and the batch is
committed all the same. So a phase whose cursor moved in the batch that ends here (`Unconfirmed`, `CaughtUp`) keeps the
cursor from before. Where a DDL was crossed the cursor is put back (`PutBack`). Whether the chunks were read before it
or after is not known, so events continue to pass up to where the cursor had been, until all up to there is read again.

Which phase follows which is decided in `model.state_machine` alone. How a state is stored: `model.table_state_json`.

A cursor is the list of a key's components. `[]` passes nothing, any other passes the keys below it: half-open, like all
ranges here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from lakehouse_cdc.model.position import Position

Cursor = list[Any]


@dataclass(frozen=True)
class FirstPass:
    """`earlier`: the last pass of a table of that name which was dropped, by the seq at which it began."""

    earlier: int | None = None


@dataclass(frozen=True)
class RepeatedPass:
    """A pass over a table whose rows have been emitted before. It began at the seq `since`."""

    since: int


Pass = FirstPass | RepeatedPass


# ---------------------------------------------------------------------- phases


@dataclass(frozen=True)
class Absent:
    """The table is not in the offset."""


@dataclass(frozen=True)
class Waiting:
    """The first pass has not begun; nothing of the table has been emitted."""


@dataclass(frozen=True)
class Reading:
    """The keys below the cursor have been read. Of the first pass, some have; a repeated one may be at its start."""

    in_pass: Pass
    cursor: Cursor


@dataclass(frozen=True)
class Unconfirmed:
    """The batch that ends here moved the cursor, from `moved_from`; whether its chunks crossed a DDL is not known."""

    in_pass: Pass
    cursor: Cursor
    moved_from: Cursor


@dataclass(frozen=True)
class PutBack:
    """The last chunks crossed a DDL. Events pass below `passed`, where the cursor had been; `True` is the end."""

    in_pass: Pass
    cursor: Cursor
    passed: Cursor | Literal[True]


@dataclass(frozen=True)
class CaughtUp:
    """As `Unconfirmed`, with the cursor at the end of the table."""

    in_pass: Pass
    moved_from: Cursor


@dataclass(frozen=True)
class Complete:
    """The pass has ended, and its chunks crossed no DDL; or the table was empty when it was created."""

    in_pass: Pass


@dataclass(frozen=True)
class Streaming:
    """The table has no snapshot: its events alone are emitted. `earlier` as in `FirstPass`."""

    earlier: int | None = None


@dataclass(frozen=True)
class Dropped:
    """There is no such table any more; rows of it have been emitted. `since`: its last pass, where that was named."""

    since: int | None = None


@dataclass(frozen=True)
class Quarantined:
    """The table is not followed, for this reason. `published`: whether rows of it have been emitted."""

    reason: str
    published: bool
    since: int | None = None


Phase = Absent | Waiting | Reading | Unconfirmed | PutBack | CaughtUp | Complete | Streaming | Dropped | Quarantined
PHASES: tuple[type[Phase], ...] = (
    Absent, Waiting, Reading, Unconfirmed, PutBack, CaughtUp, Complete, Streaming, Dropped, Quarantined,
)  # fmt: skip


def since_of(phase: Phase) -> int | None:
    """The seq at which the last pass that has one began."""
    match phase:
        case Reading(in_pass) | Unconfirmed(in_pass) | PutBack(in_pass) | CaughtUp(in_pass) | Complete(in_pass):
            return in_pass.since if isinstance(in_pass, RepeatedPass) else in_pass.earlier
        case Streaming(earlier):
            return earlier
        case Dropped() | Quarantined():
            return phase.since
        case Absent() | Waiting():
            return None


def is_published(phase: Phase) -> bool:
    """Whether rows of the table may have been emitted, so that its schema must be in bronze."""
    return phase.published if isinstance(phase, Quarantined) else not isinstance(phase, Absent | Waiting)


# ---------------------------------------------------------------------- repairs: keys that are read again


@dataclass(frozen=True)
class RepairPending:
    """The stored keys of that name (see `model.key_repair`) are yet to be read."""

    keys: str


@dataclass(frozen=True)
class RepairRead:
    """The batch that ends here reads them, at the seq `seq`; it emitted nothing if it crossed a DDL."""

    keys: str
    seq: int


@dataclass(frozen=True)
class Repaired:
    """The last repair was read at the seq `seq`, and crossed no DDL."""

    seq: int


Repair = RepairPending | RepairRead | Repaired


# ---------------------------------------------------------------------- the state of a table


@dataclass(frozen=True)
class TableState:
    """`schema` is the id of the schema in force. `floor` is the least floor of the table's reads, where it has one."""

    schema: str
    phase: Phase
    floor: Position | None = None
    repair: Repair | None = None

    @property
    def captured(self) -> bool:
        """Whether the table is followed."""
        return not isinstance(self.phase, Dropped | Quarantined)

    @property
    def published(self) -> bool:
        """Whether rows of the table may have been emitted, so that its schema must be in bronze."""
        return is_published(self.phase)

    @property
    def since(self) -> int | None:
        """The seq at which the last pass that has one began."""
        return since_of(self.phase)

    @property
    def in_repeated_pass(self) -> bool:
        """Whether the current pass, or else the last one, is a repeated one."""
        return isinstance(getattr(self.phase, "in_pass", None), RepeatedPass)

    @property
    def begun(self) -> bool:
        """Whether the pass has emitted anything, be it the schema."""
        match self.phase:
            case Reading(_, cursor):
                return bool(cursor)
        return self.published

    @property
    def done(self) -> bool:
        """Whether no chunk is left to be planned."""
        match self.phase:
            case CaughtUp() | Complete() | Streaming() | Dropped():
                return True
        return isinstance(self.phase, Quarantined) and self.phase.published

    @property
    def complete(self) -> bool:
        """Whether all of it has been read, and crossed no DDL; a repeated pass has its x row by then."""
        return self.done and not isinstance(self.phase, CaughtUp)

    @property
    def cursor(self) -> Cursor:
        """How far the pass is; [] at its start, and where there is none."""
        match self.phase:
            case Reading() | Unconfirmed() | PutBack():
                return self.phase.cursor
        return []

    @property
    def bound(self) -> Cursor | None:
        """The key below which events pass; None where all do, [] where none does."""
        match self.phase:
            case Reading(FirstPass(), cursor) | Unconfirmed(FirstPass(), cursor):
                return cursor
            case PutBack(FirstPass(), _, passed):
                return None if passed is True else passed
            case Waiting() | Dropped() | Quarantined():
                return []
        return None

    @property
    def repair_asked(self) -> bool:
        """Whether there are keys that are yet to be read again, or were in the batch that ends here."""
        return isinstance(self.repair, RepairPending | RepairRead)

    @property
    def repair_pending(self) -> bool:
        """Whether there are keys that are yet to be read again."""
        return isinstance(self.repair, RepairPending)

    @property
    def repaired(self) -> int | None:
        """The seq of the last reading of single keys."""
        return self.repair.seq if isinstance(self.repair, RepairRead | Repaired) else None

    @property
    def unconfirmed(self) -> bool:
        """Whether it is not known yet if the reads of the batch that ends here crossed a DDL."""
        return isinstance(self.phase, Unconfirmed | CaughtUp) or isinstance(self.repair, RepairRead)


def with_all_keys(state: TableState) -> TableState:
    """The state as one reads it who compares tables: during a repeated pass silver has all keys meanwhile."""
    match state.phase:
        case Reading(in_pass) | Unconfirmed(in_pass) | PutBack(in_pass) | CaughtUp(in_pass):
            if isinstance(in_pass, RepeatedPass):
                return TableState(state.schema, Complete(in_pass), state.floor, state.repair)
    return state
