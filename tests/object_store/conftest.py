"""A server of S3, and a session of Spark's that is connected to a bucket of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.object_store import ObjectStore
from lakehouse_cdc.runtime.object_store import Storage, reach
from tests.support.s3_server import S3Server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """The server, for all tests: each has a bucket of its own."""
    with S3Server() as server:
        yield server


@pytest.fixture
def bucket(s3: S3Server, spark: SparkSession) -> Iterator[str]:
    """The name of an empty bucket that the session reaches."""
    name = s3.bucket()
    reach(spark, name, Storage(endpoint=s3.url, access_key="key", secret_key="secret"))
    yield name
    s3.lost = s3.refused = lambda _: False


@pytest.fixture
def store(spark: SparkSession, bucket: str) -> ObjectStore:
    """The store, as the session sees it."""
    return ObjectStore(spark)
