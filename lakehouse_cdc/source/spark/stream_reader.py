"""One stream as Spark sees it, but for how Spark asks for the end of a batch: see `limited_reader` and
`legacy_reader`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from lakehouse_cdc.errors.codec import crossing
from lakehouse_cdc.lake.direct.change_files import written
from lakehouse_cdc.source.bronze_rows import plain
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.planning.planner import Planner
from lakehouse_cdc.source.reading.task import read_split
from lakehouse_cdc.source.retry import patiently
from lakehouse_cdc.source.state.offset_codec import restored, stored
from lakehouse_cdc.source.state.planned_configuration import DIGEST, digest, require_same_configuration
from lakehouse_cdc.source.state.state_store import SchemaStore
from lakehouse_cdc.source.state.stream_start import AFTER, Beginning
from lakehouse_cdc.source.state.table_settings import TableSettings


class StreamReader(DataSourceStreamReader):
    """What is pickled into tasks is the options alone."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._store = SchemaStore(options.schema_folder)
        self._planner: Planner | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_store": SchemaStore(self._options.schema_folder), "_planner": None}

    @property
    def planner(self) -> Planner:
        """Made on first use: tasks have none."""
        if self._planner is None:
            self._planner = Planner(self._options)
        return self._planner

    def initialOffset(self) -> dict[str, Any]:
        """The constant `{}`: Spark asks again after a crash, and must get the same."""
        return {}

    @crossing()
    def end_after(self, start: Mapping[str, Any], max_rows: int | None, max_bytes: int | None) -> dict[str, Any] | None:
        """The end of the batch after a stored offset; None if there is nothing new."""
        last, planner, after = restored(start, self._store), self.planner, None
        if last is None and (after := Beginning(self._options.schema_folder).after) is not None:
            last = self._store.offset(after)
            planner.begin_after(last)
        under = start.get(DIGEST)
        end = patiently(
            lambda: planner.latest(last, max_rows=max_rows, max_bytes=max_bytes, planned_under=under),
            before_next=planner.close,
        )
        if end is None:
            return None
        begins = {} if after is None else {AFTER: after}
        now = digest(self._options)
        self._store.put_settings(now, TableSettings.of(self._options).to_json())
        return {**stored(end, start, self._store), DIGEST: now, **begins}

    @crossing()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The splits of a batch. The same two offsets always give the same rows.

        Raises DefiniteError for a batch that was planned under another configuration.
        """
        last = restored(end, self._store)
        if last is None or start == end or self._store.has_held(end):
            return []
        require_same_configuration(end, self._options, (self._store.get(state.schema) for state in last.published))
        first, planner = restored(start, self._store), self.planner
        first = first or Beginning(self._options.schema_folder).before(start, end)
        return patiently(lambda: planner.splits(first, last), before_next=planner.close)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one split, as Arrow record batches; or, once they are written, its files."""
        with crossing():
            self._options.reach_files()
            rows, folder = read_split(partition, self._options), self._options.files_to
            yield from written(rows, folder) if folder else map(plain, rows)

    def stop(self) -> None:
        """End the sessions."""
        if self._planner is not None:
            self._planner.close()
