"""Whether a store lets a pipeline keep its checkpoints; asked by Spark's client of S3 where pyarrow's failed.

pyarrow says in words alone whether a store refused or was away, so its failures are all transient (see
`lake.files.bucket`). The exceptions of Spark's client have a class for each, and it has the same keys. What it is
refused of what checkpoints need is the reason, which no further try changes.
Guard: tests/object_store/test_checkpoint_files.py.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.lake.object_store import ObjectStore
from lakehouse_cdc.lake.spark_errors import as_cdc_error
from lakehouse_cdc.model.place import is_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def store_asked(checkpoints: str, spark: Callable[[], SparkSession]) -> Iterator[None]:
    """Around a run's streams. Raises ConfigError in place of a store that is away, where it refuses the keys."""
    try:
        yield
    except Exception as failure:
        away = is_url(checkpoints) and as_cdc_error(failure).code is codes.OBJECT_STORE_UNAVAILABLE
        if away and (refusal := _refusal(ObjectStore(spark()), checkpoints)) is not None:
            raise refusal from failure
        raise


def _refusal(store: ObjectStore, place: str) -> CdcError | None:
    name = f"writable-{uuid.uuid4().hex}"
    try:
        store.names(place)
        store.put_new(f"{place}/{name}", name.encode())
        store.delete(f"{place}/{name}")
    except CdcError as error:
        return error if error.code is codes.OBJECT_STORE_REFUSED else None
    return None
