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
from collections.abc import Callable, Sequence
from dataclasses import replace

from lakehouse_cdc.errors import DefiniteError, TransientError, codes
from lakehouse_cdc.model.ddl_effect import Effect
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.table_state import TableState
from lakehouse_cdc.model.xa import Prepared, follow, needed, open_at
from lakehouse_cdc.mysql.connection.session import Session, connect
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.source.captured_tables import Tables, wait_for_ddl
from lakehouse_cdc.source.ddl.schema_resolution import not_followed, resolved
from lakehouse_cdc.source.ddl.text_statements import Texts, guarded
from lakehouse_cdc.source.ddl.transitions import followed, to_follow, together, without_met
from lakehouse_cdc.source.options import SourceOptions, replica_ids
from lakehouse_cdc.source.planning import split_plan
from lakehouse_cdc.source.planning.batch_pacing import Pace
from lakehouse_cdc.source.planning.chunks import Chunks
from lakehouse_cdc.source.planning.first_offset import first_offset, read_again
from lakehouse_cdc.source.planning.new_tables import with_new_tables
from lakehouse_cdc.source.planning.split_plan import Cut, KeyCuts
from lakehouse_cdc.source.requests import repairs
from lakehouse_cdc.source.requests.requests import Signals
from lakehouse_cdc.source.settling import gaps
from lakehouse_cdc.source.settling.clock_observations import Sightings, sight
from lakehouse_cdc.source.settling.settled_position import Floor
from lakehouse_cdc.source.splits import Split
from lakehouse_cdc.source.state.planned_configuration import require_nothing_revealed
from lakehouse_cdc.source.state.state_store import SchemaStore
from lakehouse_cdc.source.tail.log_tail import Mark, Tail
from lakehouse_cdc.source.test_hooks import Step, reached

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
        self._clock = clock
        self._sightings = Sightings()
        self._opened: Session | None = None
        self._tail: Tail | None = None
        self._floor: Floor | None = None
        self._pace = Pace(options, self._signals, clock)
        self._selection_checked = False
        self._planned: Offset | None = None
        self._chunks = Chunks(options, self._store, clock)
        self._texts = Texts(options, self._store)
        self._begins_after: Offset | None = None
        self._concealed = False  # whether what is hidden now was hidden in the offset that this stream continues from

    def begin_after(self, offset: Offset) -> None:
        """Begin a new epoch, as after a gap, where a batch begins at `offset`: a table is there, but no stream."""
        self._begins_after = offset

    def available_now(self) -> None:
        """Stop at what is there when the last chunk has been planned."""
        self._pace.available_now()

    def close(self) -> None:
        """End the session and the dump; both are opened again when needed."""
        if self._tail is not None:
            self._tail.close()
        if self._opened is not None:
            self._opened.close()
        self._tail = self._opened = self._floor = None
        self._sightings.clear()

    def latest(self, start: Offset | None, *, max_rows: int | None, max_bytes: int | None) -> Offset | None:
        """The end of the next batch, or None if there is nothing to offer now.

        `max_rows` and `max_bytes` bound the captured rows and the binlog bytes of the batch, to the next transaction
        boundary. Raises DefiniteError where continuing would lose or invent rows.
        """
        others = _OTHER_IDS
        while True:
            self._chunks.forget()
            try:
                self._planned = self._next(start, max_rows, max_bytes)
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
                continue
            return self._planned

    def _next(self, start: Offset | None, max_rows: int | None, max_bytes: int | None) -> Offset | None:
        if start is None or start is self._begins_after:
            return self._with_chunks(self._first(epoch=1) if start is None else self._epoch_after(start), max_rows)
        if not self._concealed:
            require_nothing_revealed(self._options, (self._store.get(s.schema) for s in start.published))
            self._concealed = True
        if self._pace.finished(start, self._tip, looked=self._selection_checked):
            return None
        gap, moved = self._gap(start), None
        if gap is None:
            try:
                moved = self._advance(start, max_rows, max_bytes)
            except DefiniteError as error:
                gap = self._gap_behind(error, start)
        if moved is not None:
            gap = self._gap_of_xa(start, moved[0])
        if moved is None or gap is not None:
            if gap is not None and self._options.on_gap != "resnapshot":
                raise gap
            return self._with_chunks(self._epoch_after(start), max_rows)
        offset, near, captured_rows = moved
        offset = self._signals.taken_up(start, self._with_new_tables(offset) if near else offset, near=near)
        offset = repairs.taken_up(start, offset, self._signals, self._store, near=near)
        if near:
            left = None if max_rows is None else max_rows - captured_rows
            offset = self._with_chunks(offset, left)
        return offset if self._pace.worth_offering(start, offset, captured_rows) else None

    def all_chunks(self, offset: Offset) -> list[Split]:
        """As-of reads of all that an offset has passed: each table up to its cursor, at the offset's position."""
        if (key_cuts := self._key_cuts(None, offset)) is None:
            return []
        return guarded(split_plan.snapshot_of(offset, self._store.get, key_cuts), offset, self._store)

    def splits(self, start: Offset | None, end: Offset) -> list[Split]:
        """The splits of a batch; cut as it was planned, or again where that is forgotten (a replay).

        Where the binlog that it needs is gone: DefiniteError, or with `onGap` resnapshot no split at all; the next
        offset then begins a new epoch, in which every table is read again.
        """
        if (key_cuts := self._key_cuts(start, end)) is None:
            return []
        store = self._store
        splits = split_plan.plan(start, end, store.get, store.change, store.repair, key_cuts, self._log_cuts)
        return guarded(splits, end, store)

    def _key_cuts(self, start: Offset | None, end: Offset) -> KeyCuts | None:
        """Where the keys of a batch are cut; None where it cannot be read any more, and a new epoch follows."""
        if end == self._planned:
            return self._chunks.remembered()
        if (gap := gaps.unreadable(self._session(), start, end)) is None:
            return self._chunks.anew(self._session())
        if self._options.on_gap != "resnapshot":
            raise gap
        self._store.mark_gap(end)
        return None

    def _log_cuts(self, start: Offset, end: Offset) -> Sequence[Cut]:
        """Where the binlog of a batch is cut, and the XA transactions that are open there."""
        tail = self._tail
        if tail is not None and tail.origin == start.position:
            cuts = tail.cuts(end.position, self._options.split_bytes)
            return [(at, tail.xa.open_at(at)) for at in (start.position, *cuts)]
        cuts = split_plan.file_begins(start.position, end.position)
        return [(at, open_at(end.prepared, at)) for at in (start.position, *cuts)]

    # ------------------------------------------------------------------ the first offset, and a new epoch

    def _first(self, epoch: int) -> Offset:
        self.close()
        return first_offset(self._options, self._session(), self._floors(None), self._tables, epoch)

    def _epoch_after(self, start: Offset) -> Offset:
        """The first offset of a new epoch, in which the tables that are at `start` are read again."""
        first = self._first(start.epoch + 1)
        self._tables.require_masks(start.tables, first.tables)
        return read_again(first, start)

    def _gap(self, start: Offset) -> DefiniteError | None:
        """What keeps the log from being continued at `start`, if anything does; else the tail is there."""
        if self._store.has_gap(start):
            return codes.POSITION_PURGED.error(
                f"the batch that ended at {start.position} could not be read: its binlog was purged"
            )
        if (gap := gaps.other_server(self._session(), start)) is not None:
            return gap
        if (gap := gaps.missing(self._session(), start)) is not None:
            return gap  # asked also where a tail is there: what it reads may be a file that was deleted since
        schemas = {state.schema for state in start.captured.values()}
        if self._tail is not None and self._tail.schema_ids == schemas and self._tail.continues(start.position):
            return None
        self._open_tail(start)
        assert self._tail is not None
        return gaps.other_log(start, created=self._tail.created(start.position))

    def _gap_behind(self, error: DefiniteError, start: Offset) -> DefiniteError:
        """The gap that made the tail fail: its file was deleted while it was sent. Raises `error` if there is none."""
        self.close()
        if (gap := self._gap(start)) is None:
            raise error
        return gap

    def _gap_of_xa(self, start: Offset, end: Offset) -> DefiniteError | None:
        """Whether rows that take effect on the way to `end` lie where they cannot be read, or nobody knows where."""
        assert self._tail is not None
        if (unknown := self._tail.xa.first_unknown(after=start.position)) is not None:
            return gaps.unknown_xa(unknown)
        return gaps.unreadable_xa(self._session(), start, end)

    # ------------------------------------------------------------------ moving along the log

    def _advance(self, start: Offset, max_rows: int | None, max_bytes: int | None) -> tuple[Offset, bool, int]:
        """Move W; True if it is at the tip; and the captured rows in between."""
        session, tail, floor = self._session(), self._tail, self._floors(start)
        assert tail is not None
        reached(Step.BEFORE_POSITION)
        self._sightings.forget(start.position)
        tip = self._tip()
        reached(Step.AFTER_POSITION)
        end = self._pace.end(tip)
        if any(state.unconfirmed for state in start.tables.values()):
            tail.advance(tip)  # wherever their reads may have met DDL
        else:
            tail.advance(end, max_rows=max_rows, max_bytes=max_bytes)
        self._texts.look(session, tail, start, near=tail.reached(tip))
        found = self._texts.understood(tail.statements(after=start.position))
        met = to_follow(found)
        if not all(statement.statement.alters for statement in found):
            self._selection_checked = False  # tables may be born, or come under another name
        effects: tuple[Effect, ...] = ()
        failure: DefiniteError | None = None
        until = min(end, tail.stop_before(met[0])) if met else end
        mark = tail.mark(max_rows=max_rows, max_bytes=max_bytes, until=until)
        if met and mark.position == met[0].position:
            try:
                effects = resolved(session, self._tables, self._store, tail, start, met[0], near=tail.reached(tip))
            except DefiniteError as error:
                failure, until = error, tail.end_before(met[0])
                mark = tail.mark(max_rows=max_rows, max_bytes=max_bytes, until=until)
        elif met and met[0].effects is None:
            failure = not_followed(met[0], self._options)
        if failure is not None and mark.rows == 0 and mark.position == until < met[0].position <= end:
            raise failure
        floor.saw(mark.position, mark.gtids, decided=tail.xa.decided(mark.position))
        texts = self._texts.effects(mark.position)
        if texts or any(statement.unknown for statement in met if statement.position == mark.position):
            floor.wait_for(mark.position)  # no metadata lock proves that what they did is visible
        offset = self._texts.kept(self._standing(start, mark))
        back, never = self._texts.met(), self._options.snapshot == "never"
        offset = without_met(offset, met, self._keyless, back)
        offset = followed(offset, together(texts, effects), self._store.change, never=never)
        # a cursor that is put back does not move in the same batch, unless the table is read from its beginning
        near = not met and back <= {effect.table for effect in texts} and tail.reached(end)
        return offset, near and mark.position == tail.mark(until=end).position, mark.rows

    def _keyless(self, state: TableState) -> bool:
        return not self._store.get(state.schema).primary_key

    def _standing(self, start: Offset, mark: Mark) -> Offset:
        """`start`, moved to a mark; its tables are where they were."""
        tail, floor = self._tail, self._floors(start)
        assert tail is not None
        settled = max(floor.settled() or start.floor, start.floor)
        commit_ts = mark.commit_ts or start.commit_ts
        return replace(
            start,
            identity=replace(start.identity, file=mark.position.file, created=tail.created(mark.position)),
            position=mark.position,
            floor=settled,
            gtid_set=str(mark.gtids),
            last_gtid=mark.last_gtid or start.last_gtid,
            commit_ts=commit_ts,
            prepared=self._prepared(start, mark.position, settled),
            bounds=self._sightings.bounds(start.bounds, mark.position, commit_ts),
        )

    def _prepared(self, start: Offset, end: Position, settled: Position) -> tuple[Prepared, ...]:
        """The XA transactions that readers of this batch, or of a later one, must know: see `model.xa`."""
        assert self._tail is not None
        begins = [start.position, settled, *split_plan.file_begins(start.position, end)]
        begins += self._floors(start).waiting()
        begins += [s.floor for s in start.tables.values() if s.floor is not None and s.floor > settled]
        events = self._tail.xa.events(end)
        events = [replace(e, prepared=e.prepared and self._texts.with_tables(e.prepared)) for e in events]
        return needed(follow(start.prepared, events), begins, settled)

    def _with_new_tables(self, offset: Offset) -> Offset:
        """Tables that match since the configuration changed, or were born; asked only where there may be some."""
        mended = self._signals.mended(offset)
        if self._selection_checked and not mended:
            return offset
        assert self._tail is not None
        found = with_new_tables(self._session(), self._tables, self._tail, self._floors(offset), offset, mended=mended)
        self._selection_checked = found is not None
        if found is None or found is offset:
            return offset
        self._open_tail(found)
        return found

    def _with_chunks(self, offset: Offset, max_rows: int | None) -> Offset:
        try:
            return self._chunks.move(self._session(), offset, max_rows)
        except DefiniteError as error:  # a table, or its key, may not be there any more
            if self._tail is None:
                self._open_tail(offset)
            assert self._tail is not None
            wait_for_ddl(self._session(), [self._store.get(s.schema) for s in offset.captured.values() if not s.done])
            self._tail.advance(self._tip())
            if self._tail.statements(after=offset.position):
                raise _AlteredMeanwhile from error
            raise

    # ------------------------------------------------------------------ what is opened on demand

    def _session(self) -> Session:
        if self._opened is None:
            self._opened = connect(self._options.connection)
        return self._opened

    def _tip(self) -> Position:
        """Where the log ends."""
        sighting = sight(self._session())
        self._sightings.saw(sighting)
        return sighting.tip

    def _floors(self, start: Offset | None) -> Floor:
        if self._floor is None:
            self._floor = Floor(
                self._session(),
                self._options.settle,
                self._options.settle_seconds,
                settled=start.floor if start else None,
                xa=start is not None and any(p.decided is not None for p in start.prepared),
            )
        return self._floor

    def _open_tail(self, offset: Offset) -> None:
        if self._tail is not None:
            self._tail.close()
        self._tail = Tail(
            self._options,
            offset.position,
            matches=self._selection.matches,
            gtids=offset.gtids(),
            schemas=[self._store.get(state.schema) for state in offset.captured.values()],
            prepared=offset.prepared,
        )
