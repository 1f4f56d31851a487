"""Streams start again after what lies outside and may pass, for no other reason, and not for ever."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import psutil
import pymysql
import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.ops.last_error import read
from lakehouse_cdc.pipeline.report import RunReport
from lakehouse_cdc.pipeline.run.restarts import Clock, persistently
from lakehouse_cdc.testing import MySqlServer
from tests.remedies import remedy
from tests.support.pipeline_process import CONFIG, Driver
from tests.support.pipelines import at_work, ops, pipeline, running, small_table
from tests.support.processes import planners, runs
from tests.support.servers import connected
from tests.support.waiting import until

LATE = "org.apache.spark.SparkException: Python worker failed to connect back."
SLOW_ONCE = """\
#!/bin/sh
case "$*" in
  *python_streaming_source_runner*) if mkdir "{mark}" 2>/dev/null; then sleep 12; fi;;
esac
exec "{python}" "$@"
"""


@dataclass
class Run:
    """Streams that do so many batches, or fail so, one after the other, and then end; and what came of it.

    Each call takes a second.
    """

    steps: list[str | int | CdcError]
    batches: int = 0
    time: float = 0.0
    pauses: list[float] = field(default_factory=list)
    waits: list[tuple[str, int, float]] = field(default_factory=list)

    def streams(self) -> str:
        self.time += 1
        while self.steps and isinstance(self.steps[0], int):
            self.batches += int(self.steps.pop(0))  # type: ignore[arg-type]
        if self.steps:
            failure = self.steps.pop(0)
            raise failure if isinstance(failure, CdcError) else RuntimeError(failure)
        return "ended"

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.time += seconds

    def note(self, error: CdcError, tries: int, until: datetime) -> None:
        self.waits.append((error.code.name, tries, (until - datetime.now(timezone.utc)).total_seconds()))

    def play(self, retry_seconds: float = 3600) -> str:
        return persistently(
            self.streams,
            batches=lambda: self.batches,
            retry_seconds=retry_seconds,
            waits=self.note,
            clock=Clock(lambda: self.time, self.sleep),
        )


LOST = codes.CONNECTION_LOST.error("connection refused")


@pytest.mark.parametrize("errors", [(), (LATE,), (LOST,) * 40, (LATE, LOST, LATE), (*(LOST,) * 40, 1, *(LATE,) * 40)])
def test_they_end_although_something_failed_for_a_time(errors: tuple[str | int | CdcError, ...]) -> None:
    run = Run([*errors])
    assert run.play() == "ended"
    failures = [error for error in errors if not isinstance(error, int)]
    assert len(run.pauses) == len(run.waits) == len(failures)
    expected = [1, 2, 4, 8, 16, 32, *(60,) * 34]
    for pause, most in zip(run.pauses, expected, strict=False):
        assert 0.7 * most < pause <= most
    if 1 in errors:  # a batch in between: the pauses begin again, and so does the time
        assert run.pauses[40] <= 1
        assert run.waits[40][1] == 1
        assert run.waits[40][2] == pytest.approx(3600, abs=5)


def test_until_when_it_tries_is_said_and_kept() -> None:
    run = Run([LOST] * 1000)
    with pytest.raises(CdcError) as caught:
        run.play(600)
    assert caught.value is LOST
    assert 600 <= run.time < 603
    assert [tries for _, tries, _ in run.waits] == [*range(1, len(run.waits) + 1)]
    assert run.waits[0][2] == pytest.approx(600, abs=5)
    assert run.waits[-1][2] == pytest.approx(run.pauses[-1], abs=5)


@pytest.mark.parametrize("errors", [("another",), (LATE, "another"), (codes.POSITION_PURGED.error("another"),)])
def test_other_failures_end_it_at_once(errors: tuple[str | CdcError, ...]) -> None:
    run = Run([*errors])
    with pytest.raises(Exception, match="another"):
        run.play()
    assert len(run.pauses) == len(errors) - 1


def test_with_no_time_the_first_ends_it() -> None:
    with pytest.raises(CdcError):
        Run([LOST]).play(0)


@pytest.mark.long
def test_a_run_outlives_a_server_that_is_away(spark: SparkSession, tmp_path: Path) -> None:
    """For longer than the planner waits by itself; `status` shows it meanwhile."""
    with MySqlServer.start() as server:
        with closing(connected(server)) as connection:
            connection.cursor().execute("CREATE DATABASE shop")
            small_table(connection, "shop")
        lake = pipeline(spark, server, "shop", tmp_path, target={"silver": None})
        lake.run(once=True)
        with running(spark, lake) as reports:
            server.kill()
            until(lambda: (error := read(lake.state)) is not None and error.tries > 0)
            error = read(lake.state)
            assert error is not None
            assert error.error["name"] == "connection_lost"
            server.restart()
            with closing(connected(server)) as connection:
                connection.cursor().execute("DELETE FROM shop.t WHERE id = 1")
            until(lambda: read(lake.state) is None)
            until(lambda: ("d", 1) in ops(spark, lake))
        [report] = reports
        assert report.restarts > 0
        assert ops(spark, lake) == [("r", 1), ("r", 2), ("r", 3), ("d", 1)]


@pytest.mark.long
@remedy(codes.PYTHON_WORKER_LATE)
def test_a_run_outlives_a_planner_that_takes_12_seconds_to_start(
    spark: SparkSession,
    mysql: MySqlServer,
    mysql_client: pymysql.Connection[Any],
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    slow = tmp_path / "python"
    slow.write_text(SLOW_ONCE.format(mark=tmp_path / "was-slow", python=sys.executable))
    slow.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(slow))
    small_table(mysql_client, database)
    lake = pipeline(spark, mysql, database, tmp_path, target={"silver": None})
    begun = time.monotonic()
    report = lake.run(once=True)
    assert time.monotonic() - begun > 10
    assert (tmp_path / "was-slow").exists()
    assert report.to_json()["restarts"] == 1
    [said] = [record.message for record in caplog.records if "restarts" in record.name]
    assert "streams start again in" in said
    assert codes.PYTHON_WORKER_LATE.label in said
    assert "Hint: Run again; the machine has too much other work." in said  # which the run has done
    assert ops(spark, lake) == [("r", 1), ("r", 2), ("r", 3)]


@pytest.mark.long
@remedy(codes.PLANNER_ENDED)
def test_a_run_outlives_its_planners(
    spark: SparkSession,
    mysql: MySqlServer,
    mysql_client: pymysql.Connection[Any],
    database: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Killed three times, as by a system without memory."""
    small_table(mysql_client, database)
    lake = pipeline(spark, mysql, database, tmp_path, target={"silver": None})
    lake.run(once=True)
    with running(spark, lake) as reports:
        for number in (1, 2, 3):
            until(lambda: at_work(spark))
            for one in planners():
                one.kill()
            until(lambda n=number: caplog.text.count(codes.PLANNER_ENDED.label) == n)  # type: ignore[misc]
            mysql_client.cursor().execute(f"DELETE FROM {database}.t WHERE id = {number}")
            until(lambda n=number: ("d", n) in ops(spark, lake))  # type: ignore[misc]
    [report] = reports
    assert report.restarts == 3
    assert read(lake.state) is None
    assert ops(spark, lake) == [("r", 1), ("r", 2), ("r", 3), ("d", 1), ("d", 2), ("d", 3)]


@pytest.mark.long
def test_a_run_that_begins_while_the_server_is_away_waits_for_it_but_for_the_first(
    spark: SparkSession, tmp_path: Path
) -> None:
    with MySqlServer.start() as server:
        with closing(connected(server)) as connection:
            connection.cursor().execute("CREATE DATABASE shop")
            small_table(connection, "shop")
        lake = pipeline(spark, server, "shop", tmp_path, target={"silver": None})
        server.kill()
        with pytest.raises(CdcError) as refused:
            lake.run(once=True)
        assert refused.value.code is codes.CONNECTION_LOST
        server.restart()
        lake.run(once=True)
        server.kill()
        reports: list[RunReport] = []
        thread = threading.Thread(target=lambda: reports.append(lake.run(once=True)))
        thread.start()
        until(lambda: (error := read(lake.state)) is not None and error.tries > 1)
        server.restart()
        with closing(connected(server)) as connection:
            connection.cursor().execute("DELETE FROM shop.t WHERE id = 1")
        thread.join(180)
        [report] = reports
        assert report.restarts > 1
        assert read(lake.state) is None
        assert ops(spark, lake) == [("r", 1), ("r", 2), ("r", 3), ("d", 1)]


@pytest.mark.long
def test_a_jvm_that_is_killed_ends_the_run_with_an_error_of_ours(
    mysql: MySqlServer, database: str, tmp_path: Path
) -> None:
    with closing(connected(mysql)) as connection:
        small_table(connection, database)
        connection.commit()
    config = tmp_path / "pipeline.yml"
    config.write_text(CONFIG.format(url=mysql.url, database=database, chunk_rows=100))
    with Driver(config) as driver:
        driver.wait_for(tmp_path / "lakehouse" / "_checkpoints" / "crash" / "silver", -1)
        for one in psutil.Process(driver.process.pid).children(recursive=True):
            if runs(one, "java"):
                one.kill()
        _, errors = driver.process.communicate(timeout=120)
    assert driver.process.returncode == 3
    last = errors.splitlines()[-1]  # what PySpark's threads print comes before it
    assert last.startswith("error: CDC-7010 spark_failed: Spark's JVM has ended")
