"""How often batches begin: as the file says, and silver as seldom as it is told to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import ConfigError
from lakehouse_cdc.options.kinds import Invalid
from lakehouse_cdc.options.measures import Duration, seconds
from lakehouse_cdc.pipeline.config.sections import RunConfig
from lakehouse_cdc.pipeline.report import Progress
from lakehouse_cdc.testing import MySqlServer
from tests.support.pipelines import pipeline


@pytest.mark.parametrize(("text", "value"), [("500ms", 0.5), ("1s", 1.0), ("1.5s", 1.5), ("2m", 120.0), ("1h", 3600.0)])
def test_a_time_has_a_unit(text: str, value: float) -> None:
    assert seconds(Duration().check(text)) == value


@pytest.mark.parametrize("text", ["1", "0s", "0.0s", "-1s", "1 s", "1d", "s", "1.s", 1, None])
def test_others_are_no_times(text: object) -> None:
    with pytest.raises(Invalid):
        Duration().check(text)


def test_silver_is_as_often_as_bronze_unless_the_file_says_otherwise() -> None:
    assert RunConfig().triggers(None) == (1.0, 1.0)
    assert RunConfig(every="200ms").triggers(None) == (0.2, 0.2)
    assert RunConfig(every="200ms").triggers(3.0) == (3.0, 3.0)
    assert RunConfig(every="200ms", silver_every="30s").triggers(3.0) == (3.0, 30.0)


def test_another_key_is_refused(mysql: MySqlServer, database: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="silver_evry"):
        pipeline(None, mysql, database, tmp_path, run={"silver_evry": "1s"})


@pytest.mark.long
def test_a_batch_of_silver_takes_all_that_bronze_has_by_then(
    spark: SparkSession, mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path
) -> None:
    run("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 0)")
    lake = pipeline(spark, mysql, database, tmp_path, run={"every": "200ms", "silver_every": "20s"})
    lake.run(once=True)
    begun: dict[str, list[float]] = {"bronze": [], "silver": []}

    def note(done: Progress) -> None:
        begun[done.layer].append(time.monotonic())

    thread = threading.Thread(target=lambda: lake.run(progress=note))
    thread.start()
    end = time.monotonic() + 240
    while len(begun["silver"]) < 4:
        assert time.monotonic() < end
        run("UPDATE t SET v = v + 1")
        time.sleep(0.5)
    for query in spark.streams.active:
        query.stop()  # which ends the run as well
    thread.join(120)
    assert not thread.is_alive()
    bronze, silver = begun["bronze"], begun["silver"]
    assert min(after - before for before, after in pairwise(silver[1:])) > 15
    assert sum(silver[-2] < at < silver[-1] for at in bronze) > 3
    lake.run(once=True)
    assert lake.verify().verified
