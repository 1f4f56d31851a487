"""Delta's own library in Spark, as the judge of what is read and written without it."""

from __future__ import annotations

import json
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.table_state import State
from lakehouse_cdc.model.table_layout import Table


def delta_table(spark: SparkSession, table: Table) -> Any:
    """The table, as its Python API has it."""
    return DeltaTable.forName(spark, table.sql) if table.path is None else DeltaTable.forPath(spark, table.path)


def library(spark: SparkSession) -> Any:
    """Its package."""
    jvm: Any = spark._jvm
    return jvm.org.apache.spark.sql.delta


def forget(spark: SparkSession) -> None:
    """What it remembers of tables, as another process would not."""
    library(spark).DeltaLog.clearCache()


def snapshot(spark: SparkSession, table: Table) -> Any:
    """The newest version, as it has it."""
    return library(spark).DeltaLog.forTableWithSnapshot(spark._jsparkSession, table.path)._2()


def state(spark: SparkSession, table: Table) -> State:
    """The same as `delta_log.state`."""
    newest = snapshot(spark, table)
    metadata = json.loads(newest.metadata().json())["metaData"]
    protocol = json.loads(newest.protocol().json())["protocol"]
    return State(
        metadata["id"],
        int(newest.version()),
        tuple(json.loads(metadata["schemaString"])["fields"]),
        metadata["configuration"],
        tuple(metadata["partitionColumns"]),
        frozenset(protocol.get("writerFeatures", ())),
    )
