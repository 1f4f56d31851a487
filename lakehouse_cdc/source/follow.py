"""What DDL in the log means for the tables of the next offset.

A chunk that meets DDL of its table behind W emits nothing, and its batch is committed all the same. So an offset keeps
for each table the cursor from which its batch moved; the next offset, for which the log has been read to its end since,
puts the cursor back where DDL of the table lies in between. Only then does a repeated pass end. The chunks may also
have been read before that DDL: then their rows are there, so events of their keys must go on to pass (a delete that
waited for a chunk which does not hold the row any more would be lost), and the rows come twice.

A batch ends at each DDL that is followed, so what it does is part of an offset: rows before it were written under the
state that the offset before has, and whatever is read later has a floor behind it. (Its metadata lock proves that all
before it is visible.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from lakehouse_cdc.model.effect import Effect
from lakehouse_cdc.model.offset import Offset, TableState
from lakehouse_cdc.model.seq import Rank, Seq, unpack
from lakehouse_cdc.mysql.binlog.scan import LoggedStatement
from lakehouse_cdc.mysql.literals import form
from lakehouse_cdc.schema.change import SchemaChange
from lakehouse_cdc.schema.table import Column


def without_met(offset: Offset, statements: Iterable[LoggedStatement]) -> Offset:
    """`offset` with the cursors put back of those tables whose last chunks may have met one of `statements`."""
    met: set[str] = set()
    for statement in statements:
        met |= set(offset.tables) if statement.effects is None else {effect.table for effect in statement.effects}
    tables = {name: _checked(state, name in met) for name, state in offset.tables.items()}
    return replace(offset, tables=tables, ddl=())


def _checked(state: TableState, met: bool) -> TableState:
    if met and state.moved_from is not None:
        return replace(state, cursor=state.moved_from, done=False, moved_from=None, passed=state.done or state.cursor)
    return replace(state, moved_from=None)


def followed(offset: Offset, effects: tuple[Effect, ...], change_of: Callable[[str], SchemaChange]) -> Offset:
    """`offset`, which stands behind the statement that has these effects, if any."""
    offset = replace(offset, ddl=effects)
    for effect in effects:
        state = replace(offset.tables[effect.table], floor=offset.position)
        if effect.kind in ("drop", "quarantine"):
            offset = _without(offset, effect.table, change_of(effect.change).reason)
            continue
        again = effect.kind == "again"
        if effect.kind == "alter":
            change = change_of(effect.change)
            again = not change.kept or not (state.done or _same_order(change))
            state = replace(state, schema=change.schema.id)
        if again and state.mode != "never" and (state.begun or state.mode == "again"):
            state = anew(state, offset)
        offset = offset.with_table(effect.table, state)
    return offset


def _without(offset: Offset, table: str, reason: str) -> Offset:
    """The table is left off; one that is gone, and of which nothing has been emitted, never was."""
    state = offset.tables[table].left(reason)
    if state.dropped and not state.done:
        return replace(offset, tables={name: s for name, s in offset.tables.items() if name != table})
    return offset.with_table(table, state)


def _same_order(change: SchemaChange) -> bool:
    """Whether a cursor means the same as before; the columns of the key may have other names, or be wider."""
    before, after = ([_ordered(column) for column in schema.key_columns] for schema in (change.before, change.schema))
    return before == after


def _ordered(column: Column) -> Column:
    """What the order of a key's column depends on."""
    return Column("", "int") if form(column) == "integer" else replace(column, name="", length=None)


def anew(state: TableState, offset: Offset) -> TableState:
    """The table is read again from the offset on: behind all that was read before, also at the same position."""
    position = Seq(offset.epoch, offset.position.number, offset.position.pos, Rank.READ, 0)
    last = unpack(state.since or 0)
    since = position._replace(ordinal=last.ordinal + 1 if last[:4] == position[:4] else 1).pack()
    return replace(state, cursor=[], done=False, mode="again", since=since, passed=None)
