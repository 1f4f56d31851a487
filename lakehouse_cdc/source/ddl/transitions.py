"""What DDL in the log means for the tables of the next offset.

A chunk that meets DDL of its table after W emits nothing, and its batch is committed all the same. So an offset keeps
for each table the cursor from which its batch moved; the next offset, for which the log has been read to its end since,
puts the cursor back where DDL of the table lies in between. Only then does a repeated pass end. The chunks may also
have been read before that DDL: then their rows are there, so events of their keys must continue to pass (a delete that
waited for a chunk which does not hold the row any more would be lost), and the rows come twice.

A batch, or a stretch of one (see `planning.stretches`), ends at each DDL that is followed, so what it does is part of
an offset: rows before it were written under the state that the offset before has, and whatever is read later has a
floor after it. (Its metadata lock proves that all before it is visible.)

Of keys that were read again by themselves the same holds: they are owed until nothing was met after them.

A table that such a DDL creates is empty there, so nothing of it is to be read: it is done from its birth.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from lakehouse_cdc.model.ddl_effect import Effect
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.model.state_machine import advance, advanced
from lakehouse_cdc.model.table_events import (
    DdlCrossed,
    Event,
    ReadsConfirmed,
    RowsChanged,
    SchemaChanged,
    TableBorn,
    TableDropped,
    TableRefused,
    TableTruncated,
)
from lakehouse_cdc.model.table_name import split
from lakehouse_cdc.model.table_state import TableState
from lakehouse_cdc.mysql.binlog.scan import LoggedStatement
from lakehouse_cdc.mysql.literals import form
from lakehouse_cdc.schema.change import SchemaChange
from lakehouse_cdc.schema.table import Column

_BIRTHS = 8  # tables


def to_follow(statements: Sequence[LoggedStatement], *, never: bool = False) -> list[LoggedStatement]:
    """Those of the statements after a position at which a batch must end.

    A batch for each of many tables that are created would take longer than to read them all in one, when it is their
    turn: more than a few are not followed from their birth. But each is where tables are `never` read.
    """
    effective = [statement for statement in statements if statement.effects != ()]
    births = [statement for statement in effective if {e.kind for e in statement.effects or ()} == {"create"}]
    return (
        effective
        if never or len(births) <= _BIRTHS
        else [statement for statement in effective if statement not in births]
    )


def with_cursors_put_back(
    offset: Offset,
    statements: Iterable[LoggedStatement],
    keyless: Callable[[TableState], bool] = lambda _: False,
    texts: Collection[str] = (),
) -> Offset:
    """`offset` with the cursors put back of those tables whose last chunks may have met one of `statements`.

    Or something logged as text that may change them: `texts` are those tables.

    Rows without a key that may have been read are no rows that come twice. So a `keyless` table is read again: what was
    read before goes with the end of that pass.
    """
    concerned: set[str] = set(texts)
    for statement in statements:
        concerned |= set(offset.tables) if statement.effects is None else {effect.table for effect in statement.effects}
    tables = {}
    for name, state in offset.tables.items():
        crossed = DdlCrossed(offset.next_reading(state) if name in concerned and keyless(state) else None)
        tables[name] = advanced(state, crossed if name in concerned else ReadsConfirmed())
    return replace(offset, tables=tables, ddl=())


def together(texts: tuple[Effect, ...], effects: tuple[Effect, ...]) -> tuple[Effect, ...]:
    """What statements logged as text did, and then the DDL after them; a table that they quarantine is not followed.

    A table has one row for its schema at a position, so one that is quarantined there has none for a text that is
    passed. A batch ends before DDL of a table that has one.
    """
    left = {effect.table for effect in texts if effect.kind == "quarantine"}
    others = {effect.table for effect in effects}
    texts = tuple(e for e in texts if e.kind != "alter" or e.table not in others)
    return (*texts, *(effect for effect in effects if effect.table not in left))


def followed(
    offset: Offset, effects: tuple[Effect, ...], change_of: Callable[[str], SchemaChange], *, never: bool = False
) -> Offset:
    """`offset`, which is after the statement that has these effects, if any; `never`: no snapshots are wanted."""
    offset = replace(offset, ddl=effects)
    for effect in effects:
        state = offset.tables.get(effect.table)
        offset = offset.with_table(effect.table, advance(state, _event(effect, state, offset, change_of, never=never)))
    return offset


def without_dropped(offset: Offset, statements: Iterable[LoggedStatement], last: Iterable[Effect] = ()) -> Offset:
    """`offset` with the quarantined tables as dropped ones which the statements before it dropped, or renamed.

    Whatever was wrong with them: what has such a name then is another table. But one that the last statement, which had
    the effects `last`, has quarantined, was wrong after it. The offset itself where there are none.
    """
    gone, databases = set[str](), set[str]()
    for one in (logged.statement for logged in statements):
        gone |= {*(one.tables if one.drops or one.replaces else ()), *(old for old, _ in one.renames)}
        databases |= set(one.databases)
    quarantined = offset.quarantined.keys() - {effect.table for effect in last if effect.kind == "quarantine"}
    for name in sorted(quarantined):
        if name in gone or split(name)[0] in databases:
            offset = offset.with_table(name, advance(offset.tables[name], TableDropped()))
    return offset


def _event(
    effect: Effect, state: TableState | None, offset: Offset, change_of: Callable[[str], SchemaChange], *, never: bool
) -> Event:
    """What an effect is to the table, whose state is `state`, at `offset`."""
    floor, seq = offset.position, offset.next_reading(state)
    match effect.kind:
        case "create":
            return TableBorn(effect.change, snapshots=not never, floor=floor)
        case "drop" | "quarantine":
            change = change_of(effect.change)
            return left(change.reason, change.schema.id)
        case "again":
            return RowsChanged(seq, floor)
        case "alter":
            change = change_of(effect.change)
            return SchemaChanged(change.schema.id, change.kept, _same_order(change), seq, floor)
        case _:
            return TableTruncated(floor)


def left(reason: str, schema: str = "") -> TableDropped | TableRefused:
    """What it is to a table that it is not followed any more: for that reason, or, '', since it is gone."""
    return TableRefused(reason, schema) if reason else TableDropped()


def _same_order(change: SchemaChange) -> bool:
    """Whether a cursor means the same as before; the columns of the key may have other names, or be wider."""
    before, after = (
        [_ordered(column) for column in schema.key_columns if schema.range_key]
        for schema in (change.before, change.schema)
    )
    return before == after


def _ordered(column: Column) -> Column:
    """What the order of a key's column depends on."""
    return Column("", "int") if form(column) == "integer" else replace(column, name="", length=None)
