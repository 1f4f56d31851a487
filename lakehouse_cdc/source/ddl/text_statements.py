"""What statements logged as text mean for the captured tables, decided once, where a batch is planned.

Rows that such a statement changes are in no event. A statement that can change no captured table is passed over; where
it may change some, these are read again: as of a position after it, which is settled first, so that what it did is
visible. Which tables that are is a matter of what is defined on the server (see `sql.references`). That is asked
when the first text is met, and again when definitions in the log, or hidden ones, have made it inexact; in between the
definitions in the log are added to what was known, and no query is needed. What is known at an offset's position is a
file that the offset names, so that tasks (see `text_guard`) and the next planner have the same.

What was decided is in the offset (`ddl`), so a batch does not end at a text, however many there are: all in it that
change one table have it read again once. A task that decodes the binlog passes over every text, since the planner has
decided on it. A text in an XA transaction takes effect where that is committed.

A statement that is not understood may be DDL, too. The captured tables that it may change or name are taken as altered
at its place, where the batch ends, as after any ALTER; and are read again.

Of a statement that is passed (`requests.requests`) the user says that it changes no captured table. It has no
effect but a row in bronze, for each table that it may have changed, with its text.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.ddl_effect import Effect
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.table_state import Streaming
from lakehouse_cdc.model.way_out import read_again
from lakehouse_cdc.model.xa import Prepared, open_at
from lakehouse_cdc.mysql import object_references, server
from lakehouse_cdc.mysql.binlog.scan import LoggedStatement
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.schema.change import SchemaChange
from lakehouse_cdc.source.ddl.schema_resolution import to_continue
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.splits import RepairSplit, SnapshotSplit, Split
from lakehouse_cdc.source.state.state_store import SchemaStore
from lakehouse_cdc.source.tail.log_tail import Tail
from lakehouse_cdc.source.tail.text_guard import TextGuard
from lakehouse_cdc.source.tail.text_mentions import Seen
from lakehouse_cdc.sql.dml_names import Names
from lakehouse_cdc.sql.redaction import without_constants
from lakehouse_cdc.sql.references import References

_log = logging.getLogger(__name__)
_PATIENCE = 60.0  # seconds after which what is hidden is looked for again
_CHANGED = "rows were changed by a statement logged as text"


class Texts:
    """The texts of one stream. `look` comes first in each batch; the others speak of what it saw."""

    def __init__(self, options: SourceOptions, store: SchemaStore) -> None:
        self._options, self._store = options, store
        self._known: References | None = None  # at each place between the start and where the tail is
        self._fresh: tuple[References, Position | None] | None = None  # of after the last definition, which is there
        self._reached: dict[Names, frozenset[str]] = {}
        self._asked_at = -_PATIENCE
        self._reported: set[Names] = set()
        self._loaded: tuple[str, References] | None = None

    def look(
        self, session: Session, tail: Tail, start: Offset, *, near: bool, passed: Collection[Position] = ()
    ) -> None:
        """See to it that what the texts after `start` lead to is known; `near`: the log is known up to its end.

        `passed` are the ends of statements that the user wants to be passed.
        """
        self._start, self._tail, self._passed = start, tail, frozenset(passed)
        self._reached, self._fresh, self._known = {}, None, self._stored(start)
        texts = bool(tail.texts.rows(start.position) or tail.xa.texts or any(s.unknown for s in self._statements()))
        if self._known is None and not texts:
            return
        made = tail.texts.definitions(start.position)
        base = self._known
        if base is not None and made:
            self._known = base.adding(definition for _, definition in made)
        hidden = base is not None and not base.sight.whole and texts
        overdue = hidden and time.monotonic() - self._asked_at > _PATIENCE
        if base is None or (near and (made or overdue)):
            self._ask(session, tail, start, base)

    def _ask(self, session: Session, tail: Tail, start: Offset, base: References | None) -> None:
        self._asked_at = time.monotonic()
        references = object_references.references(session)
        tail.advance(server.log_position(session).position)
        made = tail.texts.definitions(start.position)
        if not made:
            self._known = references
        elif base is None:
            self._known = references.without([definition for _, definition in made])
        else:
            self._known = base.adding(definition for _, definition in made)
        self._fresh = (references, made[-1][0] if made else None)

    def _statements(self) -> list[LoggedStatement]:
        return self._tail.statements(after=self._start.position)

    def _stored(self, offset: Offset) -> References | None:
        if not offset.references:
            return None
        if self._loaded is None or self._loaded[0] != offset.references:
            self._loaded = (offset.references, self._store.references(offset.references))
        return self._loaded[1]

    # ------------------------------------------------------------------ what was decided

    def changed(self, names: Names) -> frozenset[str]:
        """The captured tables that a statement which mentions these names may change."""
        if names not in self._reached:
            assert self._known is not None
            self._reached[names] = self._known.reached(names, self._start.captured)
        return self._reached[names]

    def understood(self, statements: Iterable[LoggedStatement]) -> list[LoggedStatement]:
        """The statements, those that are not known with what is to be made of them."""
        return [self._altering(statement) if statement.unknown else statement for statement in statements]

    def _altering(self, statement: LoggedStatement) -> LoggedStatement:
        assert statement.names is not None
        named = {table for table in self._start.captured if statement.names.mentions(table)}
        altered = sorted(named | self.changed(statement.names))
        return replace(statement, effects=tuple(Effect("alter", table) for table in altered))

    def effects(self, until: Position) -> tuple[Effect, ...]:
        """What the texts up to a position do: tables are read again, or, where nothing is to be read, quarantined."""
        places, passed = dict[str, Position](), self.passed(until)
        for names, seen in self._tail.texts.rows(self._start.position, until).items():
            effective = [place for place in seen.places if place not in self._passed]
            for table in self.changed(names) if effective else ():
                places[table] = min([effective[0], *([places[table]] if table in places else [])])
        places |= {table: until for table in self._committed(until) if table not in places}
        effects = [self._effect(table, places[table]) for table in sorted(places)]
        return (*(self.nothing(table, passed[table]) for table in sorted(passed)), *effects)

    def passed(self, until: Position) -> dict[str, str]:
        """The tables that texts up to a position may have changed which are passed, with such a text."""
        return {
            table: seen.alike.text
            for names, seen in self._tail.texts.rows(self._start.position, until).items()
            if not self._passed.isdisjoint(seen.places)
            for table in self.changed(names)
        }

    def nothing(self, table: str, text: str) -> Effect:
        """The effect of a statement that is passed."""
        schema = self._store.get(self._start.captured[table].schema)
        shown = without_constants(text) if any(column.mask for column in schema.columns) else text
        return Effect("alter", table, self._store.put_change(SchemaChange.nothing(shown, schema)))

    def _effect(self, table: str, place: Position) -> Effect:
        """The effect of texts, of which the first ends at `place`."""
        state, on_error = self._start.captured[table], self._options.on_error_of(table)
        if on_error == "stop":
            raise codes.STATEMENT_STOPS_STREAM.error(
                f"{table}: {_CHANGED}", where=str(place), hint=to_continue(table, place)
            )
        if on_error == "reread" and not isinstance(state.phase, Streaming):
            return Effect("again", table)
        why = "source.snapshot is never" if on_error == "reread" else f"on_error is {on_error}"
        what = f"{_CHANGED}, and {why}; have the table read again: {read_again(table)}"
        change = SchemaChange.leaving(None, self._store.get(state.schema), what)
        return Effect("quarantine", table, self._store.put_change(change))

    def _committed(self, until: Position) -> set[str]:
        """The tables that XA transactions change which are committed up to a position."""
        prepared = {p.xid: p for p in open_at(self._start.prepared, self._start.position)}
        tables: set[str] = set()
        for event in self._tail.xa.events(until):
            if event.prepared is not None:
                prepared[event.xid] = self.with_tables(event.prepared)
            elif (decided := prepared.pop(event.xid, None)) is not None and event.committed:
                tables |= self._there(decided.again or ()) if event.position not in self._passed else set()
        return tables

    def _there(self, tables: Collection[str]) -> set[str]:
        return set(self._start.captured) if "*" in tables else self._start.captured.keys() & set(tables)

    def with_tables(self, prepared: Prepared) -> Prepared:
        """An XA transaction with the tables that the texts in it change."""
        texts = self._tail.xa.texts.get(prepared.begin)
        if texts is None or self._known is None:
            return prepared
        return replace(prepared, again=tuple(sorted({table for names in texts for table in self.changed(names)})))

    def doubtful_tables(self) -> set[str]:
        """The tables of which reads may have met a text after the start, as `text_guard` has it; they gave no rows."""
        names = {*self._tail.texts.rows(self._start.position)}
        names |= {statement.names for statement in self._statements() if statement.names is not None}
        for texts in self._tail.xa.texts.values():
            names |= texts
        made = [definition for _, definition in self._tail.texts.definitions(self._start.position)]
        end = self._tail.scanned
        committed = {event.xid for event in self._tail.xa.events(end) if event.prepared is None and event.committed}
        return {
            table
            for table, state in self._start.captured.items()
            if state.unconfirmed
            and TextGuard.at(self._start, table, self._stored(self._start)).may_change(names, made, committed)
        }

    # ------------------------------------------------------------------ what is kept of it

    def kept(self, offset: Offset) -> Offset:
        """`offset`, the end of the batch, with what is known there, and the count of what was passed over."""
        offset = replace(offset, texts=self._counted(offset.position))
        if self._known is None:
            return offset
        known = self._known
        if self._fresh is not None and (self._fresh[1] is None or self._fresh[1] <= offset.position):
            known = self._fresh[0]
        if self._loaded is None or self._loaded[1] is not known:
            self._loaded = (self._store.put_references(known), known)
        return replace(offset, references=self._loaded[0])

    def _counted(self, until: Position) -> tuple[int, int]:
        """How many texts have been passed over up to a position, and how many had tables read again; says which."""
        passed, again = self._start.texts
        for names, seen in self._tail.texts.rows(self._start.position, until).items():
            tables, counted = self.changed(names), len(seen.places)
            effective = [place for place in seen.places if place not in self._passed] if tables else []
            passed, again = passed + counted - len(effective), again + len(effective)
            self._say(names, seen, sorted(tables) if effective else [])
        for statement in self._statements():
            if statement.unknown and statement.names is not None and statement.position <= until:
                altered = [effect.table for effect in self._altering(statement).effects or ()]
                altered = altered if statement.position not in self._passed else []
                passed, again = (passed, again + 1) if altered else (passed + 1, again)
                self._say(statement.names, Seen((statement.position,), statement), altered)
        return passed, again

    def _say(self, names: Names, seen: Seen, tables: list[str]) -> None:
        first, more = seen.places[0], len(seen.places) - 1
        text, alike = self._options.shown(seen.alike.text), f", and {more} alike" if more else ""
        if tables:
            listed = ", ".join(tables[:5]) + (", ..." if len(tables) > 5 else "")
            _log.warning("logged as text at %s%s: %s; read again: %s", first, alike, text, listed)
        elif names not in self._reported:
            _log.info("logged as text at %s%s: %s; no captured table is concerned", first, alike, text)
        self._reported.add(names)


def guarded(splits: Sequence[Split], end: Offset, store: SchemaStore) -> list[Split]:
    """The splits of a batch that ends at `end`, its as-of reads with what they must know of texts."""
    guards: dict[str, TextGuard] = {}
    known = store.references(end.references) if end.references else None
    guarded: list[Split] = []
    for split in splits:
        if isinstance(split, SnapshotSplit | RepairSplit):
            table = split.schema.name
            guard = guards.setdefault(table, guards.get(table) or TextGuard.at(end, table, known))
            split = replace(split, texts=guard)
        guarded.append(split)
    return guarded
