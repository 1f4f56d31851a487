"""The engine for every table: Spark's writer and reader."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.lake.commits import writer_options
from lakehouse_cdc.lake.engines.port import Row, struct_of
from lakehouse_cdc.lake.table_state import Columns
from lakehouse_cdc.lake.tables import append, read
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.table_layout import Table


class SparkEngine:
    """See `port.Engine`. Which columns have bounds is a property of the table."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def append(
        self,
        table: Table,
        columns: Columns,
        rows: Sequence[Row],
        note: CommitNote,
        step: str,
        statistics: Iterable[str],
    ) -> None:
        """See `port.Engine`."""
        values = [tuple(row[name] for name, _ in columns) for row in rows]
        append(self._spark.createDataFrame(values, struct_of(columns)), table, writer_options(note, step))

    def read(self, table: Table, columns: Sequence[str]) -> list[dict[str, Any]]:
        """See `port.Engine`."""
        rows: list[dict[str, Any]] = read(self._spark, table).select(*columns).toArrow().to_pylist()
        return rows

    def greatest(self, table: Table, by: str, columns: Sequence[str]) -> dict[str, Any] | None:
        """See `port.Engine`."""
        rows = read(self._spark, table).where(F.col(by).isNotNull()).orderBy(F.col(by).desc()).limit(1)
        return next(iter(rows.select(*columns).toArrow().to_pylist()), None)
