"""Bring one silver table of a source without a key, with versions or soft deletes, from one position to the next.

A copy of a row is a row whose key is the digest of its columns and its number among those that are equal (see
`multiset`: they are a stack). So what bronze has of such a table is made into changes of keys, and these are applied as
`history` and `soft_deletes` apply those of any table.

Of one digest, let the height be how many copies there are after each event. One that comes and makes the height h is
the copy h; one that goes, and leaves h, was the copy h + 1. So of each number coming and going take turns, as changes
of a key do. A read of all rows and a truncation begin at height 0. The copies that a read finds have the numbers that
those before had, so a version that is found again continues; the others end, by a barrier at the seq of the read. At
the beginning of a batch the height is the greatest number of a copy that is there. The lowest numbers may be missing:
of an empty table a read has no row, so the copies that come after it are put on top until its end is met, which takes
those below. They are not missed, for no valid event reaches them.

What comes and goes at one seq (a row is updated to itself) is no change. No row may count twice, so rows that the table
holds are left out, as in `multiset`.

Guards: tests/silver/test_copies.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from lakehouse_cdc.lake.sessions import kept
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.own_columns import OwnColumns
from lakehouse_cdc.model.table_layout import quoted
from lakehouse_cdc.schema.table import Column
from lakehouse_cdc.silver.batch.contents import Barrier, Segment, TableBatch
from lakehouse_cdc.silver.definition.column_mapping import Shape
from lakehouse_cdc.silver.definition.form import Form, WriterArguments
from lakehouse_cdc.silver.forms.writers.history import HistoryWriter
from lakehouse_cdc.silver.forms.writers.multiset import bounds_of_digests, copies_missing, moves, newer, with_digest_of
from lakehouse_cdc.silver.forms.writers.soft_deletes import SoftWriter
from lakehouse_cdc.silver.forms.writers.versions import taken_away


class CopiesWriter:
    """The only writer of one such table, for rows of one schema, by the writer of a table with a key."""

    _of_keys: ClassVar[type[HistoryWriter | SoftWriter]]

    def __init__(self, form: Form, arguments: WriterArguments) -> None:
        self.shape = arguments.shape
        self._form, self._table = form, arguments.layout.silver_table(self.shape.schema.name)
        self._own = self._table.own
        of_copies = replace(arguments, shape=_with_key(self.shape, self._own), track=None)
        self._keyed = self._of_keys(form, of_copies)

    def write(self, session: SparkSession, segment: Segment, note: CommitNote) -> None:
        """Apply the segment's rows that the table does not hold yet, in one commit."""
        part, rows = newer(segment)
        if part is None or not (part.has_rows or part.barriers):
            return
        reads = _reads(part, rows)
        with kept(moves(rows, self.shape)) as moved:  # it is looked at from several sides
            bounds = bounds_of_digests(moved, self._own)
            there = read(session, self._table).where(self._form.is_current(self._own))
            there = there if bounds is None else there.where(bounds.of())
            heights = _heights(with_digest_of(there, moved, self._own), self._own)
            changes = _changes(moved, heights, _floors(part, reads), self._keyed.shape)
            older = self._keyed.has_rows(session)  # else nothing is there that the first read could take away
            barriers = [barrier for barrier in (*part.barriers, *reads) if older or barrier.below > part.first]
            barriers.sort(key=lambda barrier: barrier.seq)
            ready = self._ready(changes, barriers)
            self._keyed.add(session, ready, barriers, None if barriers else bounds, note)

    def _ready(self, changes: DataFrame, barriers: Sequence[Barrier]) -> DataFrame:
        """Changes of copies (key, seq, op, commit_ts, row) as `add` of the other writer takes them."""
        return changes


class CopiesHistoryWriter(CopiesWriter):
    """The writer of a table of every version of each copy."""

    _of_keys = HistoryWriter


class CopiesSoftWriter(CopiesWriter):
    """The writer of a table of copies with soft deletes."""

    _of_keys = SoftWriter

    def _ready(self, changes: DataFrame, barriers: Sequence[Barrier]) -> DataFrame:
        """The last change of each copy."""
        change = F.struct("seq", "op", "commit_ts", "row")
        last = changes.groupBy("key").agg(F.max_by(change, "seq").alias("last")).select("key", "last.*")
        deleted_at = f"IF(op = 'd', commit_ts, {taken_away(barriers, 'seq')}.commit_ts)"
        return last.select("key", "row", "seq", "commit_ts", F.expr(deleted_at).alias("deleted_at"))


def _with_key(shape: Shape, own: OwnColumns) -> Shape:
    """The shape of the same table as one with a key: the digest and the number."""
    key = (
        Column(own.row_hash, "varchar", nullable=False, length=64, charset="ascii"),
        Column(own.row_copy, "int", nullable=False),
    )
    schema = replace(shape.schema, columns=(*shape.schema.captured, *key), key=tuple(column.name for column in key))
    return Shape.of(schema, replace(shape.transform, rename={}, filter=None))  # both are done with


def _reads(part: TableBatch, rows: DataFrame) -> list[Barrier]:
    """The reads of all rows in a batch, each as a barrier: no older copy is there unless it was found."""
    if "r" not in part.ops:
        return []
    reads = rows.where("op = 'r'").selectExpr("seq", "unix_micros(commit_ts) AS commit_ts").distinct().collect()
    return [Barrier(int(row["seq"]), row["commit_ts"], int(row["seq"])) for row in reads]


def _floors(part: TableBatch, reads: Sequence[Barrier]) -> list[int]:
    """The seqs at which the stacks begin at height 0: of truncations and reads."""
    return sorted(barrier.seq for barrier in (*part.barriers, *reads) if barrier.below == barrier.seq)


def _heights(there: DataFrame, own: OwnColumns) -> DataFrame:
    """By digest: the greatest number of a copy that is there, and the one below the least."""
    copies = there.groupBy(F.col(own.row_hash).alias("digest"))
    return copies.agg(F.max(own.row_copy).alias("top"), (F.min(own.row_copy) - 1).alias("bottom"))


def _changes(moved: DataFrame, heights: DataFrame, floors: Sequence[int], shape: Shape) -> DataFrame:
    """The events of `moved` as changes of copies: key, seq, op (`c` or `d`), commit_ts, row.

    Raises TableError where more copies go than there are.
    """
    begun = f"size(filter(array({', '.join(f'{floor}BD' for floor in floors)}), f -> f <= seq))" if floors else "0"
    net = moved.groupBy("digest", "seq").agg(
        F.sum("n").cast("int").alias("net"), F.first("row").alias("row"), F.first("commit_ts").alias("commit_ts")
    )
    one_by_one = net.where("net <> 0").withColumn("of", F.explode(F.expr("sequence(1, abs(net))")))
    lines = one_by_one.selectExpr("digest", "seq", "row", "commit_ts", "of", "sign(net) AS n", f"{begun} AS begun")
    so_far = Window.partitionBy("digest", "begun").orderBy("seq", "of")
    height = F.sum("n").over(so_far.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    lines = lines.withColumn("height", height).join(heights, "digest", "left")
    lines = lines.selectExpr(
        "digest", "seq", "row", "commit_ts", "n",
        "CAST(height + IF(n < 0, 1, 0) + IF(begun = 0, coalesce(top, 0), 0) AS INT) AS copy",
        "IF(begun = 0, coalesce(bottom, 0), 0) AS bottom", "begun",
    )  # fmt: skip
    # what was missed before all rows were read again is no trouble any more
    if not lines.where(f"n < 0 AND copy <= bottom AND begun = {len(floors)}").isEmpty():
        raise copies_missing(shape.schema.name)
    key = [F.col(of).alias(name) for of, name in zip(("digest", "copy"), shape.schema.key, strict=True)]
    row = [*(F.col(f"row.{quoted(n)}").alias(n) for n in shape.names if n not in shape.schema.key), *key]
    in_order = [F.col(f"row.{quoted(name)}") for name in shape.names]
    lines = lines.select(
        "seq",
        "commit_ts",
        F.expr("IF(n > 0, 'c', 'd')").alias("op"),
        F.struct(*key).alias("key"),
        F.struct(*row).alias("row"),
    )
    return lines.select("key", "seq", "op", "commit_ts", F.struct(*in_order).alias("row"))
