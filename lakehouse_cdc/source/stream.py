"""The Spark data source `mysql_cdc`: the shell around `planner`, `partitions` and the readers.

    spark.dataSource.register(MySqlCdcSource)
    spark.readStream.format("mysql_cdc").options(...).load()     # bronze rows, snapshot and binlog in one stream
    spark.read.format("mysql_cdc").options(asOf=...).load()      # all rows of the tables as of a committed offset

Spark calls the planner's side (`latestOffset`, `partitions`) in one Python process beside the driver and `read` in the
workers; they share nothing but offsets and splits. `initialOffset` is never stored, so it is the constant `{}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from lakehouse_cdc.model import bronze
from lakehouse_cdc.source.offsets import restored, stored
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.patience import patiently
from lakehouse_cdc.source.planner import Planner
from lakehouse_cdc.source.read import read_split
from lakehouse_cdc.source.schemas import SchemaStore


class MySqlCdcSource(DataSource):
    """MySQL's rows and changes as bronze rows. Options: `lakehouse_cdc.source.options`."""

    @classmethod
    def name(cls) -> str:
        """The name for `format(...)`."""
        return "mysql_cdc"

    def schema(self) -> str:
        """Bronze's columns."""
        return bronze.SCHEMA

    def streamReader(self, schema: StructType) -> MySqlCdcStreamReader:
        """The stream: snapshot and binlog. Raises ConfigError for options that cannot be right."""
        return MySqlCdcStreamReader(SourceOptions.parse(self.options))

    def reader(self, schema: StructType) -> MySqlCdcReader:
        """All rows of the tables as of the offset in the option `asOf`."""
        return MySqlCdcReader(SourceOptions.parse(self.options))


class MySqlCdcStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's view of one stream. What is pickled into tasks is the options alone."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._store = SchemaStore(options.schema_folder)
        self._planner: Planner | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_store": self._store, "_planner": None}

    @property
    def planner(self) -> Planner:
        """Made on first use: tasks have none."""
        if self._planner is None:
            self._planner = Planner(self._options)
        return self._planner

    def initialOffset(self) -> dict[str, Any]:
        """The constant `{}`: Spark asks again after a crash, and must get the same."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """maxRowsPerTrigger where it is set, else maxBytesPerTrigger. (Both hold in any case; Spark knows one.)"""
        if self._options.max_rows is not None:
            return ReadMaxRows(self._options.max_rows)
        return ReadMaxBytes(self._options.max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:
        """Stop at what is there when the last chunk has been planned."""
        self.planner.available_now()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch; `start` itself if there is nothing new."""
        everything = isinstance(limit, ReadAllAvailable)
        max_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        max_bytes = None if everything else self._options.max_bytes
        last = restored(start, self._store)
        end = patiently(
            lambda: self.planner.latest(last, max_rows=max_rows, max_bytes=max_bytes), before_next=self.planner.close
        )
        return stored(end, start, self._store) if end is not None else start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The splits of a batch. The same two offsets always give the same rows."""
        last = restored(end, self._store)
        if last is None or start == end:
            return []
        first, planner = restored(start, self._store), self.planner
        return patiently(lambda: planner.splits(first, last), before_next=planner.close)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one split, as Arrow record batches."""
        return read_split(partition, self._options)

    def stop(self) -> None:
        """End the sessions."""
        if self._planner is not None:
            self._planner.close()


class MySqlCdcReader(DataSourceReader):
    """The rows of the tables in an offset, each as of its position; of an unfinished table, those below its cursor."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """One split a chunk."""
        offset = restored(json.loads(self._options.as_of), SchemaStore(self._options.schema_folder))
        if offset is None:
            return []
        planner = Planner(self._options)
        try:
            return planner.all_chunks(offset)
        finally:
            planner.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one chunk; none where there is no chunk at all."""
        return read_split(partition, self._options)
