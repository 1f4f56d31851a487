"""Rows of bronze's files as tasks read them, without Spark: narrow columns, and the bytes of images.

Whatever is not just as our own writers leave it raises NotOurs; Spark then reads the rows, and has the say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse_cdc.images.typed.columns import NotOurs

SEQ, TIME = pa.decimal128(38, 0), pa.timestamp("us", "UTC")
_BATCH_ROWS = 65_536
_REPEATED = ["op", "schema_id", "key.metadata", "after.metadata"]


def row_batches(path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Those columns of a file, in batches of rows."""
    # Spark writes times as INT96, which have no unit of their own
    with pq.ParquetFile(path, memory_map=True, read_dictionary=_REPEATED, coerce_int96_timestamp_unit="us") as file:
        yield from file.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False)


def image_parts(images: Any, chosen: npt.NDArray[np.int64]) -> tuple[Any, Any]:
    """The two binaries of each image of a VARIANT column: value, metadata. Raises NotOurs for a chosen NULL."""
    if isinstance(images, pa.ExtensionArray):
        images = images.storage
    if not pa.types.is_struct(images.type) or sorted(field.name for field in images.type) != ["metadata", "value"]:
        raise NotOurs(f"images lie as {images.type}")
    if images.null_count and not images.is_valid().to_numpy(zero_copy_only=False)[chosen].all():
        raise NotOurs("an image is NULL")
    if (value := images.field("value")).type != pa.binary():
        raise NotOurs(f"images lie as {images.type}")
    return value, images.field("metadata")


def require_among(column: Any, allowed: Sequence[Any], chosen: npt.NDArray[np.int64], otherwise: str) -> None:
    """Raise NotOurs unless the chosen values are among those allowed; NULL is not."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    good = pc.is_in(column, value_set=pa.array(allowed, kind))
    if not pc.all(good).as_py() and not good.to_numpy(zero_copy_only=False)[chosen].all():
        raise NotOurs(otherwise)


def commit_times(batch: pa.RecordBatch, chosen: npt.NDArray[np.int64]) -> Any:
    """The commit times of the chosen rows, in UTC. Raises NotOurs where one is NULL, or they have another unit."""
    times = batch.column("commit_ts").take(pa.array(chosen))
    if times.type not in (TIME, pa.timestamp("us")) or times.null_count:
        raise NotOurs(f"times are {times.type}")
    return times.cast(TIME)
