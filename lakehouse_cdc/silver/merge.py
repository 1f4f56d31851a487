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
from lakehouse_cdc.model.layout import COMMIT_TS, SEQ, Table, quoted
from lakehouse_cdc.model.standing import CommitNote
from lakehouse_cdc.schema.table import TableSchema

Bounds = tuple[str, str]  # the least and the greatest first key column of a batch, as SQL literals


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
    matches = [f"t.{quoted(name)} = s.key.{quoted(name)}" for name in schema.key]
    if bounds is not None and not barrier:
        first = f"t.{quoted(schema.key[0])}"
        matches += [f"{first} >= {bounds[0]}", f"{first} <= {bounds[1]}"]
    values: dict[str, str | Column] = {quoted(c.name): f"s.row.{quoted(c.name)}" for c in schema.captured}
    values |= {SEQ: "s.seq", COMMIT_TS: "s.commit_ts"}
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
