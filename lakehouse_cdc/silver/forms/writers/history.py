"""Bring one silver table of type 2 from one position of the source to the next: every version of its rows.

Versions depend on all changes of a key in their order, so they can only be written in that order. As a rule a batch is
newer than all that the table holds: then the versions that are open, of the batch's keys, are all that has to be
known of the past, and one MERGE ends or continues them and inserts the others. Where it is not (an older checkpoint,
batches in another order) what the table holds since the schema came into force is made again from bronze, by one
commit: it is a function of bronze alone, so whatever came how often and in what order, the table ends as the same.

Proof of that. A batch that is not newer leaves what bronze holds up to B, the newest commit met so far. Of the batches
after the last such one each is newer than all before it. Had one left out a commit of bronze, that commit's batch
would be yet to come, and then not be newer, which none of these is. So none was left out: each has added just the next
changes of every key, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.commits import writer_options
from lakehouse_cdc.lake.tables import append, read, write
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.own_columns import END_AT, START_AT
from lakehouse_cdc.model.table_layout import quoted
from lakehouse_cdc.silver.batch import typed_columns
from lakehouse_cdc.silver.batch.contents import Barrier, TableBatch, split
from lakehouse_cdc.silver.definition.form import OPEN, Form, WriterArguments
from lakehouse_cdc.silver.forms.writers.incremental_writer import OrderedWriter
from lakehouse_cdc.silver.forms.writers.merge import Bounds, bounds_of, merge_versions
from lakehouse_cdc.silver.forms.writers.versions import first_read, open_versions, taken_away, versions, whole_key
from lakehouse_cdc.silver.table_tasks.folded import Versions
from lakehouse_cdc.silver.table_tasks.work import Work


class HistoryWriter(OrderedWriter):
    """The writer of a table of type 2. `track` are the columns of which a change begins a version (None: all).

    Raises TableError for one that the source does not have.
    """

    _writes = "versions"

    def __init__(self, form: Form, arguments: WriterArguments) -> None:
        super().__init__(form, arguments)
        self._track, shape = arguments.track, arguments.shape
        if missing := sorted({*(self._track or ())} - {*shape.names}):
            raise codes.TRACKED_COLUMN_MISSING.error(
                f"{shape.schema.name} has no column {missing[0]}, whose history is to be tracked",
                where=str(self._table),
                hint=f"take {missing[0]} out of track, or, if it has another name now, let silver keep this one by"
                f" rename: {{NEW: {missing[0]}}}; the next run builds the silver table again",
            )

    def _add(self, session: SparkSession, part: TableBatch, rows: DataFrame, note: CommitNote) -> None:
        changes = typed_columns.typed(typed_columns.keyed(rows, self.shape), self.shape)
        if part.single_read and not part.barriers and not self.has_rows(session):
            read_once = first_read(changes.where("op <> 'd'"))  # what a filter does not let through
            append(self._laid_out(read_once), self._table, writer_options(note, self._step()))
            return
        bounds = bounds_of(changes, self._schema) if part.has_rows and self.has_rows(session) else None
        self.add(session, changes, part.barriers, bounds, note)

    def add(
        self,
        session: SparkSession,
        changes: DataFrame,
        barriers: Sequence[Barrier],
        bounds: Bounds | None,
        note: CommitNote,
    ) -> None:
        """Apply typed changes of keys (see `versions.versions`), all within `bounds`, as `_add` does."""
        if not self.has_rows(session):
            changed = versions(changes, None, barriers, self.shape, self._track)
            append(self._laid_out(changed), self._table, writer_options(note, self._step()))
            return
        before = read(session, self._table).where(OPEN)
        before = before if bounds is None else before.where(bounds.of())
        keys = changes.select(F.col("key").alias("k")).distinct()
        before = open_versions(before, self.shape, (), self._own).join(keys, F.col("key") == F.col("k"), "left_semi")
        changed = versions(changes, before, barriers, self.shape, self._track).where("moved")
        step = self._step()
        merge_versions(session, changed, self._table, self.shape, note, step, barriers=barriers, bounds=bounds)

    def _work(self, part: TableBatch) -> Work:
        return Versions(part.barriers, None if self._track is None else tuple(self._track))

    def _rewrite(self, session: SparkSession, whole: DataFrame, note: CommitNote) -> None:
        part = split(whole).get(self._schema.name)
        changes = typed_columns.typed(typed_columns.keyed(whole, self.shape), self.shape)
        table, since, seq = read(session, self._table), f"{self._since}BD", self._own.seq
        older = table.where(f"{START_AT}.seq <= {since}")
        # open when the schema came into force; what has continued a version since then comes once more
        stood = older.where(f"{OPEN} OR {END_AT}.seq > {since}").withColumn(seq, F.expr(f"least({seq}, {since})"))
        ended = older.where(f"{END_AT}.seq <= {since}")
        barriers = part.barriers if part is not None else ()
        has_key = whole_key(self._schema)
        lost = stood.where(f"NOT ({has_key})").withColumn(END_AT, F.expr(taken_away(barriers, seq)))
        before = open_versions(stood.where(has_key), self.shape, self._kept, self._own)
        changed = versions(changes, before, barriers, self.shape, self._track)
        rewritten = ended.unionByName(lost).unionByName(self._laid_out(changed, self._kept))
        write(
            rewritten.select(*map(quoted, table.columns)),
            self._table,
            writer_options(note, self._step()),
            mode="overwrite",
        )

    def _laid_out(self, changed: DataFrame, kept: Sequence[str] = ()) -> DataFrame:
        """Versions in the table's columns."""
        return changed.select(
            *typed_columns.laid_out(self.shape, self._own),
            F.col("start").alias(START_AT), F.col("end").alias(END_AT),
            *[F.col(f"kept.{quoted(name)}").alias(name) for name in kept],
        )  # fmt: skip
