"""Where the next micro-batch ends: the one place that decides about W, the floor and the cursors.

What a batch emits is a function of its start and end offset, so everything that a task must know is put into the end
offset here, and is proven before it is: W has been delivered by a dump (the server's status runs ahead of it), the
floor is settled, the schemas are stored, and no DDL of a captured table lies between a table's schema and W.

After a batch whose cursors moved, the binlog from W to the tip is scanned before anything else is offered: a chunk
that met DDL in its window emitted nothing, and the same DDL, found here, puts the cursor back (see `ddl.transitions`).
DDL whose effects are not known stops the stream, when all that is before it has been offered.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import pairwise

from lakehouse_cdc.errors import DefiniteError, TransientError, codes
from lakehouse_cdc.model.offset import LONGEST_TURN, Offset
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.xa import open_at
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.source.captured_tables import Tables, wait_for_ddl
from lakehouse_cdc.source.ddl.text_statements import Texts, guarded
from lakehouse_cdc.source.options import SourceOptions, replica_ids
from lakehouse_cdc.source.planning import reconfigured, split_plan, stretches
from lakehouse_cdc.source.planning.batch_pacing import Pace
from lakehouse_cdc.source.planning.chunks import Chunks
from lakehouse_cdc.source.planning.connections import Connections
from lakehouse_cdc.source.planning.elsewhere import Elsewhere
from lakehouse_cdc.source.planning.first_offset import first_offset, read_again
from lakehouse_cdc.source.planning.log_progress import LogProgress, Progress
from lakehouse_cdc.source.planning.new_tables import with_new_tables
from lakehouse_cdc.source.planning.split_plan import Cut, KeyCuts
from lakehouse_cdc.source.planning.started_offset import started_offset
from lakehouse_cdc.source.requests import repairs
from lakehouse_cdc.source.requests.requests import Signals
from lakehouse_cdc.source.requests.set_aside import Note, SetAside
from lakehouse_cdc.source.settling import gaps
from lakehouse_cdc.source.splits import Split
from lakehouse_cdc.source.state.planned_configuration import digest, require_nothing_revealed
from lakehouse_cdc.source.state.state_store import SchemaStore
from lakehouse_cdc.source.tail.log_tail import Tail

_OTHER_IDS = 5  # how often another id is tried where another reader has taken this one's


class _AlteredMeanwhile(Exception):
    """DDL came between W and the look at the tables: it is in the log by now, and W must be chosen again."""


class Planner:
    """The driver's side of one stream. Not thread-safe; holds a session and a dump while the stream runs."""

    def __init__(self, options: SourceOptions, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._options, self._ids = options, replica_ids(options.server_ids)
        self._selection = Selection(options.tables)
        self._store = SchemaStore(options.schema_folder)
        self._tables = Tables(options, self._selection, self._store)
        self._signals = Signals(options.schema_folder)
        self._set_aside = SetAside(options.schema_folder)
        self._clock = clock
        self._open = Connections(options, self._selection, self._store)
        self._pace = Pace(options, self._signals, clock)
        self._selection_checked = False
        self._planned: Offset | None = None
        self._passed: dict[tuple[Position, Position], Sequence[Cut]] = {}  # how its stretches but the last are cut
        self._chunks = Chunks(options, self._store, clock)
        self._texts = Texts(options, self._store)
        self._begins_after: Offset | None = None
        self._elsewhere = Elsewhere(options, self._open, self._tables, self._store, self._set_aside, clock)
        self._settled = False  # whether the tables of the offset that this stream continues from are as configured
        self._settings_known = False  # whether it is known how they were configured before
        self._added = False  # whether tables may match that did not, since the configuration has changed

    def begin_after(self, offset: Offset) -> None:
        """Begin a new epoch, as after a gap, where a batch begins at `offset`: a table is there, but no stream."""
        self._begins_after = offset

    def available_now(self) -> None:
        """Stop at what is there when the last chunk has been planned."""
        self._pace.available_now()

    def close(self) -> None:
        """End the session and the dump; both are opened again when needed."""
        self._open.close()

    def latest(
        self,
        start: Offset | None,
        *,
        max_rows: int | None,
        max_bytes: int | None,
        planned_under: str | None = None,
    ) -> Offset | None:
        """The end of the next batch, or None if there is nothing to offer now.

        `planned_under` is the digest of the configuration under which `start` was planned, where it is known.
        `max_rows` and `max_bytes` bound the captured rows and the binlog bytes of the batch, to the next transaction
        boundary. Raises DefiniteError where continuing would lose or invent rows.
        """
        others = _OTHER_IDS
        while True:
            self._chunks.forget()
            self._passed = {}
            try:
                self._planned = self._next(start, max_rows, max_bytes, planned_under)
            except _AlteredMeanwhile:
                continue
            except TransientError as error:
                # another reader began with the same server_id, and the server ended this one; another id can continue
                if error.code is not codes.SERVER_ID_TAKEN:
                    raise
                self.close()
                if not (others := others - 1):
                    raise
                self._options = replace(self._options, server_ids=(next(self._ids), self._options.server_ids[1]))
                self._open.options = self._options
                continue
            return self._planned

    def _next(
        self, start: Offset | None, max_rows: int | None, max_bytes: int | None, planned_under: str | None
    ) -> Offset | None:
        if start is None or start is self._begins_after:
            return self._with_chunks(self._first(epoch=1) if start is None else self._epoch_after(start), max_rows)
        start = replace(start, between=())
        if (there := self._moved_on(start)) is not None:
            return there
        start, altered = self._reconfigured(start, planned_under)
        if altered is not None:
            return altered
        failed = self._set_aside.follow(start, rereads=lambda table: self._options.on_error_of(table) == "reread")
        to_apply = any(note.table in start.captured for note in failed)
        if not to_apply and self._pace.finished(start, self._open.tip, looked=self._selection_checked):
            return None
        moved = self._moved(start, failed, max_rows, max_bytes)
        if isinstance(moved, DefiniteError):
            if self._options.on_gap != "resnapshot":
                raise moved
            return self._with_chunks(self._epoch_after(start), max_rows)
        between: list[Offset] = []
        while stretches.may_pass(start, moved.offset, len(between) + 1):
            begin, until = between[-1] if between else start, moved.offset
            self._passed[begin.position, until.position] = self._log_cuts(begin, until)  # the tail leaves it now
            between.append(until)
            max_rows = None if max_rows is None else max_rows - moved.rows
            left = None if max_bytes is None else max_bytes - (between[-1].position.pos - start.position.pos)
            further = self._further(between[-1], failed, max_rows, left)
            if further is None:
                return replace(between.pop(), between=tuple(between))
            moved = further
        end = self._completed(start, between[-1] if between else start, moved, max_rows)
        if end is None:
            return replace(between.pop(), between=tuple(between)) if between else None
        return replace(end, between=tuple(between))

    def _further(
        self, start: Offset, failed: Sequence[Note], max_rows: int | None, max_bytes: int | None
    ) -> Progress | None:
        """The log from the end of a stretch on; None where the batch ends there."""
        if any(limit is not None and limit <= 0 for limit in (max_rows, max_bytes)):
            return None
        try:
            moved = self._moved(start, failed, max_rows, max_bytes)
        except DefiniteError:
            return None  # which is raised when all that is before it has been offered
        return None if isinstance(moved, DefiniteError) else moved

    def _completed(self, start: Offset, begin: Offset, moved: Progress, max_rows: int | None) -> Offset | None:
        """The end of the batch after `start`, of which the last stretch begins at `begin`; None for nothing to offer.

        What was asked for has been taken up for good where a batch begins, not a stretch of one.
        """
        offset, near = moved.offset, moved.at_the_tip
        offset = reconfigured.shown(begin, offset, self._options, self._store) if near else offset
        offset = self._signals.taken_up(start, self._with_new_tables(begin, offset) if near else offset, near=near)
        offset = repairs.taken_up(start, offset, self._signals, self._store, near=near)
        if near:
            left = None if max_rows is None else max_rows - moved.rows
            offset = self._with_chunks(offset, left)
        return offset if self._pace.worth_offering(begin, offset, moved.rows) else None

    def _reconfigured(self, start: Offset, planned_under: str | None) -> tuple[Offset, Offset | None]:
        """`start` as this configuration continues from it, and the end of the batch that has to come first, if any."""
        if self._settled and planned_under == digest(self._options):
            return start, None  # as in every batch but the first ones: no file is read
        before = reconfigured.under(start, self._options, self._store, planned_under)
        if self._settled:
            return before or start, None
        self._settings_known = before is not None
        self._added = before is None or bool(before.settings)
        if before is None:
            require_nothing_revealed(self._options, (self._store.get(s.schema) for s in start.published))
        elif before.settings != start.settings:
            self._tables.matching(self._open.session(), known=start.tables)  # what it names is there
        start = before or start
        altered = reconfigured.hidden(start, self._options, self._store)
        self._settled = altered is None
        return start, altered

    def all_chunks(self, offset: Offset) -> list[Split]:
        """As-of reads of all that an offset has passed: each table up to its cursor, at the offset's position."""
        self._open.server = offset.identity.server_uuid
        if (key_cuts := self._key_cuts(None, offset)) is None:
            return []
        return guarded(split_plan.snapshot_of(offset, self._store.get, key_cuts), offset, self._store)

    def splits(self, start: Offset | None, end: Offset) -> list[Split]:
        """The splits of a batch; cut as it was planned, or again where that is forgotten (a replay).

        Where the binlog that it needs is gone: DefiniteError, or with `onGap` resnapshot no split at all; the next
        offset then begins a new epoch, in which every table is read again.
        """
        if start is not None and end.follows(start):
            return []
        if self._elsewhere.planned(end):
            return self._splits_elsewhere(start, end)
        if (key_cuts := self._key_cuts(start, end)) is None:
            return []
        store = self._store
        splits: list[Split] = []
        for begin, until in pairwise((start, *end.between, end)):
            assert until is not None
            splits += split_plan.plan(begin, until, store.get, store.change, store.repair, key_cuts, self._log_cuts)
        return guarded(splits, end, store)

    def _splits_elsewhere(self, start: Offset | None, end: Offset) -> list[Split]:
        """Those of a batch that was planned on another server; no split where it cannot be read, as in `splits`."""
        try:
            return self._elsewhere.splits(start, end, self._log_cuts)
        except DefiniteError:
            if self._options.on_gap != "resnapshot":
                raise
        self._store.mark_gap(end)
        return []

    def _key_cuts(self, start: Offset | None, end: Offset) -> KeyCuts | None:
        """Where the keys of a batch are cut; None where it cannot be read any more, and a new epoch follows."""
        if end == self._planned:
            return self._chunks.remembered()
        if (gap := gaps.unreadable(self._open.session(), start, end)) is None:
            return self._chunks.from_now(self._open.session())
        if self._options.on_gap != "resnapshot":
            raise gap
        self._store.mark_gap(end)
        return None

    def _log_cuts(self, start: Offset, end: Offset) -> Sequence[Cut]:
        """Where the binlog of a batch is cut, and the XA transactions that are open there."""
        tail = self._open.tail
        if (cut := self._passed.get((start.position, end.position))) is not None:
            return cut
        if tail is not None and tail.origin == start.position:
            cuts = tail.cuts(end.position, self._options.split_bytes)
            return [(at, tail.xa.open_at(at)) for at in (start.position, *cuts)]
        cuts = split_plan.file_begins(start.position, end.position)
        return [(at, open_at(end.prepared, at)) for at in (start.position, *cuts)]

    # ------------------------------------------------------------------ the first offset, and a new epoch

    def _moved_on(self, start: Offset) -> Offset | None:
        """The end of a batch after `start` that does nothing but follow to another server; None where it is the same.

        Where that cannot be, and `onGap` is resnapshot, a new epoch begins.
        """
        if self._pace.over(start):
            return None
        try:
            moved = self._elsewhere.offset(start)
        except DefiniteError:
            if self._options.on_gap != "resnapshot":
                raise
            return self._with_chunks(self._epoch_after(start), None)
        if moved is not None:
            self._pace.moved()
            self._selection_checked = False
        return moved

    def _first(self, epoch: int, known: Collection[str] = ()) -> Offset:
        self.close()
        floor = self._open.floor(None)
        if epoch == 1 and any(one.kind != "now" for one in (self._options.start_point, *self._options.starts.values())):
            return started_offset(self._options, self._open.session(), floor, self._tables)
        failed = {note.table: note.reason for note in self._set_aside.open() if note.table not in known}
        return first_offset(self._options, self._open.session(), floor, self._tables, epoch, known=known, failed=failed)

    def _epoch_after(self, start: Offset) -> Offset:
        """The first offset of a new epoch, in which the tables that are at `start` are read again."""
        first = self._first(self._store.last_epoch(start.epoch) + 1, start.tables)
        self._elsewhere.epochs_known = True
        self._tables.require_masks(start.tables, first.tables)
        return read_again(first, start)

    # ------------------------------------------------------------------ moving along the log

    def _moved(
        self, start: Offset, failed: Sequence[Note], max_rows: int | None, max_bytes: int | None
    ) -> Progress | DefiniteError:
        """The log from `start` on, or the gap that keeps it from being read. Raises what `LogProgress.advance` does."""
        tail = self._continued(start)
        if isinstance(tail, DefiniteError):
            return tail
        try:
            passed, failed = self._signals.passed(start.epoch), [n for n in failed if n.table in start.captured]
            log = LogProgress(start, tail, self._open, self._tables, self._texts, self._pace, failed, passed)
            moved = log.advance(max_rows, max_bytes)
        except DefiniteError:
            self.close()
            again = self._continued(start)  # the tail fails where its file was deleted while it was sent
            if isinstance(again, DefiniteError):
                return again
            raise
        if moved.others:
            self._selection_checked = False  # tables may be born, or come under another name
        return log.gap_of_xa(moved.offset) or moved

    def _continued(self, start: Offset) -> Tail | DefiniteError:
        """The tail, which continues the log at `start`; or what keeps the log from being continued there."""
        if self._store.has_gap(start):
            return codes.POSITION_PURGED.error(
                f"the batch that ended at {start.position} could not be read: its binlog was purged"
            )
        if (gap := gaps.other_server(self._open.session(), start)) is not None:
            return gap
        if (gap := gaps.missing(self._open.session(), start)) is not None:
            return gap  # asked also where a tail is there: what it reads may be a file that was deleted since
        schemas = {state.schema for state in start.captured.values()}
        tail = self._open.tail
        if tail is not None and tail.schema_ids == schemas and tail.continues(start.position):
            return tail
        tail = self._open.open_tail(start)
        return gaps.other_log(start, created=tail.created(start.position)) or tail

    # ------------------------------------------------------------------ tables and chunks

    def _with_new_tables(self, start: Offset, offset: Offset) -> Offset:
        """Tables that match since the configuration changed, or were born; asked only where there may be some."""
        retried = self._signals.to_retry(offset)
        if self._selection_checked and not retried:
            return offset
        tail, floor = self._open.tail or self._open.open_tail(offset), self._open.floor(offset)
        # what a table was at this position, it was before
        turns = offset.position == start.position
        turned = offset.next_turn() if turns and offset.turn < LONGEST_TURN else offset
        extended = with_new_tables(
            self._open.session(), self._tables, tail, floor, turned, retried=retried, strict=not self._settings_known,
            added=self._added,
        )  # fmt: skip
        self._selection_checked = extended is not None
        self._added = self._added and extended is None
        if extended is None or extended is turned:
            return offset
        if turns and turned is offset:
            offset.next_turn()  # raises
        self._open.open_tail(extended)
        return extended

    def _with_chunks(self, offset: Offset, max_rows: int | None) -> Offset:
        try:
            return self._chunks.move(self._open.session(), offset, max_rows)
        except DefiniteError as error:  # a table, or its key, may not be there any more
            tail = self._open.tail or self._open.open_tail(offset)
            wait_for_ddl(
                self._open.session(), [self._store.get(s.schema) for s in offset.captured.values() if not s.done]
            )
            tail.advance(self._open.tip())
            if tail.statements(after=offset.position):
                raise _AlteredMeanwhile from error
            raise
