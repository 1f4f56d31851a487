"""Tables in S3 are read without Spark, and what is said of them is what Spark says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.lake import delta_log
from lakehouse_cdc.lake.files.choice import files_at
from lakehouse_cdc.lake.object_store import ObjectStore
from lakehouse_cdc.lake.readers.choice import ReaderOnDemand
from lakehouse_cdc.lake.readers.direct import DirectReader
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.model.table_layout import Table
from lakehouse_cdc.pipeline.pipeline import Pipeline
from tests.lake.readers.test_contract import _said, empty, mapped, optimized, parted, plain, variants
from tests.support.commit_notes import note
from tests.support.s3_server import S3Server

KINDS = (plain, *(pytest.param(kind, marks=pytest.mark.long) for kind in (mapped, optimized, parted, variants, empty)))


@pytest.mark.parametrize("kind", KINDS)
def test_all_say_the_same(spark: SparkSession, bucket: str, kind: Callable[[SparkSession, Table], None]) -> None:
    table = Table("schema", "t", root=f"s3a://{bucket}/lake")
    kind(spark, table)
    said = _said(ReaderOnDemand(lambda: spark), table)
    with patch.object(delta_log, "is_at_hand", lambda *_: False):
        assert said == _said(SparkReader(spark), table)
    assert said["exists"]


@pytest.mark.long
def test_all_commits_of_a_log_are_said(spark: SparkSession, bucket: str) -> None:
    """They are asked for one, two, four, ... at once."""
    table = Table("schema", "t", root=f"s3a://{bucket}/lake")
    for batch in range(25):
        rows = spark.range(1).write.format("delta").mode("append")
        rows.option("userMetadata", note(batch).text()).save(str(table.path))
    commits = [*DirectReader().commits(table)]
    with patch.object(delta_log, "is_at_hand", lambda *_: False):
        assert commits == [*SparkReader(spark).commits(table)]
    assert len(commits) == 25


def test_what_is_not_there_and_what_is_no_table(spark: SparkSession, store: ObjectStore, bucket: str) -> None:
    table, other = (Table("s", name, root=f"s3a://{bucket}/lake") for name in ("t", "other"))
    files_at(f"s3a://{bucket}/lake/s/other").write("file", "x")
    files_at(f"s3a://{bucket}/lake/s/t/_delta_log").write("x.tmp", "x")
    for reader in (DirectReader(), SparkReader(spark)):
        assert not reader.exists(table)
        with pytest.raises(DefiniteError, match="not a Delta table"):
            reader.exists(other)
    store.remove_unfinished(str(table.path))
    plain(spark, table)
    assert DirectReader().exists(table)
    store.put_new(f"{table.path}/_deleting", b"x")
    assert not DirectReader().exists(table)


def test_status_needs_no_java(spark: SparkSession, s3: S3Server, file: Path, tmp_path: Path) -> None:
    Pipeline.from_yaml(file, spark).run(once=True)
    programs = tmp_path / "programs"
    programs.mkdir()
    environment = {**os.environ, "PATH": str(programs), "JAVA_HOME": str(programs), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "lakehouse_cdc", "status", "-c", str(file)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr + done.stdout
