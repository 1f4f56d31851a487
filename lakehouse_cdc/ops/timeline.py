"""The marks of `model.clock` that matter for a time: from the ledger, and from later commits of bronze."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.lake.commits import newest_first
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.model.clock import Bounds, Mark, Timeline
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.silver.tables.ledger_table import BOUNDS, require_ledger


def timeline(spark: SparkSession, layout: Layout, time: int, newest: int) -> Timeline:
    """Those around `time` (microseconds since 1970), none after the seq `newest`.

    The last one of which `by` is not later begins them, so what is older is not read.
    """
    kept, last = _from_ledger(spark, layout, time)
    return Timeline(mark for mark in [*kept, *_from_bronze(spark, layout, time, last)] if mark.seq <= newest)


def _from_ledger(spark: SparkSession, layout: Layout, time: int) -> tuple[list[Mark], int]:
    """And the seq of the ledger's last row, 0 if it has none."""
    if not require_ledger(SparkReader(spark), layout):
        return [], 0
    ledger = read(spark, layout.ledger)
    newest = ledger.agg(F.max("seq")).head()
    if newest is None or newest[0] is None or BOUNDS not in ledger.columns:
        return [], int(newest[0] or 0) if newest is not None else 0
    marks = ledger.select(F.explode(BOUNDS).alias("m")).selectExpr(
        "m.seq", "unix_micros(m.`after`) AS since", "unix_micros(m.`by`) AS until"
    )
    around = marks.agg(
        F.max(F.when(F.col("until") <= time, F.col("seq"))), F.min(F.when(F.col("since") > time, F.col("seq")))
    ).head()
    low, high = (None, None) if around is None else around
    if low is not None:
        marks = marks.where(F.col("seq") >= F.lit(low))
    if high is not None:
        marks = marks.where(F.col("seq") <= F.lit(high))
    return [Mark(int(row[0]), Bounds(row[1], row[2])) for row in marks.collect()], int(newest[0])


def _from_bronze(spark: SparkSession, layout: Layout, time: int, last: int) -> list[Mark]:
    """Those after the seq `last`."""
    marks = []
    for commit in newest_first(spark, layout.changes):
        if commit.note is None:
            continue
        mark = commit.note.source_point.mark
        if mark.seq <= last:
            break
        marks.append(mark)
        if 0 < mark.bounds.by <= time:
            break
    return marks
