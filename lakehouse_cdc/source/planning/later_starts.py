"""Tables that begin after the stream: the offset names them, each with its place and its schema, until it is there.

**What is emitted.** Of each table its changes from its own start on, all and no others, however the log is cut into
batches. Why it holds:

- Where a start is, and which columns the table has there, is decided once, before the first batch (`started_offset`),
  and is part of the first offset. No later look at the server or the file changes it.
- No batch passes a start: its end W is at the last transaction before it, and there the table joins the offset, as a
  table does that is born. Rows of (W, W'] pass by what the offset at W has, so nothing of the table has passed that is
  before its start, and all passes after it. A batch that is executed again is a function of its two offsets.
- XA transactions that are prepared at its start, and committed later, are changes after it: they count as if they had
  rows of the table.

**What happens to it before** is passed over: the schema is that of its start, whatever made it so, and a table that was
created before its start is not followed from there on. So is one that was created after its start, in the place of
another one of that name; it is in the list without a schema, and begins where it is created. Statements after the start
were looked for when the stream began, and those that came later are followed as ever.

**The configuration** may have changed in between: what it hides by now is hidden where the table joins, by the names
that columns have in its schema, as in `planning.reconfigured`; the rest follows at the end of the log, as there.

Starts are at or before the end of the log where the stream began. So nothing is left of them where the end of the log
is reached, and whatever is done there alone need not know of them. On another server their
places are found as the stream's is, by the transactions before (`server_change`); a new epoch has none.

Guards: tests/source/test_table_starts.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from lakehouse_cdc.model.offset import LaterStart, Offset
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.state_machine import advance
from lakehouse_cdc.mysql.binlog.scan import LoggedStatement
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.schema.types import check_table
from lakehouse_cdc.source.captured_tables import Tables
from lakehouse_cdc.source.planning.new_tables import with_rows_of
from lakehouse_cdc.source.state.state_store import SchemaStore
from lakehouse_cdc.source.state.table_settings import TableSettings, changed
from lakehouse_cdc.source.tail.log_tail import Tail


def with_later_starts(offset: Offset, later: Iterable[tuple[Offset, Collection[str]]]) -> Offset:
    """`offset`, the first one, with tables that are still to begin: each of them at the place of another offset.

    Those that are quarantined are so already. A table that `offset` does not have is one that is created after its
    start.
    """
    there = {name: state.schema for name, state in offset.captured.items()}
    starts = tuple(
        LaterStart(at.position, at.gtid_set, {name: there.get(name, "") for name in sorted(names)})
        for at, tables in later
        if (names := {*tables} - offset.quarantined.keys())
    )
    begun = {name: state for name, state in offset.tables.items() if not any(name in one.tables for one in starts)}
    return replace(offset, tables=begun, starts=starts)


class LaterStarts:
    """Those of the offset at which `tail` begins, in the order of the log."""

    def __init__(self, starts: Iterable[LaterStart], tail: Tail, tables: Tables, store: SchemaStore) -> None:
        wanted = tables.selection.matches
        selected = [one._replace(tables={n: s for n, s in one.tables.items() if wanted(n)}) for one in starts]
        self._starts = [one for one in selected if one.tables]
        self._places = {name: one.position for one in self._starts for name in one.tables}
        self._tail, self._tables, self._store = tail, tables, store

    def concerning(self, statement: LoggedStatement) -> LoggedStatement:
        """A statement without what it does to tables that have not begun."""
        places = self._places
        if not places or not statement.effects:
            return statement
        effects = (e for e in statement.effects if e.table not in places or statement.position > places[e.table])
        return replace(statement, effects=tuple(effects))

    def stop(self, end: Position) -> Position:
        """Where a batch ends at the latest that would end at `end`. What has not been read yet it cannot pass."""
        begin = [one for one in self._starts if any(one.tables.values()) and self._tail.reached(one.position)]
        return min([end, *map(self._last_before, begin)])

    def begun_at(self, position: Position) -> dict[str, str]:
        """The tables that begin where a batch ends at `position`, and their schemas."""
        at = [one.tables for one in self._starts if self._is_at(one, position)]
        return {name: schema for tables in at for name, schema in tables.items() if schema}

    def begin(self, offset: Offset, begun: Mapping[str, str]) -> Offset:
        """`offset`, at their start, with these tables as they are captured from there on.

        What is over is not in the list any more, nor is a table that is not selected by now: it does not begin later.
        """
        if not offset.starts:
            return offset
        for name, schema in begun.items():
            configured = self._configured(self._store.get(schema), offset)
            event = self._tables.captured_at(configured, seq=offset.next_reading(None), floor=offset.position)
            offset = offset.with_table(name, advance(None, event))
        ahead = tuple(one for one in self._starts if not self._is_at(one, offset.position))
        prepared = tuple(with_rows_of(one, begun) for one in offset.prepared) if begun else offset.prepared
        return replace(offset, starts=ahead, prepared=prepared)

    def _is_at(self, start: LaterStart, position: Position) -> bool:
        """Whether all transactions before a start are up to a position."""
        return self._tail.reached(start.position) and self._last_before(start) <= position

    def _configured(self, schema: TableSchema, offset: Offset) -> TableSchema:
        """The schema without what the configuration has come to hide since the stream began."""
        before = [TableSettings.from_json(s) for one in offset.settings if (s := self._store.settings(one)) is not None]
        change = changed(schema, before, TableSettings.of(self._tables.options), showing=False) if before else None
        if change is None:
            return schema
        check_table(change.schema)
        return change.schema

    def _last_before(self, start: LaterStart) -> Position:
        """Where the last transaction before a start ends: files may begin, and no more, in between."""
        return self._tail.mark(until=start.position).position
