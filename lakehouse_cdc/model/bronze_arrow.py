"""The bronze row in Arrow: made from its declaration (`bronze_row`), so batches and the table cannot differ."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakehouse_cdc.model.bronze_row import COLUMNS, FILE_COLUMNS, VARIANT, BronzeColumn

_TYPES = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "decimal(38,0)": pa.decimal128(38, 0),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


def arrow_schema(columns: Sequence[BronzeColumn], *, dictionaries: bool = False) -> pa.Schema:
    """The schema of record batches; `dictionaries`: what rows share is a dictionary."""
    return pa.schema([(column.name, _type(column, dictionaries=dictionaries)) for column in columns])


def _type(column: BronzeColumn, *, dictionaries: bool) -> pa.DataType:
    shared = dictionaries and column.shared
    if not isinstance(column.type, str):
        return pa.struct([(field.name, _type(field, dictionaries=dictionaries)) for field in column.type])
    if column.type == VARIANT:
        names = _dictionary(pa.binary()) if shared else pa.binary()
        return pa.struct(
            [
                pa.field("value", pa.binary(), nullable=False),
                pa.field("metadata", names, nullable=False, metadata={b"variant": b"true"}),
            ]
        )
    return _dictionary(_TYPES[column.type]) if shared else _TYPES[column.type]


def _dictionary(values: pa.DataType) -> pa.DataType:
    return pa.dictionary(pa.int32(), values)


ARROW = arrow_schema(COLUMNS)  # as Spark takes rows
SHARED = arrow_schema(COLUMNS, dictionaries=True)  # the same, with what rows share as dictionaries
LINE = arrow_schema(FILE_COLUMNS)
