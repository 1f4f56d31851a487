"""Changes of small tables as bronze rows, and their application to silver."""

from __future__ import annotations

from typing import Any

from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.model.seq import Rank, Seq
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.silver.apply.applier import Applier
from tests.support.bronze_writer import Lake

ID, N = Column("id", "int", False), Column("n", "smallint")


def table(name: str, *others: Column) -> TableSchema:
    return TableSchema("shop", name, (ID, *others), ("id",))


def seq(pos: int, rank: Rank = Rank.EVENT) -> int:
    return Seq(1, 1, pos, rank, 0).pack()


def insert(schema: TableSchema, pos: int, key: int, **values: Any) -> Change:
    return Change(seq(pos), Op.INSERT, schema.name, (key,), None, {"id": key, **values})


def delete(schema: TableSchema, pos: int, key: int) -> Change:
    return Change(seq(pos), Op.DELETE, schema.name, (key,), {"id": key}, None)


def begin(schema: TableSchema, pos: int = 1) -> Change:
    return Change(seq(pos, Rank.SCHEMA), Op.SCHEMA, schema.name, after=schema)


def apply(lake: Lake, applier: Applier, changes: list[Change], after: int | None) -> int:
    """Write a batch, apply it, give its version."""
    versions = Versions(after, lake.commit(changes).version)
    applier.apply(versions, lake.note(versions))
    return versions.last
