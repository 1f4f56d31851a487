"""The rows of a table without a key from views of it, each kind of row from a view of which it is known what it holds.

The rows at W are those of a view minus what the view holds of the log after W, and plus what it lacks of the log up to
W (see `model.multiset`). These sums are taken for each kind of row by itself: how often an image is there at W
depends on no event of another image. So what the sum for one kind needs is a view of which is known for every
transaction *that touches this kind* whether the view holds it. A transaction of which that is not known makes the kinds
doubtful that it touches, a few that are being written at that moment, and no others. Those kinds alone are taken from
another view, and of these again the doubtful ones from a third: each kind is counted in one view, all kinds are
counted, and all of them at W. The whole table never has to be at rest, only each kind of row once.

A kind is an image, or all images that the reader takes for one row (`kind`): then it is doubtful if any of them is.

Where the split is a range of values (see `mysql.value_range`), nothing else changes: the range of a row is a function
of the row, so a row that is updated out of the range is one that goes, as far as the range is concerned.

DDL in (W, H] means that the table is another one by then: as for any chunk nothing is emitted. There is none between H
and the end of the SELECT, since the view's transaction holds the table's metadata lock from before H is read.

A table that is locked for each statement has no view but the one SELECT that reads it (see `settling.table_locks`): it
holds all up to a position that was settled before it, and nothing after the one that was read when it had its lock.
What lies in between is in doubt. Where that comes again and again, LOCK TABLES ... READ is used if the user has that
right: then the two positions are one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from lakehouse_cdc.errors import CdcError, DefiniteError, TransientError, codes
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.mysql import server
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.source.identity import connect_to
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.reading.log_batch import LogPart
from lakehouse_cdc.source.reading.range_of_rows import RangeOfRows
from lakehouse_cdc.source.reading.window import read_window
from lakehouse_cdc.source.reading.xa_groups import PreparedPart
from lakehouse_cdc.source.settling.consistent_view import View, Views
from lakehouse_cdc.source.settling.settled_position import choose_proof
from lakehouse_cdc.source.settling.table_locks import has_locked, has_settled, unsettled, wait_for_delayed
from lakehouse_cdc.source.splits import SnapshotSplit
from lakehouse_cdc.source.test_hooks import Step, reached

Selected = TypeVar("Selected")
Kinds = Mapping[Hashable, bytes]  # kind of row -> an image of it
Kind = Callable[[bytes], Hashable]
Select = Callable[[Session, str, Callable[[], None]], Selected]
_PATIENCE = 600.0  # seconds until a view must have been made that helps
_WITHOUT_LOCK = 3  # attempts, before the table is locked
_FOR_ALL = 8  # attempts at a view without any doubt, before one is read that leaves some kinds to another
_LONGEST_REST = 0.25  # seconds between two of them


def _itself(image: bytes) -> Hashable:
    return image


@dataclass(frozen=True)
class Part(Generic[Selected]):
    """What was selected in one view, in which the kinds of `only` count, or (None) all but those of `without`.

    `events` (before, after) of these kinds lead from the rows at W to those of the view; `keys` are those of images.
    """

    selected: Selected
    only: Kinds | None
    without: Kinds
    events: list[tuple[bytes | None, bytes | None]]
    keys: Mapping[bytes, bytes | None]

    @property
    def counts_all(self) -> bool:
        """Whether rows of every kind are counted here."""
        return self.only is None and not self.without

    def counts(self, kind: Hashable) -> bool:
        """Whether rows of this kind are counted here."""
        return kind not in self.without if self.only is None else kind in self.only


def parts_of(
    split: SnapshotSplit,
    session: Session,
    options: SourceOptions,
    server_id: int,
    select: Select[Selected],
    kind: Kind = _itself,
) -> list[Part[Selected]] | None:
    """The rows of the split, each kind of which counts in one part; None where DDL of the table is after W.

    `select(data, rows, opened)` reads `rows`, that is what follows FROM, in `data`, and calls `opened` when the server
    has begun to answer. Raises DefiniteError where view and log contradict each other, TransientError where no view can
    be proven.
    """
    reader: _InViews[Selected] | _UnderLocks[Selected]
    reader = (_UnderLocks if split.schema.locked else _InViews)(split, session, options, server_id, select, kind)
    parts: list[Part[Selected]] = []
    wanted: Kinds | None = None
    while wanted is None or wanted:
        read = reader.read(wanted)
        if read is None:
            return None
        selected, past = read
        doubtful = past.doubtful_of(wanted)
        only = None if wanted is None else {one: image for one, image in wanted.items() if one not in doubtful}
        parts.append(past.part(selected, only, doubtful))
        wanted = doubtful
    return parts


class Past:
    """What leads from the rows at W to those of a view, and the kinds of row of which that is not known."""

    def __init__(self, split: SnapshotSplit, view: View, kind: Kind = _itself) -> None:
        self.view = view
        self.doubtful: dict[Hashable, bytes] = {}
        self._low, self._kind, self._range = split.stamp.position, kind, RangeOfRows(split)
        self._events: list[tuple[bytes | None, bytes | None]] = []
        self._keys: dict[bytes, bytes | None] = {}

    def take(self, part: LogPart) -> None:
        xid = part.commit.xid if isinstance(part, PreparedPart) else None
        masks = [self._range.among(part.changes.before), self._range.among(part.changes.after)]
        chosen = np.flatnonzero(masks[0] | masks[1])
        counted = zip(*(mask[chosen].tolist() for mask in masks), strict=True)
        for (key, *images, at), gtid, counts in zip(part.images(chosen), part.gtids_at(chosen), counted, strict=True):
            before, after = (image if it else None for image, it in zip(images, counts, strict=True))
            touched = [image for image in (before, after) if image is not None]
            held = self.view.holds(at, gtid, xid)
            if held is None:
                self.doubtful.update((self._kind(image), image) for image in touched)
            elif held != (at <= self._low):  # after W and held, or up to W and lacking
                self._events.append((before, after) if held else (after, before))
                self._keys.update(dict.fromkeys(touched, key))

    def doubtful_of(self, wanted: Kinds | None) -> Kinds:
        """The doubtful kinds among those that are wanted, or (None) of all."""
        return {one: image for one, image in self.doubtful.items() if wanted is None or one in wanted}

    def part(self, selected: Selected, only: Kinds | None, without: Kinds) -> Part[Selected]:
        """What was selected in the view, with the events of the kinds that count."""
        part = Part(selected, only, without, [], self._keys)
        for event in self._events:
            before, after = (i if i is not None and part.counts(self._kind(i)) else None for i in event)
            part.events.append((before, after))
        return part


class _Reader(Generic[Selected]):
    """Makes views of a split, and reads those that help."""

    def __init__(
        self,
        split: SnapshotSplit,
        session: Session,
        options: SourceOptions,
        server_id: int,
        select: Select[Selected],
        kind: Kind,
    ) -> None:
        self._split, self._session, self._options, self._server_id = split, session, options, server_id
        self._select, self._kind, self._range = select, kind, RangeOfRows(split)

    def _selected(self, data: Session, wanted: Kinds | None, opened: Callable[[], None]) -> Selected:
        """The rows that are wanted; without the index where that is refused: it may be gone, or invisible, by now."""
        try:
            return self._select(data, self._range.rows(wanted), opened)
        except DefiniteError as error:
            if error.code is not codes.STATEMENT_REFUSED or not self._range.has_index:
                raise
            return self._select(data, self._range.rows(wanted, by_index=False), opened)

    def _past(self, view: View, failure: CdcError | None) -> Past | None:
        """None where DDL of the table lies after W, else raises `failure` if there is one."""
        past = Past(self._split, view, self._kind)
        # all up to W, too: a view may lack some of it
        high = max(view.high, self._split.stamp.position)
        if not read_window(self._split, self._options, self._server_id, high, past.take):
            return None
        if failure is not None:
            raise failure
        return past


class _InViews(_Reader[Selected]):
    """The reads of an engine with consistent views."""

    _views: Views | None = None

    def read(self, wanted: Kinds | None) -> tuple[Selected, Past] | None:
        """What is selected in a view that leaves less than was wanted; None where DDL of the table lies after W.

        One that leaves nothing is tried for first. Else it must leave but half of the kinds, since a SELECT may have to
        look at all rows.
        """
        with connect_to(self._options, self._split.identity, purpose="data") as data:
            views = self._views = self._views_in(data)
            attempts = _Attempts(self._split.schema.name, views.proof, views.margin)
            while True:
                past = self._look(views)
                if past is None:
                    return None
                doubtful = len(past.doubtful_of(wanted))
                some = attempts.made >= _FOR_ALL and (wanted is None or 2 * doubtful <= len(wanted))
                if some or not doubtful:
                    break
                attempts.pause()
            selected = self._selected(data, wanted, lambda: None)
            views.end()
        return selected, past

    def _views_in(self, data: Session) -> Views:
        """They remember the positions that were seen, which become old."""
        if self._views is not None:
            return replace(self._views, data=data)
        options = self._options
        return Views(self._session, data, self._split.schema, options.settle, options.settle_seconds)

    def _look(self, views: Views) -> Past | None:
        """What a new view holds; None where DDL of the table lies after W."""
        failure: DefiniteError | None = None
        try:
            view = views.make()
        except DefiniteError as error:  # the table may be gone, or another: the binlog shows which
            failure, view = error, View(server.log_position(self._session).position)
        return self._past(view, failure)


class _UnderLocks(_Reader[Selected]):
    """The reads of a table that is locked for each statement: each SELECT is a view."""

    _attempts: _Attempts | None = None

    def read(self, wanted: Kinds | None) -> tuple[Selected, Past] | None:
        """The same; any that leaves less than was wanted helps, since it has been read already."""
        if self._attempts is None:
            proof = choose_proof(self._session, self._options.settle, self._options.settle_seconds)
            self._attempts = _Attempts(self._split.schema.name, *proof)
        while True:
            read = self._read(wanted, self._attempts.made >= _WITHOUT_LOCK)
            if read is None or wanted is None or len(read[1].doubtful_of(wanted)) < len(wanted):
                self._attempts.made += 1
                return read
            self._attempts.pause()

    def _read(self, wanted: Kinds | None, lock: bool) -> tuple[Selected, Past] | None:
        schema, session = self._split.schema, self._session
        low = server.log_position(session).position
        high: Position | None = None
        failure: CdcError | None = None

        def opened() -> None:
            nonlocal high
            if high is None:
                wait_for_delayed(session, schema)
                high = server.log_position(session).position

        reached(Step.BEFORE_SELECT, schema.name)
        with connect_to(self._options, self._split.identity, purpose="data") as data:
            try:
                if lock and has_locked(session, data, schema):
                    settled, low = True, server.log_position(session).position
                    high = low
                else:
                    settled = has_settled(session, schema)
                selected = self._selected(data, wanted, opened)
                failure = None if settled else unsettled(schema)
            except DefiniteError as error:  # the table may be gone, or another: the binlog shows which
                failure = error
        view = View(high or server.log_position(session).position, low=low, xids=frozenset())
        past = self._past(view, failure)
        return None if past is None else (selected, past)


class _Attempts:
    """Rests between attempts at rows that are written at all times, until it has been tried for too long."""

    def __init__(self, table: str, proof: str, margin: float) -> None:
        self._table, self._proof, self._patience = table, proof, max(_PATIENCE, 3 * margin)
        self._began, self.made = time.monotonic(), 0

    def pause(self) -> None:
        """Raises TransientError after ten minutes."""
        if time.monotonic() - self._began > self._patience:
            raise _never_at_rest(self._table, self._proof)
        time.sleep(min(_LONGEST_REST, 0.001 * 2 ** min(self.made, 10)))
        self.made += 1


def _never_at_rest(table: str, proof: str) -> TransientError:
    better = {"gtid": "", "snapshot": ""}.get(proof, ", or turn GTIDs on")
    return codes.KEYLESS_TABLE_BUSY.error(
        "rows of a table without a primary key were written at every moment at which they were to be read",
        where=table,
        hint=f"it is read again; let its writers rest for a moment, give it a primary key{better}",
    )
