"""One as-of read: the rows of a key range exactly as they were at W, whenever it is executed.

SELECT without locks, then ask for the high watermark H, then read the binlog (F, H] of that table and let
`model.as_of_rule.truths` decide for every key that occurs there. See that module for why the result does not depend on
what the SELECT saw, and `settling.settled_position` for why F is settled; of a table that is locked for each statement
`settling.table_locks` says that.

DDL in (W, H] means that the SELECT may have seen another table, so nothing is emitted and the task succeeds: the
planner scans the same stretch before it offers anything else, and puts the table's cursor back. DDL in (F, W] cannot
be, since the planner puts F after it; it is an error. A table without a primary key is read whole (see
`keyless_snapshot_read`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_cdc.errors import CdcError, DefiniteError, codes
from lakehouse_cdc.images.program import ProgramSet, key_metadata, row_metadata
from lakehouse_cdc.model.as_of_rule import Event, truths
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.seq import Rank
from lakehouse_cdc.model.variant import decode
from lakehouse_cdc.mysql import server
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.mysql.key_range import KeySpace
from lakehouse_cdc.mysql.wire.select import select_images
from lakehouse_cdc.source.bronze_rows import Pair, at_one_position, shared, variants
from lakehouse_cdc.source.identity import connect_to
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.reading.field_numbers import FieldRange
from lakehouse_cdc.source.reading.keyless_snapshot_read import read_whole
from lakehouse_cdc.source.reading.log_batch import LogPart
from lakehouse_cdc.source.reading.window import read_window
from lakehouse_cdc.source.reading.xa_groups import PreparedPart
from lakehouse_cdc.source.settling.table_locks import has_settled, unsettled, wait_for_delayed
from lakehouse_cdc.source.splits import RepairSplit, SnapshotSplit
from lakehouse_cdc.source.test_hooks import Step, reached

Selected = TypeVar("Selected")
_EVENT_ROWS = 10_000  # rows in a record batch that is made of the window's images


def read_snapshot(split: SnapshotSplit, options: SourceOptions, server_id: int) -> Iterator[pa.RecordBatch]:
    """The `r` rows of one split. Raises DefiniteError for a table that is not what its schema says."""
    with connect_to(options, split.identity) as session:
        rows: Iterable[Pair] | None
        if split.schema.range_key:
            looked = looked_at(split, options, server_id, session, lambda: _select(split, options))
            rows = None if looked is None else _roll_back(split, session, *looked)
        else:
            rows = read_whole(split, session, options, server_id)
    if rows is None:
        if options.as_of:
            raise codes.ROWS_MISSING.error(
                f"a statement after {split.stamp.position} changes the table, whose rows there are gone",
                where=split.schema.name, hint="run again when the pipeline has passed that statement",
            )  # fmt: skip
        return
    for key, after in rows:
        if len(key):
            yield row_batch(split, key, after)


def looked_at(
    split: SnapshotSplit | RepairSplit,
    options: SourceOptions,
    server_id: int,
    session: Session,
    select: Callable[[], list[Selected]],
) -> tuple[list[Selected], list[Event]] | None:
    """What `select` finds, and what the binlog says of the table from the floor to after that; None if it met DDL."""
    table = split.schema.name
    reached(Step.BEFORE_SELECT, table)
    selected: list[Selected] = []
    failure: CdcError | None = None
    settled = has_settled(session, split.schema)
    try:
        selected = select()
        failure = None if settled else unsettled(split.schema)
    except DefiniteError as error:  # the table may be gone, or another: the binlog shows which
        failure = error
    reached(Step.AFTER_SELECT, table)
    wait_for_delayed(session, split.schema)
    high = server.log_position(session).position
    reached(Step.AFTER_HIGH, table)
    events = _events(split, options, server_id, high)
    if events is None:
        return None
    if failure is not None:
        raise failure
    return selected, events


def _select(split: SnapshotSplit, options: SourceOptions) -> list[Pair]:
    space = KeySpace(split.schema)
    where = space.where(split.lo, split.hi)
    sql = f"SELECT {space.select_list()} FROM {space.table}" + (f" WHERE {where}" if where else "")
    with connect_to(options, split.identity, purpose="data") as data:
        programs = ProgramSet.of([split.schema], salt=options.mask_salt)
        images = select_images(data.connection, sql, split.schema, programs=programs)
        return [(image.key.to_arrow(), image.after.to_arrow()) for image in images]


def _events(
    split: SnapshotSplit | RepairSplit, options: SourceOptions, server_id: int, high: Position
) -> list[Event] | None:
    """The events in the window, in order, of all keys that may be in the split; None where the schema changed."""
    low, keys = split.stamp.position, _range_of_keys(split)
    events: list[tuple[Position, Event]] = []
    in_order = True

    def take(part: LogPart) -> None:
        nonlocal in_order
        in_order &= not isinstance(part, PreparedPart)
        key = part.changes.key
        chosen = np.arange(len(key)) if keys is None else np.flatnonzero(np.logical_or(*keys.holds(key)))
        events.extend((at, Event(key, before, after, at <= low)) for key, before, after, at in part.images(chosen))

    if not read_window(split, options, server_id, high, take):
        return None
    if not in_order:  # rows of XA transactions come last
        events.sort(key=lambda one: one[0])
    return [event for _, event in events]


def _range_of_keys(split: SnapshotSplit | RepairSplit) -> FieldRange | None:
    """What the keys of a chunk's rows lie in, by their first component; None: anywhere."""
    if isinstance(split, RepairSplit):
        return None
    columns = split.schema.key_columns
    lo, hi = (bound[0] if bound else None for bound in (split.lo, split.hi))
    return FieldRange.of(columns[0], [c.name for c in columns], lo, hi, closed=len(columns) > 1)


def _roll_back(split: SnapshotSplit, session: Session, selected: list[Pair], events: list[Event]) -> list[Pair]:
    """The rows at W: what was selected, but for the keys that the window speaks of."""
    known = truths(events)
    if not known:
        return selected
    spoken_of = pa.array(list(known), pa.binary())
    kept: list[Pair] = []
    seen: set[bytes] = set()
    for key, after in selected:
        mine = pc.is_in(key, value_set=spoken_of)
        seen.update(key.filter(mine).to_pylist())
        others = pc.invert(mine)
        kept.append((key.filter(others), after.filter(others)))
    in_range = keys_in_range(split, session, known, seen)
    rows = [(k, image) for k, image in known.items() if image is not None and k in in_range]
    for at in range(0, len(rows), _EVENT_ROWS):
        keys, images = zip(*rows[at : at + _EVENT_ROWS], strict=True)
        kept.append((pa.array(keys, pa.binary()), pa.array(images, pa.binary())))
    return kept


def keys_in_range(
    split: SnapshotSplit, session: Session, known: dict[bytes, bytes | None], selected: set[bytes]
) -> set[bytes]:
    """The keys of the window that lie in [lo, hi): the SELECT's do, the server says it of the others."""
    unsure = [k for k, image in known.items() if image is not None and k not in selected]
    metadata = key_metadata(split.schema)
    space = KeySpace(split.schema)
    cursors = [space.cursor(decode(k, metadata)) for k in unsure]
    inside = space.contains(session, cursors, split.lo, split.hi)
    return selected | {k for k, is_inside in zip(unsure, inside, strict=True) if is_inside}


def row_batch(split: SnapshotSplit | RepairSplit, key: pa.Array, after: pa.Array) -> pa.RecordBatch:
    """The `r` rows of n keys and rows."""
    of_key, of_row = (shared(names(split.schema), len(key)) for names in (key_metadata, row_metadata))
    return at_one_position(
        split.stamp, Rank.READ, "r", split.schema.name, split.schema.id,
        variants(key, of_key), variants(after, of_row),
    )  # fmt: skip
