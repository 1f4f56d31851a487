"""Parquet files by their location, in a folder here or in a bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse_cdc.lake.file_systems import asking, file_system
from lakehouse_cdc.model.place import is_url

if TYPE_CHECKING:
    import pyarrow.parquet as pq


def parquet_file(location: str, **options: Any) -> pq.ParquetFile:
    """The file, open; `options` are those of `pq.ParquetFile`. Raises OSError, of a bucket TransientError.

    Times that Spark has written as INT96, which have no unit of their own, are in microseconds.
    """
    import pyarrow.parquet as pq

    options = {"coerce_int96_timestamp_unit": "us", **options}
    if not is_url(location):
        return pq.ParquetFile(location, memory_map=True, **options)
    files, path = file_system(location)
    with asking(location):
        return pq.ParquetFile(path, filesystem=files, pre_buffer=True, **options)
