"""The whole road into stores that are not S3, each on an emulator where that is installed."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymysql
import pytest
import yaml
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.checkpoint import Checkpoint
from lakehouse_cdc.lake.commits import newest_version
from lakehouse_cdc.lake.files.choice import files_at
from lakehouse_cdc.lake.tables import properties
from lakehouse_cdc.model.place import store_of
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.pipeline.run import lease
from lakehouse_cdc.testing import MySqlServer
from tests.support.commands import call
from tests.support.pipeline_process import Driver
from tests.support.pipelines import assert_each_event_once, bronze, small_table
from tests.support.s3_pipelines import every_file, of_rows, shown
from tests.support.silver.engines import writers
from tests.support.store_emulators import ACCOUNT_KEY, Emulator, environment
from tests.support.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.fixture
def file(
    emulator: Emulator, mysql: MySqlServer, mysql_client: pymysql.Connection[Any], database: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:  # fmt: skip
    """The file of a pipeline into a bucket of its own, over a table of three rows."""
    environment(monkeypatch)
    small_table(mysql_client, database)
    lake = emulator.place()
    target = {
        "path": lake, "checkpoints": f"{lake}/kept", "bronze": "bronze", "silver": "silver",
        "storage": emulator.section(),
    }  # fmt: skip
    path = tmp_path / "pipeline.yml"
    source = {"url": mysql.url, "tables": [f"{database}.*"]}
    path.write_text(yaml.safe_dump({"name": "shop", "source": source, "target": target}))
    return path


def place_of(file: Path) -> str:
    return str(yaml.safe_load(file.read_text())["target"]["path"])


def test_rows_changes_and_the_next_run(
    spark: SparkSession, emulator: Emulator, file: Path, database: str, run: Callable[..., None]
) -> None:
    lake = Pipeline.from_yaml(file, spark)
    assert {f.severity for f in lake.doctor() if f.name.startswith("target.")} <= {"ok"}
    assert of_rows(lake.run(once=True).to_json()) == {f"{database}.t": {"r": 3}}
    assert lake.verify().verified
    run("INSERT INTO t VALUES (4, 'hush', 40)", "UPDATE t SET v = 11 WHERE id = 1", "DELETE FROM t WHERE id = 2")
    again = Pipeline.from_yaml(file, spark)
    assert of_rows(again.run(once=True).to_json()) == {f"{database}.t": {"c": 1, "u": 1, "d": 1}}
    silver = again.layout.silver_table(f"{database}.t")
    assert set(writers(silver, newest_version(spark, silver))) == {"us", "deltalake"}
    run("ALTER TABLE t ADD w INT", "INSERT INTO t VALUES (5, 'hush', 50, 5)")
    assert of_rows(again.run(once=True).to_json()) == {f"{database}.t": {"c": 1}}
    assert again.verify().verified
    assert again.status().healthy
    assert_each_event_once(bronze(spark, again))
    assert "w" in spark.read.format("delta").load(str(silver.path)).columns
    assert again.maintain(vacuum=True)
    assert again.verify().verified
    assert [one.name for one in file.parent.iterdir()] == [file.name]
    settings = str(dict(spark.sparkContext.getConf().getAll()))
    for text in (shown(file.parent), repr(again.storage()), settings, *every_file(files_at(again.checkpoints))):
        assert ACCOUNT_KEY not in text
    with again.resetting() as reset:
        assert {one.kind for one in reset.deletions} == {"checkpoint", "silver", "bronze"}
        reset.execute()
    left = [name for name in emulator.names(place_of(file)) if not name.endswith(".lease")]
    assert {*left} <= {"kept", "kept/shop"}  # of folders that have the leases
    assert of_rows(Pipeline.from_yaml(file, spark).run(once=True).to_json()) == {f"{database}.t": {"r": 4}}


def last(lake: Pipeline) -> int:
    """The last batch of bronze that was planned, -1 before the first."""
    planned = Checkpoint(lake.checkpoint("bronze")).last_offset()
    return -1 if planned is None else planned


def test_a_second_run_is_refused_and_a_killed_one_continued(
    spark: SparkSession, file: Path, database: str, run: Callable[..., None]
) -> None:
    """As processes of their own; the second has checkpoints of its own, as on another machine."""
    lake = Pipeline.from_yaml(file, spark)
    with Driver(file) as driver:
        until(lambda: last(lake) >= 0 or driver.process.poll() is not None, seconds=600)
        for arguments in ([], ["--set", "target.checkpoints=elsewhere"]):
            said = call(3, "run", "--once", "-c", file, *arguments)
            assert said["code"] == codes.TABLES_LOCKED.label
            assert str(driver.process.pid) in said["error"]
        planned = last(lake)
        run("INSERT INTO t VALUES (4, 'hush', 40)", "UPDATE t SET v = v + 1")
        until(lambda: last(lake) > planned or driver.process.poll() is not None, seconds=600)
        driver.kill(with_jvm=True)
    assert last(lake) > planned
    run("DELETE FROM t WHERE id = 1")
    lake.run(once=True)
    assert lake.verify().verified
    assert lease._WRITER in properties(spark, lake.layout.changes)
    assert_each_event_once(bronze(spark, lake))
    assert ACCOUNT_KEY not in shown(file.parent)
    assert os.environ["STORE_SECRET"] == ACCOUNT_KEY


def test_a_bucket_that_is_not_there_is_said_to_be_missing(spark: SparkSession, emulator: Emulator, file: Path) -> None:
    bucket = store_of(place_of(file)).rpartition("/")[2].partition("@")[0]
    file.write_text(file.read_text().replace(bucket, "lake-of-nobody"))
    said = call(2, "run", "--once", "-c", file)
    assert said["code"] == codes.OBJECT_STORE_REFUSED.label
    assert "target.path" in said["hint"]


def test_keys_that_are_wrong_are_refused_and_not_shown(
    spark: SparkSession, emulator: Emulator, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = base64.b64encode(b"a key that nobody sees").decode()
    monkeypatch.setenv("STORE_SECRET", wrong)
    elsewhere = ["--set", "target.checkpoints=elsewhere"]
    said = call(2, "run", "--once", "-c", file, *elsewhere)
    assert said["code"] == codes.OBJECT_STORE_REFUSED.label
    assert wrong not in str(said)
