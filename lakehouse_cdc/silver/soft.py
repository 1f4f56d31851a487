"""Bring one silver table with soft deletes from one position of the source to the next: what is gone stays, marked.

A row that is deleted keeps what it held last, and `_deleted_at` says since when it is gone; `_seq` and `_commit_ts` are
those of its last change, the delete included. A barrier (a truncation, or the end of a repeated read that did not find
the row) is no change of the row: it only marks it. So what a row is depends on its last change and on the first barrier
behind that which takes it away, and what a batch that is newer than all that the table holds does to it needs nothing
of the past: one MERGE. A deleted row is its own tombstone.

A batch that is not newer (an older checkpoint, batches in another order) has the table made anew, as of type 2 and for
the same reason (see `history`). Rows without a change in bronze since the schema came into force are as they were, but
for their mark: of a row whose last change is a delete it is that change's time, and of any other what all the barriers
of bronze up to there say. Both are told apart by `_commit_ts`. Where a barrier's time is just that of the row's last
change, they are not, and need not be: the mark is the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.lake.commits import writer_options
from lakehouse_cdc.lake.tables import append, read, write
from lakehouse_cdc.model.layout import COMMIT_TS, DELETED_AT, SEQ, Layout, quoted
from lakehouse_cdc.model.standing import CommitNote
from lakehouse_cdc.silver import extract
from lakehouse_cdc.silver.batch import Barrier, Segment, TableBatch, barriers_of, split
from lakehouse_cdc.silver.merge import bounds_of, merge_marked
from lakehouse_cdc.silver.shape import Shape
from lakehouse_cdc.silver.versions import taken_away


class SoftWriter:
    """The only writer of one silver table with soft deletes, for rows of a schema in force since the change at `since`.

    `kept` are columns that the table has beside those of its shape; they are NULL in every row that is written.
    """

    def __init__(self, layout: Layout, shape: Shape, *, since: int, kept: Sequence[str]) -> None:
        self.shape, self._schema = shape, shape.schema
        self._since, self._kept = since, tuple(kept)
        self._changes, self._table = layout.changes, layout.silver_table(shape.schema.name)
        self._has_rows = False  # True once it is known to

    def write(self, session: SparkSession, segment: Segment, note: CommitNote) -> None:
        """Apply the segment's rows, in one commit."""
        if segment.whole is not None:
            self._make_anew(session, segment.whole, note)
        elif segment.part.has_rows or segment.part.barriers:
            self._add(session, segment.part, segment.rows, note)

    def _add(self, session: SparkSession, part: TableBatch, rows: DataFrame, note: CommitNote) -> None:
        last = self._last(part, rows, part.barriers)
        self._has_rows = self._has_rows or not read(session, self._table).isEmpty()
        if not self._has_rows:
            append(self._laid_out(last), self._table, writer_options(note, self._step()))
            return
        bounds = bounds_of(last, self._schema) if part.has_rows and not part.barriers else None
        merge_marked(
            session, last, self._table, self._schema, note, self._step(),
            kept=self._kept, barriers=part.barriers, bounds=bounds,
        )  # fmt: skip

    def _make_anew(self, session: SparkSession, whole: DataFrame, note: CommitNote) -> None:
        part = split(whole).get(self._schema.name)
        if part is None:
            return  # nothing has come under this schema
        of_table = read(session, self._changes).where(F.col("source_table") == self._schema.name)
        older = barriers_of(of_table.where(f"seq <= {self._since}BD")).get(self._schema.name, [])
        barriers = (*older, *part.barriers)
        last = self._last(part, whole, barriers)
        keys = last.select(*(F.col(f"key.{quoted(k)}").alias(f"k{i}") for i, k in enumerate(self._schema.key)))
        same = [F.col(f"t.{quoted(k)}") == F.col(f"moved.k{i}") for i, k in enumerate(self._schema.key)]
        table = read(session, self._table)
        marked = f"IF({DELETED_AT} = {COMMIT_TS}, {DELETED_AT}, {taken_away(barriers, SEQ)}.commit_ts)"
        stay = table.alias("t").join(keys.alias("moved"), same, "left_anti").withColumn(DELETED_AT, F.expr(marked))
        anew = stay.unionByName(self._laid_out(last), allowMissingColumns=True)
        options = writer_options(note, self._step())
        write(anew.select(*map(quoted, table.columns)), self._table, options, mode="overwrite")
        self._has_rows = False

    def _last(self, part: TableBatch, rows: DataFrame, barriers: Sequence[Barrier]) -> DataFrame:
        """What each key's last change says: key, row, seq, commit_ts, and deleted_at, NULL if the row stands."""
        changes = extract.keyed(rows, self.shape, deleted=True)
        last = changes if part.single_read else extract.latest(changes)
        gone = f"IF(op = 'd', commit_ts, {taken_away(barriers, 'seq')}.commit_ts)"
        return extract.typed(last, self.shape).withColumn("deleted_at", F.expr(gone)).drop("op")

    def _laid_out(self, last: DataFrame) -> DataFrame:
        """In the table's columns."""
        return last.select(
            *[F.col(f"row.{quoted(c.name)}").alias(c.name) for c in self._schema.captured],
            F.col("deleted_at").alias(DELETED_AT), F.col("seq").alias(SEQ), F.col("commit_ts").alias(COMMIT_TS),
        )  # fmt: skip

    def _step(self) -> str:
        suffix = f"@{self._since}" if self._since else ""
        return f"{self._schema.name}:marked{suffix}"
