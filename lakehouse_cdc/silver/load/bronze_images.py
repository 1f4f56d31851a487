"""Rows of bronze's files as tasks read them, without Spark: narrow columns, and the bytes of images.

Whatever is not just as our own writers leave it raises NotOurs; Spark then reads the rows, and has the say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse_cdc.images.typed.columns import NotOurs
from lakehouse_cdc.lake.parquet import parquet_file

SEQ, TIME = pa.decimal128(38, 0), pa.timestamp("us", "UTC")
_BATCH_ROWS = 65_536
_REPEATED = ["op", "schema_id", "key.metadata", "after.metadata"]


def row_batches(location: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Those columns of a file, in batches of rows."""
    with parquet_file(location, read_dictionary=_REPEATED) as file:
        yield from file.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False)


def commit_times(batch: pa.RecordBatch, chosen: npt.NDArray[np.int64]) -> Any:
    """The commit times of the chosen rows, in UTC. Raises NotOurs where one is NULL, or they have another unit."""
    times = batch.column("commit_ts").take(pa.array(chosen))
    if times.type not in (TIME, pa.timestamp("us")) or times.null_count:
        raise NotOurs(f"times are {times.type}")
    return times.cast(TIME)
