"""What the writers have in common whose tables depend on the order of changes: a batch that is newer than all that the
table holds is added to it, and with any other the table is made again from bronze. Each in one commit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.direct.file_listing import Listed
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.silver.batch.contents import Segment, TableBatch
from lakehouse_cdc.silver.definition.form import Form, WriterArguments
from lakehouse_cdc.silver.load.direct_load import load_files
from lakehouse_cdc.silver.table_tasks.job import once, task_of
from lakehouse_cdc.silver.table_tasks.work import Outcome, TableTask, Work


class OrderedWriter(ABC):
    """The only writer of one silver table, for rows of one schema."""

    _writes: ClassVar[str]  # in the name of its step

    def __init__(self, form: Form, arguments: WriterArguments) -> None:
        layout, shape = arguments.layout, arguments.shape
        self._form, self.shape, self._schema = form, shape, shape.schema
        self._since, self._suffix, self._kept = arguments.since, arguments.suffix, tuple(arguments.kept)
        self._layout, self._table = layout, layout.silver_table(shape.schema.name)
        self._own = self._table.own
        self._has_rows = False  # True once it is known to

    def write(self, session: SparkSession, segment: Segment, note: CommitNote) -> None:
        """Apply the segment's rows, in one commit."""
        if segment.whole is not None:
            self._rewrite(session, segment.whole, note)
            self._has_rows = False
        elif segment.part.has_rows or segment.part.barriers:
            layout, form, step = self._layout, self._form, self._step()
            if self.has_rows(session) or not load_files(session, layout, segment, self.shape, form, note, step):
                self._add(session, segment.part, segment.rows, note)

    def task(self, part: TableBatch, files: Sequence[Listed], note: CommitNote) -> TableTask:
        """The same as something for a task to do, of a part without a change of the schema; those are its files."""
        merges = once(note, self._step())
        return task_of(self._layout, self._schema, self._form, self._kept, part, files, merges, self._work(part))

    def did(self, session: SparkSession, outcome: Outcome) -> None:
        """A task has done it; there is nothing to remember."""
        assert not outcome.gave_up

    def has_rows(self, session: SparkSession) -> bool:
        """Whether the table holds anything."""
        self._has_rows = self._has_rows or not read(session, self._table).isEmpty()
        return self._has_rows

    @abstractmethod
    def _add(self, session: SparkSession, part: TableBatch, rows: DataFrame, note: CommitNote) -> None:
        """Apply a batch that is newer than all that the table holds, if that is anything (`has_rows`)."""

    def _work(self, part: TableBatch) -> Work:
        """What a task does in the place of `_add`. For forms that are `by_deltalake`."""
        raise codes.INVARIANT_BROKEN.error(f"no task applies batches to a table of the form {self._form}")

    @abstractmethod
    def _rewrite(self, session: SparkSession, whole: DataFrame, note: CommitNote) -> None:
        """Replace what the table holds since the schema came into force; `whole` is all of bronze since then."""

    def _step(self) -> str:
        return f"{self._schema.name}:{self._writes}{self._suffix}"
