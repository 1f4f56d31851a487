"""Bring one silver table with soft deletes from one position of the source to the next: what is gone stays, marked.

A row that is deleted keeps what it held last, and a column says since when it is gone; the seq and the commit time are
those of its last change, the delete included. A barrier (a truncation, or the end of a repeated read that did not find
the row) is no change of the row: it only marks it. So what a row is depends on its last change and on the first barrier
after that which takes it away, and what a batch that is newer than all that the table holds does to it needs nothing
of the past: one MERGE. A deleted row is its own tombstone.

A `d` without an image (a key that was looked for, and is not there) is the last change of a row that exists: it keeps
what it held. Of one that is gone already, or was never here, it says nothing new.

A batch that is not newer (an older checkpoint, batches in another order) has the table made again, as of type 2 and for
the same reason (see `history`). Rows without a change in bronze since the schema came into force are as they were, but
for their mark: of a row whose last change is a delete it is that change's time, and of any other what all the barriers
of bronze up to there say. Both are told apart by the commit time. Where a barrier's time is just that of the row's last
change, they are not, and need not be: the mark is the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.lake.commits import writer_options
from lakehouse_cdc.lake.tables import append, read, write
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.table_layout import quoted
from lakehouse_cdc.silver.batch import typed_columns
from lakehouse_cdc.silver.batch.contents import Barrier, TableBatch, barriers_of, split
from lakehouse_cdc.silver.definition.form import Form, WriterArguments
from lakehouse_cdc.silver.forms.writers.incremental_writer import OrderedWriter
from lakehouse_cdc.silver.forms.writers.merge import Bounds, bounds_of, merge_marked
from lakehouse_cdc.silver.forms.writers.versions import taken_away
from lakehouse_cdc.silver.table_tasks.folded import Marked
from lakehouse_cdc.silver.table_tasks.work import Work

_CHANGE = ("seq", "commit_ts")
_KNOWN = "row IS NOT NULL"


class SoftWriter(OrderedWriter):
    """The writer of a table with soft deletes."""

    _writes = "marked"

    def __init__(self, form: Form, arguments: WriterArguments) -> None:
        super().__init__(form, arguments)
        self._changes = arguments.layout.changes

    def _add(self, session: SparkSession, part: TableBatch, rows: DataFrame, note: CommitNote) -> None:
        changes = typed_columns.keyed(rows, self.shape, deleted=True)
        last = self._last(part, changes, part.barriers)
        wanted = part.has_rows and not part.barriers and self.has_rows(session)
        self.add(session, last, part.barriers, bounds_of(changes, self._schema) if wanted else None, note)

    def add(
        self,
        session: SparkSession,
        last: DataFrame,
        barriers: Sequence[Barrier],
        bounds: Bounds | None,
        note: CommitNote,
    ) -> None:
        """Apply the last change of each key (see `merge.merge_marked`), all within `bounds`, as `_add` does."""
        if not self.has_rows(session):
            append(self._laid_out(last.where(_KNOWN)), self._table, writer_options(note, self._step()))
            return
        merge_marked(
            session, last, self._table, self.shape, note, self._step(),
            kept=self._kept, barriers=barriers, bounds=bounds,
        )  # fmt: skip

    def _work(self, part: TableBatch) -> Work:
        return Marked(part.barriers)

    def _rewrite(self, session: SparkSession, whole: DataFrame, note: CommitNote) -> None:
        part = split(whole).get(self._schema.name)
        if part is None:
            return  # nothing has come under this schema
        of_table = read(session, self._changes).where(F.col("source_table") == self._schema.name)
        older = barriers_of(of_table.where(f"seq <= {self._since}BD")).get(self._schema.name, [])
        barriers = (*older, *part.barriers)
        last = self._last(part, typed_columns.keyed(whole, self.shape, deleted=True), barriers)
        table = read(session, self._table)
        stay = self._marked(table, last, barriers)
        rewritten = stay.unionByName(self._laid_out(last.where(_KNOWN)), allowMissingColumns=True)
        options = writer_options(note, self._step())
        write(rewritten.select(*map(quoted, table.columns)), self._table, options, mode="overwrite")

    def _marked(self, table: DataFrame, last: DataFrame, barriers: Sequence[Barrier]) -> DataFrame:
        """Rows without a change that has an image: marked by the first barrier, or as one that was missed before it."""
        keys = [F.col(f"key.{quoted(k)}").alias(f"k{i}") for i, k in enumerate(self._schema.key)]
        same = [F.col(f"t.{quoted(k)}") == F.col(f"m.k{i}") for i, k in enumerate(self._schema.key)]
        missed = last.where(f"NOT ({_KNOWN})").select(*keys, "seq", "commit_ts")
        stay = table.alias("t").join(last.where(_KNOWN).select(*keys).alias("m"), same, "left_anti")
        own = self._own
        deleted = f"coalesce(t.{own.deleted_at} = t.{own.commit_ts}, false)"
        taken = taken_away(barriers, f"t.{own.seq}")
        counts = f"m.seq > t.{own.seq} AND NOT {deleted} AND coalesce({taken}.seq > m.seq, true)"
        marked = {
            own.seq: f"IF({counts}, m.seq, t.{own.seq})",
            own.commit_ts: f"IF({counts}, m.commit_ts, t.{own.commit_ts})",
            own.deleted_at: f"CASE WHEN {counts} THEN m.commit_ts WHEN {deleted} THEN t.{own.deleted_at}"
            f" ELSE {taken}.commit_ts END",
        }
        others = [F.col(f"t.{quoted(name)}") for name in table.columns if name not in marked]
        joined = stay.alias("t").join(missed.alias("m"), same, "left")
        return joined.select(*others, *(F.expr(value).alias(name) for name, value in marked.items()))

    def _last(self, part: TableBatch, changes: DataFrame, barriers: Sequence[Barrier]) -> DataFrame:
        """What each key's last change says: key, row, seq, commit_ts, and deleted_at, NULL if the row exists.

        Where all that is said of a key is that it was missed, row is NULL.
        """
        if part.single_read:
            gone = f"{taken_away(barriers, 'seq')}.commit_ts"
            return typed_columns.typed(changes, self.shape).withColumn("deleted_at", F.expr(gone)).drop("op")
        seen = "IF(after IS NULL, NULL, seq)"
        last = changes.groupBy("key").agg(
            F.expr(f"max_by(struct(seq, op, commit_ts), {seen})").alias("last"),
            F.expr(f"max_by(after, {seen})").alias("after"),
            F.expr("array_sort(collect_list(IF(after IS NULL, struct(seq, commit_ts), NULL)))").alias("missed"),
        )
        gone = f"IF(last.op = 'd', struct(last.seq, last.commit_ts), {taken_away(barriers, 'last.seq')})"
        last = last.withColumn("gone", F.expr(gone))
        first = F.expr("try_element_at(filter(missed, m -> m.seq > coalesce(last.seq, 0)), 1)")
        last = last.withColumn("missed", first)
        counts = F.expr("missed IS NOT NULL AND coalesce(missed.seq < gone.seq, true)")
        last = last.select(
            "key",
            "after",
            *(F.when(counts, F.col(f"missed.{n}")).otherwise(F.col(f"last.{n}")).alias(n) for n in _CHANGE),
            F.when(counts, F.col("missed.commit_ts")).otherwise(F.col("gone.commit_ts")).alias("deleted_at"),
        )
        return typed_columns.typed(last, self.shape)

    def _laid_out(self, last: DataFrame) -> DataFrame:
        """In the table's columns."""
        return last.select(
            *typed_columns.laid_out(self.shape, self._own), F.col("deleted_at").alias(self._own.deleted_at)
        )
