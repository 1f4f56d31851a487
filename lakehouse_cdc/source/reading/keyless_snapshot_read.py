"""The as-of read of a table without a primary key: all its rows, as a multiset, exactly as they were at W.

A view is made of which the log, read up to a place after it, proves what it holds of the table (see
`settling.consistent_view`); else another one. Then the view is read, as one chunk, and what it holds of (W, H] is taken
back (see `model.multiset`). All of the table up to W must be among what it holds: F says so of most, the proof of the
rest, so W need not be settled when it is chosen. Every such read gives the multiset at W, whatever view it was made of.

DDL in (W, H] means that the table is another one by then: as for any chunk nothing is emitted. There is none between H
and the end of the SELECT, since the view's transaction holds the table's metadata lock from before H is read.

A table that is locked for each statement has no view but the one SELECT that reads it (see `settling.table_locks`): it
holds all up to a position that was settled before it, and nothing after the one that was read when it had its lock. It
is read again where something of the table lies in between. Where that comes again and again, LOCK TABLES ... READ is
used if the user has that right: then the two positions are one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_cdc.errors import CdcError, DefiniteError, TransientError, codes
from lakehouse_cdc.images.program import ProgramSet
from lakehouse_cdc.model.multiset import rollback
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.mysql import server
from lakehouse_cdc.mysql.connection.session import Session, connect
from lakehouse_cdc.mysql.key_range import place, select_list
from lakehouse_cdc.mysql.wire.select import select_images
from lakehouse_cdc.source.bronze_rows import Pair
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.reading.log_batch import LogPart
from lakehouse_cdc.source.reading.spool import Spool
from lakehouse_cdc.source.reading.window import read_window
from lakehouse_cdc.source.reading.xa_groups import PreparedPart
from lakehouse_cdc.source.settling.consistent_view import View, Views
from lakehouse_cdc.source.settling.settled_position import choose_proof
from lakehouse_cdc.source.settling.table_locks import has_locked, has_settled, unsettled, wait_for_delayed
from lakehouse_cdc.source.splits import SnapshotSplit
from lakehouse_cdc.source.test_hooks import Step, reached

Selected = TypeVar("Selected")
_PATIENCE = 600.0  # seconds until a view must have been found
_WITHOUT_LOCK = 3  # attempts, before the table is locked
_LONGEST_REST = 0.25  # seconds between two of them
_EVENT_ROWS = 10_000  # rows in a piece that is made of the window's images


def read_whole(split: SnapshotSplit, session: Session, options: SourceOptions, server_id: int) -> Iterator[Pair] | None:
    """The rows at W, or None where DDL of the table is after W; `session` is to ask the server.

    Raises DefiniteError where view and log contradict each other, TransientError where no view can be proven.
    """

    def select(data: Session, opened: Callable[[], None]) -> Spool:
        sql = f"SELECT {select_list(split.schema)} FROM {place(split.schema)}"
        selected = Spool()
        programs = ProgramSet.of([split.schema], salt=options.mask_salt)
        for image in select_images(data.connection, sql, split.schema, programs=programs, opened=opened):
            selected.add((image.key.to_arrow(), image.after.to_arrow()))
        return selected

    read = whole(split, session, options, server_id, select)
    reached(Step.AFTER_SELECT, split.schema.name)
    return None if read is None else _rolled_back(split, *read)


def whole(
    split: SnapshotSplit,
    session: Session,
    options: SourceOptions,
    server_id: int,
    select: Callable[[Session, Callable[[], None]], Selected],
) -> tuple[Selected, Past] | None:
    """What `select` reads of all rows, and what that holds of the log after W; None where DDL of the table is after W.

    `select(data, opened)` runs its SELECT in `data`, and calls `opened` when the server has begun to answer. It may be
    called more than once. Raises what `read_whole` does.
    """
    if split.schema.locked:
        return _read_locked(split, session, options, server_id, select)
    with connect(options.connection, purpose="data") as data:
        view = _proven_view(split, session, data, options, server_id)
        if view is None:
            return None
        views, past = view
        selected = select(data, lambda: None)
        views.end()
    return selected, past


def _proven_view(
    split: SnapshotSplit, session: Session, data: Session, options: SourceOptions, server_id: int
) -> tuple[Views, Past] | None:
    """A view that is open in `data`, and what it holds of the log after W; None where DDL of the table lies after W.

    Raises what `read_whole` does.
    """
    views = Views(session, data, split.schema, options.settle, options.settle_seconds)
    attempts = _Attempts(split.schema.name, views.proof, views.margin)
    while True:
        failure: DefiniteError | None = None
        try:
            view = views.make()
        except DefiniteError as error:  # the table may be gone, or another: the binlog shows which
            failure, view = error, View(server.log_position(session).position)
        past = Past(split, view)
        if not read_window(split, options, server_id, view.high, past.take):
            return None
        if failure is not None:
            raise failure
        if not past.doubt:
            return views, past
        attempts.pause()


def _read_locked(
    split: SnapshotSplit,
    session: Session,
    options: SourceOptions,
    server_id: int,
    select: Callable[[Session, Callable[[], None]], Selected],
) -> tuple[Selected, Past] | None:
    """The same of a table that is locked for each statement."""
    schema = split.schema
    attempts = _Attempts(schema.name, *choose_proof(session, options.settle, options.settle_seconds))
    while True:
        low = server.log_position(session).position
        high: Position | None = None
        failure: CdcError | None = None

        def opened() -> None:
            nonlocal high
            if high is None:
                wait_for_delayed(session, schema)
                high = server.log_position(session).position

        reached(Step.BEFORE_SELECT, schema.name)
        with connect(options.connection, purpose="data") as data:
            try:
                if attempts.made >= _WITHOUT_LOCK and has_locked(session, data, schema):
                    settled, low = True, server.log_position(session).position
                    high = low
                else:
                    settled = has_settled(session, schema)
                selected = select(data, opened)
                failure = None if settled else unsettled(schema)
            except DefiniteError as error:  # the table may be gone, or another: the binlog shows which
                failure = error
        past = Past(split, View(high or server.log_position(session).position, low=low, xids=frozenset()))
        if not read_window(split, options, server_id, past.view.high, past.take):
            return None
        if failure is not None:
            raise failure
        if not past.doubt:
            return selected, past
        attempts.pause()


class _Attempts:
    """Rests between attempts at a table that is written at all times, until it has been tried for too long."""

    def __init__(self, table: str, proof: str, margin: float) -> None:
        self._table, self._proof, self._patience = table, proof, max(_PATIENCE, 3 * margin)
        self._began, self.made = time.monotonic(), 0

    def pause(self) -> None:
        """Raises TransientError after ten minutes."""
        if time.monotonic() - self._began > self._patience:
            raise _never_at_rest(self._table, self._proof)
        time.sleep(min(_LONGEST_REST, 0.001 * 2 ** min(self.made, 10)))
        self.made += 1


class Past:
    """What a view holds of the log after W; `doubt`: it is not known of some transaction, or one up to W lacks."""

    def __init__(self, split: SnapshotSplit, view: View) -> None:
        self._low, self.view = split.stamp.position, view
        self.events: list[tuple[bytes | None, bytes | None]] = []
        self.keys: dict[bytes, bytes | None] = {}  # of images that come back
        self.doubt = False

    def take(self, part: LogPart) -> None:
        xid = part.commit.xid if isinstance(part, PreparedPart) else None
        for (key, before, after, at), gtid in zip(part.images(), part.gtids().to_pylist(), strict=True):
            held = self.view.holds(at, gtid, xid)
            if held is None or (at <= self._low and not held):
                self.doubt = True
            if held and at > self._low:
                self.events.append((before, after))
                if before is not None:
                    self.keys[before] = key


def _rolled_back(split: SnapshotSplit, selected: Iterable[Pair], past: Past) -> Iterator[Pair]:
    """The rows at W: those of the view, without what came after W, and with what went there."""
    counts = rollback(past.events)
    came = Counter({image: -n for image, n in counts.items() if n < 0})
    for pair in selected:
        yield _without(pair, came)
    if lacking := came.total():
        raise codes.INVARIANT_BROKEN.error(
            f"{lacking} rows that came after {split.stamp.position} are not among those that were read",
            where=split.schema.name,
            hint="this should be impossible; please report it with the checkpoint's last offset",
        )
    gone = [image for image, n in counts.items() for _ in range(n)]
    for at in range(0, len(gone), _EVENT_ROWS):
        images = gone[at : at + _EVENT_ROWS]
        keys = [past.keys[image] for image in images]
        yield pa.array(keys, pa.binary()), pa.array(images, pa.binary())


def _without(pair: Pair, came: Counter[bytes]) -> Pair:
    """The rows without those of `came` that are among them, which are taken out of it."""
    if not came:
        return pair
    key, after = pair
    keep = []
    for image in after.filter(mine := pc.is_in(after, value_set=pa.array(list(came), pa.binary()))).to_pylist():
        keep.append(came[image] <= 0)
        came[image] -= not keep[-1]
    if not keep:
        return pair
    kept = pc.replace_with_mask(pc.invert(mine), mine, pa.array(keep, pa.bool_()))
    return key.filter(kept), after.filter(kept)


def _never_at_rest(table: str, proof: str) -> TransientError:
    better = {"gtid": "", "snapshot": ""}.get(proof, ", or turn GTIDs on")
    return codes.KEYLESS_TABLE_BUSY.error(
        "a table without a primary key was written at every moment at which it was to be read",
        where=table,
        hint=f"it is read again; let its writers rest for a moment, give it a primary key{better}",
    )
