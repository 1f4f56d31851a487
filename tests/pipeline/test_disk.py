"""A disk that is full, or read only, is named, and waited for; on file systems of the tests' own."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pymysql
import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.lake.direct.change_files import written
from lakehouse_cdc.lake.direct.creation import put_version
from lakehouse_cdc.lake.files.folder import refusal
from lakehouse_cdc.lake.log_files import FolderLog
from lakehouse_cdc.lake.spark_errors import as_cdc_error
from lakehouse_cdc.ops.last_error import read
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.pipeline.run.disk import disks_asked
from lakehouse_cdc.source.requests.requests import Signals
from lakehouse_cdc.testing import MySqlServer
from tests.faults.lake import Disk, immutably
from tests.faults.under_writes import can_mount
from tests.remedies import remedy
from tests.support.bronze_rows import random_rows
from tests.support.pipelines import ops, pipeline, running, small_table
from tests.support.waiting import until


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if not can_mount():
        pytest.skip("only root may mount a file system, on Linux")
    with Disk(tmp_path / "disk") as mounted:
        yield mounted


@pytest.fixture
def lake(
    disk: Disk, spark: SparkSession, mysql: MySqlServer, mysql_client: pymysql.Connection[Any], database: str
) -> Pipeline:
    """A pipeline of a small table, on that disk."""
    small_table(mysql_client, database)
    return pipeline(spark, mysql, database, disk.path)


@contextmanager
def read_only(disk: Disk) -> Iterator[None]:
    path = str(disk.path)
    subprocess.run(["mount", "--bind", path, path], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", path], check=True)
        yield
    finally:
        subprocess.run(["umount", "-l", path], check=True)


@contextmanager
def full(disk: Disk) -> Iterator[None]:
    disk.fill()
    try:
        yield
    finally:
        disk.empty()


REFUSALS = {"Read-only file system": read_only, "No space left on device": full}


@pytest.mark.process
@pytest.mark.parametrize("said", REFUSALS)
def test_an_unknown_failure_is_of_the_disk_where_that_refuses(disk: Disk, said: str) -> None:
    folder = disk.path / "lake" / "new"

    def failure(error: Exception) -> BaseException:
        with pytest.raises(Exception) as caught, disks_asked(lambda: [folder]):  # noqa: PT011
            raise error
        return caught.value

    unknown, known = RuntimeError("what nobody knows"), codes.CONNECTION_LOST.error("gone")
    assert refusal(folder) == ""
    assert failure(unknown) is unknown
    with REFUSALS[said](disk):
        assert refusal(folder) == f"cannot write to {folder}: {said}"
        refused = failure(unknown)
        assert isinstance(refused, CdcError)
        assert (refused.code, refused.what, refused.__cause__) == (codes.DISK_REFUSES, refusal(folder), unknown)
        assert failure(known) is known
    assert failure(unknown) is unknown
    assert [*disk.path.iterdir()] == []


@pytest.mark.process
@pytest.mark.parametrize("said", REFUSALS)
def test_a_write_of_our_own_says_so_itself(disk: Disk, said: str) -> None:
    with REFUSALS[said](disk), pytest.raises(OSError, match=said) as refused:
        (disk.path / "commit").write_bytes(bytes(1 << 20))
    error = as_cdc_error(refused.value)
    assert error.code is codes.DISK_REFUSES
    assert error.what.endswith(said)


@pytest.mark.long
@remedy(codes.DISK_REFUSES)
@pytest.mark.parametrize("said", REFUSALS)
def test_a_run_waits_until_it_can_write(
    disk: Disk,
    lake: Pipeline,
    said: str,
    spark: SparkSession,
    mysql_client: pymysql.Connection[Any],
    database: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    lake.run(once=True)
    with running(spark, lake) as reports:
        with REFUSALS[said](disk):
            mysql_client.cursor().execute(f"DELETE FROM {database}.t WHERE id = 1")
            until(lambda: codes.DISK_REFUSES.label in caplog.text)
        silver = str(lake.layout.silver_table(f"{database}.t"))
        until(lambda: spark.read.format("delta").load(silver).count() == 2)
        until(lambda: read(lake.state) is None)
    [report] = reports
    assert report.restarts > 0
    assert re.search(rf"cannot write to {disk.path}/lakehouse\S*: {said} Hint: Make room in the folder", caplog.text)
    assert ops(spark, lake) == [("r", 1), ("r", 2), ("r", 3), ("d", 1)]
    assert lake.verify().verified


@pytest.mark.long
def test_a_run_that_is_not_to_wait_ends_by_it(
    disk: Disk, spark: SparkSession, mysql: MySqlServer, mysql_client: pymysql.Connection[Any], database: str
) -> None:
    small_table(mysql_client, database)
    lake = pipeline(spark, mysql, database, disk.path, source={"retry_seconds": 0.1})
    lake.run(once=True)
    mysql_client.cursor().execute(f"DELETE FROM {database}.t WHERE id = 1")
    with full(disk), pytest.raises(CdcError) as refused:
        lake.run(once=True)
    assert refused.value.code is codes.DISK_REFUSES
    lake.run(once=True)
    assert ops(spark, lake) == [("r", 1), ("r", 2), ("r", 3), ("d", 1)]


@pytest.mark.long
@remedy(codes.DISK_REFUSES)
def test_a_run_begins_when_its_disk_can_be_written(
    disk: Disk,
    lake: Pipeline,
    spark: SparkSession,
    mysql_client: pymysql.Connection[Any],
    database: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with read_only(disk), pytest.raises(CdcError) as refused:
        lake.run(once=True)
    assert refused.value.code is codes.TARGET_UNWRITABLE, "a folder that was never written may be a misspelt one"
    lake.run(once=True)
    mysql_client.cursor().execute(f"DELETE FROM {database}.t WHERE id = 1")
    caplog.clear()
    with ThreadPoolExecutor(1) as other, ExitStack() as meanwhile:
        meanwhile.enter_context(read_only(disk))
        running = other.submit(lake.run, once=True)
        until(lambda: codes.DISK_REFUSES.label in caplog.text or running.done())
        assert not running.done()
        meanwhile.close()
        report = running.result()
    assert report.restarts > 0
    assert "Read-only file system Hint: Make room in the folder" in caplog.text
    assert ops(spark, lake) == [("r", 1), ("r", 2), ("r", 3), ("d", 1)]


@pytest.mark.process
@pytest.mark.parametrize("said", REFUSALS)
def test_files_of_bronze_that_a_task_cannot_write_say_so(disk: Disk, said: str) -> None:
    folder = disk.path / "changes"
    rows = random_rows(Random(0), 3000)
    with REFUSALS[said](disk), pytest.raises(CdcError) as refused:
        list(written([rows], str(folder)))
    assert (refused.value.code, refused.value.what) == (codes.DISK_REFUSES, f"cannot write to {folder}: {said}")


@pytest.mark.process
def test_a_version_that_cannot_be_made_says_why(disk: Disk) -> None:
    with immutably(disk.path), pytest.raises(PermissionError):
        put_version(FolderLog(str(disk.path)), 0, [])
    assert put_version(FolderLog(str(disk.path)), 0, [])
    assert not put_version(FolderLog(str(disk.path)), 0, [])
    assert [one.name for one in disk.path.iterdir()] == [f"{0:020}.json"]


@pytest.mark.process
def test_a_signal_says_that_the_disk_refuses(disk: Disk) -> None:
    signals = Signals(str(disk.path))
    with read_only(disk):
        with pytest.raises(CdcError) as refused:
            signals.pause()
        assert not signals.paused
    assert (refused.value.code, refused.value.what) == (
        codes.DISK_REFUSES, f"cannot write to {disk.path / 'signals'}: Read-only file system"
    )  # fmt: skip
    signals.pause()
    assert signals.paused
