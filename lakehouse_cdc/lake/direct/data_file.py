"""One Parquet file of a Delta table, written from Arrow's columns beside Spark (`commit` adds it to the table)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote, unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_cdc.lake.direct.statistics import Bounds, Path
from lakehouse_cdc.lake.file_systems import file_system
from lakehouse_cdc.model.place import is_url


class HasPath(Protocol):
    """A file of a table."""

    @property
    def path(self) -> str:
        """Relative to the table's folder, encoded like a URL."""


@dataclass(frozen=True)
class NewFile:
    """A file that is yet to be committed, its `path` relative to the table's folder and encoded like a URL.

    `modified` are milliseconds since 1970; `stats` is what Delta keeps of a file.
    """

    path: str
    size: int
    modified: int
    stats: str
    count: int

    @property
    def partition(self) -> dict[str, str]:
        """The values of the partition columns: there are none."""
        return {}


def delete(folder: str, files: Iterable[HasPath]) -> None:
    """Delete files of a table, by its path or URL, that are in no commit; one that is gone is fine."""
    system, root = file_system(folder)
    for file in files:
        with suppress(FileNotFoundError):
            system.delete_file(f"{root}/{unquote(file.path)}")


class FileWriter:
    """Writes one file below `folder`, a table's path or URL, in its subfolder `place`, with statistics of some columns.

    `options` are those of `pq.ParquetWriter`. A file that no commit names is not part of the table; one that is left by
    a task that failed goes with the next VACUUM, like those of Spark's own writers. In a bucket it is there when it is
    completed, and not before.
    """

    def __init__(self, folder: str, place: str, statistics: Iterable[Path], **options: Any) -> None:
        self._name = f"{place}/part-{uuid4()}.zstd.parquet".lstrip("/")
        self._files, root = file_system(folder)
        self._path = f"{root}/{self._name}"
        if not is_url(folder):
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
        self._options = options
        self._writer: pq.ParquetWriter | None = None
        self._bounds = Bounds(statistics)

    @property
    def rows(self) -> int:
        """How many have been written."""
        return self._bounds.rows

    def write(self, rows: pa.Table) -> None:
        """Write one row group."""
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._path, rows.schema, filesystem=self._files, compression="zstd", store_schema=False, **self._options
            )
        self._writer.write_table(rows, row_group_size=max(1, rows.num_rows))
        self._bounds.take(rows)

    def end(self) -> NewFile:
        """Complete the file, of which something must have been written."""
        assert self._writer is not None
        self._writer.close()
        about, stats = self._files.get_file_info(self._path), self._bounds.text()
        return NewFile(quote(self._name), about.size, about.mtime_ns // 1_000_000, stats, self.rows)

    def discard(self) -> None:
        """Leave nothing."""
        if self._writer is not None:
            with suppress(OSError):
                self._writer.close()
            with suppress(OSError):
                self._files.delete_file(self._path)
