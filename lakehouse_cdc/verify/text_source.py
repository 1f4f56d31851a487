"""The Spark data source `mysql_text`: one table of the source as text, as of a committed offset (see `reading`).

    spark.read.format("mysql_text").options(..., asOf=..., exactJson="false").load()

It takes the options of `mysql_cdc`, and `rawJson`. The offset in `asOf` names one table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from lakehouse_cdc.errors import codes
from lakehouse_cdc.errors.codec import crossing
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.planning.planner import Planner
from lakehouse_cdc.source.reading.task import replica_id
from lakehouse_cdc.source.retry import read_patiently
from lakehouse_cdc.source.splits import SnapshotSplit
from lakehouse_cdc.source.state.offset_codec import restored
from lakehouse_cdc.source.state.state_store import SchemaStore
from lakehouse_cdc.verify.reading import Texts, read_texts

FORMAT = "mysql_text"
_FLAGS = ("exactJson", "rawJson")  # see `reading.Texts`


class MySqlTextSource(DataSource):
    """The rows of one table as the server prints them."""

    @classmethod
    def name(cls) -> str:
        """The name for `format(...)`."""
        return FORMAT

    @crossing()
    def schema(self) -> str:
        """See `reading.Texts`."""
        return MySqlTextReader(self.options).texts.ddl

    @crossing()
    def reader(self, schema: StructType) -> MySqlTextReader:
        """The rows at the offset in the option `asOf`."""
        return MySqlTextReader(self.options)


class MySqlTextReader(DataSourceReader):
    """One split a chunk."""

    def __init__(self, given: Mapping[str, str]) -> None:
        named = {name.lower(): value for name, value in given.items()}
        exact, raw = (named.pop(flag.lower(), "false") == "true" for flag in _FLAGS)
        self._options = SourceOptions.parse({**named, "ongap": "fail"})  # nothing is planned again from here
        self._options.reach_files()
        self._offset = _offset(self._options)
        [state] = self._offset.tables.values()
        schema = SchemaStore(self._options.schema_folder).get(state.schema)
        self.texts = Texts(schema, self._options.mask_salt, exact_json=exact, raw_json=raw)

    @crossing()
    def partitions(self) -> Sequence[InputPartition]:
        """The chunks of the table."""
        planner = Planner(self._options)
        try:
            return planner.all_chunks(self._offset)
        finally:
            planner.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one chunk; none where there is no chunk at all."""
        if not isinstance(partition, SnapshotSplit):
            return
        options, texts = self._options, self.texts
        with crossing():
            yield from read_patiently(lambda: read_texts(partition, options, replica_id(options), texts))


def _offset(options: SourceOptions) -> Offset:
    offset = restored(json.loads(options.as_of), SchemaStore(options.schema_folder))
    if offset is None or len(offset.tables) != 1:
        raise codes.INVARIANT_BROKEN.error("the option asOf must be an offset that names one table")
    return offset
