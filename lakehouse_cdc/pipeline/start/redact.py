"""Hide, in what bronze and silver hold already, what the configuration hides by now.

Purpose: a column that is masked or excluded later is hidden in rows that are read from then on. Rows from before are in
bronze, and, as ended versions, as rows that are marked as deleted, or as columns that are kept, in silver. Of these two
nothing else of the pipeline's tables has values: the ledger, the schemas' history aside, and the metrics have
positions and counts, and tombstones have keys, which go with the silver table that they are beside.

Invariant: when a table is done, no reader of its newest versions in bronze and silver sees a value that the
configuration hides, and silver is what bronze makes. At every moment before, a run continues as if nothing had
happened, and the same command again does what is left.

Why it holds, table by table:

1. Silver's table says that it is to be built again (`rebuild.mark_redacted`), and the next run will look.
2. The rows of bronze, then the schemas, are replaced, each by one commit (see `bronze.redaction`).
3. Silver's table is built again from bronze (see `silver.apply.rebuild`): no file of the new one was made of what is
   hidden, whatever a column was called, computed from, or kept under.
4. Delta's log forgets the versions of silver's table from before, whose commits have least and greatest values of keys.

A crash before 2 leaves a table that is built again for nothing. One after it leaves a table that the next run builds
again before anything else is applied. The schemas come after the rows, so as long as they say that something is in
clear, `redact` takes the table up.

Old commits of bronze still add the old files, and a reader that has yet to read them, by version, would see these. So
nothing is done before silver and the other sinks have read all of bronze; and a silver table that was set aside, or
cannot be built again, takes nothing by version any more, but the whole.

What was written before is in files of older versions until VACUUM deletes them (`ops.maintain`). `as_of` does not read
those (see `silver.time_travel`). What sinks have taken elsewhere is theirs.

Guards: tests/pipeline/test_redact.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from lakehouse_cdc.bronze.hidden_columns import redactions
from lakehouse_cdc.bronze.redaction import redact_changes, redact_schemas
from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.lake.checkpoint import Checkpoint
from lakehouse_cdc.lake.commits import newest_version
from lakehouse_cdc.lake.direct.replacement import require_replaceable
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.model.table_layout import Layout, Table
from lakehouse_cdc.model.way_out import silver_reason
from lakehouse_cdc.pipeline.context import Folders
from lakehouse_cdc.pipeline.start.reset import require_no_stream
from lakehouse_cdc.pipeline.start.silver_settings import SilverSettings
from lakehouse_cdc.silver.apply.rebuild import mark_redacted, rebuild
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.tables.names import own_table
from lakehouse_cdc.silver.tables.progress import applied
from lakehouse_cdc.silver.tables.properties import own_properties
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.state.planned_configuration import revealed
from lakehouse_cdc.source.state.state_store import SchemaStore

_CATCH_UP = "lakehouse-cdc run --once -c pipeline.yml; then lakehouse-cdc redact -c pipeline.yml"
Progress = Callable[[str, int, int], None]  # table, files of bronze that were looked at, of so many


@dataclass(frozen=True)
class Unredacted:
    """A captured table of which something is in clear. `columns`: those of bronze, by every name that they had.

    `silver` is its silver table, "" for none; `left` says why nothing, or not all, can be done, "" where all can.
    """

    table: str
    columns: tuple[str, ...]
    silver: str = ""
    left: str = ""


@dataclass(frozen=True)
class Redacted:
    """What was done. `files` are those of bronze that were written again; `left` is as in `Unredacted`."""

    table: str
    columns: tuple[str, ...]
    files: int
    silver: str
    left: str

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**vars(self), "columns": list(self.columns)}


class Redact:
    """What is to be done, and its execution. To be used under the pipeline's lock.

    `offset` is where bronze is, `names` are the source tables that are meant. Raises DefiniteError where nothing can be
    done now.
    """

    def __init__(
        self,
        spark: SparkSession,
        layout: Layout,
        folders: Folders,
        options: SourceOptions,
        policy: Callable[[str], Policy],
        settings: SilverSettings,
        offset: Offset,
        names: Sequence[str],
    ) -> None:
        self._spark, self._layout, self._folders = spark, layout, folders
        self._salt, self._policy, self._settings = options.mask_salt, policy, settings
        require_no_stream(spark, layout)
        for table in (layout.changes, layout.schemas):
            require_replaceable(spark, table)
        if Checkpoint(folders.bronze).planned is not None:
            raise _too_early("a batch of bronze is not complete")
        self._require_hidden(offset, options)
        self._require_read()
        self._redactions = redactions(SparkReader(spark), layout, options.choice)
        every = (self._unredacted(name, followed=name in offset.captured) for name in names)
        self.tables = [table for table in every if table is not None]

    def execute(self, progress: Progress = lambda *_: None) -> list[Redacted]:
        """Do it."""
        return [self._done(table, progress) for table in self.tables]

    def _require_hidden(self, offset: Offset, options: SourceOptions) -> None:
        """Raise DefiniteError where rows that are yet to be read would still show a column."""
        store = SchemaStore(self._folders.schemas)
        for state in offset.captured.values():
            column = revealed(options.choice, store.get(state.schema)) if state.published else ""
            if column:
                raise _too_early(f"{column} is read in clear as long as no run has followed the configuration")

    def _require_read(self) -> None:
        """Raise DefiniteError where somebody of ours has yet to read commits of bronze."""
        newest = newest_version(self._spark, self._layout.changes)
        readers = {"silver": self._folders.silver} if self._layout.silver is not None else {}
        readers |= {f"the sink of {folder}": folder for folder in self._folders.sinks}
        for who, folder in readers.items():
            done = applied(SparkReader(self._spark), self._layout, folder)
            if done is None or done.bronze_version < newest or Checkpoint(folder).planned is not None:
                raise _too_early(f"{who} has not read all of bronze")

    def _unredacted(self, name: str, *, followed: bool) -> Unredacted | None:
        redaction = self._redactions.get(name)
        silver = own_table(SparkReader(self._spark), self._layout, name) if self._layout.silver is not None else None
        to_rebuild = silver is not None and own_properties(SparkReader(self._spark), self._layout, name).redacted
        if redaction is None or not (redaction.columns or to_rebuild):
            return None
        left = "" if followed else "the table is not followed: when it is again, run, and redact again"
        try:
            redaction.require_possible()
        except DefiniteError as error:
            left = f"{error.what}; {error.hint}"
        return Unredacted(name, tuple(redaction.columns), "" if silver is None else str(silver), left)

    def _done(self, table: Unredacted, progress: Progress) -> Redacted:
        if table.left:
            return Redacted(table.table, table.columns, 0, table.silver, table.left)
        spark, layout, name = self._spark, self._layout, table.table
        silver = own_table(SparkReader(spark), layout, name) if table.silver else None
        if silver is not None:
            self._settings.look_again()
            mark_redacted(spark, layout, name)
        redaction, salt = self._redactions[name], self._salt
        files = redact_changes(layout, redaction, salt, lambda n, of: progress(name, n, of))
        redact_schemas(spark, layout, redaction, salt)
        left = "" if silver is None else self._rebuilt(name, silver)
        return Redacted(name, table.columns, files, table.silver, left)

    def _rebuilt(self, name: str, silver: Table) -> str:
        """Build the silver table again; why it stays as it is, "" where it does not."""
        if silver.part is not None:
            return f"several tables go into {silver.name}: move it away, and the next run builds it again from bronze"
        version = newest_version(self._spark, self._layout.changes)
        refused = rebuild(self._spark, self._layout, name, self._policy(name), version)
        return "" if refused is None else f"its silver table stays as it is: {silver_reason(refused)}"


def _too_early(what: str) -> DefiniteError:
    return codes.REDACTION_TOO_EARLY.error(what, hint=_CATCH_UP)
