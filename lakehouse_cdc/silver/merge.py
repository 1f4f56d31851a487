"""One commit that brings a silver table to a position: an append into an empty table, else a MERGE.

Both are told apart by Delta under one application id, so a batch that was appended and is replayed, and now finds the
table full, is skipped as it would be had it been merged. Every clause compares seqs, so even a batch that Delta does
not know (a new checkpoint) cannot move a row backwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.lake.commits import committing, writer_options
from lakehouse_cdc.lake.tables import append, delta_table
from lakehouse_cdc.model.layout import COMMIT_TS, DELETED_AT, END_AT, SEQ, START_AT, Table, quoted
from lakehouse_cdc.model.standing import CommitNote
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.schema.types import Kind, require
from lakehouse_cdc.silver.batch import Barrier
from lakehouse_cdc.silver.form import OPEN
from lakehouse_cdc.silver.versions import taken_away

Bounds = tuple[str, str]  # the least and the greatest first key column of a batch, as SQL literals
_RANGED = (Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64, Kind.DECIMAL, Kind.DATE)


def bounds_of(changes: DataFrame, schema: TableSchema) -> Bounds | None:
    """The range of the first key column, where its type has one that Delta keeps statistics of."""
    column = schema.key_columns[0]
    mapped = require(column, schema.name)
    if mapped.kind not in _RANGED:
        return None
    first = F.col("key").getField(column.name)
    found = changes.agg(F.min(first).alias("low"), F.max(first).alias("high")).head()
    if found is None or found["low"] is None:
        return None
    return (f"CAST('{found['low']}' AS {mapped.silver})", f"CAST('{found['high']}' AS {mapped.silver})")


def load(rows: DataFrame, table: Table, schema: TableSchema, note: CommitNote, step: str) -> None:
    """Append typed changes of distinct keys (row, seq, commit_ts), none of them a delete, to an empty table."""
    columns = [F.col(f"row.{quoted(c.name)}").alias(c.name) for c in schema.captured]
    stamped = rows.select(*columns, F.col("seq").alias(SEQ), F.col("commit_ts").alias(COMMIT_TS))
    append(stamped, table, writer_options(note, step))


def merge(
    session: SparkSession,
    changes: DataFrame,
    table: Table,
    schema: TableSchema,
    note: CommitNote,
    step: str,
    *,
    kept: Sequence[str] = (),
    barrier: int = 0,
    bounds: Bounds | None = None,
) -> None:
    """Merge typed changes of distinct keys (key, row, seq, op, commit_ts), and delete what is below `barrier`.

    `kept` columns, which the source has no more, are NULL in every row that is written, as they are in one that is
    inserted. `bounds` restrict the target's files that are read; every key of `changes` lies within them.
    """
    matches = [*_same_key(schema), *_within(schema, None if barrier else bounds)]
    values = _values(schema)
    statement = (
        delta_table(session, table)
        .alias("t")
        .merge(changes.alias("s"), " AND ".join(matches))
        .whenMatchedDelete(f"s.op = 'd' AND s.seq > t.{SEQ}")
        .whenMatchedUpdate(f"s.op <> 'd' AND s.seq > t.{SEQ}", {**values, **{quoted(name): "NULL" for name in kept}})
        .whenNotMatchedInsert("s.op <> 'd'", values)
    )
    if barrier:
        # a key that is in the batch with an older seq was taken out of it before, so it is not matched either
        statement = statement.whenNotMatchedBySourceDelete(f"t.{SEQ} < {barrier}BD")
    with committing(session, note, step):
        statement.execute()


def merge_marked(
    session: SparkSession,
    last: DataFrame,
    table: Table,
    schema: TableSchema,
    note: CommitNote,
    step: str,
    *,
    kept: Sequence[str] = (),
    barriers: Sequence[Barrier] = (),
    bounds: Bounds | None = None,
) -> None:
    """Merge the last change of each key (key, row, seq, commit_ts, deleted_at), newer than all that the table holds.

    Other rows are marked as deleted by the first of `barriers` that takes them away. The rest is as in `merge`.
    """
    matches = [*_same_key(schema), *_within(schema, None if barriers else bounds)]
    values = _values(schema) | {DELETED_AT: "s.deleted_at"}
    statement = (
        delta_table(session, table)
        .alias("t")
        .merge(last.alias("s"), " AND ".join(matches))
        .whenMatchedUpdate(f"s.seq > t.{SEQ}", {**values, **{quoted(name): "NULL" for name in kept}})
        .whenNotMatchedInsert(values=values)
    )
    if barriers:
        older = f"t.{DELETED_AT} IS NULL AND t.{SEQ} < {max(barrier.below for barrier in barriers)}BD"
        gone = f"{taken_away(barriers, f't.{SEQ}')}.commit_ts"
        statement = statement.whenNotMatchedBySourceUpdate(older, {DELETED_AT: gone})
    with committing(session, note, step):
        statement.execute()


def merge_versions(
    session: SparkSession,
    moved: DataFrame,
    table: Table,
    schema: TableSchema,
    note: CommitNote,
    step: str,
    *,
    barriers: Sequence[Barrier] = (),
    bounds: Bounds | None = None,
) -> None:
    """Merge versions that are new or moved (see `versions.versions`): of a key at most one is held, the open one.

    Open ones of other keys end with the first of `barriers` that takes them away. `bounds` are those of `merge`.
    """
    matches = ["s.held", f"t.{OPEN}", *_same_key(schema), *_within(schema, None if barriers else bounds)]
    values = _values(schema) | {END_AT: "s.end"}
    statement = (
        delta_table(session, table)
        .alias("t")
        .merge(moved.alias("s"), " AND ".join(matches))
        .whenMatchedUpdate(None, values)
        .whenNotMatchedInsert("NOT s.held", {**values, START_AT: "s.start"})
    )
    if barriers:
        older = f"t.{OPEN} AND t.{SEQ} < {max(barrier.below for barrier in barriers)}BD"
        statement = statement.whenNotMatchedBySourceUpdate(older, {END_AT: taken_away(barriers, f"t.{SEQ}")})
    with committing(session, note, step):
        statement.execute()


def _same_key(schema: TableSchema) -> list[str]:
    return [f"t.{quoted(name)} = s.key.{quoted(name)}" for name in schema.key]


def _within(schema: TableSchema, bounds: Bounds | None) -> list[str]:
    first = f"t.{quoted(schema.key[0])}"
    return [] if bounds is None else [f"{first} >= {bounds[0]}", f"{first} <= {bounds[1]}"]


def _values(schema: TableSchema) -> dict[str, str | Column]:
    values: dict[str, str | Column] = {quoted(c.name): f"s.row.{quoted(c.name)}" for c in schema.captured}
    return values | {SEQ: "s.seq", COMMIT_TS: "s.commit_ts"}
