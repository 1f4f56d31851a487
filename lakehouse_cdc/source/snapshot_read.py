"""One as-of read: the rows of a key range exactly as they stood at W, whenever it is executed.

SELECT without locks, then ask for the high watermark H, then read the binlog (F, H] of that table and let
`model.asof.truths` decide for every key that occurs there. See that module for why the result does not depend on what
the SELECT saw, and `floor` for why F is settled.

DDL in (W, H] means that the SELECT may have seen another table, so nothing is emitted and the task succeeds: the
planner scans the same stretch before it offers anything else, and puts the table's cursor back. DDL in (F, W] cannot
be, since the planner puts F behind it; it is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_cdc.errors import CdcError, DefiniteError
from lakehouse_cdc.model.asof import Event, truths
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.seq import Rank
from lakehouse_cdc.model.variant import decode
from lakehouse_cdc.mysql import server
from lakehouse_cdc.mysql.binlog.scan import LoggedStatement
from lakehouse_cdc.mysql.kernels.program import ProgramSet
from lakehouse_cdc.mysql.keys import KeySpace
from lakehouse_cdc.mysql.session import Session, connect
from lakehouse_cdc.mysql.wire.select import select_images
from lakehouse_cdc.source.hooks import Step, reached
from lakehouse_cdc.source.identity import check_identity
from lakehouse_cdc.source.log import LogReader
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.prepared import PreparedPart
from lakehouse_cdc.source.rows import at_one_position, variants
from lakehouse_cdc.source.splits import SnapshotSplit

_EVENT_ROWS = 10_000  # rows in a record batch that is made of the window's images
Pair = tuple[pa.Array, pa.Array]  # key and after values, n each


@dataclass(frozen=True)
class _Window:
    """What the binlog (F, H] says of the table: its events, or that its schema changed."""

    events: Sequence[Event]
    ddl: bool


def read_snapshot(split: SnapshotSplit, options: SourceOptions, server_id: int) -> Iterator[pa.RecordBatch]:
    """The `r` rows of one split. Raises DefiniteError for a table that is not what its schema says."""
    table = split.schema.name
    with connect(options.connection) as session:
        check_identity(session, split.identity)
        reached(Step.BEFORE_SELECT, table)
        selected: list[Pair] = []
        failure: CdcError | None = None
        try:
            selected = _select(split, options)
        except DefiniteError as error:  # the table may be gone, or another: the binlog tells
            failure = error
        reached(Step.AFTER_SELECT, table)
        high = server.log_position(session).position
        reached(Step.AFTER_HIGH, table)
        window = _window(split, options, server_id, high)
        if window.ddl:
            if options.as_of:
                raise DefiniteError(
                    f"a statement behind {split.stamp.position} changes the table, whose rows there are gone",
                    where=table, hint="run again when the pipeline has passed that statement",
                )  # fmt: skip
            return
        if failure is not None:
            raise failure
        rows = _roll_back(split, session, selected, window)
    programs = ProgramSet.of([split.schema])
    for key, after in rows:
        if len(key):
            yield _batch(split, programs, key, after)


def _select(split: SnapshotSplit, options: SourceOptions) -> list[Pair]:
    space = KeySpace(split.schema)
    where = space.where(split.lo, split.hi)
    sql = f"SELECT {space.select_list()} FROM {space.table}" + (f" WHERE {where}" if where else "")
    with connect(options.connection, purpose="data") as data:
        images = select_images(data.connection, sql, split.schema)
        return [(image.key.to_arrow(), image.after.to_arrow()) for image in images]


def _window(split: SnapshotSplit, options: SourceOptions, server_id: int, high: Position) -> _Window:
    if not split.floor < high:
        return _Window([], ddl=False)
    low = split.stamp.position
    try:
        with LogReader(
            options, split.floor, high, [split.schema], split.identity, server_id, prepared=split.prepared
        ) as log:
            found: list[tuple[Position, Event]] = []
            in_order = True
            for part in log:
                if part.statements:
                    return _ddl(part.statements[0], split)
                in_order &= not isinstance(part, PreparedPart)
                found += [(at, Event(key, before, after, at <= low)) for key, before, after, at in part.images()]
            if not in_order:  # rows of XA transactions come last
                found.sort(key=lambda one: one[0])
            return _Window([event for _, event in found], ddl=False)
    except DefiniteError:
        # rows behind DDL do not fit the schema: look for the DDL alone, without looking at rows
        with LogReader(options, split.floor, high, [], split.identity, server_id, watched=split.schema) as log:
            for part in log:
                if part.statements:
                    return _ddl(part.statements[0], split)
        raise


def _ddl(found: LoggedStatement, split: SnapshotSplit) -> _Window:
    if found.position <= split.stamp.position:
        raise DefiniteError(
            f"a statement between the floor {split.floor} and W concerns the table: {found.text[:200]}",
            where=f"{split.schema.name} at {found.position}",
            hint="this should be impossible; please report it with the checkpoint's last offset",
        )
    return _Window([], ddl=True)


def _roll_back(split: SnapshotSplit, session: Session, selected: list[Pair], window: _Window) -> list[Pair]:
    """The rows at W: what was selected, but for the keys that the window speaks of."""
    known = truths(window.events)
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
    in_range = _in_range(split, session, known, seen)
    rows = [(k, image) for k, image in known.items() if image is not None and k in in_range]
    for at in range(0, len(rows), _EVENT_ROWS):
        keys, images = zip(*rows[at : at + _EVENT_ROWS], strict=True)
        kept.append((pa.array(keys, pa.binary()), pa.array(images, pa.binary())))
    return kept


def _in_range(
    split: SnapshotSplit, session: Session, known: dict[bytes, bytes | None], selected: set[bytes]
) -> set[bytes]:
    """The keys of the window that lie in [lo, hi): the SELECT's do, the server tells of the others."""
    unsure = [k for k, image in known.items() if image is not None and k not in selected]
    metadata = ProgramSet.of([split.schema]).key_metadata[0]
    space = KeySpace(split.schema)
    cursors = [space.cursor(decode(k, metadata)) for k in unsure]
    inside = space.contains(session, cursors, split.lo, split.hi)
    return selected | {k for k, is_inside in zip(unsure, inside, strict=True) if is_inside}


def _batch(split: SnapshotSplit, programs: ProgramSet, key: pa.Array, after: pa.Array) -> pa.RecordBatch:
    key_metadata, metadata = (pa.scalar(m[0], pa.binary()) for m in (programs.key_metadata, programs.metadata))
    return at_one_position(
        split.stamp, Rank.READ, "r", split.schema.name, split.schema.id,
        variants(key, pa.repeat(key_metadata, len(key))), variants(after, pa.repeat(metadata, len(after))),
    )  # fmt: skip
