"""Rows of bronze as Parquet files of its change table, written where the rows are made.

Spark turns each row that Python gives it into one of its own and then into Parquet, which takes several times as long
as to read it from MySQL. Written here, from Arrow's columns, a row never becomes an object, and what goes to the driver
is one line for each file: see `added` for how that becomes a commit. A file that no commit names is not part of the
table; one that is left by a task that failed goes with the next VACUUM, like those of Spark's own writers.

The layout is the one of Delta (protocol, "Add File and Remove File", "Per-file Statistics"): a folder for each value of
the partition column, which the files do not hold; statistics of the columns in `STATISTICS`, times cut to milliseconds.
VARIANT is the group of two binaries that Parquet's specification describes.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse_cdc.model.bronze import PARTITION, STATISTICS

LINE = pa.schema(
    [
        ("source_table", pa.string()),
        ("path", pa.string()),
        ("size", pa.int64()),
        ("modified", pa.int64()),
        ("stats", pa.string()),
        ("ops", pa.string()),
    ]
)
_GROUP_BYTES = 128 << 20  # of Arrow's columns, in one row group
_HELD_BYTES = 256 << 20  # of all tables together
_REPEATED = [
    "op", "schema_id", "key.metadata", "before.metadata", "after.metadata",
    "position.server_uuid", "position.file", "position.gtid",
]  # fmt: skip
_RISING = {"commit_ts": "DELTA_BINARY_PACKED", "position.pos": "DELTA_BINARY_PACKED"}
_BOUNDED = ["seq", "op", "commit_ts", "schema_id", "position.pos"]  # row groups of other columns need no bounds


def written(batches: Iterable[pa.RecordBatch], folder: str) -> Iterator[pa.RecordBatch]:
    """Write rows in bronze's columns below `folder`, the table's; gives one line (`LINE`) for each file.

    `path` is relative to the folder, encoded like a URL; `modified` are milliseconds since 1970; `stats` is what Delta
    keeps of a file; `ops` counts the rows of each op, as JSON. If the rows end in an error, no file stays.
    """
    tables: dict[str, _Table] = {}
    try:
        for batch in batches:
            for name, rows in _by_table(batch):
                if name not in tables:
                    tables[name] = _Table(folder, name)
                tables[name].take(rows)
            if sum(table.held for table in tables.values()) > _HELD_BYTES:
                max(tables.values(), key=lambda table: table.held).flush()
        lines = [table.end() for table in tables.values()]
    except BaseException:
        for table in tables.values():
            table.discard()
        raise
    if lines:
        yield pa.RecordBatch.from_pylist(lines, schema=LINE)


def _by_table(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each table, in their order, without the column that names it."""
    names = batch.column(PARTITION).dictionary_encode()
    rows = batch.drop_columns([PARTITION])
    if len(names.dictionary) == 1:
        yield names.dictionary[0].as_py(), rows
        return
    indices = names.indices.to_numpy()
    order = np.argsort(indices, kind="stable")
    ends = np.cumsum(np.bincount(indices, minlength=len(names.dictionary)))
    sorted_rows = rows.take(pa.array(order))
    for name, begin, end in zip(names.dictionary.to_pylist(), [0, *ends[:-1]], ends, strict=True):
        yield name, sorted_rows.slice(begin, end - begin)


class _Table:
    """The file of one table."""

    def __init__(self, folder: str, table: str) -> None:
        place = f"{PARTITION}={quote(table, safe='')}"
        self._table, self._name = table, f"{place}/part-{uuid.uuid4()}.zstd.parquet"
        self._path = os.path.join(folder, self._name)
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        self._pieces: list[pa.RecordBatch] = []
        self.held = 0
        self._writer: pq.ParquetWriter | None = None
        self._bounds = _Bounds()
        self._ops: dict[str, int] = {}

    def take(self, rows: pa.RecordBatch) -> None:
        self._pieces.append(rows)
        self.held += rows.nbytes
        if self.held > _GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is held as one row group."""
        if not self._pieces:
            return
        rows = pa.Table.from_batches(self._pieces)
        self._pieces, self.held = [], 0
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._path, rows.schema, compression="zstd", use_dictionary=_REPEATED, column_encoding=_RISING,
                write_statistics=_BOUNDED, store_schema=False,
            )  # fmt: skip
        self._writer.write_table(rows, row_group_size=max(1, rows.num_rows))
        self._bounds.take(rows)
        for one in rows.column("op").value_counts().to_pylist():
            self._ops[one["values"]] = self._ops.get(one["values"], 0) + one["counts"]

    def end(self) -> dict[str, Any]:
        """Complete the file; its line."""
        self.flush()
        assert self._writer is not None
        self._writer.close()
        about = os.stat(self._path)
        return {
            "source_table": self._table,
            "path": quote(self._name),
            "size": about.st_size,
            "modified": int(about.st_mtime * 1000),
            "stats": self._bounds.text(),
            "ops": json.dumps(self._ops),
        }

    def discard(self) -> None:
        """Leave nothing."""
        if self._writer is not None:
            with suppress(OSError):
                self._writer.close()
            with suppress(FileNotFoundError):
                os.unlink(self._path)


class _Bounds:
    """The least and greatest values of a file, and how many are NULL."""

    def __init__(self) -> None:
        self._rows = 0
        self._least: dict[str, Any] = {}
        self._greatest: dict[str, Any] = {}
        self._nulls = dict.fromkeys(STATISTICS, 0)

    def take(self, rows: pa.Table) -> None:
        self._rows += rows.num_rows
        for name in STATISTICS:
            column = rows.column(name)
            self._nulls[name] += column.null_count
            bounds = pc.min_max(column)
            for held, found, better in ((self._least, bounds["min"], min), (self._greatest, bounds["max"], max)):
                if (value := found.as_py()) is not None:
                    held[name] = better(held.get(name, value), value)

    def text(self) -> str:
        """As Delta has it."""
        bounds = [{name: _said(value) for name, value in held.items()} for held in (self._least, self._greatest)]
        said = {"numRecords": self._rows, "minValues": bounds[0], "maxValues": bounds[1], "nullCount": self._nulls}
        return json.dumps(said)


def _said(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03}Z"
    return value if isinstance(value, str) else int(value)
