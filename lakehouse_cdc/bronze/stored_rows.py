"""The rows of a file of the change table, in the columns and types of bronze, also of a file that Spark wrote."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.parquet import parquet_file
from lakehouse_cdc.model.bronze_arrow import ARROW
from lakehouse_cdc.model.bronze_row import PARTITION

_BATCH = 10_000  # rows that are in memory at a time
_CUT = 32  # characters that a bound of a text may have been cut to


def stored_rows(path: str, source_table: str) -> Iterator[pa.RecordBatch]:
    """Those of a file that has rows of that table.

    Raises DefiniteError for a VARIANT in another form than ours.
    """
    with parquet_file(path) as file:
        for batch in file.iter_batches(batch_size=_BATCH):
            name = pa.array([source_table] * batch.num_rows, pa.string())
            columns = [
                name if field.name == PARTITION else _as_declared(batch.column(field.name), field.type)
                for field in ARROW
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=ARROW)


def one_value(path: str, column: str) -> str | None:
    """The text that all rows of the file have in a column, None where its statistics do not say that there is one."""
    with parquet_file(path) as file:
        about = file.metadata
    [at] = [i for i in range(about.num_columns) if about.schema.column(i).path == column]
    values = set[str | None]()
    for group in range(about.num_row_groups):
        bounds = about.row_group(group).column(at).statistics
        known = bounds is not None and bounds.has_min_max and not bounds.null_count
        values |= {bounds.min, bounds.max} if known else {None}
    [value] = values if len(values) == 1 else [None]
    return value if isinstance(value, str) and len(value) < _CUT else None


def _as_declared(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column of a file in the type of bronze's."""
    stored = column.storage if isinstance(column, pa.ExtensionArray) else column
    if not pa.types.is_struct(kind):
        return stored.cast(kind)
    if sorted(field.name for field in kind) != sorted(field.name for field in stored.type):
        raise codes.REDACTION_UNSUPPORTED.error(f"a column of bronze is {stored.type} in a file")
    inner = []
    for field in kind:
        values = _as_declared(stored.field(field.name), field.type)
        inner.append(values if field.nullable else values.fill_null(b""))
    return pa.StructArray.from_arrays(inner, fields=list(kind), mask=stored.is_null())
