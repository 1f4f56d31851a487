"""One commit that brings a silver table to a position: an append into an empty table, else a MERGE.

Both are told apart by Delta under one application id, so a batch that was appended and is replayed, and now finds the
table full, is skipped as it would be had it been merged. Every clause compares seqs, so even a batch that Delta does
not know (a new checkpoint) cannot move a row backwards.

A MERGE costs what it reads, twice: the files whose range of the first key column meets the batch's. So a table is
loaded in files of a limited number of rows, each as narrow a range as the snapshot's order gives, and no commit may
undo that: what Delta compacts by itself after a MERGE are the small files of batches alone, put together among
themselves. Left to its defaults it takes a large file along each time, which costs more than the MERGE.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.lake.commits import writer_options
from lakehouse_cdc.lake.direct.rust_table import MANY, SMALL, TOGETHER
from lakehouse_cdc.lake.merging import Merge
from lakehouse_cdc.lake.tables import append
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.own_columns import END_AT, START_AT
from lakehouse_cdc.model.table_layout import Table, quoted
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.schema.type_registry import Kind
from lakehouse_cdc.schema.types import require
from lakehouse_cdc.silver.batch.contents import Barrier
from lakehouse_cdc.silver.batch.typed_columns import laid_out
from lakehouse_cdc.silver.definition.column_mapping import Shape
from lakehouse_cdc.silver.definition.form import OPEN
from lakehouse_cdc.silver.forms.writers.versions import taken_away

# how silver's files come to be, in a session that writes them
FILES = {
    "spark.sql.files.maxRecordsPerFile": "500000",
    "spark.databricks.delta.autoCompact.minNumFiles": str(MANY),
    "spark.databricks.delta.autoCompact.minFileSize": str(SMALL),
    "spark.databricks.delta.autoCompact.maxFileSize": str(TOGETHER),
    # else INT96, of which deltalake has nanoseconds, so the years 1677 to 2262 (a TIMESTAMP of MySQL is never outside)
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
_RANGED = (Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64, Kind.DECIMAL, Kind.DATE)


@dataclass(frozen=True)
class Bounds:
    """Where all keys of a batch are: what a column of the table is, each as SQL after its name.

    `first`: so many of its first characters are compared. Only by whole values Delta leaves files out.
    """

    column: str
    comparisons: tuple[str, ...]
    first: int | None = None

    def of(self, alias: str = "") -> str:
        """SQL: whether a row of the table is within them."""
        column = f"{alias}{quoted(self.column)}"
        compared = column if self.first is None else f"left({column}, {self.first})"
        return " AND ".join(f"{compared} {one}" for one in self.comparisons)


def bounds_of(changes: DataFrame, schema: TableSchema) -> Bounds | None:
    """The range of the first key column, where its type has one that Delta keeps statistics of."""
    column = schema.key_columns[0]
    mapped = require(column, schema.name)
    if mapped.kind not in _RANGED:
        return None
    first = F.col("key").getField(column.name)
    ends = changes.agg(F.min(first).alias("low"), F.max(first).alias("high")).head()
    if ends is None or ends["low"] is None:
        return None
    low, high = (f"CAST('{ends[end]}' AS {mapped.silver})" for end in ("low", "high"))
    return Bounds(column.name, (f">= {low}", f"<= {high}"))


def load(rows: DataFrame, table: Table, shape: Shape, note: CommitNote, step: str) -> None:
    """Append typed changes of distinct keys (row, seq, commit_ts), none of them a delete, to an empty table."""
    append(rows.select(*laid_out(shape, table.own)), table, writer_options(note, step))


def merge(
    session: SparkSession,
    changes: DataFrame,
    table: Table,
    shape: Shape,
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
    matches = [*_same_key(table, shape.schema), *_within(None if barrier else bounds)]
    values, seq = _values(table, shape), table.own.seq
    statement = (
        Merge(table, changes, " AND ".join(matches))
        .when_matched_delete(f"s.op = 'd' AND s.seq > t.{seq}")
        .when_matched_update(f"s.op <> 'd' AND s.seq > t.{seq}", {**values, **{quoted(name): "NULL" for name in kept}})
        .when_not_matched_insert("s.op <> 'd'", values)
    )
    if barrier:
        # a key that is in the batch with an older seq was taken out of it before, so it is not matched either
        statement = statement.when_not_matched_by_source_delete(f"t.{seq} < {barrier}BD AND {table.rows('t.')}")
    statement.commit(session, note, step)


def merge_marked(
    session: SparkSession,
    last: DataFrame,
    table: Table,
    shape: Shape,
    note: CommitNote,
    step: str,
    *,
    kept: Sequence[str] = (),
    barriers: Sequence[Barrier] = (),
    bounds: Bounds | None = None,
) -> None:
    """Merge the last change of each key (key, row, seq, commit_ts, deleted_at), newer than all that the table holds.

    Other rows are marked as deleted by the first of `barriers` that takes them away; so is one that was missed later,
    of which row is NULL: it is marked as it is. The rest is as in `merge`.
    """
    matches = [*_same_key(table, shape.schema), *_within(None if barriers else bounds)]
    own = table.own
    values = _values(table, shape) | {own.deleted_at: "s.deleted_at"}
    taken = taken_away(barriers, f"t.{own.seq}")
    before = f"{taken}.seq < s.seq"
    missed: dict[str, str] = {
        own.seq: f"IF({before}, t.{own.seq}, s.seq)",
        own.commit_ts: f"IF({before}, t.{own.commit_ts}, s.commit_ts)",
        own.deleted_at: f"IF({before}, {taken}.commit_ts, s.deleted_at)",
    }
    statement = (
        Merge(table, last, " AND ".join(matches))
        .when_matched_update(
            f"s.row IS NOT NULL AND s.seq > t.{own.seq}", {**values, **{quoted(name): "NULL" for name in kept}}
        )
        .when_matched_update(f"s.row IS NULL AND s.seq > t.{own.seq} AND t.{own.deleted_at} IS NULL", missed)
        .when_not_matched_insert("s.row IS NOT NULL", values)
    )
    if barriers:
        older = f"t.{own.deleted_at} IS NULL AND t.{own.seq} < {max(barrier.below for barrier in barriers)}BD"
        older = f"{older} AND {table.rows('t.')}"
        statement = statement.when_not_matched_by_source_update(older, {own.deleted_at: f"{taken}.commit_ts"})
    statement.commit(session, note, step)


def merge_versions(
    session: SparkSession,
    moved: DataFrame,
    table: Table,
    shape: Shape,
    note: CommitNote,
    step: str,
    *,
    barriers: Sequence[Barrier] = (),
    bounds: Bounds | None = None,
) -> None:
    """Merge versions that are new or moved (see `versions.versions`): of a key at most one is held, the open one.

    Open ones of other keys end with the first of `barriers` that takes them away. `bounds` are those of `merge`.
    """
    matches = [
        "s.held",
        f"t.{OPEN}",
        *_same_key(table, shape.schema),
        *_within(None if barriers else bounds),
    ]
    values, seq = _values(table, shape) | {END_AT: "s.end"}, table.own.seq
    statement = (
        Merge(table, moved, " AND ".join(matches))
        .when_matched_update(None, values)
        .when_not_matched_insert("NOT s.held", {**values, START_AT: "s.start"})
    )
    if barriers:
        older = f"t.{OPEN} AND t.{seq} < {max(barrier.below for barrier in barriers)}BD"
        statement = statement.when_not_matched_by_source_update(
            f"{older} AND {table.rows('t.')}", {END_AT: taken_away(barriers, f"t.{seq}")}
        )
    statement.commit(session, note, step)


def _same_key(table: Table, schema: TableSchema) -> list[str]:
    same = [f"t.{quoted(name)} = s.key.{quoted(name)}" for name in schema.key]
    return same if table.part is None else [table.rows("t."), *same]


def _within(bounds: Bounds | None) -> list[str]:
    return [] if bounds is None else [bounds.of("t.")]


def _values(table: Table, shape: Shape) -> dict[str, str]:
    values: dict[str, str] = {quoted(name): f"s.row.{quoted(name)}" for name in shape.names}
    metadata = shape.transform.metadata_of(shape.schema.name, "s.commit_ts")
    return (
        values
        | {quoted(name): text for name, text in (metadata | table.stamp).items()}
        | {table.own.seq: "s.seq", table.own.commit_ts: "s.commit_ts"}
    )
