"""Which unique index can be the key of a table without a primary key, after an ALTER: see `schema.unique_key`.

A schema has that index and not the others, of which it says only whether there may be any (`TableSchema.more_unique`).
From that the index after a statement follows in all cases but a few, and these are reported as not known: the caller
asks the catalog, or reads the table again. An index that is the key stays it whatever comes, since the server keeps the
order of indexes that are alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakehouse_cdc.schema.table import TableSchema, UniqueIndex
from lakehouse_cdc.schema.unique_key import usable
from lakehouse_cdc.sql.ddl.clauses import Action, Change, Drop, DropIndex, RenameIndex, Unique
from lakehouse_cdc.sql.lexer import NotUnderstood


def with_unique_after(
    before: TableSchema, after: TableSchema, origin: Mapping[str, str], todo: Sequence[Action]
) -> tuple[TableSchema, bool]:
    """`after` with its unique index, and whether that is known; `origin` has the old names of columns."""
    if after.key:
        return after, True
    if before.key:
        return after, False  # what there was beside the primary key
    new = [action for action in todo if isinstance(action, Unique)]
    if before.more_unique is None:  # an earlier release has not asked, or an index is no key in this engine
        same_engine = before.engine == after.engine
        return after, same_engine and not new and not any(isinstance(action, DropIndex) for action in todo)
    unique, lost = _kept(before.unique, after, origin, todo)
    more = before.more_unique or lost
    # the index of some columns that are altered may be one that was not usable
    known = unique is not None or not (more and any(isinstance(action, Change | Drop) for action in todo))
    known = known and not (unique is None and before.unique is not None and before.more_unique)
    for action in new:
        index = _index(action, after)
        if unique is None and index is not None and usable(index, after.columns):
            known = known and action.name is not None
            unique = index
        else:
            more = True
    return replace(after, unique=unique, more_unique=more), known


def _kept(
    unique: UniqueIndex | None, after: TableSchema, origin: Mapping[str, str], todo: Sequence[Action]
) -> tuple[UniqueIndex | None, bool]:
    """The index as it is afterwards, None where it cannot be the key any more; and whether it is there all the same."""
    if unique is None or any(isinstance(a, DropIndex) and _same(a.name, unique.name) for a in todo):
        return None, False
    new_of = {old: name for name, old in origin.items()}
    columns = tuple(new_of[name] for name in unique.columns if name in new_of)
    names = [a.new for a in todo if isinstance(a, RenameIndex) and _same(a.old, unique.name)]
    index = UniqueIndex([unique.name, *names][-1], columns)
    if len(columns) < len(unique.columns) or not usable(index, after.columns):
        return None, bool(columns)  # without any column it goes with the last of them
    return index, False


def _index(action: Unique, after: TableSchema) -> UniqueIndex | None:
    """The new index with the columns' names as they are; None where it is not over whole columns."""
    if action.columns is None:
        return None
    names = {column.name.lower(): column.name for column in after.columns}
    if any(name.lower() not in names for name in action.columns):
        raise NotUnderstood
    columns = tuple(names[name.lower()] for name in action.columns)
    return UniqueIndex(action.name or "", after.versioning.current_key(columns) if after.versioning else columns)


def _same(a: str, b: str) -> bool:
    """Names of indexes do not depend on case."""
    return a.lower() == b.lower()
