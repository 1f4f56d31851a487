"""What Delta's own library says of a table that lies in a folder here, asked of it directly.

Its SQL (DESCRIBE DETAIL) makes all of a table's state to answer, with jobs that take half a second; the library itself
reads the few bytes that it keeps of each version. It is no public interface, so whoever asks can do without: where it
is not there (Databricks, Spark Connect, tables of a catalog) there is no answer.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass
from pyspark.sql import SparkSession

from lakehouse_cdc.model.layout import Table


def reachable(spark: SparkSession, table: Table) -> bool:
    """Whether Delta's library can be asked about the table, and be told to commit to it (see `added`)."""
    if table.path is None or not table.path.startswith("/") or not hasattr(spark, "_jvm"):
        return False
    delta = library(spark)
    return isinstance(delta.DeltaLog, JavaClass) and isinstance(getattr(delta, OPERATION), JavaClass)


OPERATION = "DeltaOperations$StreamingUpdate"  # what a commit of a stream says it is


def library(spark: SparkSession) -> Any:
    """Its package."""
    jvm: Any = spark._jvm
    return jvm.org.apache.spark.sql.delta


def properties(spark: SparkSession, table: Table) -> dict[str, str] | None:
    """The properties of a table that is there; None where the library cannot be asked."""
    if not reachable(spark, table):
        return None
    snapshot = library(spark).DeltaLog.forTableWithSnapshot(spark._jsparkSession, table.path)._2()
    jvm: Any = spark._jvm
    return dict(jvm.scala.jdk.CollectionConverters.MapHasAsJava(snapshot.metadata().configuration()).asJava())
