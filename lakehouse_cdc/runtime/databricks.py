"""What is different where Databricks runs this: it brings the Spark session, and keeps the log."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def on_databricks() -> bool:
    """Whether this process runs on Databricks' compute; every runtime there says so by this variable."""
    return "DATABRICKS_RUNTIME_VERSION" in os.environ


def brought_session() -> SparkSession | None:
    """The session that Databricks brings, None elsewhere.

    It has Delta though none of its settings says so, and it is never stopped by us: others in the job use it, too.
    """
    if not on_databricks():
        return None
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()
