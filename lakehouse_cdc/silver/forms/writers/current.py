"""Bring one silver table from one position of the source to the next.

The tombstones of a batch first, then one commit to the table itself. A crash between the two is repaired by the
batch's repetition: the tombstones are skipped, being tied to the batch, and never stand in the way of the batch's own
deletes. Readers of the table thus see it at one position or at the next.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from lakehouse_cdc.lake.direct.file_listing import Listed
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.silver.batch import typed_columns
from lakehouse_cdc.silver.batch.contents import Segment, TableBatch
from lakehouse_cdc.silver.definition.form import Form, WriterArguments
from lakehouse_cdc.silver.forms.writers.merge import bounds_of, load, merge
from lakehouse_cdc.silver.load.direct_load import load_files
from lakehouse_cdc.silver.table_tasks.current import Current
from lakehouse_cdc.silver.table_tasks.job import once, task_of
from lakehouse_cdc.silver.table_tasks.work import Outcome, TableTask, micros_ago
from lakehouse_cdc.silver.tables import tombstones
from lakehouse_cdc.silver.tables.guards import Guards

_DAY = 86400.0


class TableWriter:
    """The only writer of one silver table; remembers between batches what it would have to ask the tables for.

    After an exception the writer is of no more use.
    """

    def __init__(self, form: Form, session: SparkSession, arguments: WriterArguments) -> None:
        shape, layout, fresh, keep_days = arguments.shape, arguments.layout, arguments.fresh, arguments.keep_days
        self._form, self.shape, self._schema = form, shape, shape.schema
        self._kept = tuple(arguments.kept)
        self._suffix = arguments.suffix
        name, self._layout = shape.schema.name, layout
        self._table, self._graves = layout.silver_table(name), layout.tombstones(name)
        self._fresh, self._keep_days = fresh, keep_days
        self._known = Guards() if fresh else None
        self._has_rows = False  # True once it is known to
        self._pruned = time.monotonic() if fresh else -_DAY

    def write(self, session: SparkSession, segment: Segment, note: CommitNote) -> None:
        """Apply the segment's rows; it does not matter whether the table holds newer ones."""
        part, rows = segment.part, segment.rows
        if not self._loaded(session, segment, note) and (self._fresh or part.has_rows or part.barrier):
            changes = typed_columns.keyed(rows, self.shape)
            before = self._guards(session)
            self._bury(session, part, changes, note)
            survivors = self._survivors(session, part, changes, before)
            self._commit(session, part, changes, typed_columns.typed(survivors, self.shape), note)
        self._fresh = False
        if self._prunes:
            self._prune(session)

    def task(self, part: TableBatch, files: Sequence[Listed], note: CommitNote) -> TableTask:
        """The same as something for a task to do, of a part without a change of the schema; those are its files."""
        work = Current(
            tombstones=str(self._graves.path),
            first=part.first,
            barrier=part.barrier,
            buries=once(note, self._step("tombstones")),
            guards=self._known,
            old=micros_ago(self._keep_days) if self._prunes else None,
        )
        merges = once(note, self._step("rows"))
        return task_of(self._layout, self._schema, self._form, self._kept, part, files, merges, work)

    def did(self, session: SparkSession, outcome: Outcome) -> None:
        """A task has done it."""
        self._known, self._fresh = outcome.guards, False
        if self._prunes:
            self._prune(session, needed=outcome.prunable)

    @property
    def _prunes(self) -> bool:
        """Whether it is time to look for tombstones that are to be pruned."""
        return time.monotonic() - self._pruned >= _DAY

    def _prune(self, session: SparkSession, *, needed: bool = True) -> None:
        if needed:
            pruned = tombstones.prune(session, self._graves, self._schema, self._keep_days)
            self._known = self._guards(session).joined(pruned)
        self._pruned = time.monotonic()

    def _guards(self, session: SparkSession) -> Guards:
        if self._known is None:
            self._known = tombstones.guards(session, self._graves)
        return self._known

    def _loaded(self, session: SparkSession, segment: Segment, note: CommitNote) -> bool:
        """Whether the rows have come into an empty table as they are, with nothing to bury and none overtaken."""
        part = segment.part
        if not part.single_read or part.barrier:
            return False
        guards = self._guards(session)
        if max(guards.barrier - 1, guards.horizon, guards.delete) >= part.first:
            return False
        self._has_rows = self._has_rows or not (self._fresh or read(session, self._table).isEmpty())
        if self._has_rows:
            return False
        return load_files(session, self._layout, segment, self.shape, self._form, note, self._step("rows"))

    def _bury(self, session: SparkSession, part: TableBatch, changes: DataFrame, note: CommitNote) -> None:
        deleted = None
        if "d" in part.ops or self.shape.transform.filter is not None:  # reads no image but the keys, and for a filter
            deleted = typed_columns.latest(changes.select("key", "seq", "op")).where("op = 'd'")
        tombstones.bury(session, self._graves, self._schema, deleted, part.barrier, note, self._step("tombstones"))
        added = Guards(delete=part.last if deleted is not None else -1, barrier=part.barrier)
        self._known = self._guards(session).joined(added)

    def _survivors(self, session: SparkSession, part: TableBatch, changes: DataFrame, before: Guards) -> DataFrame:
        """The last change of each key, without those that something earlier applied has overtaken."""
        latest = changes if part.single_read else typed_columns.latest(changes)
        if (barrier := self._guards(session).barrier) > part.first:
            latest = latest.where(f"seq >= {barrier}BD")
        if before.horizon >= part.first:
            latest = latest.where(f"seq > {before.horizon}BD")
        if before.delete >= part.first:
            latest = tombstones.without_buried(session, self._graves, latest, part.first)
        return latest

    def _commit(
        self, session: SparkSession, part: TableBatch, changes: DataFrame, rows: DataFrame, note: CommitNote
    ) -> None:
        self._has_rows = self._has_rows or not (self._fresh or read(session, self._table).isEmpty())
        if self._has_rows:
            bounds = bounds_of(changes, self._schema) if part.has_rows and not part.barrier else None
            step, kept, barrier = self._step("rows"), self._kept, part.barrier
            merge(session, rows, self._table, self.shape, note, step, kept=kept, barrier=barrier, bounds=bounds)
        else:
            load(rows.where("op <> 'd'"), self._table, self.shape, note, self._step("rows"))

    def _step(self, what: str) -> str:
        return f"{self._schema.name}:{what}{self._suffix}"
