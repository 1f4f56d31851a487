"""A commit of files that were written beside Spark (see `files`), once, with its note.

Delta's library makes the commit: it takes the transaction, looks at what was committed meanwhile, and writes log,
checksum and checkpoint. Its writers in Spark end in the very call that is made here; so do other tools that bring files
of their own (Apache XTable). It is no public interface: where it is not `reachable` (see `delta_log`), rows go through
Spark instead, and make the same table.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import unquote

from pyspark.sql import SparkSession

from lakehouse_cdc.lake.commits import application
from lakehouse_cdc.lake.delta_log import APPENDED, STREAMED, library, reachable
from lakehouse_cdc.lake.failpoints import Door, commit_to
from lakehouse_cdc.model.bronze_row import PARTITION
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.table_layout import Table


class Added(Protocol):
    """A file to be committed; see `data_file.NewFile`."""

    @property
    def path(self) -> str:
        """Relative to the table's folder, encoded like a URL."""

    @property
    def size(self) -> int:
        """Its bytes."""

    @property
    def modified(self) -> int:
        """Milliseconds since 1970."""

    @property
    def stats(self) -> str:
        """What Delta keeps of it."""

    @property
    def partition(self) -> Mapping[str, str]:
        """The values of the partition columns."""

    @property
    def count(self) -> int:
        """Its rows."""


@dataclass(frozen=True)
class DataFile:
    """One file of the change table; the fields are those of `model.bronze_arrow.LINE`."""

    source_table: str
    path: str
    size: int
    modified: int
    stats: str
    ops: str
    schemas: str

    @property
    def rows(self) -> dict[str, int]:
        """op -> rows."""
        counts: dict[str, int] = json.loads(self.ops)
        return counts

    @property
    def partition(self) -> Mapping[str, str]:
        """See `Added`."""
        return {PARTITION: self.source_table}

    @property
    def count(self) -> int:
        """See `Added`."""
        return sum(self.rows.values())


def add_files(
    spark: SparkSession,
    table: Table,
    files: Sequence[Added],
    note: CommitNote,
    step: str,
    operation: str = STREAMED,
) -> int | None:
    """Commit the files; the version. None if that was done before: the files, which hold the same, are deleted.

    `operation` is what the commit says it is: that of a stream, or an append.
    """
    assert table.path is not None
    jvm: Any = spark._jvm
    delta = library(spark)
    transaction = delta.DeltaLog.forTable(spark._jsparkSession, table.path).startTransaction()
    app = application(note, step)
    if _last(transaction, app) >= note.batch:
        discard(table, files)
        return None
    rows, size = sum(file.count for file in files), sum(file.size for file in files)
    metrics = {"numOutputRows": rows, "numOutputBytes": size}
    if operation == STREAMED:
        metrics |= {"numAddedFiles": len(files), "numRemovedFiles": 0}
    else:
        metrics |= {"numFiles": len(files)}
    transaction.registerSQLMetrics(spark._jsparkSession, _metrics(spark, metrics))
    once = {"txn": {"appId": app, "version": note.batch, "lastUpdated": None}}
    actions = [delta.actions.Action.fromJson(text) for text in (json.dumps(once), *map(action, files))]
    info = _streamed(spark, note) if operation == STREAMED else _appended(spark, note)
    with commit_to(Door.ADD, table.name):
        return int(transaction.commit(jvm.PythonUtils.toSeq(actions), info))


def last_batch(spark: SparkSession, table: Table, app: str) -> int | None:
    """The last batch that an application has committed to the table, None for none or where Delta cannot be asked."""
    if not reachable(spark, table):
        return None
    last = _last(library(spark).DeltaLog.forTable(spark._jsparkSession, table.path).startTransaction(), app)
    return last if last >= 0 else None


def discard(table: Table, files: Sequence[Added]) -> None:
    """Delete files that are not to be committed."""
    for file in files:
        os.unlink(os.path.join(str(table.path), unquote(file.path)))


def action(file: Added, *, changes: bool = True) -> str:
    """The file as an action of Delta's log; `changes`: its rows are new to the table."""
    added = {
        "path": file.path, "partitionValues": dict(file.partition), "size": file.size,
        "modificationTime": file.modified, "dataChange": changes, "stats": file.stats,
    }  # fmt: skip
    return json.dumps({"add": added})


def _streamed(spark: SparkSession, note: CommitNote) -> Any:
    jvm: Any = spark._jvm
    mode = jvm.org.apache.spark.sql.streaming.OutputMode.Append()
    return getattr(library(spark), STREAMED)(mode, note.query, note.batch, jvm.scala.Some(note.text()))


def _appended(spark: SparkSession, note: CommitNote) -> Any:
    """What the append of a DataFrameWriter says; how many options there are after the note depends on the release."""
    jvm: Any = spark._jvm
    operation = getattr(library(spark), APPENDED)
    none = getattr(jvm.scala, "None$").__getattr__("MODULE$")
    nothing = jvm.scala.Some(jvm.PythonUtils.toSeq([]))
    options = operation._java_lang_class.getConstructors()[0].getParameterCount()
    mode = jvm.org.apache.spark.sql.SaveMode.Append
    return operation(mode, nothing, none, jvm.scala.Some(note.text()), *([none] * (options - 4)))


def _last(transaction: Any, app: str) -> int:
    """The last batch that the application has committed, or -1.

    The table's checksum file lists that; without one, all of the table's state is made, which takes much longer.
    """
    checksum = transaction.snapshot().checksumOpt()
    if checksum.isEmpty() or checksum.get().setTransactions().isEmpty():
        return int(transaction.txnVersion(app))
    last, each = -1, checksum.get().setTransactions().get().iterator()
    while each.hasNext():
        one = each.next()
        if one.appId() == app:
            last = max(last, one.version())
    return last


def _metrics(spark: SparkSession, values: dict[str, int]) -> Any:
    jvm: Any = spark._jvm
    metrics = jvm.org.apache.spark.sql.execution.metric.SQLMetrics
    metrics_by_name = {}
    for name, value in values.items():
        metrics_by_name[name] = metrics.createMetric(spark.sparkContext._jsc.sc(), name)
        metrics_by_name[name].add(value)
    return jvm.PythonUtils.toScalaMap(metrics_by_name)
