"""A bare Delta table as deltalake (delta-rs) reads and writes it, in a task or anywhere: no Spark, no JVM.

Purpose: a commit to a small table in hundredths of a second. See `silver.definition.engine` for the tables that it is
for. Each commit says what one of Spark's does (`lake.commits`): its note, and which batch of which application it is.

Invariant: a batch is committed at most once, by whichever engine, in whichever order they try.

Why it holds: Delta's transaction identifiers are part of the table (protocol, "Transaction Identifiers"). A writer
opens the table, looks for the batch, and commits on top of the version that it opened. If another commits meanwhile,
delta-rs refuses the commit where that one has the same application, or has added or removed what this one has read
(its `ConflictChecker`). So of a task and its copy that runs elsewhere, or of a task that nobody waits for any more and
Spark, only the first commits; the other fails, or sees the batch. A MERGE that changes nothing writes no version:
then the batch comes again as one that changes nothing.

Bounds that it writes of decimals beyond 64 bits are wrong: they are those of the largest number of 64 bits. Its own
reader, and Spark, then leave a file out that has what they look for. So the tables that it is for keep no statistics of
such columns (`bounded`; see `silver.tables.table_definition.indexed`).

The library is imported where it is first used: its threads begin in the process that uses it, never in one that is yet
to be forked.

Guards: tests/lake/test_rust_table.py.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_cdc.lake.bare import BARE
from lakehouse_cdc.lake.direct.log_upkeep import MOST, RETENTION, delete_all_but
from lakehouse_cdc.lake.failpoints import Door, commit_to
from lakehouse_cdc.lake.opened import opened
from lakehouse_cdc.model.place import is_url

SMALL, MANY, TOGETHER = 8 << 20, 50, 32 << 20  # as auto-compaction is set for Spark (`merge.FILES`)
_LEGACY = 2  # the version for writers that stands for the first two of these
_INTERVAL = 100  # commits from a checkpoint to the next one, where the table does not say, as deltalake has it
_CHECKPOINTS = 10  # after so many, the log is looked at for being too long
_SOURCE, _TARGET = "s", "t"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Once:
    """What makes a commit once: the batch of an application, and the note that it carries."""

    application: str
    batch: int
    note: str


@dataclass(frozen=True)
class Merge:
    """A MERGE of `rows` by `key`: the last change of each key, newer than what the table holds or not.

    `rows` have the table's columns, and `deleted`, a column that says whether the row is one that went. `seq` is the
    column that orders changes. `within` are the least and the greatest value of a key column, as `literal`s, which
    hold for all rows. Rows of the table that are not in `rows`, and are older than `below`, are deleted; 0: none.
    """

    rows: pa.Table
    key: Sequence[str]
    seq: str
    deleted: str
    within: tuple[str, str, str] | None = None
    below: int = 0


@dataclass(frozen=True)
class Upsert:
    """A MERGE of `rows` by `key` into those rows of the table for which `matches` holds, too.

    Of a row that matches, the columns of the first of `updates` are taken over whose condition holds; of another, those
    of `inserts`, if its condition does. Conditions are SQL over `of_source` and `of_target`. `within` is as of `Merge`.
    """

    rows: pa.Table
    key: Sequence[str]
    matches: str
    updates: Sequence[tuple[str, Sequence[str]]]
    inserts: tuple[str, Sequence[str]]
    within: tuple[str, str, str] | None = None


class RustTable:
    """A table as it is now. Raises deltalake's errors; one that it cannot write raises before anything is committed."""

    def __init__(self, path: str, name: str) -> None:
        from deltalake import DeltaTable

        self._path, self._name = path, name
        self._table = opened(path) if is_url(path) else DeltaTable(path)

    @property
    def version(self) -> int:
        """That of the table as it was opened, or of the last commit that was made here."""
        return int(self._table.version())

    @property
    def schema(self) -> pa.Schema:
        """The columns, in Arrow's types."""
        return pa.schema(self._table.schema().to_arrow())

    @property
    def properties(self) -> Mapping[str, str]:
        """Those of the table."""
        return dict(self._table.metadata().configuration)

    @property
    def bare(self) -> bool:
        """Whether the table has no feature beyond those that are tried with deltalake.

        deltalake does not refuse all others: it writes a table with deletion vectors, of which MERGEs are untried here.
        """
        protocol = self._table.protocol()
        if protocol.writer_features is None:
            return protocol.min_writer_version <= _LEGACY
        return BARE.issuperset([*protocol.writer_features, *(protocol.reader_features or ())])

    @property
    def bounded(self) -> str | None:
        """The table's list of the columns that have statistics; those of decimals beyond 64 bits would be wrong."""
        return self.properties.get("delta.dataSkippingStatsColumns")

    def has(self, once: Once) -> bool:
        """Whether that batch, or a later one of the application, has been committed."""
        last = self._table.transaction_version(once.application)
        return last is not None and int(last) >= once.batch

    def rows(self, columns: Sequence[str], where: Any = None, among: tuple[str, pa.Array] | None = None) -> pa.Table:
        """Those columns of all rows for which the expression of Arrow's datasets holds.

        `among`: of rows that have one of those values in a column, which is read. Where MERGEs have written texts,
        Arrow's datasets cannot compare them, for their files' bounds are of another type: they are so here.
        """
        scanner = self._table.to_pyarrow_dataset().scanner(columns=list(columns), filter=where)
        if among is None:
            return scanner.to_table()
        name, values = among
        values = values.cast(scanner.projected_schema.field(name).type)
        chosen = (batch.filter(pc.is_in(batch.column(name), value_set=values)) for batch in scanner.to_batches())
        return pa.Table.from_batches(chosen, schema=scanner.projected_schema)

    def sizes(self) -> list[int]:
        """The bytes of each file."""
        files = pa.table(self._table.get_add_actions())
        return [int(size) for size in files.column("size_bytes").to_pylist()]

    def append(self, rows: pa.Table, once: Once) -> None:
        """One commit, also of no rows, unless the batch has been committed."""
        from deltalake import write_deltalake

        if not self.has(once):
            with commit_to(Door.ADD, self._name):
                write_deltalake(
                    self._table, rows, mode="append", commit_properties=_properties(once),
                    post_commithook_properties=self._afterwards(),
                )  # fmt: skip
            self._shorten_log()

    def merge(self, merge: Merge, once: Once) -> None:
        """One commit, or none where nothing changes, unless the batch has been committed."""
        if self.has(once):
            return
        statement = self._statement(merge.rows, merge.key, None if merge.below else merge.within, [], once)
        values = _values([name for name in merge.rows.column_names if name != merge.deleted])
        newer = f"{of_source(merge.seq)} > {of_target(merge.seq)}"
        gone = of_source(merge.deleted)
        statement = (
            statement.when_matched_delete(f"{gone} AND {newer}")
            .when_matched_update(values, f"NOT {gone} AND {newer}")
            .when_not_matched_insert(values, f"NOT {gone}")
        )
        if merge.below:
            older = f"{of_target(merge.seq)} < {literal(Decimal(merge.below), pa.decimal128(38, 0))}"
            statement = statement.when_not_matched_by_source_delete(older)
        with commit_to(Door.MERGE, self._name):
            statement.execute()
        self._shorten_log()

    def upsert(self, upsert: Upsert, once: Once) -> None:
        """One commit, also where nothing changes, unless the batch has been committed."""
        if self.has(once):
            return
        statement = self._statement(upsert.rows, upsert.key, upsert.within, [upsert.matches], once)
        for condition, columns in upsert.updates:
            statement = statement.when_matched_update(_values(columns), condition)
        condition, columns = upsert.inserts
        statement, before = statement.when_not_matched_insert(_values(columns), condition), self.version
        with commit_to(Door.MERGE, self._name):
            statement.execute()
        if self.version == before:
            self.append(self.schema.empty_table(), once)
        else:
            self._shorten_log()

    def _statement(
        self, rows: pa.Table, key: Sequence[str], within: tuple[str, str, str] | None, more: Sequence[str], once: Once
    ) -> Any:
        same = [f"{of_target(name)} = {of_source(name)}" for name in key]
        if within is not None:
            name, least, greatest = within
            same += [f"{of_target(name)} >= {least}", f"{of_target(name)} <= {greatest}"]
        return self._table.merge(
            rows, " AND ".join([*same, *more]), source_alias=_SOURCE, target_alias=_TARGET,
            commit_properties=_properties(once), post_commithook_properties=self._afterwards(),
        )  # fmt: skip

    def _afterwards(self) -> Any:
        """What deltalake does after the next commit: it looks for old commits to delete only where a checkpoint is due.

        Else it would look at all files of the log for each commit.
        """
        from deltalake import PostCommitHookProperties

        due = (self.version + 1) % self._interval == 0
        return PostCommitHookProperties(cleanup_expired_logs=None if due else False)

    @property
    def _interval(self) -> int:
        return int(self.properties.get("delta.checkpointInterval", _INTERVAL))

    def _shorten_log(self) -> None:
        """After a commit: of a table of which nobody has said how long its log is to be, delete what is too much.

        In a bucket, deltalake lists a log from its last checkpoint on, so a long one costs nothing.
        """
        usual = self.properties.get("delta.logRetentionDuration") == RETENTION
        if usual and not is_url(self._path) and self.version % (self._interval * _CHECKPOINTS) == 0:
            try:
                delete_all_but(self._path, MOST, self.version)
            except OSError as error:  # the next time will do
                _log.warning("old commits of %s stay", self._path, exc_info=error)

    def put_together(self) -> None:
        """Make few files of many small ones, in a commit without a note, which changes no row."""
        if sum(size < SMALL for size in self.sizes()) >= MANY:
            with commit_to(Door.STATEMENT, self._name):
                self._table.optimize.compact(target_size=TOGETHER)


def _properties(once: Once) -> Any:
    from deltalake import CommitProperties, Transaction

    transaction = Transaction(once.application, once.batch)
    return CommitProperties(custom_metadata={"userMetadata": once.note}, app_transactions=[transaction])


def quoted(name: str) -> str:
    """An identifier as DataFusion's SQL reads it."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: Any, kind: pa.DataType) -> str:
    """A number or a date as DataFusion's SQL reads it."""
    if pa.types.is_decimal(kind):
        return f"CAST('{value:f}' AS DECIMAL({kind.precision},{kind.scale}))"
    names = {pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INT", pa.int64(): "BIGINT", pa.date32(): "DATE"}
    return f"CAST('{value}' AS {names[kind]})"


def _values(names: Sequence[str]) -> dict[str, str]:
    return {quoted(name): of_source(name) for name in names}


def of_source(name: str) -> str:
    """A column of the rows that are merged, in SQL."""
    return f"{_SOURCE}.{quoted(name)}"


def of_target(name: str) -> str:
    """A column of the table, in the SQL of a MERGE."""
    return f"{_TARGET}.{quoted(name)}"
