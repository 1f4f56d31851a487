"""The files that a table consists of now, and how many rows each of them has that are not deleted.

Purpose: to count a table's rows in the time that it takes to list its files.

Why it is right: a file's statistics have the number of its rows, also of those that a deletion vector marks, and the
vector says how many these are (protocol, "Per-file Statistics", "Deletion Vectors"). A file without that statistic has
the number in its own footer. In which rows a column is NULL is in the statistics, too, but of a file with a vector, or
without that statistic, the column itself is read.

Guards: tests/lake/readers/test_contract.py, test_deletion_vectors.py.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lakehouse_cdc.lake.parquet import parquet_file
from lakehouse_cdc.lake.readers.deletion_vectors import DeletionVector, vectors_of
from lakehouse_cdc.model.place import is_url

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

    from lakehouse_cdc.lake.table_state import State

_VECTORS = "deletionVectors"
_BY_ID = "id"


@dataclass(frozen=True)
class LiveFile:
    """One file: where it lies, its rows, partition values and numbers of NULLs, by the names of columns in files."""

    place: str
    rows: int | None
    partition: Mapping[str, Any]
    nulls: Mapping[str, Any]
    deleted: DeletionVector | None

    def count(self, null: Sequence[str] | None) -> int:
        """The rows that are not deleted; with `null`, those in which that column, or field of one, is NULL."""
        if null is None:
            rows = self._footer_rows() if self.rows is None else self.rows
            return rows - (0 if self.deleted is None else self.deleted.cardinality)
        if self.deleted is None and (known := _at(self.nulls, null)) is not None:
            return known
        return self._nulls_read(null)

    def _footer_rows(self) -> int:
        with parquet_file(self.place) as file:
            return int(file.metadata.num_rows)

    def _nulls_read(self, path: Sequence[str]) -> int:
        with parquet_file(self.place) as file:
            rows = int(file.metadata.num_rows)
            deleted = None if self.deleted is None else self.deleted.rows(rows)
            if path[0] not in file.schema_arrow.names:  # it was written before the table had the column
                return rows - (0 if deleted is None else int(deleted.sum()))
            nulls, at = 0, 0
            for batch in file.iter_batches(columns=[".".join(path)]):
                null = _field(batch.column(0), path).is_null().to_numpy(zero_copy_only=False)
                nulls += int(null.sum() if deleted is None else (null & ~deleted[at : at + len(null)]).sum())
                at += len(null)
            return nulls


def live_files(folder: str, table: DeltaTable, state: State) -> list[LiveFile]:
    """Those of an open table. Raises ValueError where files, or what is deleted of them, cannot be known here."""
    if state.properties.get("delta.columnMapping.mode") == _BY_ID:
        raise ValueError("columns go by ids in the files")
    added = table.get_add_actions()
    of = {name: added.column(name).to_pylist() for name in added.column_names}
    paths = [unquote(path) for path in of["path"]]
    if any("://" in path or path.startswith("/") for path in paths):
        raise ValueError("a file lies elsewhere")
    has_vectors = _VECTORS in state.features
    if has_vectors and is_url(folder):
        raise ValueError("deletion vectors are read in folders alone")
    vectors = vectors_of(folder, state.version, paths) if has_vectors else {}
    none: list[Mapping[str, Any]] = [{}] * len(paths)
    columns = (of["num_records"], of.get("partition", none), of.get("null_count", none))
    return [
        LiveFile(os.path.join(folder, path), rows, partition or {}, nulls or {}, vectors.get(path))
        for path, rows, partition, nulls in zip(paths, *columns, strict=True)
    ]


def _at(nulls: Mapping[str, Any], path: Sequence[str]) -> int | None:
    value: Any = nulls
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, int) else None  # of a struct, its fields have numbers


def _field(column: pa.Array, path: Sequence[str]) -> pa.Array:
    """NULL, too, where the struct around it is."""
    import pyarrow.compute as pc

    return pc.struct_field(column, path[1:]) if path[1:] else column
