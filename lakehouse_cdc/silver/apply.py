"""Apply a range of bronze commits to the silver tables.

Tables are written side by side, each thread in a session of its own, since a session's settings carry what a commit
says. A table that fails does not stop the others; the batch as a whole then fails, and is repeated as a whole.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import SparkSession

from lakehouse_cdc.errors import CdcError, DefiniteError, TransientError
from lakehouse_cdc.lake.changes import Versions
from lakehouse_cdc.model.layout import Layout
from lakehouse_cdc.model.standing import CommitNote
from lakehouse_cdc.silver.batch import TableBatch, split
from lakehouse_cdc.silver.keeper import TableKeeper
from lakehouse_cdc.silver.schemas import Schemas


class Applier:
    """Keeps the silver tables of one pipeline, as their only writer. Not for use by two threads at a time.

    `threads` tables are written at once; tombstones older than `keep_days` days are pruned, once a day for each table.
    `drops` says of a source table whether silver drops the columns that its schema loses; by default none.
    """

    def __init__(
        self,
        spark: SparkSession,
        layout: Layout,
        *,
        threads: int = 4,
        keep_days: float = 7.0,
        drops: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._layout = layout
        self._keep_days, self._drops = keep_days, drops
        self._spark = spark
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="silver")
        self._of_thread = threading.local()
        self._schemas = Schemas(layout)
        self._keepers: dict[str, TableKeeper] = {}  # of tables that are ours and hold all up to the last batch

    def apply(self, versions: Versions, note: CommitNote) -> list[str]:
        """Apply those commits of bronze; the tables that they touch. Done before, it changes nothing.

        Raises DefiniteError or TransientError for the first table that failed, after all have been tried.
        """
        rows = versions.rows(self._spark, self._layout.changes)
        parts = split(rows)
        self._layout.silver_tables({*parts, *self._keepers})
        self._schemas.learn(self._spark, {i for part in parts.values() for i in part.schema_ids}, rows)
        tasks = {part.table: self._pool.submit(self._table, part, versions, note) for part in parts.values()}
        failed = [(table, task.exception()) for table, task in tasks.items()]
        _raise([(table, error) for table, error in failed if error is not None])
        return list(parts)

    def _table(self, part: TableBatch, versions: Versions, note: CommitNote) -> None:
        # a table that fails is looked at anew in the next batch
        keeper = self._keepers.pop(part.table, None)
        if keeper is None:
            drops = self._drops(part.table)
            keeper = TableKeeper(self._layout, self._schemas, part.table, keep_days=self._keep_days, drops=drops)
        keeper.apply(self._session(), part, versions, note)
        self._keepers[part.table] = keeper

    def _session(self) -> SparkSession:
        """This thread's own session: its settings carry what a commit says."""
        if not hasattr(self._of_thread, "session"):
            self._of_thread.session = self._spark.newSession()
        session: SparkSession = self._of_thread.session
        return session


def _raise(failed: Sequence[tuple[str, BaseException]]) -> None:
    """The first failure as an error of ours, with Spark's as its cause; definite ones come first."""
    if not failed:
        return
    table, error = min(failed, key=lambda f: not isinstance(f[1], DefiniteError))
    others = f" ({len(failed)} tables failed)" if len(failed) > 1 else ""
    if isinstance(error, CdcError):
        raise type(error)(error.what + others, where=error.where or table, hint=error.hint) from error
    if "INVALID_VARIANT_CAST" in str(error):
        raise DefiniteError(
            f"a value of {table} in bronze does not fit its column in silver{others}",
            where=table,
            hint="the table was altered in a way that was not seen; read it again from the source",
        ) from error
    line = next((text for text in str(error).splitlines() if text.strip()), type(error).__name__)
    what = f"the silver table of {table} could not be written{others}: {line[:300]}"
    raise TransientError(what, where=table) from error
