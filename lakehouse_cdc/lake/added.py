"""A commit of files that were written beside Spark (see `files`), once, with its note.

Delta's library makes the commit: it takes the transaction, looks at what was committed meanwhile, and writes log,
checksum and checkpoint. Its writers in Spark end in the very call that is made here; so do other tools that bring files
of their own (Apache XTable). It is no public interface: where it is not `reachable` (see `delta_log`), rows go through
Spark instead, and make the same table.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from pyspark.sql import SparkSession

from lakehouse_cdc.lake.commits import application
from lakehouse_cdc.lake.delta_log import OPERATION, library
from lakehouse_cdc.model.bronze import PARTITION
from lakehouse_cdc.model.layout import Table
from lakehouse_cdc.model.standing import CommitNote


@dataclass(frozen=True)
class DataFile:
    """One file of the change table; the fields are those of `files.LINE`."""

    source_table: str
    path: str
    size: int
    modified: int
    stats: str
    ops: str

    @property
    def rows(self) -> dict[str, int]:
        """op -> rows."""
        found: dict[str, int] = json.loads(self.ops)
        return found

    def action(self) -> str:
        """The file as an action of Delta's log."""
        said = {
            "path": self.path, "partitionValues": {PARTITION: self.source_table}, "size": self.size,
            "modificationTime": self.modified, "dataChange": True, "stats": self.stats,
        }  # fmt: skip
        return json.dumps({"add": said})


def add_files(spark: SparkSession, table: Table, files: Sequence[DataFile], note: CommitNote, step: str) -> int | None:
    """Commit the files; the version. None if that was done before: the files, which hold the same, are deleted."""
    assert table.path is not None
    jvm: Any = spark._jvm
    delta = library(spark)
    transaction = delta.DeltaLog.forTable(spark._jsparkSession, table.path).startTransaction()
    app = application(note, step)
    if _last(transaction, app) >= note.batch:
        for file in files:
            os.unlink(os.path.join(table.path, unquote(file.path)))
        return None
    metrics = {
        "numAddedFiles": len(files),
        "numRemovedFiles": 0,
        "numOutputRows": sum(sum(file.rows.values()) for file in files),
        "numOutputBytes": sum(file.size for file in files),
    }
    transaction.registerSQLMetrics(spark._jsparkSession, _metrics(spark, metrics))
    once = {"txn": {"appId": app, "version": note.batch, "lastUpdated": None}}
    actions = [delta.actions.Action.fromJson(text) for text in (json.dumps(once), *(file.action() for file in files))]
    mode = jvm.org.apache.spark.sql.streaming.OutputMode.Append()
    operation = getattr(delta, OPERATION)(mode, note.query, note.batch, jvm.scala.Some(note.text()))
    return int(transaction.commit(jvm.PythonUtils.toSeq(actions), operation))


def _last(transaction: Any, app: str) -> int:
    """The last batch that the application has committed, or -1.

    The table's checksum file lists that; without one, all of the table's state is made, which takes much longer.
    """
    checksum = transaction.snapshot().checksumOpt()
    if checksum.isEmpty() or checksum.get().setTransactions().isEmpty():
        return int(transaction.txnVersion(app))
    found, each = -1, checksum.get().setTransactions().get().iterator()
    while each.hasNext():
        one = each.next()
        if one.appId() == app:
            found = max(found, one.version())
    return found


def _metrics(spark: SparkSession, values: dict[str, int]) -> Any:
    jvm: Any = spark._jvm
    metrics = jvm.org.apache.spark.sql.execution.metric.SQLMetrics
    found = {}
    for name, value in values.items():
        found[name] = metrics.createMetric(spark.sparkContext._jsc.sc(), name)
        found[name].add(value)
    return jvm.PythonUtils.toScalaMap(found)
