"""A run puts bronze's small files together as it goes, and nobody sees any of it in the rows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.failpoints import Door, Moment
from lakehouse_cdc.ops import upkeep
from lakehouse_cdc.ops.upkeep import Upkeep
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.testing import MySqlServer
from tests.support.crash_points import Crash, hooked
from tests.support.delta_library import delta_table
from tests.support.pipelines import assert_each_event_once, bronze, pipeline

FEW = 4  # files of two partitions, each of which has been put together, and may have got one more


@pytest.fixture
def lake(
    spark: SparkSession, mysql: MySqlServer, database: str, run: Callable[..., None], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Pipeline:  # fmt: skip
    """A pipeline of two tables with a row each, that looks at every commit, and finds two files too many."""
    monkeypatch.setattr(upkeep, "_EVERY", 1)
    monkeypatch.setattr(upkeep, "_FEW", 1)
    monkeypatch.setattr(upkeep, "_A_PARTITION", 0)
    for table in ("t", "u"):
        run(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {table} VALUES (1, 0)")
    return pipeline(spark, mysql, database, tmp_path)


def files(spark: SparkSession, lake: Pipeline) -> int:
    [(number,)] = delta_table(spark, lake.layout.changes).detail().select("numFiles").collect()
    return int(number)


def is_upkeep(door: Door, moment: Moment, name: str) -> bool:
    """Whether files of bronze are about to be put together; the streams commit there as well."""
    here = threading.current_thread().name == "upkeep"
    return here and (door, moment, name) == (Door.ADD, Moment.BEFORE, "changes")


def changed(run: Callable[..., None], lake: Pipeline, times: int) -> list[Any]:
    """As many batches, each with a change of both tables; the notices."""
    notices = []
    for v in range(times):
        run(*(f"UPDATE {table} SET v = v + {v + 1}" for table in ("t", "u")))
        notices += lake.run(once=True).notices
    return notices


@pytest.mark.long
def test_files_are_few_and_rows_are_the_same(spark: SparkSession, run: Callable[..., None], lake: Pipeline) -> None:
    lake.run(once=True)
    then = lake.status().bronze
    assert then is not None
    assert changed(run, lake, 5) == []
    assert files(spark, lake) <= FEW
    assert_each_event_once(bronze(spark, lake))
    for layer in ("silver", "bronze"):
        assert lake.verify(layer).verified
    for name, frame in lake.all_as_of(position=f"{then.file}:{then.pos}").items():
        assert [row.v for row in frame.collect()] == [0], name


@pytest.mark.long
def test_it_may_be_off(
    spark: SparkSession, mysql: MySqlServer, database: str, run: Callable[..., None], lake: Pipeline, tmp_path: Path
) -> None:
    off = pipeline(spark, mysql, database, tmp_path, target={"maintain": "off"})
    off.run(once=True)
    before = files(spark, off)
    changed(run, off, 3)
    assert files(spark, off) == before + 6


@pytest.mark.long
def test_what_fails_is_said_and_the_run_does_not_end(
    spark: SparkSession, run: Callable[..., None], lake: Pipeline
) -> None:
    lake.run(once=True)
    changed(run, lake, 1)

    def fail(*at: Any) -> None:
        if is_upkeep(*at):
            raise Crash

    with hooked(fail):
        [notice] = changed(run, lake, 1)
    assert "tried again later" in notice
    assert changed(run, lake, 1) == []
    assert files(spark, lake) <= FEW
    assert lake.verify().verified


@pytest.mark.long
def test_a_run_that_is_interrupted_does_not_wait_for_it(
    spark: SparkSession, mysql: MySqlServer, database: str, run: Callable[..., None], lake: Pipeline, tmp_path: Path
) -> None:
    off = pipeline(spark, mysql, database, tmp_path, target={"maintain": "off"})
    off.run(once=True)
    changed(run, off, 1)
    entered, notices = threading.Event(), list[str]()

    def enter(*at: Any) -> None:
        if is_upkeep(*at):
            entered.set()

    def interrupted_as_it_begins() -> None:
        with Upkeep(spark, lake.layout, notices.append) as keeping:
            keeping.after(1)
            assert entered.wait(300)
            raise KeyboardInterrupt

    with hooked(enter), pytest.raises(KeyboardInterrupt):
        interrupted_as_it_begins()
    assert not any(thread.name == "upkeep" and thread.is_alive() for thread in threading.enumerate())
    lake.run(once=True)
    assert lake.verify().verified


def test_every_so_many_commits_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    keeping = Upkeep(None, None, looked.append)  # type: ignore[arg-type]
    monkeypatch.setattr(keeping, "_look", lambda: looked.append(0))
    for version in (63, 64, 65, 127, 300, 301):
        keeping.after(version)
        with keeping:
            pass
        if version in (64, 300):
            assert looked.pop() == 0
        assert looked == []
    again = Upkeep(None, None, looked.append)  # type: ignore[arg-type]
    monkeypatch.setattr(again, "_look", lambda: looked.append(0))
    again.after(320)
    with again:
        pass
    assert looked == [0]
