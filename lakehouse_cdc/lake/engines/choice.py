"""Which engine has a table: the first that can, of those that are declared here."""

from __future__ import annotations

from pyspark.sql import SparkSession

from lakehouse_cdc.lake.engines.direct import DirectEngine
from lakehouse_cdc.lake.engines.port import Engine
from lakehouse_cdc.lake.engines.spark import SparkEngine
from lakehouse_cdc.model.table_layout import Table


def engine_of(spark: SparkSession, table: Table) -> Engine:
    """The engine of a table that exists, as the table is now."""
    return DirectEngine(spark) if DirectEngine.has(spark, table) else SparkEngine(spark)
