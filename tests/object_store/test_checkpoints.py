"""A pipeline of which no machine keeps anything: it is continued elsewhere, killed, suspended, and asked for things."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import TransientError, codes
from lakehouse_cdc.lake.checkpoint import Checkpoint
from lakehouse_cdc.lake.files.choice import files_at
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.runtime.cache import ENVIRONMENT, cache_directory
from tests.support.commands import call
from tests.support.pipeline_process import Driver
from tests.support.pipelines import assert_each_event_once, bronze
from tests.support.s3_pipelines import SECRET, of_rows
from tests.support.s3_server import Request, S3Server
from tests.support.waiting import until

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1800),
    pytest.mark.parametrize("checkpoints", ["kept"], indirect=True),
]


def on_another_machine(file: Path, home: Path, *arguments: str) -> dict[str, Any]:
    """What a command says in a process whose home has the pipeline's file and the jars alone."""
    home.mkdir()
    (home / "cache").mkdir()
    (home / "cache" / "jars").symlink_to(cache_directory() / "jars")
    shutil.copy(file, home)
    environment = {**os.environ, "HOME": str(home), ENVIRONMENT: str(home / "cache")}
    command = [sys.executable, "-m", "lakehouse_cdc.cli.main", *arguments, "-c", file.name, "--json"]
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert SECRET not in done.stdout + done.stderr
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


def last(lake: Pipeline) -> int:
    """The last batch of bronze that was planned, -1 before the first."""
    planned = Checkpoint(lake.checkpoint("bronze")).last_offset()
    return -1 if planned is None else planned


def test_another_machine_continues(
    spark: SparkSession, file: Path, database: str, run: Callable[..., None], tmp_path: Path
) -> None:
    assert of_rows(on_another_machine(file, tmp_path / "one", "run", "--once")) == {f"{database}.t": {"r": 3}}
    shutil.rmtree(tmp_path / "one")
    run("INSERT INTO t VALUES (4, 'hush', 40)", "DELETE FROM t WHERE id = 2", "ALTER TABLE t ADD w INT")
    assert on_another_machine(file, tmp_path / "two", "status")["healthy"]
    assert of_rows(on_another_machine(file, tmp_path / "three", "run", "--once")) == {f"{database}.t": {"c": 1, "d": 1}}
    lake = Pipeline.from_yaml(file, spark)
    assert lake.verify().verified
    assert_each_event_once(bronze(spark, lake))


def test_checkpoints_move_from_a_folder_to_the_bucket_and_back(
    spark: SparkSession, file: Path, database: str, run: Callable[..., None]
) -> None:
    in_folder = ["--set", f"target.checkpoints={file.parent / 'folder'}"]
    in_bucket = files_at(Pipeline.from_yaml(file, spark).checkpoints)
    call(0, "run", "--once", "-c", file, *in_folder)
    folder = file.parent / "folder" / "shop"
    for path in (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".crc"):
        in_bucket.write(str(path.relative_to(folder)), path.read_text())
    shutil.rmtree(folder)
    run("INSERT INTO t VALUES (4, 'hush', 40)")
    assert of_rows(call(0, "run", "--once", "-c", file)) == {f"{database}.t": {"c": 1}}
    for place in (
        "bronze/offsets",
        "bronze/commits",
        "silver/offsets",
        "silver/commits",
        "bronze",
        "silver",
        "schemas",
    ):
        (folder / place).mkdir(parents=True, exist_ok=True)
        for name in in_bucket.within(place).names():
            (folder / place / name).write_text(str(in_bucket.within(place).read(name)))
    run("INSERT INTO t VALUES (5, 'hush', 50)")
    assert of_rows(call(0, "run", "--once", "-c", file, *in_folder)) == {f"{database}.t": {"c": 1}}
    lake = Pipeline.from_yaml(file, spark, settings=in_folder[1:])
    assert lake.verify().verified
    assert_each_event_once(bronze(spark, lake))


def test_a_driver_that_is_killed_is_continued(
    spark: SparkSession, s3: S3Server, file: Path, database: str, run: Callable[..., None], seed: int
) -> None:
    chance, lake, ids = random.Random(seed), Pipeline.from_yaml(file, spark), iter(range(100, 10_000))
    for moment in range(3):
        with Driver(file) as driver:
            before = last(lake)
            for _ in range(chance.randrange(1, 4)):
                planned = last(lake)
                run(*(f"INSERT INTO t VALUES ({next(ids)}, 'hush', 1)" for _ in range(5)), "UPDATE t SET v = v + 1")
                until(lambda at=planned: last(lake) > at or driver.process.poll() is not None, seconds=300)  # type: ignore[misc]
            time.sleep(chance.random())
            driver.kill(with_jvm=bool(moment % 2))
            assert last(lake) > before
    lake.run(once=True)
    assert lake.verify().verified
    assert_each_event_once(bronze(spark, lake))
    names = files_at(lake.schemas).names()
    assert names
    assert all(files_at(lake.schemas).read(name) for name in names if name.endswith(".json"))


def test_a_driver_that_was_suspended_finds_its_place_taken(
    spark: SparkSession, file: Path, database: str, run: Callable[..., None]
) -> None:
    lake = Pipeline.from_yaml(file, spark)
    with Driver(file) as driver:
        until(lambda: Checkpoint(lake.checkpoint("silver")).last_commit() is not None, seconds=300)
        process = psutil.Process(driver.process.pid)
        family = [process, *process.children(recursive=True)]
        for one in family:
            one.send_signal(signal.SIGSTOP)
        run("INSERT INTO t VALUES (4, 'hush', 40)", "UPDATE t SET v = 11 WHERE id = 1")
        assert of_rows(call(0, "run", "--once", "-c", file)) == {f"{database}.t": {"c": 1, "u": 1}}
        planned = last(lake)
        run("INSERT INTO t VALUES (5, 'hush', 50)")
        for one in family:
            one.send_signal(signal.SIGCONT)
        assert driver.process.wait(300) != 0
        assert last(lake) <= planned + 1  # it may have planned a batch that nobody had planned, and committed nothing
    assert of_rows(call(0, "run", "--once", "-c", file)) == {f"{database}.t": {"c": 1}}
    assert lake.verify().verified
    assert_each_event_once(bronze(spark, lake))


def test_what_is_asked_for_is_done(spark: SparkSession, file: Path, database: str, run: Callable[..., None]) -> None:
    run("CREATE TABLE u (id INT PRIMARY KEY, d DATE)")
    config = ["-c", str(file)]
    call(0, "run", "--once", *config)
    call(0, "signal", *config, "pause")
    assert call(3, "run", "--once", *config)["code"] == codes.PIPELINE_PAUSED.label
    call(0, "signal", *config, "resume")
    call(0, "signal", *config, "snapshot", f"{database}.t")
    assert of_rows(call(0, "run", "--once", *config))[f"{database}.t"]["r"] == 3
    run("SET SESSION sql_mode = ''", "INSERT INTO u VALUES (1, '0000-00-00')", "UPDATE t SET v = 12 WHERE id = 1")
    report = call(0, "run", "--once", *config)
    assert [notice for notice in report["notices"] if "u is quarantined at" in notice]
    lake = Pipeline.from_yaml(file, spark)
    assert "CDC-4021" in lake.status().tables[f"{database}.u"].quarantined
    assert [result.table for result in lake.verify().tables] == [f"{database}.t"]
    text = yaml.safe_load(file.read_text())
    text["source"]["zero_dates"] = "null"
    file.write_text(yaml.safe_dump(text))
    call(0, "run", "--once", *config)
    assert call(0, "status", *config)["healthy"]
    said = call(0, "reset", "--keep-tables", "--yes", *config)
    assert {one["kind"] for one in said["deleted"]} == {"checkpoint"}
    assert files_at(lake.schemas).names() == []
    call(0, "run", "--once", *config)
    again = Pipeline.from_yaml(file, spark)
    assert again.verify().verified
    assert_each_event_once(bronze(spark, again))


def test_a_reset_that_is_interrupted_is_brought_to_its_end(
    spark: SparkSession, s3: S3Server, file: Path, database: str, run: Callable[..., None]
) -> None:
    call(0, "run", "--once", "-c", file)
    for at in (2, 5, 7, 9):
        numbers = iter(range(1, 1000))

        def refused(asked: Request, at: int = at, numbers: Iterator[int] = numbers) -> bool:
            changes = asked.method in ("PUT", "POST", "DELETE") and not asked.path.endswith(".lease")
            return changes and next(numbers) >= at

        s3.refused = refused
        assert call(3, "reset", "--keep-tables", "--yes", "-c", file)["code"] == codes.OBJECT_STORE_UNAVAILABLE.label
        s3.refused = lambda _: False
        run(f"INSERT INTO t VALUES ({100 + at}, 'hush', 1)", "UPDATE t SET v = v + 1")
        call(0, "run", "--once", "-c", file)
        lake = Pipeline.from_yaml(file, spark)
        assert lake.verify().verified
        assert not [name for name in files_at(lake.checkpoints).names() if name.endswith(".deleting")]


def test_a_store_that_is_away_for_a_while_is_waited_for(
    spark: SparkSession, s3: S3Server, file: Path, database: str, run: Callable[..., None]
) -> None:
    lake = Pipeline.from_yaml(file, spark)
    with Driver(file) as driver:
        until(lambda: Checkpoint(lake.checkpoint("silver")).last_commit() is not None, seconds=300)
        s3.lost = lambda _: True
        run("INSERT INTO t VALUES (4, 'hush', 40)")
        time.sleep(20)
        assert driver.process.poll() is None
        s3.lost = lambda _: False
        planned = last(lake)
        run("INSERT INTO t VALUES (5, 'hush', 50)")
        until(lambda: last(lake) > planned, seconds=300)
        assert driver.interrupt()[0] == 0
    lake.run(once=True)
    assert lake.verify().verified
    assert_each_event_once(bronze(spark, lake))
    s3.lost = lambda _: True
    with pytest.raises(TransientError) as away:
        Pipeline.from_yaml(file, spark)
    assert away.value.code is codes.OBJECT_STORE_UNAVAILABLE
