"""What DDL in the log means for the tables of the next offset.

A chunk that meets DDL of its table behind W emits nothing, and its batch is committed all the same. So an offset keeps
for each table the cursor from which its batch moved; the next offset, for which the log has been read to its end since,
puts the cursor back where DDL of the table lies in between. Only then does a repeated pass end. The chunks may also
have been read before that DDL: then their rows are there, so events of their keys must go on to pass (a delete that
waited for a chunk which does not hold the row any more would be lost), and the rows come twice.

A batch ends at each DDL that is followed, so what it does is part of an offset: rows before it were written under the
state that the offset before has, and whatever is read later has a floor behind it. (Its metadata lock proves that all
before it is visible.)

Of keys that were read again by themselves the same holds: they are owed until nothing was met behind them.

A table that such a DDL creates is empty there, so nothing of it is to be read: it is done from its birth.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from lakehouse_cdc.model.ddl_effect import Effect
from lakehouse_cdc.model.offset import Mode, Offset, TableState
from lakehouse_cdc.model.seq import Rank, Seq, unpack
from lakehouse_cdc.mysql.binlog.scan import LoggedStatement
from lakehouse_cdc.mysql.literals import form
from lakehouse_cdc.schema.change import SchemaChange
from lakehouse_cdc.schema.table import Column

_BIRTHS = 8  # tables


def to_follow(statements: Sequence[LoggedStatement]) -> list[LoggedStatement]:
    """Those of the statements behind a position at which a batch must end.

    A batch for each of many tables that are created would take longer than to read them all in one, when it is their
    turn: more than a few are not followed from their birth.
    """
    met = [statement for statement in statements if statement.effects != ()]
    births = [statement for statement in met if {e.kind for e in statement.effects or ()} == {"create"}]
    return met if len(births) <= _BIRTHS else [statement for statement in met if statement not in births]


def without_met(
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
    met: set[str] = set(texts)
    for statement in statements:
        met |= set(offset.tables) if statement.effects is None else {effect.table for effect in statement.effects}
    tables = {}
    for name, state in offset.tables.items():
        again = name in met and state.moved_from is not None and keyless(state)
        tables[name] = anew(replace(state, moved_from=None), offset) if again else _checked(state, name in met)
    return replace(offset, tables=tables, ddl=())


def _checked(state: TableState, met: bool) -> TableState:
    if met and state.moved_from is not None:
        return replace(state, cursor=state.moved_from, done=False, moved_from=None, passed=state.done or state.cursor)
    state = replace(state, moved_from=None)
    if not state.unchecked:
        return state
    return replace(state, repaired=None) if met else replace(state, repair="")


def together(texts: tuple[Effect, ...], effects: tuple[Effect, ...]) -> tuple[Effect, ...]:
    """What statements logged as text did, and then the DDL after them; a table that they quarantine is not followed."""
    left = {effect.table for effect in texts if effect.kind == "quarantine"}
    return (*texts, *(effect for effect in effects if effect.table not in left))


def followed(
    offset: Offset, effects: tuple[Effect, ...], change_of: Callable[[str], SchemaChange], *, never: bool = False
) -> Offset:
    """`offset`, which stands behind the statement that has these effects, if any; `never`: no snapshots are wanted."""
    offset = replace(offset, ddl=effects)
    for effect in effects:
        if effect.kind == "create":
            mode: Mode = "never" if never else "first"
            before = offset.tables.get(effect.table)  # one that is gone
            since = before.since if before else None
            born = TableState(effect.change, done=True, mode=mode, since=since, floor=offset.position)
            offset = offset.with_table(effect.table, born)
            continue
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
    since = next_reading(state, offset)
    return replace(state, cursor=[], done=False, mode="again", since=since, passed=None, repair="", repaired=None)


def next_reading(state: TableState, offset: Offset) -> int:
    """The seq of another reading of the table from the offset on.

    Readings are counted: one that began earlier may have read its last rows at this very position.
    """
    last = max(unpack(seq or 0).ordinal for seq in (state.since, state.repaired))
    return Seq(offset.epoch, offset.position.number, offset.position.pos, Rank.READ, last + 1).pack()
