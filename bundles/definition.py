"""The declarative pipeline: what it reads, and into which tables, says the file that its configuration names."""

from __future__ import annotations

from pyspark.sql import SparkSession

from lakehouse_cdc.declarative import register

try:
    from pyspark import pipelines as dp
except ImportError:  # older runtimes call it so
    import dlt as dp  # type: ignore[no-redef]

register(dp, str(SparkSession.active().conf.get("lakehouse_cdc.config")))
