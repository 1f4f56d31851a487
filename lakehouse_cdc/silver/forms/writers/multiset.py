"""Bring one silver table of a source without a key from one position to the next: as many copies as the source has.

Each copy of a row is a row of the table. Those of one digest (of all columns that the source has) are numbered: 1, 2,
... without a gap. They are a stack: a row that comes is put on top, one that goes is taken from
there. Equal rows are the same to the source, so which of them goes is ours to choose, and this choice has three
properties. A batch costs what it changes, for only digests that occur in it are looked at. The seq of a copy is that of
the change which it came with, and grows with its number. And so what takes away all rows that are older than some seq
takes the lowest copies, and leaves what has come since: a truncation; and a repeated read, whose rows are all there are
(see `model.multiset`).

Within a batch a copy that comes is there in the end exactly if the stack is never lower afterwards than it was with
that copy on top; as many copies of those that were there before go as the stack is ever lower than at the beginning.
Both follow from the running sum of +1 and -1 in the order of seq. More than there are cannot go: then bronze and the
table do not belong together.

Digests are as good as random, so a batch's are in every file. What a large table is spared is to be joined with them
whole: first the digests and numbers alone are read of it, and only those rows take part in the MERGE of which the
digest is one of those that lose a copy, or get one in place of another. All other rows that come are new ones, on top;
where there is nothing else, the batch is an append.

A sum has no memory of what it is of, so no row may count twice. A commit says through which seq the table holds bronze,
and rows up to there are left out, in whatever batch they come: bronze is written and read in the order of seq.

Guards: tests/silver/test_multiset.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from lakehouse_cdc.errors import TableError, codes
from lakehouse_cdc.lake.commits import writer_options
from lakehouse_cdc.lake.direct.file_listing import Listed
from lakehouse_cdc.lake.merging import Merge
from lakehouse_cdc.lake.sessions import kept
from lakehouse_cdc.lake.tables import append, read, write
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.own_columns import OwnColumns, longer_than_any
from lakehouse_cdc.model.table_layout import Table, literal, quoted
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.batch import row_digest, typed_columns
from lakehouse_cdc.silver.batch.computed_columns import filtered
from lakehouse_cdc.silver.batch.contents import Segment, TableBatch, split
from lakehouse_cdc.silver.definition.column_mapping import Shape
from lakehouse_cdc.silver.definition.form import Form, WriterArguments
from lakehouse_cdc.silver.forms.writers.merge import Bounds
from lakehouse_cdc.silver.table_tasks.counted import Counted
from lakehouse_cdc.silver.table_tasks.job import once, task_of
from lakehouse_cdc.silver.table_tasks.work import Outcome, TableTask

_LISTED = 500  # digests that are listed for Delta, which leaves files out by them
_LISTED_IN_PART, _PART = 10_000, 10  # as many by their first characters; each list is in the table's log
_CAME, _GOES = ("r", "c", "u"), ("d", "u")
_DIGEST, _BASE = map(longer_than_any, ("digest", "base"))  # beside columns by the source's names


class MultisetWriter:
    """The only writer of one such table, for rows of one schema."""

    def __init__(self, form: Form, arguments: WriterArguments) -> None:
        self._layout, shape = arguments.layout, arguments.shape
        self._form, self.shape, self._suffix = form, shape, arguments.suffix
        self._kept = tuple(arguments.kept)
        self._table = self._layout.silver_table(shape.schema.name)
        self._own = self._table.own
        self._has_rows = False  # True once it is known to

    def write(self, session: SparkSession, segment: Segment, note: CommitNote) -> None:
        """Apply the segment's rows that the table does not hold yet, in one commit."""
        part, rows = newer(segment)
        if part is None or not (part.has_rows or part.barriers):
            return
        floor, moved = events(part, rows, self.shape)
        table = read(session, self._table)
        self._has_rows = self._has_rows or not table.isEmpty()
        if not self._has_rows and part.ops.isdisjoint(_GOES):
            self._load(moved, note)
            return
        with kept(moved) as moved:  # it is looked at from several sides
            if not self._has_rows:
                self._append(_came(moved, _enough(_limits(moved, None), self.shape.schema.name)), note)
            elif floor and not table.where(f"{self._own.seq} < {floor}BD").isEmpty():
                self._replace(table, floor, moved, note)
            else:
                self._apply(session, table, moved, note)

    def task(self, part: TableBatch, files: Sequence[Listed], note: CommitNote) -> TableTask:
        """The same as something for a task to do, of a part that the table does not hold; those are its files."""
        merges, schema = once(note, self._step()), self.shape.schema
        return task_of(self._layout, schema, self._form, self._kept, part, files, merges, Counted(part.barrier))

    def did(self, session: SparkSession, outcome: Outcome) -> None:
        """A task has done it; there is nothing to remember."""
        assert not outcome.gave_up

    def _load(self, moved: DataFrame, note: CommitNote) -> None:
        """Rows of which none goes, into an empty table: all are there in the end. They are moved and sorted once."""
        each = Window.partitionBy("digest").orderBy("seq")
        came = moved.repartitionByRange("digest").withColumn("copy", F.row_number().over(each))
        append(self._laid_out(came), self._table, writer_options(note, self._step()))

    def _append(self, came: DataFrame, note: CommitNote) -> None:
        """Copies on top of those that are there, or of none."""
        rows = self._laid_out(came).sort(self._own.row_hash)
        append(rows, self._table, writer_options(note, self._step()))

    def _replace(self, table: DataFrame, floor: int, moved: DataFrame, note: CommitNote) -> None:
        """All rows again, in one commit: those that are left since `floor`, changed by the events."""
        stay = _numbered(table.where(f"{self._own.seq} >= {floor}BD"), self._own)
        left, limits = _left(stay, moved, self.shape, self._own)
        rows = left.unionByName(self._laid_out(_came(moved, limits)), allowMissingColumns=True)
        rows = rows.select(*map(quoted, table.columns)).sort(self._own.row_hash)
        write(rows, self._table, writer_options(note, self._step()), mode="overwrite")

    def _apply(self, session: SparkSession, table: DataFrame, moved: DataFrame, note: CommitNote) -> None:
        """What comes and goes, where no row that is there is too old."""
        there = _counts(with_digest_of(table, moved, self._own), self._own)
        with kept(_limits(moved, there)) as limits:  # of all that the table has
            _enough(limits, self.shape.schema.name)
            changed = limits.where("there > base").select("digest")
            if changed.isEmpty():
                self._append(_came(moved, limits), note)
            else:
                source = _came(moved, limits).unionByName(_gone(limits), allowMissingColumns=True)
                self._merge(session, source, bounds_of_digests(changed, self._own), note)

    def _merge(self, session: SparkSession, source: DataFrame, bounds: Bounds | None, note: CommitNote) -> None:
        own = self._own
        matches = [f"t.{own.row_hash} = s.digest", f"t.{own.row_copy} = s.copy", self._table.rows("t.")]
        if bounds is not None:
            matches.append(bounds.of("t."))
        values = {quoted(name): f"s.row.{quoted(name)}" for name in self.shape.names}
        values |= self.shape.transform.metadata_of(self.shape.schema.name, "s.commit_ts")
        values |= {column: f"s.{name}" for name, column in self._form_values().items()}
        values |= {own.seq: "s.seq", own.commit_ts: "s.commit_ts"} | self._table.stamp
        statement = (
            Merge(self._table, source, " AND ".join(matches), any_value="s.digest")
            .when_matched_delete("s.row IS NULL")
            .when_matched_update("s.row IS NOT NULL", values)
            .when_not_matched_insert("s.row IS NOT NULL", values)
        )
        statement.commit(session, note, self._step())

    def _laid_out(self, copies: DataFrame) -> DataFrame:
        of_form = [F.col(name).alias(column) for name, column in self._form_values().items()]
        return copies.select(*typed_columns.laid_out(self.shape, self._own), *of_form)

    def _form_values(self) -> dict[str, str]:
        return {"digest": self._own.row_hash, "copy": self._own.row_copy}

    def _step(self) -> str:
        return f"{self.shape.schema.name}:counted{self._suffix}"


def newer(segment: Segment) -> tuple[TableBatch | None, DataFrame]:
    """What of a segment the table does not hold yet."""
    part, rows = segment.part, segment.rows
    begins = [barrier.seq for barrier in part.barriers] + [part.first] * part.has_rows
    if segment.through < min(begins, default=0):
        return part, rows
    rows = rows.where(f"seq > {segment.through}BD")
    return split(rows).get(part.table), rows


def events(part: TableBatch | None, rows: DataFrame, shape: Shape) -> tuple[int, DataFrame]:
    """What `moves` gives of bronze's `rows` of one table, but for what does not count in the end.

    And the seq below which no row counts any more, nor is among them; 0 where none is taken away.
    """
    floor, ops = (part.barrier, part.ops) if part is not None else (0, frozenset[str]())
    if "r" in ops:
        last = rows.where("op = 'r'").agg(F.max("seq").alias("seq")).head()
        floor = max(floor, int(last["seq"])) if last is not None else floor
    return floor, moves(rows.where(f"seq >= {floor}BD"), shape)


def moves(rows: DataFrame, shape: Shape) -> DataFrame:
    """Rows that come (n = 1) and go (n = -1), of bronze's `rows` of one table: digest, row, seq, commit_ts, n."""
    images = [
        rows.where(F.col("op").isin(*ops)).select(
            "seq", "commit_ts", F.expr(typed_columns.of_rows(image)).alias("after"), F.lit(n).alias("n")
        )
        for ops, image, n in ((_CAME, "after", 1), (_GOES, "before", -1))
    ]
    typed = filtered(typed_columns.typed(images[0].unionByName(images[1]), shape), shape).where("passes")
    return typed.select(row_digest.by_spark(shape.schema, "row.").alias("digest"), "row", "seq", "commit_ts", "n")


def at(held: DataFrame | None, part: TableBatch | None, rows: DataFrame, shape: Shape, own: OwnColumns) -> DataFrame:
    """The rows of a table without a key after bronze's `rows`, on top of those of a silver table (None: of none).

    In silver's columns, but for those of the form. Raises TableError where more rows go than there are.
    """
    floor, moved = events(part, rows, shape)
    if held is None:
        fresh = _came(moved, _enough(_limits(moved, None), shape.schema.name))
        return fresh.select(*typed_columns.laid_out(shape, own))
    hashed = held.where(f"{own.seq} >= {floor}BD").withColumn(own.row_hash, row_digest.by_spark(shape.schema))
    left, limits = _left(_numbered(hashed.withColumn(own.row_copy, F.lit(0)), own), moved, shape, own)
    fresh = _came(moved, limits).select(*typed_columns.laid_out(shape, own))
    return left.select(*map(quoted, held.columns)).unionByName(fresh, allowMissingColumns=True)


def bounds_of_digests(moved: DataFrame, own: OwnColumns) -> Bounds | None:
    """The digests in `moved`, where they are few enough to be listed."""
    rows = moved.select("digest").distinct().limit(_LISTED_IN_PART + 1).collect()
    first = None if len(rows) <= _LISTED else _PART
    listed = sorted({row["digest"][:first] for row in rows})
    fits = 0 < len(rows) <= _LISTED_IN_PART
    return Bounds(own.row_hash, (f"IN ({', '.join(map(literal, listed))})",), first) if fits else None


def with_digest_of(rows: DataFrame, moved: DataFrame, own: OwnColumns) -> DataFrame:
    """Those of a table's rows that have a digest of `moved`."""
    digests = moved.select(F.col("digest").alias(_DIGEST)).distinct()
    return rows.join(digests, F.col(own.row_hash) == F.col(_DIGEST), "left_semi")


def copies_missing(table: str) -> TableError:
    """Why a batch is refused in which more copies go than there are."""
    return codes.COPIES_MISSING.error(
        f"a row of {table} goes more often than it was there",
        hint=f"signal snapshot {table} reads the table again",
        table=table,
    )


def _counts(rows: DataFrame, own: OwnColumns) -> DataFrame:
    """How many copies are `there`, by digest."""
    return rows.groupBy(F.col(own.row_hash).alias("digest")).agg(F.max(own.row_copy).cast("bigint").alias("there"))


def _limits(moved: DataFrame, there: DataFrame | None) -> DataFrame:
    """By digest of the events: how many copies were `there`, the lowest of them that stay (`base`), and the `last`."""
    lowest = _heights(moved).groupBy("digest").agg(F.min("height").alias("lowest"), F.sum("n").alias("change"))
    known = lowest.withColumn("there", F.lit(0)) if there is None else lowest.join(there, "digest", "left")
    limits = known.selectExpr("digest", "coalesce(there, 0) AS there", "least(0, lowest) AS removed", "change")
    return limits.selectExpr("digest", "there", "there + removed AS base", "there + change AS last")


def _enough(limits: DataFrame, table: str) -> DataFrame:
    """The same limits. Raises TableError where more copies go than there are."""
    if not limits.where("base < 0").isEmpty():
        raise copies_missing(table)
    return limits


def _came(moved: DataFrame, limits: DataFrame) -> DataFrame:
    """The copies that came and are there in the end: digest, copy, row, seq, commit_ts."""
    after = Window.partitionBy("digest").orderBy("number").rowsBetween(1, Window.unboundedFollowing)
    later = F.coalesce(F.min("height").over(after), F.col("height"))
    lasting = _heights(moved).withColumn("later", later).where("n > 0 AND later >= height")
    on_top = F.row_number().over(Window.partitionBy("digest").orderBy("number"))
    copy = (F.col("base") + F.col("place")).cast("int").alias("copy")
    return lasting.withColumn("place", on_top).join(limits, "digest").select("digest", copy, "row", "seq", "commit_ts")


def _gone(limits: DataFrame) -> DataFrame:
    """The copies that were there and are not in the end, without a row: digest, copy."""
    numbers = F.expr("explode(sequence(int(last + 1), int(there)))").alias("copy")
    return limits.where("last < there").select("digest", numbers)


def _left(stay: DataFrame, moved: DataFrame, shape: Shape, own: OwnColumns) -> tuple[DataFrame, DataFrame]:
    """Those of the rows `stay`, which are numbered, that the events leave; and the limits of these."""
    limits = _enough(_limits(moved, _counts(stay, own)), shape.schema.name)
    base = limits.select(F.col("digest").alias(_DIGEST), F.col("base").alias(_BASE))
    joined = stay.join(base, F.col(own.row_hash) == F.col(_DIGEST), "left")
    left = joined.where(f"{_BASE} IS NULL OR {own.row_copy} <= {_BASE}")
    return left.select(*map(quoted, stay.columns)), limits


def _heights(moved: DataFrame) -> DataFrame:
    """The events with their `number` among those of one digest, and the `height` of the stack after each."""
    each = Window.partitionBy("digest").orderBy("seq", "n")
    return moved.withColumn("number", F.row_number().over(each)).withColumn(
        "height",
        F.sum("n").over(
            Window.partitionBy("digest").orderBy("number").rowsBetween(Window.unboundedPreceding, Window.currentRow)
        ),
    )


def _numbered(rows: DataFrame, own: OwnColumns, current: str = "true") -> DataFrame:
    """The same rows, numbered without a gap, those first that are `current`."""
    order = Window.partitionBy(own.row_hash).orderBy(F.expr(f"NOT ({current})"), own.seq, own.row_copy)
    return rows.withColumn(own.row_copy, F.row_number().over(order))


def count_again(session: SparkSession, table: Table, schema: TableSchema, form: Form, note: CommitNote) -> None:
    """After the columns changed, `schema` being that of now: digests and numbers again, in one commit."""
    rows, own = read(session, table), table.own
    numbered = _numbered(rows.withColumn(own.row_hash, row_digest.by_spark(schema)), own, form.is_current(own))
    options: dict[str, str | int] = {"userMetadata": note.text()}
    write(numbered.select(*map(quoted, rows.columns)), table, options, mode="overwrite")
