"""The rows of a part of bronze in the order in which they are sent, and the rows that are gone without a `d`.

The order is by seq; rows that share one, which only those of a snapshot do (see `model.seq`), have one of two orders:

- By files (`file_order`), where Delta's log lists those of the part, and nothing else has to be looked at. Tasks read
  them without Spark.
- By table, key and image, which Spark brings about. Rows that are equal in all of these are the same row.

In either the n-th row is the same one whenever it is asked for. What was begun in one order is continued in it.

A TRUNCATE says nothing of the rows that there were, and the end of a repeated read nothing of those that it did not
find. A reader that keeps the last message of a key has to learn of them: each becomes a `d` at the seq of that
`t` or `x`, with the image that it had last. They are looked for in bronze itself, as it was at the end of the part. In
a table without a key no row can be named, so there are none.

Tasks make messages of most rows as they come in order (`task_records`), and the driver takes what they have made, a
partition after another: it holds two of these, so there are as many as there are rows for.
"""

from __future__ import annotations

import logging
import math
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.images.typed.columns import NotOurs
from lakehouse_cdc.lake import delta_log
from lakehouse_cdc.lake.direct.file_listing import files_of
from lakehouse_cdc.lake.file_systems import in_task
from lakehouse_cdc.lake.sessions import is_remote
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.table_layout import Layout, literal
from lakehouse_cdc.sinks.kafka.file_order import pieces
from lakehouse_cdc.sinks.kafka.file_rows import CHANGES, RESETS, lines, looked_at
from lakehouse_cdc.sinks.kafka.task_records import LINE, NUMBER, Plan, change_of, unpacked

# what tasks are to write; asked once, with the table and schema id of all row changes
Planned: TypeAlias = "Callable[[Iterable[tuple[str, str]]], Plan]"
_log = logging.getLogger(__name__)
_GROUP_ROWS = 2_000_000  # of files that overlap: each task looks at the seqs of all of them
_ROWS = (Op.READ, Op.INSERT, Op.UPDATE, Op.DELETE)
_DIGITS = 38  # of a seq
_TASK_ROWS, _TASK_BYTES = 50_000, 48 << 20  # of a partition
_MOST_TASKS, _MANY = 10_000, 256
_SAMPLED = 5_000  # rows
# a text of what the order is by: no part of it has a zero byte. Rows of one table, seq and key are one, so an image is
# compared of rows without a key alone
_AT = (
    f"concat_ws('\\0', lpad(cast(seq AS string), {_DIGITS}, '0'), source_table, coalesce(to_json(key), ''), "
    "CASE WHEN key IS NULL THEN coalesce(to_json(after), '') ELSE '' END, op)"
)
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


@dataclass(frozen=True)
class Records:
    """Rows next to each other whose messages are made. Of each message the number of its row, from `first` on.

    `schema_ids`, `keys`, `values` and `seqs` are by message, too; of each row there is one at least.
    """

    first: int
    end: int
    of: Sequence[int]
    schema_ids: Sequence[str]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    seqs: Sequence[bytes]

    def part(self, first: int, end: int) -> Records:
        """The rows of those numbers."""
        if (first, end) == (self.first, self.end):
            return self
        of = slice(bisect_left(self.of, first), bisect_left(self.of, end))
        return Records(
            first, end, self.of[of], self.schema_ids[of], self.keys[of], self.values[of], self.seqs[of]
        )  # fmt: skip

    def seq(self, row: int) -> int:
        """Of the row of that number."""
        return int(self.seqs[bisect_left(self.of, row)])


def rows_by_files(
    spark: SparkSession, layout: Layout, versions: Versions, plan: Planned, *, begun: bool = False
) -> Iterator[Row | Records] | None:
    """All rows of those commits, in the order by files; None where that cannot be had, or is not worth it.

    `begun`: rows have been sent in this order, so it is worth it. Each row is in one of what this gives.
    """
    if is_remote(spark) or not delta_log.is_at_hand(spark, layout.changes):
        return None
    if (listed := files_of(layout.changes, versions)) is None:
        return None
    folder = str(layout.changes.path)
    try:
        files, changes = looked_at(folder, listed)
    except (NotOurs, OSError, pa.ArrowException, KeyError) as error:
        _log.info("Spark orders the rows of %s of %s: %s", versions, layout.changes, error)
        return None
    cut = pieces(files, rows=_TASK_ROWS, size=_TASK_BYTES, most=sys.maxsize if begun else _GROUP_ROWS)
    if cut is None:
        return None
    task = in_task(partial(lines, plan(changes), folder))
    made = spark.sparkContext.parallelize(cut, max(1, len(cut))).mapPartitions(task)
    # while the driver sends what one task has made, the next one is at work
    return (piece for line in made.toLocalIterator(prefetchPartitions=True) for piece in of_line(*line))


def rows_by_keys(spark: SparkSession, layout: Layout, versions: Versions, plan: Planned) -> Iterator[Row | Records]:
    """All rows of those commits, and the rows that are gone by them, in the order by keys."""
    rows = versions.rows(spark, layout.changes).select(*_COLUMNS)
    met = rows.groupBy("source_table", "schema_id", "op").count().collect()
    changes = {(row["source_table"], row["schema_id"]) for row in met if row["op"] in CHANGES}
    resets = _resets(rows) if any(row["op"] in RESETS for row in met) else []
    most = sum(row["count"] for row in met)
    most += sum(_history(spark, layout, versions, table, seq).count() for table, seq, _ in resets)
    whole = reduce(DataFrame.unionByName, [_gone(spark, layout, versions, *reset) for reset in resets], rows)
    ordered = _ordered(whole, most, sampled=not resets)
    columns = (
        F.expr(f"ltrim('0', left(_at, {_DIGITS}))").alias("seq"), "op", "source_table", "key", "before", "after",
        F.unix_micros("commit_ts").alias("commit_us"), F.col("position.file").alias("file"),
        F.col("position.pos").alias("pos"), F.col("position.gtid").alias("gtid"), "schema_id",
    )  # fmt: skip
    for line in ordered.select(*columns).mapInArrow(plan(changes).lines, LINE).toLocalIterator(prefetchPartitions=True):
        yield from of_line(line["rows"], line["records"], line["others"])


def _ordered(rows: DataFrame, most: int, *, sampled: bool) -> DataFrame:
    """The rows, `most` at most, in their order, which is that of the column `_at`.

    The driver holds what two tasks make of their partitions, so these are many. Those of few rows need no look at where
    partitions end, and no shuffle. `sampled`: that is looked for here, by some rows; Spark does it by a pass over all
    columns of all rows.
    """
    at, tasks = rows.withColumn("_at", F.expr(_AT)), -(-most // _TASK_ROWS)
    if tasks <= 1:
        return at.coalesce(1).sortWithinPartitions("_at")
    if sampled:
        tasks, bounds = _bounds(rows, most)
        if tasks <= _MANY:
            return at.repartitionById(len(bounds) + 1, _place(bounds, 0)).sortWithinPartitions("_at")
    return at.repartitionByRange(min(tasks, _MOST_TASKS), "_at").sortWithinPartitions("_at")


def _bounds(rows: DataFrame, count: int) -> tuple[int, list[str]]:
    """How many partitions of not too many rows and bytes there are, and where about each but the last ends; rising."""
    size = F.expr("coalesce(length(to_json(before)), 0) + coalesce(length(to_json(after)), 0)")
    some = rows.sample(fraction=min(1.0, _SAMPLED / count), seed=1).select(F.expr(_AT), size).collect()
    mean = sum(row[1] for row in some) / max(1, len(some))
    tasks = max(-(-count // _TASK_ROWS), math.ceil(count * mean / _TASK_BYTES))
    keys = sorted((row[0] for row in some), key=str.encode)
    return tasks, sorted({keys[len(keys) * i // tasks] for i in range(1, tasks) if keys}, key=str.encode)


def _place(bounds: Sequence[str], before: int) -> Column:
    """How many of the bounds are not above `_at`, and so many before."""
    if not bounds:
        return F.lit(before)
    half = len(bounds) // 2
    below = F.col("_at") < F.lit(bounds[half])
    return F.when(below, _place(bounds[:half], before)).otherwise(_place(bounds[half + 1 :], before + half + 1))


def of_line(rows: int, records: bytes | None, others: bytes | None) -> Iterator[Row | Records]:
    """The rows of a line of a task, in order."""
    made = Records(0, rows, (), (), (), (), ()) if records is None else _records(rows, unpacked(records))
    at = 0
    if others is not None:
        for row in unpacked(others).to_pylist():
            number = row[NUMBER]
            if at < number:
                yield made.part(at, number)
            yield _row(row)
            at = number + 1
    if at < rows:
        yield made.part(at, rows)


def _records(rows: int, batch: Any) -> Records:
    names, tables = batch.schema.metadata, batch.column("table").to_pylist()
    by_number = [names[str(i).encode()].decode() for i in range(len(names))]
    ids = [by_number[table] for table in tables] if len(by_number) > 1 else by_number * len(tables)
    keys, values = (batch.column(name).to_pylist() for name in ("key", "value"))
    seqs = [seq.encode() for seq in batch.column("seq").to_pylist()]
    return Records(0, rows, batch.column("row").to_pylist(), ids, keys, values, seqs)


def _row(row: dict[str, Any]) -> Row:
    change = change_of(row)
    return Row(
        change.seq, change.op, row["source_table"], change.key, change.before, change.after, change.commit_us,
        change.file, change.pos, change.gtid, row["schema_id"],
    )  # fmt: skip


def _resets(rows: DataFrame) -> list[tuple[str, Any, Any]]:
    """(table, seq, the seq that rows must not be below to stay) of each t and x row; a t takes all."""
    found = rows.where(F.col("op").isin(Op.TRUNCATE.value, Op.END.value))
    return [tuple(row) for row in found.select("source_table", "seq", F.expr(_BEGAN)).orderBy("seq").collect()]


def _history(spark: SparkSession, layout: Layout, versions: Versions, table: str, seq: Any) -> DataFrame:
    """The table's rows of bronze up to that seq."""
    history = read(spark, layout.changes, version=versions.last).select(*_COLUMNS)
    return history.where(f"source_table = {literal(table)} AND seq <= {seq}")


def _gone(spark: SparkSession, layout: Layout, versions: Versions, table: str, seq: Any, began: Any) -> DataFrame:
    """The rows of a table with a key that are there before that seq and not after it, each as a `d` at it."""
    history = _history(spark, layout, versions, table, seq)
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
