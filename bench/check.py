"""What the silver table must hold after a snapshot and some samples of changes, computed from how these are made."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from bench.lake import Lake
from bench.rows import ORDERS, Sample, change_seq, commit_ts, read_seq, row
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.model.own_columns import DEFAULT, END_AT, START_AT
from lakehouse_cdc.silver.definition.form import MOMENT

_FIRST = 1  # the position of the snapshot


def require_right(spark: SparkSession, lake: Lake, rows: int, samples: Mapping[int, Sample], scd: int) -> int:
    """The number of rows in the silver table; raises AssertionError unless they are just the right ones.

    `samples` are those that were applied to a snapshot of `rows` rows, by their positions.
    """
    lines = _lines(spark, rows, samples)
    wanted = _print(_versions(lines) if scd == 2 else _last(lines))
    found = _print(read(spark, lake.silver))
    assert found == wanted, f"{lake.silver} holds {found} (rows, sum of their hashes), and should hold {wanted}"
    return found[0]


def _lines(spark: SparkSession, rows: int, samples: Mapping[int, Sample]) -> DataFrame:
    """Each row of the snapshot, and each change: id, version, op, seq, commit_ts; `changed`: of a key that changes."""
    snapshot = spark.range(0, rows).selectExpr(
        "id * 2 AS id", "0 AS version", "'r' AS op", f"CAST({read_seq(_FIRST)}BD AS DECIMAL(38,0)) AS seq",
        f"{commit_ts(_FIRST)} AS commit_ts",
    )  # fmt: skip
    changes: DataFrame | None = None
    for pos, sample in samples.items():
        by_key = Window.partitionBy(F.lit(0)).orderBy("id")
        one = sample.frame(spark).withColumn("n", F.row_number().over(by_key) - 1)
        one = one.selectExpr(
            "id", f"{pos} AS version", "op", f"{change_seq(pos)} AS seq", f"{commit_ts(pos)} AS commit_ts"
        )
        changes = one if changes is None else changes.unionByName(one)
    if changes is None:
        return snapshot.withColumn("changed", F.lit(False))
    keys = F.broadcast(changes.select(F.col("id").alias("key")).distinct())
    marked = snapshot.join(keys, F.col("id") == F.col("key"), "left").withColumn("changed", F.col("key").isNotNull())
    return marked.drop("key").unionByName(changes.withColumn("changed", F.lit(True)))


def _last(lines: DataFrame) -> DataFrame:
    chosen = (
        lines.where("changed")
        .groupBy("id")
        .agg(F.max_by(F.struct("version", "op", "seq", "commit_ts"), "seq").alias("c"))
    )
    both = lines.where("NOT changed").drop("changed").unionByName(chosen.select("id", "c.*"))
    return both.where("op <> 'd'").selectExpr(*row(), f"seq AS {DEFAULT.seq}", f"commit_ts AS {DEFAULT.commit_ts}")


def _versions(lines: DataFrame) -> DataFrame:
    changed = lines.where("changed")
    ends = F.lead(F.struct("seq", "commit_ts")).over(Window.partitionBy("id").orderBy("seq"))
    both = changed.withColumn("end", ends).unionByName(
        lines.where("NOT changed").withColumn(
            "end", F.expr("CAST(NULL AS STRUCT<seq: DECIMAL(38,0), commit_ts: TIMESTAMP>)")
        )
    )
    return both.where("op <> 'd'").selectExpr(
        *row(), f"CAST(struct(seq, commit_ts) AS {MOMENT}) AS {START_AT}", f"CAST(end AS {MOMENT}) AS {END_AT}",
        f"seq AS {DEFAULT.seq}", f"commit_ts AS {DEFAULT.commit_ts}",
    )  # fmt: skip


def _print(frame: DataFrame) -> tuple[int, int]:
    """How many rows there are, and the sum of their hashes."""
    names = (
        [c.name for c in ORDERS.captured]
        + [n for n in (START_AT, END_AT) if n in frame.columns]
        + [DEFAULT.seq, DEFAULT.commit_ts]
    )
    hashes = F.xxhash64(*[F.col(f"`{name}`") for name in names]).cast("decimal(38,0)")
    found = frame.agg(F.count(F.lit(1)), F.sum(hashes)).head()
    assert found is not None
    return int(found[0]), int(found[1])
