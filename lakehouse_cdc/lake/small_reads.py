"""A whole small table as Arrow: by deltalake where that can, which takes no Spark, else by Spark.

For tables of the operator, of which a report is made: seconds of a JVM's start are most of what it would cost.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse_cdc.lake.bare import is_plain_path
from lakehouse_cdc.model.table_layout import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Reader = Callable[[Table, Sequence[str]], "pa.Table | None"]  # some of the table's columns; None: there is no table


def reader(spark: Callable[[], SparkSession]) -> Reader:
    """The first of `by_deltalake` and `by_spark` that can; a session is asked for only where it is needed."""

    def read(table: Table, columns: Sequence[str]) -> pa.Table | None:
        if table.path is not None and not os.path.isdir(os.path.join(table.path, "_delta_log")):
            return None
        try:
            return by_deltalake(table, columns)
        except Exception:  # a feature that it has not, a path that it does not take; Spark knows them all
            return by_spark(spark(), table, columns)

    return read


def by_deltalake(table: Table, columns: Sequence[str]) -> pa.Table:
    """A table in a folder. Raises ValueError for another place, and deltalake's own errors."""
    from deltalake import DeltaTable

    if table.path is None or not is_plain_path(table.path):
        raise ValueError(f"{table} is in no folder that deltalake reads")
    held = DeltaTable(table.path)
    names = {field.name for field in held.schema().fields}
    return held.to_pyarrow_table(columns=[name for name in columns if name in names])


def by_spark(spark: SparkSession, table: Table, columns: Sequence[str]) -> pa.Table | None:
    """Any table; None where there is none."""
    from lakehouse_cdc.lake.tables import exists, read

    if not exists(spark, table):
        return None
    rows = read(spark, table)
    return rows.select(*(name for name in columns if name in rows.columns)).toArrow()
