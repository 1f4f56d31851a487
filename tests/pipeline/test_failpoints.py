"""A run reaches each kind of commit, and may die at any of them: the next one makes up for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import CdcError
from lakehouse_cdc.lake.failpoints import Door
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.testing import MySqlServer
from tests.support.crash_points import Counted, hooked
from tests.support.pipelines import assert_each_event_once, bronze, pipeline

CHANGES = (
    "UPDATE t SET v = v + 1",
    "DELETE FROM t WHERE id = 1",
    "ALTER TABLE t ADD COLUMN n INT DEFAULT 7",
    "INSERT INTO t VALUES (4, 40, 4)",
    "CREATE TABLE u (id INT PRIMARY KEY)",
    "INSERT INTO u VALUES (1)",
)


@pytest.fixture
def lake(spark: SparkSession, mysql: MySqlServer, database: str, run: Callable[..., None], tmp_path: Path) -> Pipeline:
    run("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)")
    return pipeline(spark, mysql, database, tmp_path)


@pytest.mark.long
def test_a_run_reaches_every_door(lake: Pipeline, run: Callable[..., None]) -> None:
    counted = Counted()
    with hooked(counted):
        lake.run(once=True)
        run(*CHANGES)
        lake.run(once=True)
    of_kafka = {Door.TOPIC, Door.RECORDS}  # tests/sinks/kafka
    assert {door for door, _, _ in counted.reached} == set(Door) - of_kafka
    assert lake.verify().verified


@pytest.mark.long
def test_each_commit_in_turn_is_the_last_or_is_not_made(
    spark: SparkSession, lake: Pipeline, run: Callable[..., None]
) -> None:
    """What a run that dies has committed stays, so each next run reaches other commits, until one reaches its end."""
    lake.run(once=True)
    died = 0
    for number, change in enumerate((*CHANGES, *CHANGES[:2])):
        run(change)
        for fails in (0, 1, 2, 3, 5, 8, 13, 21):
            counted = Counted(fails=fails)
            with hooked(counted):
                try:
                    lake.run(once=True)
                except CdcError:
                    died += 1
                else:
                    break
        else:
            lake.run(once=True)
        assert lake.verify().verified, number
    assert_each_event_once(bronze(spark, lake))
    assert died > 2 * len(CHANGES)
