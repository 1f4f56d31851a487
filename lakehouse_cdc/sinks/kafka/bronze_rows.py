"""The rows of a part of bronze in the order in which they are sent, and the rows that are gone without a `d`.

The order is by seq, then by table, key and image: rows that are equal in all of these are the same row, so the n-th row
is the same one whenever it is asked for. (Only what a snapshot reads shares a seq: see `model.seq`.)

A TRUNCATE says nothing of the rows that there were, and the end of a repeated read nothing of those that it did not
find. A reader that keeps the last message of a key has to learn of them: each becomes a `d` at the seq of that
`t` or `x`, with the image that it had last. They are looked for in bronze itself, as it was at the end of the part. In
a table without a key no row can be named, so there are none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.table_layout import Layout, literal
from lakehouse_cdc.model.variant import decode

_ROWS = (Op.READ, Op.INSERT, Op.UPDATE, Op.DELETE)
_COLUMNS = ("seq", "op", "source_table", "key", "before", "after", "commit_ts", "position", "schema_id")
_BEGAN = "CASE WHEN op = 'x' THEN variant_get(after, '$', 'decimal(38,0)') ELSE seq END"


@dataclass(frozen=True)
class Row:
    """A row of bronze, decoded. `commit_us` is in microseconds since 1970."""

    seq: int
    op: Op
    table: str
    key: Any
    before: Any
    after: Any
    commit_us: int
    file: str
    pos: int
    gtid: str | None
    schema_id: str


def rows_in_order(spark: SparkSession, layout: Layout, versions: Versions) -> Iterator[Row]:
    """All rows of those commits, and the rows that are gone by them."""
    rows = versions.rows(spark, layout.changes).select(*_COLUMNS)
    gone = [_gone(spark, layout, versions, *reset) for reset in _resets(rows)]
    whole = reduce(DataFrame.unionByName, gone, rows)
    ordered = whole.orderBy("seq", "source_table", F.to_json("key"), F.to_json("after"), "op")
    columns = (
        F.expr("cast(seq AS string)"), "op", "source_table", "key", "before", "after",
        F.unix_micros("commit_ts"), "position.file", "position.pos", "position.gtid", "schema_id",
    )  # fmt: skip
    for row in ordered.select(*columns).toLocalIterator():
        seq, op, table, key, before, after, commit_us, file, pos, gtid, schema_id = row
        yield Row(
            int(seq), Op(op), table, _plain(key), _plain(before), _plain(after), commit_us or 0, file or "", pos or 0,
            gtid, schema_id,
        )  # fmt: skip


def _plain(variant: Any) -> Any:
    return None if variant is None else decode(bytes(variant.value), bytes(variant.metadata))


def _resets(rows: DataFrame) -> list[tuple[str, Any, Any]]:
    """(table, seq, the seq that rows must not be below to stay) of each t and x row; a t takes all."""
    found = rows.where(F.col("op").isin(Op.TRUNCATE.value, Op.END.value))
    return [tuple(row) for row in found.select("source_table", "seq", F.expr(_BEGAN)).orderBy("seq").collect()]


def _gone(spark: SparkSession, layout: Layout, versions: Versions, table: str, seq: Any, began: Any) -> DataFrame:
    """The rows of a table with a key that are there before that seq and not after it, each as a `d` at it."""
    history = read(spark, layout.changes, version=versions.last).select(*_COLUMNS)
    history = history.where(f"source_table = {literal(table)} AND seq <= {seq}")
    earlier = history.where(f"op IN ('t', 'x') AND seq < {seq}").agg(F.expr(f"max({_BEGAN})")).head()
    floor = 0 if earlier is None or earlier[0] is None else earlier[0]
    keyed = history.where(F.col("op").isin(*(op.value for op in _ROWS)) & F.col("key").isNotNull())
    keyed = keyed.where(f"seq < {seq}").withColumn("_identity", F.to_json("key"))
    last = keyed.groupBy("_identity").agg(F.max("seq").alias("seq")).where(f"seq >= {floor} AND seq < {began}")
    there = keyed.join(last, ["_identity", "seq"], "left_semi").where(f"op <> '{Op.DELETE.value}'")
    at = history.where(f"seq = {seq} AND op IN ('t', 'x')").select("commit_ts", "position").limit(1)
    placed = there.drop("commit_ts", "position").crossJoin(at)
    return placed.select(
        F.expr(f"cast({seq} AS decimal(38,0))").alias("seq"), F.lit(Op.DELETE.value).alias("op"), "source_table", "key",
        F.col("after").alias("before"), F.expr("CAST(NULL AS VARIANT)").alias("after"), "commit_ts", "position",
        "schema_id",
    )  # fmt: skip
