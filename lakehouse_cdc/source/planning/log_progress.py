"""How far the log is read in one stretch of a batch, and what becomes of the tables on the way.

W is chosen from what a dump has delivered: the server's status runs ahead of it. A stretch ends at the first DDL of a
captured table, whose effects are decided here (`stretches` says whether its batch does, too). Where they cannot be
known, that is an error when all that is before it has been offered.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.model.ddl_effect import Effect
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.table_state import TableState
from lakehouse_cdc.model.xa import Prepared, follow, needed
from lakehouse_cdc.mysql.binlog.scan import LoggedStatement
from lakehouse_cdc.schema.change import SchemaChange
from lakehouse_cdc.source.captured_tables import Tables
from lakehouse_cdc.source.ddl.schema_resolution import not_followed, resolved
from lakehouse_cdc.source.ddl.text_statements import Texts
from lakehouse_cdc.source.ddl.transitions import (
    followed,
    to_follow,
    together,
    with_cursors_put_back,
    without_dropped,
)
from lakehouse_cdc.source.planning import split_plan
from lakehouse_cdc.source.planning.batch_pacing import Pace
from lakehouse_cdc.source.planning.connections import Connections
from lakehouse_cdc.source.planning.later_starts import LaterStarts
from lakehouse_cdc.source.requests.set_aside import Note
from lakehouse_cdc.source.settling import gaps
from lakehouse_cdc.source.tail.log_tail import Mark, Tail
from lakehouse_cdc.source.test_hooks import Step, reached


@dataclass(frozen=True)
class Progress:
    """Where the stretch ends. `at_the_tip`: nothing is left to read now. `rows`: captured ones in between."""

    offset: Offset
    at_the_tip: bool
    rows: int
    others: bool  # tables may have come into being, or under another name, or are to be read again as they are now


@dataclass(frozen=True)
class _Limits:
    max_rows: int | None
    max_bytes: int | None


class LogProgress:
    """Reads the log of one stream on, along `tail`, from the offset `start`."""

    def __init__(
        self,
        start: Offset,
        tail: Tail,
        connections: Connections,
        tables: Tables,
        texts: Texts,
        pace: Pace,
        set_aside: Sequence[Note] = (),
        passed: Collection[Position] = (),
    ) -> None:
        self._start, self._tail, self._open = start, tail, connections
        self._tables, self._texts, self._pace = tables, texts, pace
        self._set_aside, self._passed = set_aside, passed
        self._store = connections.store
        self._floor = connections.floor(start)
        self._starts = LaterStarts(start.starts, tail, tables, self._store)

    def advance(self, max_rows: int | None, max_bytes: int | None) -> Progress:
        """Move W. Raises DefiniteError for a statement that cannot be followed, where nothing is left before it."""
        start, tail, limits = self._start, self._tail, _Limits(max_rows, max_bytes)
        reached(Step.BEFORE_POSITION)
        self._open.sightings.forget(start.position)
        tip = self._open.tip()
        reached(Step.AFTER_POSITION)
        end = self._pace.end(tip)
        if any(state.unconfirmed for state in start.tables.values()):
            tail.advance(tip)  # wherever their reads may have met DDL
        else:
            tail.advance(end, max_rows=max_rows, max_bytes=max_bytes)
        self._texts.look(self._open.session(), tail, start, near=tail.reached(tip), passed=self._passed)
        statements = self._texts.understood(map(self._with_effects, tail.statements(after=start.position)))
        never = self._open.options.snapshot == "never"
        effective = to_follow(statements, never=never)
        stop, failed = self._before_failures(end)
        mark, effects = self._mark(effective, self._starts.stop(stop), tip, limits)
        begun = self._starts.begun_at(mark.position)
        if failed and not effects and mark.position == stop:
            effects = tuple(map(self._quarantine, failed))
        else:
            failed = []
        self._floor.saw(mark.position, mark.gtids, decided=tail.xa.decided(mark.position))
        texts = self._texts.effects(mark.position)
        if texts or any(statement.unknown for statement in effective if statement.position == mark.position):
            self._floor.wait_for(mark.position)  # no metadata lock proves that what they did is visible
        offset = self._texts.kept(self._offset_at(mark))
        if (failed or begun) and offset.position == start.position:
            offset = offset.next_turn()  # what was emitted at this very position comes before it
        back = self._texts.doubtful_tables()
        offset = with_cursors_put_back(offset, effective, self._keyless, back)
        offset = after = followed(offset, together(texts, effects), self._store.change, never=never)
        offset = without_dropped(offset, [one for one in statements if one.position <= mark.position], effects)
        # a cursor that is put back does not move in the same batch, unless the table is read from its beginning; and a
        # table that comes after one of its name is seen to do so where there is an offset without that one
        settled = not effective and not failed and not begun and offset is after
        offset = self._starts.begin(offset, begun)
        near = settled and back <= {effect.table for effect in texts} and tail.reached(end)
        return Progress(
            offset,
            at_the_tip=near and mark.position == tail.mark(until=end).position,
            rows=mark.rows,
            others=not all(statement.statement.alters for statement in statements)
            or any(effect.kind == "drop" for effect in effects),
        )

    def gap_of_xa(self, end: Offset) -> DefiniteError | None:
        """Whether rows that take effect on the way to `end` lie where they cannot be read, or nobody knows where."""
        if (unknown := self._tail.xa.first_unknown(after=self._start.position)) is not None:
            return gaps.unknown_xa(unknown)
        return gaps.unreadable_xa(self._open.session(), self._start, end)

    def _mark(
        self, effective: Sequence[LoggedStatement], end: Position, tip: Position, limits: _Limits
    ) -> tuple[Mark, tuple[Effect, ...]]:
        """The end of the batch, and the effects of the statement there, if one of `effective` is."""
        tail, failure = self._tail, None
        max_rows, max_bytes = limits.max_rows, limits.max_bytes
        effects: tuple[Effect, ...] = ()
        until = min(end, tail.stop_before(effective[0])) if effective else end
        mark = tail.mark(max_rows=max_rows, max_bytes=max_bytes, until=until)
        if effective and mark.position == effective[0].position and self._passed_before(effective[0]):
            mark = tail.mark(max_rows=max_rows, max_bytes=max_bytes, until=tail.end_before(effective[0]))
        elif effective and mark.position == effective[0].position:
            try:
                near = tail.reached(tip)
                effects = self._nothing(effective[0]) or resolved(
                    self._open.session(), self._tables, self._store, tail, self._start, effective[0], near=near
                )
            except DefiniteError as error:
                failure, until = error, tail.end_before(effective[0])
                mark = tail.mark(max_rows=max_rows, max_bytes=max_bytes, until=until)
        elif effective and effective[0].effects is None:
            failure = not_followed(effective[0], self._open.options)
        if failure is not None and mark.rows == 0 and mark.position == until < effective[0].position <= end:
            raise failure
        return mark, effects

    def _with_effects(self, statement: LoggedStatement) -> LoggedStatement:
        """A statement that is passed, and of which it is not known what it does, with the tables that it may change."""
        if statement.position not in self._passed or statement.effects is not None or statement.unknown:
            return self._starts.concerning(statement)
        captured = self._start.captured.keys()
        named = captured & set(statement.statement.tables) or captured
        return replace(statement, effects=tuple(Effect("alter", table) for table in sorted(named)))

    def _passed_before(self, ddl: LoggedStatement) -> bool:
        """Whether a table of the DDL has a row for a text that is passed: at a position it has one for its schema."""
        passed = self._texts.passed(self._tail.end_before(ddl))
        return any(effect.table in passed for effect in ddl.effects or ())

    def _nothing(self, statement: LoggedStatement) -> tuple[Effect, ...]:
        """The effects of a statement that is passed; () for others."""
        if statement.position not in self._passed:
            return ()
        tables = {effect.table for effect in statement.effects or ()} & self._start.captured.keys()
        return tuple(self._texts.nothing(table, statement.text) for table in sorted(tables))

    def _before_failures(self, end: Position) -> tuple[Position, list[Note]]:
        """Where the batch ends at the latest, and the tables that cannot be read beyond, as far as the log is read."""
        tail = self._tail
        stops = {
            note.table: tail.mark(until=Position(note.file, note.pos - 1)).position
            for note in self._set_aside
            if tail.reached(note.position)
        }
        stop = min([end, *stops.values()])
        return stop, [note for note in self._set_aside if stops.get(note.table) == stop]

    def _quarantine(self, note: Note) -> Effect:
        schema = self._store.get(self._start.tables[note.table].schema)
        return Effect("quarantine", note.table, self._store.put_change(SchemaChange.leaving(None, schema, note.reason)))

    def _keyless(self, state: TableState) -> bool:
        return not self._store.get(state.schema).range_key

    def _offset_at(self, mark: Mark) -> Offset:
        """`start`, moved to a mark; its tables are where they were."""
        start, tail, floor = self._start, self._tail, self._floor
        settled = min(max(floor.settled() or start.floor, start.floor), mark.position)
        commit_ts = mark.commit_ts or start.commit_ts
        return replace(
            start,
            identity=replace(start.identity, file=mark.position.file, created=tail.created(mark.position)),
            position=mark.position,
            turn=start.turn if mark.position == start.position else 0,
            floor=settled,
            gtid_set=str(mark.gtids),
            last_gtid=mark.last_gtid or start.last_gtid,
            commit_ts=commit_ts,
            prepared=self._prepared(mark.position, settled),
            bounds=self._open.sightings.bounds(start.bounds, mark.position, commit_ts),
            anonymous=mark.anonymous or (start.anonymous and not mark.last_gtid),
        )

    def _prepared(self, end: Position, settled: Position) -> tuple[Prepared, ...]:
        """The XA transactions that readers of this batch, or of a later one, must know: see `model.xa`."""
        start = self._start
        begins = [start.position, settled, *split_plan.file_begins(start.position, end)]
        begins += self._floor.waiting()
        begins += [s.floor for s in start.tables.values() if s.floor is not None and s.floor > settled]
        events = self._tail.xa.events(end)
        events = [replace(e, prepared=e.prepared and self._texts.with_tables(e.prepared)) for e in events]
        return needed(follow(start.prepared, events), begins, settled)
