"""What a message under another schema than the rows before it says of these, by the names of columns. Pure.

Nobody says the statement. So a change is taken where the rows that there are have one meaning under it: columns were
added, whose rows hold NULL or the default that the message names; columns were dropped; a column got a type that holds
the same values (`sql.ddl.preserved`). Where columns came and others went it may be a rename, and nothing is taken; nor
where the key is another, where a type may have changed values, and where a new column can hold neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakehouse_cdc.schema.change import SchemaChange
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.sql.ddl.preserved import preserved
from lakehouse_cdc.sql.ddl.statement_session import UNKNOWN_SESSION

Filled = Mapping[str, str | None]  # what rows hold in a new column; None: a default that is not known


def change_by_names(
    before: TableSchema, after: TableSchema, filled: Filled, *, accepted: bool = False
) -> SchemaChange | str:
    """The change, or why it is none that says what the rows hold now.

    `accepted`: somebody says that columns of one name are one column, and that rows hold NULL in the new ones.
    """
    was, now = ({column.name: column for column in schema.columns} for schema in (before, after))
    added, gone = [name for name in now if name not in was], [name for name in was if name not in now]
    origin = {name: name for name in now if name in was}
    fills = {name: text for name in added if (text := filled.get(name)) is not None}
    done = SchemaChange(None, before, after, origin, kept=True, filled=fills)
    if before.key != after.key:
        return f"the key was ({', '.join(before.key)}), and is ({', '.join(after.key)})"
    if accepted:
        return done
    if added and gone:
        return f"{added[0]} is new, and {gone[0]} is gone: it may be the same column"
    for name in origin:
        if not _same(was[name], now[name]):
            return f"{name} was {was[name].declared}, and is {now[name].declared}"
    for name in added:
        if name in filled and filled[name] is None:
            return f"{name} is new, and has a default that the message does not say plainly"
        if name not in fills and not now[name].nullable:
            return f"{name} is new, and may not be NULL"
    return done


def _same(old: Column, new: Column) -> bool:
    """Whether all values are the same in both; a column that may be NULL now has lost nothing."""
    return (replace(new, nullable=old.nullable) == old and (new.nullable or not old.nullable)) or preserved(
        old, new, UNKNOWN_SESSION
    )
