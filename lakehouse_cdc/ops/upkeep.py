"""Compaction as a part of the run: bronze's small files are put together beside the streams.

Purpose: each batch adds a file to the partition of each table that it has rows of, so without this the number of
files, hence the time of every reader and of every checkpoint of Delta's, grows with the number of batches for ever.
Silver's tables, tombstones and metrics are compacted by those that write to them (`delta.autoOptimize.autoCompact`,
`lake.direct.rust_table`).

Invariant: a table has no more than about `_FEW` files, and `_A_PARTITION` for each partition, beside those that its
bytes need; what readers and `as_of` see is the same as without.

Why it holds: the number of files is looked at whenever the number of bronze's version passes a multiple of `_EVERY`.
That needs no memory between runs: those of a job that only takes what is there now are counted, too. A look that fails,
or is given up because the run ends, is made up for by the next. To put files together changes no row, and does not
conflict with appends. Who commits the stream's rows commits this as well (`ops.maintain`): on a local disk Spark's
commit could replace one that deltalake makes at the same moment (`lake.direct.newest_version`), so where the stream
commits by deltalake, Spark does nothing here.

Guards: tests/pipeline/test_upkeep.py.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from types import TracebackType

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from lakehouse_cdc.bronze.compaction import FILE
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.lake.spark_errors import first_line
from lakehouse_cdc.lake.tables import exists
from lakehouse_cdc.model.table_layout import Layout, Table
from lakehouse_cdc.ops.maintain import compacting, optimize, optimize_changes, patiently, size_of
from lakehouse_cdc.silver.tables.names import known_source_tables

_EVERY = 64  # commits of bronze from one look to the next
_FEW, _A_PARTITION = 64, 16
_TAG = "lakehouse_cdc upkeep"
_log = logging.getLogger(__name__)


class Upkeep:
    """That of one run, as a context manager: what is being done as the run ends is finished, or given up (Ctrl-C).

    `on_notice` gets a sentence where it failed; the run is not ended by it.
    """

    def __init__(self, spark: SparkSession, layout: Layout, on_notice: Callable[[str], None]) -> None:
        self._spark, self._layout, self._notice = spark, layout, on_notice
        self._last: int | None = None
        self._thread: threading.Thread | None = None
        self._given_up = threading.Event()
        self._session: SparkSession | None = None

    def after(self, version: int) -> None:
        """Bronze is at that version. Returns at once; may be called from any thread, one call at a time."""
        last = version - 1 if self._last is None else self._last
        self._last = version
        if version // _EVERY > last // _EVERY and (self._thread is None or not self._thread.is_alive()):
            self._thread = InheritableThread(target=self._look, name="upkeep")
            self._thread.start()

    def __enter__(self) -> Upkeep:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is not None:
            if kind is not None:
                self._given_up.set()
                if self._session is not None:
                    self._session.interruptTag(_TAG)
            self._thread.join()

    def _look(self) -> None:
        try:
            session = self._session = compacting(self._spark)
            session.addTag(_TAG)
            for table in too_many_files(session, self._layout):
                for step in self._steps(session, table):
                    patiently(step)
        except Exception as error:  # the streams are not to end by it
            _log.warning("the files of bronze could not be put together", exc_info=error)
            self._notice(f"small files could not be put together, which is tried again later: {first_line(error)}")

    def _steps(self, session: SparkSession, table: Table) -> list[Callable[[], object]]:
        if table != self._layout.changes:
            return [partial(optimize, session, self._layout, table)]
        names = sorted(known_source_tables(SparkReader(session), self._layout))
        return [partial(optimize_changes, session, self._layout, name, self._given_up.is_set) for name in names]


def too_many_files(spark: SparkSession, layout: Layout) -> list[Table]:
    """Those of the tables that nobody else compacts that have more files than their bytes and partitions need."""
    known = known_source_tables(SparkReader(spark), layout) if exists(spark, layout.schemas) else ()
    partitions = {layout.changes: len(known)}
    tables = [layout.changes, layout.schemas, *([layout.ledger] if layout.silver is not None else [])]

    def has_too_many(table: Table) -> bool:
        size, files = size_of(spark, table)
        return files > _FEW + _A_PARTITION * partitions.get(table, 0) + 2 * (size // FILE)

    return [table for table in tables if exists(spark, table) and has_too_many(table)]
