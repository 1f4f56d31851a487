"""A process dies at any step of a first start; the next start goes on from there.

A step is left by an exception in the middle of it, or by what a kill leaves on the disk: both in this process. Killed
processes at random moments are for the long suite.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.lake.cleanup.unfinished_tables import is_unfinished, remove_unfinished
from lakehouse_cdc.lake.failpoints import Door, Moment
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.testing import MySqlServer
from tests.support.crash_points import failing_at
from tests.support.pipeline_process import CONFIG, Driver
from tests.support.pipelines import assert_each_event_once, bronze, pipeline

# what may lie in the log of a table before its first commit
DEBRIS: dict[str, tuple[str, ...]] = {
    "bronze/changes": (),
    "bronze/schemas": (".00000000000000000000.json.5e5e.tmp",),
    "bronze/metrics": ("_staged_commits/",),
    "silver/t": ("00000000000000000000.crc", ".00000000000000000000.crc.crc"),
    "silver/t__tombstones": (".00000000000000000000.json.5e5e.tmp", "_staged_commits/"),
    "silver/ledger": (),
}


@pytest.fixture
def lake(
    spark: SparkSession, mysql: MySqlServer, mysql_client: pymysql.Connection[Any], database: str, tmp_path: Path
) -> Pipeline:
    with mysql_client.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT)")
        cursor.execute(f"INSERT INTO {database}.t VALUES (1, 10), (2, 20), (3, 30)")
    return pipeline(spark, mysql, database, tmp_path, target={"metrics": True})


def assert_whole(spark: SparkSession, lake: Pipeline, rows: int = 3) -> None:
    report = lake.verify()
    assert report.verified, report.to_json()
    assert report.rows == rows
    assert_each_event_once(bronze(spark, lake))
    schemas = spark.read.format("delta").load(str(lake.layout.schemas))
    assert schemas.count() == len(lake.status().tables)


def leave(folder: Path, names: tuple[str, ...]) -> None:
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    for name in names:
        if name.endswith("/"):
            (log / name).mkdir()
        else:
            (log / name).write_text('{"commitInfo":{}}')


@pytest.mark.long
def test_folders_that_were_left_before_a_first_commit(spark: SparkSession, lake: Pipeline, tmp_path: Path) -> None:
    for where, names in DEBRIS.items():
        leave(tmp_path / "lakehouse" / where, names)
    lake.run(once=True)
    assert_whole(spark, lake)
    assert spark.read.format("delta").load(str(lake.layout.metrics)).count() >= 2


def test_only_a_log_without_a_version_is_removed(tmp_path: Path) -> None:
    for number, names in enumerate(
        [("00000000000000000000.json",), ("00000000000000000010.checkpoint.parquet",), ("_last_checkpoint",)]
    ):
        folder = tmp_path / str(number)
        leave(folder, names)
        assert not is_unfinished(str(folder))
        remove_unfinished(str(folder))
        assert [p.name for p in (folder / "_delta_log").iterdir()] == list(names)
    beside = tmp_path / "beside"
    leave(beside, ())
    (beside / "data.parquet").write_text("mine")
    assert not is_unfinished(str(beside))
    remove_unfinished(str(beside))
    assert (beside / "data.parquet").exists()
    assert not is_unfinished(str(tmp_path / "none"))


# in the order of a first start; of bronze's tables the second is created also where the first was not
STEPS = [
    [
        (Door.CREATE, Moment.BEFORE, "changes"),
        (Door.FILE, Moment.BEFORE, "tables.json"),  # the checkpoint names its change table
        (Door.ADD, Moment.BEFORE, "schemas"),
        (Door.CREATE, Moment.AFTER, "t__tombstones"),
        (Door.CREATE, Moment.AFTER, "t"),
        (Door.ADD, Moment.BEFORE, "ledger"),
        (Door.ADD, Moment.AFTER, "ledger"),
    ],
    [(Door.CREATE, Moment.BEFORE, "schemas"), (Door.CREATE, Moment.AFTER, "schemas")],
]


@pytest.mark.long
@pytest.mark.parametrize("steps", STEPS, ids=["changes", "schemas"])
def test_each_step_of_a_first_start(spark: SparkSession, lake: Pipeline, steps: list[tuple[Door, Moment, str]]) -> None:
    """One start after the other dies, each at the next step."""
    for door, moment, name in steps:
        print(door, moment, name)  # shown if the test fails
        with failing_at(door, moment, name), pytest.raises(DefiniteError, match=f"crash {moment.value}: .*: {name}"):
            lake.run(once=True)
    assert lake.run(once=True).notices == []
    assert_whole(spark, lake)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_killed_at_random_moments_of_a_first_start(
    spark: SparkSession, mysql: MySqlServer, mysql_client: pymysql.Connection[Any], database: str, tmp_path: Path
) -> None:
    """Six pipelines, each killed again and again from the moment on at which anything of it is on the disk."""
    with mysql_client.cursor() as cursor:
        for table in ("a", "b", "c"):
            cursor.execute(f"CREATE TABLE {database}.{table} (id INT PRIMARY KEY, v INT)")
            cursor.execute(f"INSERT INTO {database}.{table} VALUES (1, 10), (2, 20), (3, 30)")
    rng = random.Random(16)
    for number in range(6):
        home = tmp_path / str(number)
        home.mkdir()
        config = home / "pipeline.yml"
        config.write_text(CONFIG.format(url=mysql.url, database=database, chunk_rows=2))
        for kill in range(5):
            with Driver(config) as driver:
                until = time.monotonic() + 300
                watched = home / "lakehouse" / ("bronze" if kill < 3 else "silver")
                while not watched.exists() and driver.process.poll() is None and time.monotonic() < until:
                    time.sleep(0.01)
                time.sleep(rng.uniform(0, 1.5 if kill else 0.3))
                driver.kill(with_jvm=rng.random() < 0.7)
        lake = Pipeline.from_yaml(config, spark)
        lake.run(once=True)
        assert_whole(spark, lake, rows=9)
