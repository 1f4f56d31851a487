"""Rows of bronze as Parquet files of its change table, written where the rows are made.

Spark turns each row that Python gives it into one of its own and then into Parquet, which takes several times as long
as to read it from MySQL. Written here, from Arrow's columns, a row never becomes an object, and what goes to the driver
is one line for each file: see `commit` for how that becomes a commit.

The layout is the one of Delta (protocol, "Add File and Remove File"): a folder for each value of the partition column,
which the files do not hold; statistics of the columns in `STATISTICS` (see `statistics`). VARIANT is the group of two
binaries that Parquet's specification describes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_cdc.lake.direct.data_file import FileWriter
from lakehouse_cdc.lake.refused_writes import writing_to
from lakehouse_cdc.model.bronze_arrow import LINE
from lakehouse_cdc.model.bronze_row import PARTITION, STATISTICS, VARIANT, leaves
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.path_element import fitted
from lakehouse_cdc.model.variant import decode

_GROUP_BYTES = 64 << 20  # of Arrow's columns, in one row group
_HELD_BYTES = 256 << 20  # of all tables together
_OF_FILE = [(path, column) for path, column in leaves() if column.name != PARTITION]
_REPEATED = [f"{path}.metadata" if one.type == VARIANT else path for path, one in _OF_FILE if one.shared]
_OF_SCHEMA = ["schema_id", "seq", "position", "after"]
_RISING = {path: "DELTA_BINARY_PACKED" for path, one in _OF_FILE if one.rising}
_BOUNDED = [path for path, one in _OF_FILE if one.bounds]  # row groups of other columns need no bounds


def written(batches: Iterable[pa.RecordBatch], folder: str) -> Iterator[pa.RecordBatch]:
    """Write rows in bronze's columns below `folder`, the table's path or URL; gives one line (`LINE`) for each file.

    What rows share may be dictionaries, as the source makes them. `path` is relative to the folder, encoded like a URL;
    `modified` are milliseconds since 1970; `stats` is what Delta keeps of a file; `ops` counts the rows of each op, and
    `schemas` are the s rows as `<bronze>.schemas` has them, both as JSON. If the rows end in an error, no file stays.
    Raises TransientError where the disk is full or read only, or the store does not do what it is asked for.
    """
    tables: dict[str, _Table] = {}
    try:
        with writing_to(folder):
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
    indices = names.indices.to_numpy()
    counts = np.bincount(indices, minlength=len(names.dictionary))
    if np.count_nonzero(counts) > 1:
        rows = rows.take(pa.array(np.argsort(indices, kind="stable")))
    end = 0
    for name, count in zip(names.dictionary.to_pylist(), counts.tolist(), strict=True):
        if count:
            yield name, rows.slice(end, count)
        end += count


def _trimmed(column: Any) -> Any:
    """The column with dictionaries of what it says and no more: what rows of other tables say would be in its file."""
    if pa.types.is_struct(column.type):
        inner = [_trimmed(column.field(i)) for i in range(column.type.num_fields)]
        fields = [field.with_type(child.type) for field, child in zip(column.type, inner, strict=True)]
        return pa.StructArray.from_arrays(inner, fields=fields, mask=column.is_null() if column.null_count else None)
    if not pa.types.is_dictionary(column.type) or len(column.dictionary) == 1:
        return column
    used = np.unique(column.indices.drop_null().to_numpy())
    if len(used) == len(column.dictionary):
        return column
    places = np.zeros(len(column.dictionary), np.int32)
    places[used] = range(len(used))
    known = column.indices.is_valid().to_numpy(zero_copy_only=False)
    indices = pa.array(places[column.indices.fill_null(0).to_numpy()], mask=~known)
    return pa.DictionaryArray.from_arrays(indices, column.dictionary.take(pa.array(used)))


class _Table:
    """The file of one table."""

    def __init__(self, folder: str, table: str) -> None:
        self._table = table
        self._file = FileWriter(
            folder, fitted(f"{PARTITION}={quote(table, safe='')}"), ((name,) for name in STATISTICS),
            use_dictionary=_REPEATED, column_encoding=_RISING, write_statistics=_BOUNDED,
        )  # fmt: skip
        self._pieces: list[pa.RecordBatch] = []
        self.held = 0
        self._ops: dict[str, int] = {}
        self._schemas: list[dict[str, Any]] = []

    def take(self, rows: pa.RecordBatch) -> None:
        rows = pa.RecordBatch.from_arrays(list(map(_trimmed, rows.columns)), names=rows.schema.names)
        self._pieces.append(rows)
        self.held += rows.nbytes
        if self.held > _GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is held as one row group."""
        if not self._pieces:
            return
        rows = pa.Table.from_batches(self._pieces).unify_dictionaries()
        self._pieces, self.held = [], 0
        self._file.write(rows)
        for one in rows.column("op").value_counts().to_pylist():
            self._ops[one["values"]] = self._ops.get(one["values"], 0) + one["counts"]
            if one["values"] == Op.SCHEMA.value:
                schema_rows = rows.filter(pc.equal(rows.column("op"), Op.SCHEMA.value))
                self._schemas += map(_schema, schema_rows.select(_OF_SCHEMA).to_pylist())

    def end(self) -> dict[str, Any]:
        """Complete the file; its line."""
        self.flush()
        file = self._file.end()
        return {
            "source_table": self._table,
            "path": file.path,
            "size": file.size,
            "modified": file.modified,
            "stats": file.stats,
            "ops": json.dumps(self._ops),
            "schemas": json.dumps(self._schemas),
        }

    def discard(self) -> None:
        """Leave nothing."""
        self._file.discard()


def _schema(row: dict[str, Any]) -> dict[str, Any]:
    """An s row, as `<bronze>.schemas` has it; of a table that is left off there is no schema."""
    after = decode(row["after"]["value"], row["after"]["metadata"])
    text = json.dumps(after, ensure_ascii=False, separators=(",", ":")) if after.get("columns") is not None else None
    entry = {name: row[name] for name in ("schema_id", "position")}
    return {**entry, "seq": str(row["seq"]), "statement": after.get("statement"), "schema": text}
