"""A commit of files to a table that deltalake cannot write: by Delta's own library, in Spark's JVM.

It is for the first rows of silver tables that Spark keeps (`silver.load.direct_load`). These are made with the feature
typeWidening (see `silver.tables.table_definition`), which deltalake refuses to write, in any form. Delta's writers in
Spark end in the very call that is made here; so do other tools that bring files of their own (Apache XTable). It is no
public interface: where it is not `reachable` (see `delta_log`), rows go through Spark instead, and make the same table.

Once, as `commit` is: the transaction is begun before the batch is looked for, and Delta refuses it where another
commits the same batch meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from lakehouse_cdc.lake.commits import application
from lakehouse_cdc.lake.delta_log import APPENDED, library
from lakehouse_cdc.lake.direct.commit import Added, discard
from lakehouse_cdc.lake.failpoints import Door, commit_to
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.table_layout import Table


def add_by_library(spark: SparkSession, table: Table, files: Sequence[Added], note: CommitNote, step: str) -> None:
    """Commit the files as an append; if that was done before, the files, which hold the same, are deleted."""
    jvm: Any = spark._jvm
    delta = library(spark)
    transaction = delta.DeltaLog.forTable(spark._jsparkSession, table.path).startTransaction()
    app = application(note, step)
    if _last(transaction, app) >= note.batch:
        discard(table, files)
        return
    rows, size = sum(file.count for file in files), sum(file.size for file in files)
    metrics = {"numFiles": len(files), "numOutputRows": rows, "numOutputBytes": size}
    transaction.registerSQLMetrics(spark._jsparkSession, _metrics(spark, metrics))
    once = {"txn": {"appId": app, "version": note.batch, "lastUpdated": None}}
    actions = [delta.actions.Action.fromJson(json.dumps(one)) for one in (once, *map(_added, files))]
    with commit_to(Door.ADD, table.name):
        transaction.commit(jvm.PythonUtils.toSeq(actions), _appended(spark, note))


def _added(file: Added) -> dict[str, Any]:
    return {
        "add": {
            "path": file.path, "partitionValues": dict(file.partition), "size": file.size,
            "modificationTime": file.modified, "dataChange": True, "stats": file.stats,
        }
    }  # fmt: skip


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
