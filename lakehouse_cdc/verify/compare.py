"""Do two tables hold the same rows? By count and checksum of key buckets first, by key where those differ.

Both sides are in one canonical form (see `columns`) and hashed row by row with two independent 64-bit hashes; a bucket
is chosen by a hash of the key, so that a row lands in the same bucket on both sides and no collation is needed. Per
bucket: the count, the xor of one hash and the sum of the other. Rows that differ change both sums unless two 64-bit
hashes collide at once. Spark's xxhash64 passes over NULL, so (NULL, 1) and (1, NULL) would be alike: whether each value
is NULL is hashed as well. Rows without a key are compared whole, each kind by how often it is there.

A key that one side has twice is seen by the counts; each row of it but one is then a difference by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lakehouse_cdc.lake.sessions import kept
from lakehouse_cdc.model.key_repair import MOST_KEYS, Key
from lakehouse_cdc.model.table_layout import quoted
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
class NotRepresentable:
    """Values of a column of the source that the type of its silver column cannot hold: how many, and some keys.

    Silver holds the nearest value in these places. A row of which that is not so counts among the differences, too.
    """

    column: str
    values: int
    keys: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class TableResult:
    """The comparison of one table; `differences` names the first keys where `differing` counts them all.

    `rows` are the source's, `silver_rows` those of the layer that was compared with them. `by_image` of the source's
    rows were written since the position, and were read as the binlog's images have them. `notes` say what of the table
    was not compared, by design.
    """

    table: str
    rows: int
    silver_rows: int
    differing: int
    differences: tuple[Difference, ...]
    complete: bool = True  # False while the table's snapshot is unfinished: only the keys read so far were compared
    keys: tuple[Key, ...] | None = field(default=(), repr=False)  # all that differ; None: too many, or not the source's
    not_representable: tuple[NotRepresentable, ...] = ()
    by_image: int = 0
    notes: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """True if no row differs, and no value is one that cannot be held."""
        return self.differing == 0 and not self.not_representable

    def to_json(self) -> dict[str, Any]:
        """Plain data; keys as text where JSON has no form for them."""
        data = asdict(replace(self, keys=()))
        data["differences"] = [{**asdict(d), "key": _plain(d.key)} for d in self.differences]
        data["not_representable"] = [
            {**asdict(one), "keys": [_plain(key) for key in one.keys]} for one in self.not_representable
        ]
        del data["keys"]
        return {**data, "equal": self.equal}


def _plain(key: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in key.items()}


@dataclass(frozen=True)
class Compared:
    """The columns of both sides, all canonical, and those of the key (none: rows are compared as multisets).

    `typed` gives the SQL of a key column's value, as its layer's type, from that of its canonical form. `flags` are
    boolean columns of the source's side: for a column of both, whether its type cannot hold the value. `by_image` is
    one more, which says how a row was read.
    """

    columns: Sequence[str]
    keys: Sequence[str]
    typed: Callable[[str, str], str]
    flags: Mapping[str, str]
    by_image: str

    @property
    def told_by(self) -> Sequence[str]:
        """What tells rows apart."""
        return self.keys or self.columns


def compare(table: str, expected: DataFrame, actual: DataFrame, of: Compared, rows: int) -> TableResult:
    """Compare two DataFrames; `rows` is about how many rows there are, and sets the number of buckets.

    `expected` is read once, and a second time only if a bucket differs, or holds what cannot be represented.
    """
    keys, columns = of.told_by, of.columns
    buckets = max(8, min(100_000, rows // _ROWS_IN_A_BUCKET))
    counted = [of.by_image, *of.flags.values()]
    want, have = _sums(expected, keys, columns, buckets, counted), _sums(actual, keys, columns, buckets)
    joined = want.alias("w").join(have.alias("h"), "bucket", "full_outer")
    same = F.lit(True)
    for name in ("n", "x", "s"):
        same = same & F.col(f"w.{name}").eqNullSafe(F.col(f"h.{name}"))
    numbers = [F.col(f"w.f{i}").alias(f"f{i}") for i in range(len(counted))]
    differing = joined.select(
        "bucket", F.col("w.n").alias("wn"), F.col("h.n").alias("hn"), same.alias("same"), *numbers
    ).collect()
    by_image, *flagged = (sum(r[f"f{i}"] or 0 for r in differing) for i in range(len(counted)))
    unheld = tuple(
        NotRepresentable(column, n, _flagged(expected, of, flag))
        for (column, flag), n in zip(of.flags.items(), flagged, strict=True)
        if n
    )
    result = TableResult(
        table, sum(r.wn or 0 for r in differing), sum(r.hn or 0 for r in differing), 0, (),
        not_representable=unheld, by_image=by_image,
    )  # fmt: skip
    wrong = [r.bucket for r in differing if not r.same]
    if not wrong:
        return result
    if not of.keys:
        count, first = _surplus(expected, actual, keys, columns, buckets, wrong)
        return replace(result, differing=count, differences=first)
    count, first, every = _differences(expected, actual, of, buckets, wrong)
    return replace(result, differing=count, differences=first, keys=every)


def _flagged(expected: DataFrame, of: Compared, flag: str) -> tuple[dict[str, Any], ...]:
    """The keys of some rows that are flagged."""
    if not of.keys:
        return ()
    keys = [F.expr(of.typed(name, quoted(name))).alias(name) for name in of.keys]
    return tuple(row.asDict() for row in expected.where(flag).select(*keys).limit(_NAMED_KEYS).collect())


def _bucket(keys: Sequence[str], buckets: int) -> Column:
    return F.pmod(F.xxhash64(F.lit(3), *[F.col(quoted(k)) for k in keys]), F.lit(buckets)).alias("bucket")


def _hash(seed: int, columns: Sequence[str]) -> Column:
    values = [F.col(quoted(c)) for c in columns]
    return F.xxhash64(F.lit(seed), *values, *[v.isNull() for v in values])


def _sums(
    side: DataFrame, keys: Sequence[str], columns: Sequence[str], buckets: int, counted: Sequence[str] = ()
) -> DataFrame:
    """Per bucket the count and the checksums, and as f0, f1, ... in how many rows each of `counted` is true."""
    flags = [F.col(name).cast("int").alias(f"f{i}") for i, name in enumerate(counted)]
    hashed = side.select(_bucket(keys, buckets), _hash(1, columns).alias("a"), _hash(2, columns).alias("b"), *flags)
    return hashed.groupBy("bucket").agg(
        F.count(F.lit(1)).alias("n"),
        F.bit_xor("a").alias("x"),
        F.sum(F.col("b").cast("decimal(38,0)")).alias("s"),
        *[F.sum(f"f{i}").alias(f"f{i}") for i in range(len(counted))],
    )


def _differences(
    expected: DataFrame, actual: DataFrame, of: Compared, buckets: int, wrong: Sequence[int]
) -> tuple[int, tuple[Difference, ...], tuple[Key, ...] | None]:
    keys, columns = of.keys, of.columns
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
        *[F.expr(of.typed(columns[i], f"coalesce(w{i}, h{i})")).alias(f"k{i}") for i in at],
        F.col("w").isNull().alias("extra"),
        F.col("h").isNull().alias("missing"),
        F.array(*unequal).alias("unequal"),
    )
    with kept(shown) as shown:
        first = shown.orderBy(*[f"k{i}" for i in at]).limit(_NAMED_KEYS).collect()
        count = shown.count()
        named = shown.select(*[F.col(f"k{i}").alias(columns[i]) for i in at])
        every = None if count > MOST_KEYS else distinct_keys(named, keys, MOST_KEYS)
        return count, tuple(_difference(row, at, columns) for row in first), every


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
    with kept(both.groupBy(*names).agg(F.sum("n").alias("n")).where("n <> 0")) as odd:
        total = odd.agg(F.sum(F.abs("n")).alias("n")).head()
        first = odd.orderBy(*names).limit(_NAMED_KEYS).collect()
        surplus = (
            Difference({c: row[f"c{i}"] for i, c in enumerate(columns)}, "missing" if row.n > 0 else "extra")
            for row in first
        )
        return int(total.n or 0) if total is not None else 0, tuple(surplus)


def distinct_keys(rows: DataFrame, names: Sequence[str], most: int) -> tuple[Key, ...]:
    """Each key of the rows once, of `most` of them, as values that no time zone of a session has touched."""
    key = F.struct(*[F.col(quoted(name)) for name in names]).alias("key")
    keys = rows.select(key).distinct().limit(most).select(F.to_variant_object("key").alias("key")).collect()
    return tuple(decode(row.key.value, row.key.metadata) for row in keys)


def _difference(row: Any, at: Sequence[int], columns: Sequence[str]) -> Difference:
    key = {columns[i]: row[f"k{i}"] for i in at}
    if row.extra or row.missing:
        return Difference(key, "extra" if row.extra else "missing")
    return Difference(key, "different", tuple(c for c, is_other in zip(columns, row.unequal, strict=True) if is_other))
