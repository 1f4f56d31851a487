"""From the changes of a table to the versions of its rows: one sort of each key's changes, whatever their number.

The changes of a key are in the order of seq, after the version that silver holds open for it, if there is one, and
among the barriers of the table (a truncation; the end of a repeated read), which are among the changes of every key.
Then each line needs to know of those around it only: a barrier takes the row away if the last change before it is
older than what it says; a change begins a version if no row existed before it, or one that differs in a tracked column;
and a version lasts to the next line that begins one or takes the row away. It holds what its last change says, of the
columns that are not tracked, too.

That is `model.history` written as windows, and is tested against it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from lakehouse_cdc.model.own_columns import START_AT, OwnColumns
from lakehouse_cdc.model.table_layout import quoted
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.schema.type_registry import Kind
from lakehouse_cdc.schema.types import require
from lakehouse_cdc.silver.batch.contents import Barrier
from lakehouse_cdc.silver.definition.column_mapping import Shape
from lakehouse_cdc.silver.definition.form import MOMENT

_OPEN_OP, _BARRIER_OP = "open", "barrier"


def moment(seq: int, commit_ts: int) -> str:
    """SQL: a `__START_AT` or `__END_AT`; `commit_ts` are microseconds since 1970."""
    return f"CAST(struct({seq}BD, timestamp_micros({commit_ts})) AS {MOMENT})"


def whole_key(schema: TableSchema) -> str:
    """SQL: whether a change can meet a version. One that exists since the key was another may have no such key yet."""
    return " AND ".join(f"{quoted(name)} IS NOT NULL" for name in schema.key)


def open_versions(versions: DataFrame, shape: Shape, kept: Sequence[str], own: OwnColumns) -> DataFrame:
    """Versions of a silver table, each as the line that the changes of its key follow."""

    def struct(names: Sequence[str]) -> Column:
        return F.struct(*[F.col(quoted(name)).alias(name) for name in names])

    return versions.select(
        struct(shape.schema.key).alias("key"),
        F.col(own.seq).alias("seq"),
        F.lit(_OPEN_OP).alias("op"),
        F.col(own.commit_ts).alias("commit_ts"),
        struct(shape.names).alias("row"),
        F.col(START_AT).alias("start"),
        (struct(kept) if kept else F.lit(None).cast("string")).alias("kept"),
    )


def first_read(changes: DataFrame) -> DataFrame:
    """The versions of rows that were read at one position, each key once, where there was none before."""
    start = F.struct("seq", "commit_ts").alias("start")
    return changes.select("key", "row", start, F.lit(None).cast(MOMENT).alias("end"), "seq", "commit_ts")


def versions(
    changes: DataFrame,
    open_ones: DataFrame | None,
    barriers: Sequence[Barrier],
    shape: Shape,
    track: Sequence[str] | None,
) -> DataFrame:
    """The versions that there are after `changes` (key, seq, op, commit_ts, row) of which each seq is greater than
    those of `open_ones` (see `open_versions`).

    Columns: key, row, start, end, seq, commit_ts; `held`: it is one of `open_ones`, and `moved`: not as it was; `kept`.
    """
    kept_type = "string" if open_ones is None else open_ones.schema["kept"].dataType
    lines = changes.select(
        "key", "seq", "op", "commit_ts", "row",
        F.lit(None).cast(MOMENT).alias("start"), F.lit(None).cast(kept_type).alias("kept"),
    )  # fmt: skip
    if open_ones is not None:
        lines = lines.unionByName(open_ones)
    if barriers:
        lines = _with_barriers(lines, barriers)
    return _cut(_begun(lines, shape, track))


def _with_barriers(lines: DataFrame, barriers: Sequence[Barrier]) -> DataFrame:
    """With a delete wherever a barrier takes a row away."""
    marks = lines.sparkSession.sql(f"SELECT at.seq, at.commit_ts, below FROM (SELECT inline({_marks(barriers)}))")
    every = lines.select("key").distinct().crossJoin(F.broadcast(marks)).withColumn("op", F.lit(_BARRIER_OP))
    lines = lines.unionByName(every, allowMissingColumns=True)
    is_barrier = F.col("op") == _BARRIER_OP
    # one that is at the seq of a read of all rows comes after what that has found
    so_far = Window.partitionBy("key").orderBy("seq", is_barrier)
    so_far = so_far.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    last = F.last(F.when(~is_barrier, F.col("seq")), ignorenulls=True).over(so_far)
    lines = lines.withColumn("last", last).where(~is_barrier | (F.col("last") < F.col("below")))
    return lines.withColumn("op", F.when(is_barrier, "d").otherwise(F.col("op"))).drop("last", "below")


def taken_away(barriers: Sequence[Barrier], seq: str) -> str:
    """SQL: the moment at which a row whose last change is at `seq` was taken away, if only barriers came since."""
    if not barriers:
        return f"(CAST(NULL AS {MOMENT}))"
    return f"try_element_at(filter({_marks(barriers)}, b -> b.below > {seq}), 1).at"


def _marks(barriers: Sequence[Barrier]) -> str:
    """SQL: all of them, as an array of (at, below) in their order."""
    marks = [
        f"struct({moment(b.seq, b.commit_ts)} AS at, CAST({b.below}BD AS DECIMAL(38,0)) AS below)" for b in barriers
    ]
    return f"array({', '.join(marks)})"


def _begun(lines: DataFrame, shape: Shape, track: Sequence[str] | None) -> DataFrame:
    """Each line with whether it is a row, and whether it begins a version."""
    before = F.lag(F.struct("is_row", "tracked")).over(_by_seq())
    lines = lines.withColumn("is_row", F.col("op") != "d").withColumn("tracked", _tracked(shape, track))
    lines = lines.withColumn("before", before)
    stood = F.coalesce(F.col("before.is_row"), F.lit(False))
    same = F.col("before.tracked").eqNullSafe(F.col("tracked"))
    return lines.withColumn("begins", F.col("is_row") & ~(stood & same)).drop("tracked", "before")


def _cut(lines: DataFrame) -> DataFrame:
    """The last line of each version, with where that began, and what ended it."""
    is_open = F.col("op") == _OPEN_OP
    at = F.struct("seq", "commit_ts")
    first = F.struct(F.coalesce(F.col("start"), at).alias("start"), is_open.alias("held"), "kept")
    begun = F.last(F.when(F.col("begins"), first), ignorenulls=True).over(_so_far())
    behind = F.lead(F.struct((F.col("begins") | ~F.col("is_row")).alias("ends"), at.alias("at"))).over(_by_seq())
    lines = lines.withColumn("begun", begun).withColumn("behind", behind)
    lasts = lines.where(F.col("is_row") & (F.col("behind").isNull() | F.col("behind.ends")))
    return lasts.select(
        "key", "row",
        F.col("begun.start").alias("start"), F.col("behind.at").cast(MOMENT).alias("end"), "seq", "commit_ts",
        F.col("begun.held").alias("held"), (~is_open | F.col("behind").isNotNull()).alias("moved"),
        F.col("begun.kept").alias("kept"),
    )  # fmt: skip


def _tracked(shape: Shape, track: Sequence[str] | None) -> Column:
    """What distinguishes a version from the next one; a VARIANT cannot be compared, its JSON can.

    Of all columns, the computed ones say nothing that the others do not.
    """
    json = {c.name for c in shape.schema.captured if require(c, shape.schema.name).kind is Kind.JSON}
    values = []
    for name in shape.names:
        if name not in shape.transform.computed if track is None else name in track:
            value = F.col("row").getField(name)
            values.append(F.to_json(value) if name in json else value)
    # a number in front: a struct without fields is none
    return F.struct(F.lit(0), *[value.alias(f"c{i}") for i, value in enumerate(values)])


def _by_seq() -> WindowSpec:
    return Window.partitionBy("key").orderBy("seq")


def _so_far() -> WindowSpec:
    return _by_seq().rowsBetween(Window.unboundedPreceding, Window.currentRow)
