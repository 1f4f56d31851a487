"""What silver remembers of rows that are gone, in a table beside each silver table.

A delete takes the row, and with it the seq that would keep an older change from bringing it back. So the delete's key
and seq are kept (op `d`). A truncation, and the end of a repeated snapshot, say that every row older than a seq is
gone: a barrier (op `b`), kept as long.

Tombstones are pruned by age. What is pruned leaves a horizon (op `h`): everything up to that seq has been applied, so a
change at or below it, which only a replay can bring, has nothing to add and is ignored. Thus pruning never lets a key
come back; it only ends the time in which a change that was *never* applied may still arrive late. Bronze is written
and read in the order of seq, so in normal work no such change exists.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.lake.commits import writer_options
from lakehouse_cdc.lake.table_state import Columns
from lakehouse_cdc.lake.tables import append, read, write
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.table_layout import Table
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.batch.typed_columns import key_type
from lakehouse_cdc.silver.tables.guards import BARRIER, DELETE, HORIZON, Guards


def columns(schema: TableSchema) -> Columns:
    """`seq` is the delete's, the barrier or the horizon; `key` is NULL but for a delete."""
    return [
        ("op", "string"),
        ("key", key_type(schema)),
        ("seq", "decimal(38,0)"),
        ("applied_at", "timestamp"),
    ]


def guards(spark: SparkSession, table: Table) -> Guards:
    """The guards that are in the table. Only one writer adds to it, so it need not ask twice."""
    rows = read(spark, table).groupBy("op").agg(F.max("seq").alias("seq")).collect()
    return Guards.of({row["op"]: int(row["seq"]) for row in rows})


def bury(
    spark: SparkSession,
    table: Table,
    schema: TableSchema,
    deleted: DataFrame | None,
    barrier: int,
    note: CommitNote,
    step: str,
) -> None:
    """Add the deletes of a batch (columns key, seq) and its barrier (0 for none), once for that `step` of it."""
    rows = []
    if deleted is not None:
        rows.append(deleted.select(F.lit(DELETE).alias("op"), "key", "seq"))
    if barrier:
        nothing = f"CAST(NULL AS {key_type(schema)}) AS key"
        rows.append(spark.range(1).selectExpr(f"'{BARRIER}' AS op", nothing, f"{barrier}BD AS seq"))
    if not rows:
        return
    both = rows[0] if len(rows) == 1 else rows[0].unionByName(rows[1])
    stamped = both.select(
        "op", "key", F.col("seq").cast("decimal(38,0)").alias("seq"), F.current_timestamp().alias("applied_at")
    )
    append(stamped, table, writer_options(note, step))


def without_buried(spark: SparkSession, table: Table, latest: DataFrame, first: int) -> DataFrame:
    """`latest` (columns key, seq, op, ...) without the rows that a later delete has overtaken."""
    graves = read(spark, table).where(f"op = '{DELETE}' AND seq >= {first}BD")
    newest = graves.groupBy("key").agg(F.max("seq").alias("seq")).alias("g")
    overtaken = F.expr("l.key = g.key AND l.op <> 'd' AND l.seq < g.seq")
    return latest.alias("l").join(newest, overtaken, "left_anti")


def prune(spark: SparkSession, table: Table, schema: TableSchema, keep_days: float) -> Guards:
    """Replace the tombstones that were applied more than `keep_days` ago by a horizon, which is returned.

    One commit: the rows up to the horizon go as the horizon comes. Every change at or below it has been applied.
    """
    rows = read(spark, table)
    old = rows.where(F.expr(f"applied_at < current_timestamp() - INTERVAL {round(keep_days * 86400)} SECONDS"))
    newest = old.where(f"op <> '{HORIZON}'").agg(F.max("seq").alias("seq")).head()
    if newest is None or newest["seq"] is None:
        return Guards()
    horizon = int(newest["seq"])
    write(_horizon(spark, schema, horizon), table, {"replaceWhere": f"seq <= {horizon}BD"}, mode="overwrite")
    return Guards(horizon=horizon)


def forget(spark: SparkSession, table: Table, schema: TableSchema, horizon: int, note: CommitNote) -> None:
    """Replace all tombstones by a horizon, in the shape of the key of `schema`, in one commit.

    That is for a change of the key: everything older has been applied, so the horizon says all that they said. Done
    again, before anything was applied after it, it makes the same.
    """
    options: dict[str, str | int] = {"overwriteSchema": "true", "userMetadata": note.text()}
    write(_horizon(spark, schema, horizon), table, options, mode="overwrite")


def empty(spark: SparkSession, table: Table, schema: TableSchema) -> None:
    """Take all tombstones away; the table gets the shape of the key of `schema`."""
    write(_horizon(spark, schema, 0).where("false"), table, {"overwriteSchema": "true"}, mode="overwrite")


def _horizon(spark: SparkSession, schema: TableSchema, seq: int) -> DataFrame:
    return spark.sql(
        f"SELECT '{HORIZON}' AS op, CAST(NULL AS {key_type(schema)}) AS key, "
        f"CAST({seq}BD AS DECIMAL(38,0)) AS seq, current_timestamp() AS applied_at"
    )
