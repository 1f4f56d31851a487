"""Schema changes as bronze rows, and what silver holds after them."""

from __future__ import annotations

from typing import Any

from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.model.seq import Rank
from lakehouse_cdc.schema.table import TableSchema
from tests.support.bronze_writer import Lake
from tests.support.silver.changes import seq


def altered(old: TableSchema, new: TableSchema, pos: int, **origin: str) -> Change:
    """The change at `pos`; columns of one name are one column, unless `origin` says else (an empty text: it is new)."""
    names = {c.name for c in old.columns}
    found = {c.name: origin.get(c.name, c.name if c.name in names else "") for c in new.columns}
    given = {"statement": "ALTER TABLE ...", "origin": {name: was for name, was in found.items() if was}}
    return Change(seq(pos, Rank.SCHEMA), Op.SCHEMA, old.name, None, old.to_dict(), {**new.to_dict(), **given})


def update(schema: TableSchema, pos: int, before: dict[str, Any], **values: Any) -> Change:
    key = tuple(before[name] for name in schema.key)
    return Change(seq(pos), Op.UPDATE, schema.name, key, before, {**before, **values})


def held_rows(lake: Lake, name: str, *columns: str) -> list[tuple[Any, ...]]:
    rows = read(lake.spark, lake.layout.silver_table(name)).collect()
    return sorted(tuple(row[c] for c in columns) for row in rows)
