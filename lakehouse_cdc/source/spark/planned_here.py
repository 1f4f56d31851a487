"""The stream of a session that is remote: it is planned in this process, and each batch is read as a batch.

Spark's own streams ask a Python process beside the driver (`limited_reader`); a client of Spark Connect is the driver
of its stream itself (`lake.micro_batches`). The planner, and so the session of the source and the dump of its log, are
in this process; what tasks are to read goes to them as it is, in an option of the batch read. Only tasks, and this
process, need a way to the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.spark.splits_option import SPLITS, as_option
from lakehouse_cdc.source.spark.stream_reader import StreamReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class PlannedHere:
    """See `lake.micro_batches.Source`; and the rows of each batch. `options` are those of the format `mysql_cdc`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._given, self._options = dict(options), SourceOptions.parse(options)
        self._options.reach_files()
        self._reader = StreamReader(self._options)

    def until_now(self) -> None:
        """See `lake.micro_batches.Source`."""
        self._reader.planner.available_now()

    def latest(self, start: Mapping[str, Any]) -> dict[str, Any] | None:
        """See `lake.micro_batches.Source`."""
        options = self._options
        return self._reader.end_after(start, options.max_rows_per_trigger, options.max_bytes_per_trigger)

    def rows(self, spark: SparkSession, start: Mapping[str, Any], end: Mapping[str, Any]) -> DataFrame:
        """The rows of the batch between two offsets, or its files (option `filesTo`); each evaluation reads again."""
        splits = self._reader.partitions(dict(start), dict(end))
        return spark.read.format("mysql_cdc").options(**self._given, **{SPLITS: as_option(splits)}).load()

    def close(self) -> None:
        """See `lake.micro_batches.Source`."""
        self._reader.stop()
