"""Tables that match since the configuration changed, were born, or came back: captured from W on, beside the others."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.model.state_machine import advance
from lakehouse_cdc.model.table_events import TableDeselected, TableDropped
from lakehouse_cdc.model.table_name import join, split
from lakehouse_cdc.model.way_out import reason
from lakehouse_cdc.model.xa import Prepared
from lakehouse_cdc.mysql import server
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.source.captured_tables import Tables, wait_for_ddl
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.settling.settled_position import Floor
from lakehouse_cdc.source.tail.log_tail import Tail


def with_new_tables(
    session: Session,
    tables: Tables,
    tail: Tail,
    floor: Floor,
    offset: Offset,
    *,
    retried: Collection[str] = (),
    strict: bool = False,
    added: bool = False,
) -> Offset | None:
    """`offset`, near the end of the log, with the tables that are new, or `retried`; itself where there are none.

    A new table that cannot be captured is quarantined, and so is one that may be a copy of the one that had its name,
    with a masked column under another name; one that was quarantined and is gone is not any more. None where nothing
    can be said yet, since a table was altered meanwhile. A table of which no row has been emitted is let go, or begins
    as it is to be captured. `strict`: raises DefiniteError for others that are to be captured otherwise than before
    (see `planning.reconfigured`). `added`: the configuration has changed, so a new table may be old to the server. One
    that has a start of its own is quarantined: where that is, the stream has been.
    """
    offset = _without_unmatched(tables, offset)
    known = {name: state for name, state in offset.captured.items() if state.published}
    schemas, faults = tables.matching(session, known=offset.tables, renamed=not strict)
    offset = _without_gone(session, offset, schemas)
    if strict:
        tables.require_same_choice(known, schemas)
    waiting = offset.quarantined.keys() - set(retried)
    same = tables.same_choice({n: s for n, s in offset.captured.items() if n not in known}, schemas)
    new = {n: schema for n, schema in schemas.items() if n not in known and n not in waiting and n not in same}
    if not new:
        return offset
    wait_for_ddl(session, new.values())
    tail.advance(server.log_position(session).position)
    if tail.statements(after=offset.position):
        return None  # what was read may be another shape than that at the position
    # their last DDL may lie anywhere below W: only W itself, settled, is a safe floor for them
    floor.wait_for(offset.position)
    for name, schema in new.items():
        before = offset.tables.get(name)
        fault = faults.get(name)
        if fault is None and name not in retried:
            fault = tables.lost_mask(before, schema)
            if added and before is None:
                fault = fault or _passed_start(tables.options, name)
        if fault is not None and tables.options.stops(name):
            raise fault
        event = (
            tables.captured_at(schema, seq=offset.next_reading(before), floor=offset.position)
            if fault is None
            else tables.refused(schema, reason(fault.code, fault.what, fault.hint, name))
        )
        offset = offset.with_table(name, advance(before, event))
    # their rows in what is prepared were not counted
    return replace(offset, prepared=tuple(with_rows_of(p, new) for p in offset.prepared))


def _passed_start(options: SourceOptions, name: str) -> DefiniteError | None:
    """Why a table does not begin by itself that is added to a stream; None for one without a start of its own."""
    start, named = options.start_of(name), options.start_named(name)
    if start.kind == "now" or named == "source.start":
        return None
    return codes.START_OF_ADDED_TABLE.error(
        f"{name} was added to a pipeline that has run, and {named} ({start}) is a start of the first run",
        where=name,
        hint="read its changes before by another pipeline, or do without them",
    )


def with_rows_of(prepared: Prepared, new: Collection[str]) -> Prepared:
    """What is prepared, as it may be where tables are `new`: with rows of them, or texts that change them."""
    again = None if prepared.again is None else tuple(sorted({*prepared.again, *new}))
    return replace(prepared, rows=max(prepared.rows, 1), again=again)


def _without_unmatched(tables: Tables, offset: Offset) -> Offset:
    """The offset without tables that are not to be captured any more, and have emitted nothing, or are quarantined.

    An earlier release left out each table whose name holds a dot, by a name that is none: it is new by its full one.
    """
    for name, state in offset.captured.items():
        if not state.published and not tables.selection.matches(name):
            offset = offset.with_table(name, advance(state, TableDeselected()))
    for name in offset.quarantined:
        state = offset.tables[name]
        if not tables.selection.matches(name) or (not state.published and join(*split(name)) != name):
            offset = offset.with_table(name, advance(state, TableDropped()))
    return offset


def _without_gone(session: Session, offset: Offset, there: Collection[str]) -> Offset:
    """The offset with the quarantined tables as dropped ones that the server has no more, whatever was wrong with them.

    One that comes back, by a statement after this one, is a new table of that name.
    """
    for name in offset.quarantined.keys() - there:
        if server.lacks(session, name):
            offset = offset.with_table(name, advance(offset.tables[name], TableDropped()))
    return offset
