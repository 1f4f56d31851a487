"""The stream of Spark 4.2 and later, which says from where it wants a batch, and how much."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from lakehouse_cdc.errors.codec import crossing
from lakehouse_cdc.source.spark.stream_reader import StreamReader


class LimitedReader(StreamReader, SupportsTriggerAvailableNow):
    """Spark's view of one stream."""

    def getDefaultReadLimit(self) -> ReadLimit:
        """maxRowsPerTrigger where it is set, else maxBytesPerTrigger. (Both hold in any case; Spark knows one.)"""
        if self._options.max_rows_per_trigger is not None:
            return ReadMaxRows(self._options.max_rows_per_trigger)
        return ReadMaxBytes(self._options.max_bytes_per_trigger)

    @crossing()
    def prepareForTriggerAvailableNow(self) -> None:
        """Stop at what is there when the last chunk has been planned."""
        self.planner.available_now()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch; `start` itself if there is nothing new."""
        everything = isinstance(limit, ReadAllAvailable)
        max_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = self.end_after(start, max_rows, None if everything else self._options.max_bytes_per_trigger)
        return start if end is None else end
