"""Do two tables hold the same rows? By count and checksum of key buckets first, by key where those differ.

Both sides are typed the same way (silver's columns) and hashed row by row with two independent 64-bit hashes; a bucket
is chosen by a hash of the key, so that a row lands in the same bucket on both sides and no collation is needed. Per
bucket: the count, the xor of one hash and the sum of the other. Rows that differ change both sums unless two 64-bit
hashes collide at once. Spark's xxhash64 passes over NULL, so (NULL, 1) and (1, NULL) would be alike: whether each value
is NULL is hashed as well. Rows without a key are compared whole, each kind by how often it is there.

A key that one side has twice is told by the counts; each row of it but one is then a difference by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lakehouse_cdc.model.layout import quoted
from lakehouse_cdc.model.repair import MOST_KEYS, Key
from lakehouse_cdc.model.variant import decode

_NAMED_KEYS = 20  # differing keys that a result names
_ROWS_IN_A_BUCKET = 10_000


@dataclass(frozen=True)
class Difference:
    """One row that differs: its key, and whether silver lacks it, has it too much, or has other values in `columns`."""

    key: dict[str, Any]
    kind: str  # missing | extra | different
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableResult:
    """The comparison of one table; `differences` names the first keys where `differing` counts them all."""

    table: str
    rows: int
    silver_rows: int
    differing: int
    differences: tuple[Difference, ...]
    complete: bool = True  # False while the table's snapshot is unfinished: only the keys read so far were compared
    keys: tuple[Key, ...] | None = field(default=(), repr=False)  # all that differ; None: too many, or not the source's

    @property
    def equal(self) -> bool:
        """True if no row differs."""
        return self.differing == 0

    def to_json(self) -> dict[str, Any]:
        """Plain data; keys as text where JSON has no form for them."""
        data = asdict(replace(self, keys=()))
        data["differences"] = [{**asdict(d), "key": {k: str(v) for k, v in d.key.items()}} for d in self.differences]
        del data["keys"]
        return {**data, "equal": self.equal}


def compare(
    table: str, expected: DataFrame, actual: DataFrame, keys: Sequence[str], columns: Sequence[str], rows: int
) -> TableResult:
    """Compare two DataFrames with these columns; `rows` is about how many there are, and sets the buckets.

    Without `keys`, as multisets of rows. `expected` is read once, and a second time only if a bucket differs.
    """
    told_apart, keys = bool(keys), keys or columns
    buckets = max(8, min(100_000, rows // _ROWS_IN_A_BUCKET))
    want, have = (_sums(side, keys, columns, buckets) for side in (expected, actual))
    joined = want.alias("w").join(have.alias("h"), "bucket", "full_outer")
    same = F.lit(True)
    for name in ("n", "x", "s"):
        same = same & F.col(f"w.{name}").eqNullSafe(F.col(f"h.{name}"))
    found = joined.select("bucket", F.col("w.n").alias("wn"), F.col("h.n").alias("hn"), same.alias("same")).collect()
    source_rows, silver_rows = sum(r.wn or 0 for r in found), sum(r.hn or 0 for r in found)
    wrong = [r.bucket for r in found if not r.same]
    if not wrong:
        return TableResult(table, source_rows, silver_rows, 0, ())
    if not told_apart:
        count, first = _surplus(expected, actual, keys, columns, buckets, wrong)
        return TableResult(table, source_rows, silver_rows, count, first)
    count, first, every = _differences(expected, actual, keys, columns, buckets, wrong)
    return TableResult(table, source_rows, silver_rows, count, first, keys=every)


def _bucket(keys: Sequence[str], buckets: int) -> Column:
    return F.pmod(F.xxhash64(F.lit(3), *[F.col(quoted(k)) for k in keys]), F.lit(buckets)).alias("bucket")


def _hash(seed: int, columns: Sequence[str]) -> Column:
    values = [F.col(quoted(c)) for c in columns]
    return F.xxhash64(F.lit(seed), *values, *[v.isNull() for v in values])


def _sums(side: DataFrame, keys: Sequence[str], columns: Sequence[str], buckets: int) -> DataFrame:
    hashed = side.select(_bucket(keys, buckets), _hash(1, columns).alias("a"), _hash(2, columns).alias("b"))
    return hashed.groupBy("bucket").agg(
        F.count(F.lit(1)).alias("n"),
        F.bit_xor("a").alias("x"),
        F.sum(F.col("b").cast("decimal(38,0)")).alias("s"),
    )


def _differences(
    expected: DataFrame,
    actual: DataFrame,
    keys: Sequence[str],
    columns: Sequence[str],
    buckets: int,
    wrong: Sequence[int],
) -> tuple[int, tuple[Difference, ...], tuple[Key, ...] | None]:
    same_key = Window.partitionBy(*[F.col(quoted(k)) for k in keys]).orderBy(_hash(1, columns))

    def side(frame: DataFrame, name: str) -> DataFrame:
        mine = frame.where(_bucket(keys, buckets).isin(list(wrong)))
        renamed = [F.col(quoted(c)).alias(f"{name}{i}") for i, c in enumerate(columns)]
        return mine.select(*renamed, F.row_number().over(same_key).alias(f"{name}_n"), F.lit(True).alias(name))

    want, have = side(expected, "w"), side(actual, "h")
    at = [columns.index(k) for k in keys]
    on = F.col("w_n") == F.col("h_n")
    for i in at:
        on = on & (F.col(f"w{i}") == F.col(f"h{i}"))
    unequal = [~F.col(f"w{i}").eqNullSafe(F.col(f"h{i}")) for i in range(len(columns))]
    any_unequal = F.col("w").isNull() | F.col("h").isNull()
    for one in unequal:
        any_unequal = any_unequal | one
    differing = want.join(have, on, "full_outer").where(any_unequal)
    shown = differing.select(
        *[F.coalesce(F.col(f"w{i}"), F.col(f"h{i}")).alias(f"k{i}") for i in at],
        F.col("w").isNull().alias("extra"),
        F.col("h").isNull().alias("missing"),
        F.array(*unequal).alias("unequal"),
    ).persist()
    try:
        first = shown.orderBy(*[f"k{i}" for i in at]).limit(_NAMED_KEYS).collect()
        count = shown.count()
        named = shown.select(*[F.col(f"k{i}").alias(columns[i]) for i in at])
        every = None if count > MOST_KEYS else distinct_keys(named, keys, MOST_KEYS)
        return count, tuple(_difference(row, at, columns) for row in first), every
    finally:
        shown.unpersist()


def _surplus(
    expected: DataFrame,
    actual: DataFrame,
    keys: Sequence[str],
    columns: Sequence[str],
    buckets: int,
    wrong: Sequence[int],
) -> tuple[int, tuple[Difference, ...]]:
    """How many rows more one side has than the other of each kind of row, and the first of these kinds, whole."""

    def side(frame: DataFrame, n: int) -> DataFrame:
        mine = frame.where(_bucket(keys, buckets).isin(list(wrong)))
        return mine.select(*[F.col(quoted(c)).alias(f"c{i}") for i, c in enumerate(columns)], F.lit(n).alias("n"))

    names = [f"c{i}" for i in range(len(columns))]
    both = side(expected, 1).unionByName(side(actual, -1))
    odd = both.groupBy(*names).agg(F.sum("n").alias("n")).where("n <> 0").persist()
    try:
        total = odd.agg(F.sum(F.abs("n")).alias("n")).head()
        first = odd.orderBy(*names).limit(_NAMED_KEYS).collect()
        found = (
            Difference({c: row[f"c{i}"] for i, c in enumerate(columns)}, "missing" if row.n > 0 else "extra")
            for row in first
        )
        return int(total.n or 0) if total is not None else 0, tuple(found)
    finally:
        odd.unpersist()


def distinct_keys(rows: DataFrame, names: Sequence[str], most: int) -> tuple[Key, ...]:
    """Each key of the rows once, of `most` of them, as values that no time zone of a session has touched."""
    key = F.struct(*[F.col(quoted(name)) for name in names]).alias("key")
    found = rows.select(key).distinct().limit(most).select(F.to_variant_object("key").alias("key")).collect()
    return tuple(decode(row.key.value, row.key.metadata) for row in found)


def _difference(row: Any, at: Sequence[int], columns: Sequence[str]) -> Difference:
    key = {columns[i]: row[f"k{i}"] for i in at}
    if row.extra or row.missing:
        return Difference(key, "extra" if row.extra else "missing")
    return Difference(key, "different", tuple(c for c, is_other in zip(columns, row.unequal, strict=True) if is_other))
