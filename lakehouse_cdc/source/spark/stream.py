"""The Spark data source `mysql_cdc`: the shell around the planner and the readers.

    spark.dataSource.register(MySqlCdcSource)
    spark.readStream.format("mysql_cdc").options(...).load()     # bronze rows, snapshot and binlog in one stream
    spark.read.format("mysql_cdc").options(asOf=...).load()      # all rows of the tables as of a committed offset
    spark.read.format("mysql_cdc").options(splits=...).load()    # a batch that was planned elsewhere (`planned_here`)

Spark calls the planner's side (`latestOffset`, `partitions`) in one Python process beside the driver and `read` in the
workers; they share nothing but offsets and splits. `initialOffset` is never stored, so it is the constant `{}`.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from lakehouse_cdc.errors.codec import crossing
from lakehouse_cdc.model import bronze_row
from lakehouse_cdc.source.bronze_rows import plain
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.planning.planner import Planner
from lakehouse_cdc.source.reading.task import read_split
from lakehouse_cdc.source.spark.legacy_reader import RememberingReader
from lakehouse_cdc.source.spark.splits_option import of_option
from lakehouse_cdc.source.spark.stream_reader import StreamReader
from lakehouse_cdc.source.state.offset_codec import restored
from lakehouse_cdc.source.state.state_store import SchemaStore


class MySqlCdcSource(DataSource):
    """MySQL's rows and changes as bronze rows. Options: `lakehouse_cdc.source.options`."""

    @classmethod
    def name(cls) -> str:
        """The name for `format(...)`."""
        return "mysql_cdc"

    def schema(self) -> str:
        """Bronze's columns; with the option `filesTo` those of a line for each file."""
        return bronze_row.FILES if self.options.get("filesTo") else bronze_row.SCHEMA

    @crossing()
    def streamReader(self, schema: StructType) -> StreamReader:
        """The stream: snapshot and binlog. Raises ConfigError for options that cannot be right."""
        options = SourceOptions.parse(self.options)
        options.reach_files()
        if importlib.util.find_spec("pyspark.sql.streaming.datasource") is None:  # Spark before 4.2
            return RememberingReader(options)
        from lakehouse_cdc.source.spark.limited_reader import LimitedReader

        return LimitedReader(options)

    @crossing()
    def reader(self, schema: StructType) -> MySqlCdcReader | BatchReader:
        """All rows of the tables as of the offset in the option `asOf`; or those of the option `splits`."""
        options = SourceOptions.parse(self.options)
        options.reach_files()
        return BatchReader(options) if options.splits else MySqlCdcReader(options)


class BatchReader(DataSourceReader):
    """The rows of the splits that are given, or the files that they become, as of a batch of the stream."""

    def __init__(self, options: SourceOptions) -> None:
        self._splits, self._options = options.splits, replace(options, splits="")

    def __getstate__(self) -> dict[str, Any]:
        return {"_splits": "", "_options": self._options}

    @crossing()
    def partitions(self) -> Sequence[InputPartition]:
        """The splits."""
        return of_option(self._splits)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See `StreamReader.read`."""
        return StreamReader(self._options).read(partition)


class MySqlCdcReader(DataSourceReader):
    """The rows of the tables in an offset, each as of its position; of an unfinished table, those below its cursor."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    @crossing()
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
        with crossing():
            yield from map(plain, read_split(partition, self._options))
