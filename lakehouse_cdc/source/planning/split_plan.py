"""From a start and an end offset to the splits of a batch: a pure reading of the two, but for where ranges are cut.

Which rows a batch has is fixed by its two offsets. How they are shared among tasks is not: binlog ranges are cut where
files begin (and at transaction ends that the driver happens to know), key ranges at any keys in between. So a replay
may cut otherwise and still emit the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from lakehouse_cdc.model.key_repair import Repair
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.model.position import FIRST_EVENT, Position, file_name
from lakehouse_cdc.model.seq import Rank
from lakehouse_cdc.model.table_state import CaughtUp, Cursor, Dropped, PutBack, RepairRead, Streaming, TableState
from lakehouse_cdc.model.xa import Prepared, open_at
from lakehouse_cdc.mysql.value_range import RangeIndex
from lakehouse_cdc.schema.change import SchemaChange
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.source.bronze_rows import Stamp
from lakehouse_cdc.source.splits import (
    AlterSplit,
    BinlogSplit,
    EndSplit,
    RepairSplit,
    SchemaSplit,
    SnapshotSplit,
    Split,
    TruncateSplit,
    stamp_of,
)

SchemaOf = Callable[[str], TableSchema]  # schema id -> schema
ChangeOf = Callable[[str], SchemaChange]  # its fingerprint -> the change
RepairOf = Callable[[str], Repair]  # its fingerprint -> the repair
KeyCuts = Callable[[TableSchema, Cursor | None, Cursor | None], "Cuts"]
Cut = tuple[Position, Sequence[Prepared]]  # where a piece of the binlog begins, and the XA transactions open there
LogCuts = Callable[[Offset, Offset], Sequence[Cut]]  # the first cut is the start itself


class Cuts(NamedTuple):
    """Where a range is cut: at keys, or at values of an index where the table has no key."""

    at: Sequence[Cursor] = ()
    by: RangeIndex | None = None


def plan(
    start: Offset | None,
    end: Offset,
    schema_of: SchemaOf,
    change_of: ChangeOf,
    repair_of: RepairOf,
    key_cuts: KeyCuts,
    log_cuts: LogCuts,
) -> list[Split]:
    """All splits of (start, end], a batch or a stretch of one. A new epoch has no range of the log.

    The same place on another server has no rows at all (see `planning.server_change`).
    """
    if start is not None and end.follows(start):
        return []
    last_epoch: Mapping[str, TableState] = {}
    if start is not None and start.epoch != end.epoch:
        last_epoch, start = start.tables, None
    before = start.tables if start else {}
    born = {effect.table for effect in end.ddl if effect.kind == "create"}
    splits: list[Split] = []
    stamp = stamp_of(end)
    splits.extend(_begin(before, end, last_epoch, born, stamp, schema_of))
    if start is not None:
        splits.extend(_binlog(start, end, schema_of, log_cuts))
        splits.extend(_ddl(start, end, stamp, schema_of, change_of))
    for name, state in end.tables.items():
        if name not in born:
            splits.extend(_snapshot(before.get(name), state, end, schema_of(state.schema), key_cuts))
        splits.extend(_repair(before.get(name), state, end, schema_of, repair_of))
    for name, state in end.tables.items():
        if start is not None and state.since is not None and _ends_pass(before.get(name), state):
            schema, below = schema_of(state.schema), state.since
            if not schema.range_key:  # it was read at once, in the batch before: nothing older than that counts
                below = stamp_of(start, state.since).seq(Rank.READ)
            splits.append(EndSplit(stamp_of(end, state.since), schema, state.since, below))
    return splits


def snapshot_of(end: Offset, schema_of: SchemaOf, key_cuts: KeyCuts) -> list[Split]:
    """As-of reads of all that the cursors of `end` have passed, at its position."""
    return [
        split
        for state in end.tables.values()
        for split in _snapshot(None, state, end, schema_of(state.schema), key_cuts)
    ]


def _begin(
    before: Mapping[str, TableState],
    end: Offset,
    last_epoch: Mapping[str, TableState],
    born: Collection[str],
    stamp: Stamp,
    schema_of: SchemaOf,
) -> list[Split]:
    """The schemas of tables that begin: as a change where bronze has rows of one that is gone, or from before a gap."""
    schemas, changes, emptied = [], [], []
    for name, state in end.tables.items():
        known, schema = before.get(name) or last_epoch.get(name), schema_of(state.schema)
        if not state.published:
            continue
        if known is None or not known.published:
            schemas.append(schema)
        elif state.captured and not known.captured:
            changes.append(SchemaChange.by_names(None, schema_of(known.schema), schema))
            if isinstance(known.phase, Dropped) and (isinstance(state.phase, Streaming) or name in born):
                emptied.append(schema)  # else what was there goes with the end of the pass
        elif name in last_epoch and known.captured and not state.captured:
            changes.append(SchemaChange.leaving(None, schema))
        elif name in last_epoch and state.captured:
            same = known.schema == state.schema
            schemas += [schema] if same else []
            changes += [] if same else [SchemaChange.by_names(None, schema_of(known.schema), schema)]
    splits: list[Split] = [SchemaSplit(stamp, tuple(schemas))] if schemas else []
    splits += [AlterSplit(stamp, tuple(changes))] if changes else []
    # after the change of the schema, of which its rows are
    return [*splits, TruncateSplit(replace(stamp, reading=1), tuple(emptied))] if emptied else splits


def _ddl(start: Offset, end: Offset, stamp: Stamp, schema_of: SchemaOf, change_of: ChangeOf) -> list[Split]:
    """What the statement did that it ends at. A table without any row in bronze begins with its new schema."""
    splits: list[Split] = []
    emptied = [end.tables[effect.table].schema for effect in end.ddl if effect.kind == "truncate"]
    if emptied:
        splits.append(TruncateSplit(stamp, tuple(map(schema_of, emptied))))
    known = {name for name, state in start.tables.items() if state.published}
    changed = [e for e in end.ddl if e.kind in ("alter", "drop", "quarantine") and e.table in known]
    if changed:
        splits.append(AlterSplit(stamp, tuple(change_of(effect.change) for effect in changed)))
    return splits


def _ends_pass(before: TableState | None, state: TableState) -> bool:
    """Whether a repeated pass has its last row here: the batch before read the rest of it, and met no DDL."""
    if before is None or not _same_pass(before, state) or not state.captured:
        return False
    return isinstance(before.phase, CaughtUp) and state.done


def _snapshot(
    before: TableState | None, state: TableState, end: Offset, schema: TableSchema, key_cuts: KeyCuts
) -> list[SnapshotSplit]:
    """The as-of reads between two cursors of one table."""
    if not state.begun or not state.captured or isinstance(state.phase, Streaming | PutBack):
        return []
    if not _same_pass(before, state):
        before = None
    if before is not None and (before.done or (before.cursor == state.cursor and not state.done)):
        return []
    lo = (before.cursor or None) if before else None
    hi = None if state.done else state.cursor
    floor = _floor(state, end)
    cuts = key_cuts(schema, lo, hi)
    bounds = [lo, *cuts.at, hi]
    stamp = stamp_of(end, state.since)
    prepared = open_at(end.prepared, floor)
    return [SnapshotSplit(stamp, end.identity, schema, floor, *ab, prepared, by=cuts.by) for ab in pairwise(bounds)]


def _repair(
    before: TableState | None, state: TableState, end: Offset, schema_of: SchemaOf, repair_of: RepairOf
) -> list[RepairSplit]:
    """The keys of one table that are read again by themselves."""
    repair = state.repair
    if not isinstance(repair, RepairRead) or (before is not None and before.repaired == repair.seq):
        return []
    stamp, floor = stamp_of(end, repair.seq), _floor(state, end)
    prepared = open_at(end.prepared, floor)
    return [RepairSplit(stamp, end.identity, schema_of(state.schema), floor, repair_of(repair.keys), prepared)]


def _floor(state: TableState, end: Offset) -> Position:
    return max(end.floor, state.floor) if state.floor else end.floor


def _same_pass(before: TableState | None, state: TableState) -> bool:
    """Whether both belong to one reading of the table; where it is read again, nothing of it has been read yet."""
    return before is not None and before.since == state.since


def _binlog(start: Offset, end: Offset, schema_of: SchemaOf, log_cuts: LogCuts) -> list[BinlogSplit]:
    """(W_k, W_k+1] in pieces of one file each. What passes is decided by the *start* offset: keys between the two
    cursors come with their chunk, which is read as of the end."""
    if not start.position < end.position:
        return []
    wanted: list[TableSchema] = []
    bounds: dict[str, Cursor] = {}
    for name, state in start.tables.items():
        if state.bound != []:
            wanted.append(schema_of(state.schema))
        if state.bound:
            bounds[name] = state.bound
    if not wanted:
        return []
    points: list[Cut] = [*log_cuts(start, end), (end.position, ())]
    pieces = [(a, b, tuple(prepared)) for (a, prepared), (b, _) in pairwise(points) if a < b]
    ddl = end.position if end.ddl else None
    return [BinlogSplit(end.epoch, end.identity, a, b, tuple(wanted), bounds, p, b == ddl) for a, b, p in pieces]


def file_begins(start: Position, end: Position) -> list[Position]:
    """The first bytes of the files that begin in (start, end]: where a stretch can be cut without any look at it."""
    return [Position(file_name(end.base, n), FIRST_EVENT) for n in range(start.number + 1, end.number + 1)]
