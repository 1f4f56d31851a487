"""Streams start again where a process of Spark's was late, and for no other reason, and not for ever."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.pipeline.run.restarts import PAUSES, while_late
from lakehouse_cdc.testing import MySqlServer
from tests.support.pipelines import ops, pipeline, small_table

LATE = "org.apache.spark.SparkException: Python worker failed to connect back."
SLOW_ONCE = """\
#!/bin/sh
case "$*" in
  *python_streaming_source_runner*) if mkdir "{mark}" 2>/dev/null; then sleep 12; fi;;
esac
exec "{python}" "$@"
"""


def failing(*errors: str | int) -> tuple[Callable[[], str], Callable[[], int]]:
    """Streams that do so many batches and then fail with so many errors, one a call, and then end."""
    steps = list(errors)
    done = [0]

    def streams() -> str:
        while steps and isinstance(steps[0], int):
            done[0] += int(steps.pop(0))
        if steps:
            raise RuntimeError(steps.pop(0))
        return "ended"

    return streams, lambda: done[0]


ALL = len(PAUSES)


@pytest.mark.parametrize("errors", [(), (LATE,), (LATE,) * ALL, (*(LATE,) * ALL, 1, LATE, LATE, 2, *(LATE,) * ALL)])
def test_they_end_although_processes_were_late(errors: tuple[str | int, ...]) -> None:
    again: list[None] = []
    pauses: list[float] = []
    assert while_late(*failing(*errors), lambda: again.append(None), pauses.append) == "ended"
    assert len(again) == len(pauses) == errors.count(LATE)
    for pause, most in zip(pauses, PAUSES, strict=False):
        assert 0.7 * most < pause <= most
    if len(errors) > ALL:  # a batch in between: the pauses begin again
        assert pauses[ALL] <= PAUSES[0]


@pytest.mark.parametrize(
    ("errors", "times"),
    [((LATE,) * (ALL + 1), ALL), ((1, *(LATE,) * (ALL + 1)), ALL), (("another",), 0), ((LATE, "another", LATE), 1)],
)
def test_they_do_not_start_for_ever_or_for_another_reason(errors: tuple[str | int, ...], times: int) -> None:
    again: list[None] = []
    with pytest.raises(RuntimeError, match="another" if "another" in errors else "failed to connect back"):
        while_late(*failing(*errors), lambda: again.append(None), lambda _: None)
    assert len(again) == times


@pytest.mark.long
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
    assert [r.message.partition(";")[0] for r in caplog.records if "restarts" in r.name] == [
        "a Python process took Spark more than 10 s to start"
    ]
    assert ops(spark, lake) == [("r", 1), ("r", 2), ("r", 3)]
