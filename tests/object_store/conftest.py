"""A server of S3, a session of Spark's that is connected to a bucket of it, and a pipeline into one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
import yaml
from pyspark.sql import SparkSession

from lakehouse_cdc.lake import file_systems
from lakehouse_cdc.lake.object_store import ObjectStore
from lakehouse_cdc.runtime.object_store import Storage, reach
from lakehouse_cdc.testing import MySqlServer
from tests.support.pipelines import small_table
from tests.support.s3_pipelines import ACCESS, SECRET
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
    storage = Storage(endpoint=s3.url, access_key="key", secret_key="secret")
    reach(spark, f"s3a://{name}", storage)
    file_systems.reach(f"s3a://{name}", storage, ObjectStore(spark).put_new)
    yield name
    s3.lost = s3.refused = lambda _: False


@pytest.fixture
def store(spark: SparkSession, bucket: str) -> ObjectStore:
    """The store, as the session sees it."""
    return ObjectStore(spark)


@pytest.fixture
def checkpoints(request: pytest.FixtureRequest) -> str:
    """Where checkpoints are: a folder, or below the bucket's path."""
    return str(getattr(request, "param", "checkpoints"))


@pytest.fixture
def file(
    s3: S3Server, mysql: MySqlServer, mysql_client: pymysql.Connection[Any], database: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, checkpoints: str,
) -> Iterator[Path]:  # fmt: skip
    """The file of a pipeline into a bucket of its own, over a table of three rows."""
    monkeypatch.setenv("STORE_ACCESS", ACCESS)
    monkeypatch.setenv("STORE_SECRET", SECRET)
    small_table(mysql_client, database)
    lake = f"s3://{s3.bucket()}/a/lake"
    target = {
        "path": lake,
        "checkpoints": checkpoints if checkpoints == "checkpoints" else f"{lake}/{checkpoints}",
        "bronze": "bronze",
        "silver": "silver",
        "storage": {"endpoint": s3.url, "access_key": "${env:STORE_ACCESS}", "secret_key": "${env:STORE_SECRET}"},
    }
    source = {"url": mysql.url, "tables": [f"{database}.*"]}
    path = tmp_path / "pipeline.yml"
    path.write_text(yaml.safe_dump({"name": "shop", "source": source, "target": target}))
    yield path
    s3.lost = s3.refused = lambda _: False
