"""A pipeline that has run for long: with hundreds of thousands of commits, a batch takes as long as with none."""

from __future__ import annotations

import json
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.direct.log_upkeep import MOST, delete_all_but, make_checkpoint
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.testing import MySqlServer
from tests.support.pipelines import pipeline, running
from tests.support.servers import connected, new_database

pytestmark = pytest.mark.long
COMMITS, CHANGES = 300_000, 40
TIMES, STATUS_SECONDS = 1.2, 5
_LINKS, _CHECKPOINT = 50_000, 100  # links to one file; commits from a checkpoint to the next one


class Shop:
    """A pipeline of one table, which is changed a row at a time."""

    def __init__(self, lake: Pipeline, change: Callable[[], object], table: str) -> None:
        self.lake, self._change, self._table = lake, change, table

    @property
    def folders(self) -> tuple[Path, Path, Path]:
        """Of the tables that get a commit for each batch: bronze, the ledger, and silver."""
        layout = self.lake.layout
        changes, ledger, silver = layout.changes, layout.ledger, layout.silver_table(self._table)
        return Path(str(changes)), Path(str(ledger)), Path(str(silver))

    def in_silver(self) -> Iterator[float]:
        """Change a row, and then another one: the seconds until silver has it."""
        log = log_of(self.folders[-1])
        for version in count(newest(log) + 1):
            began = time.monotonic()
            self._change()
            while not os.path.exists(log / f"{version:020}.json"):
                assert time.monotonic() < began + 120
                time.sleep(0.002)
            yield time.monotonic() - began

    def run(self) -> None:
        """A change, and a run."""
        self._change()
        self.lake.run(once=True)


@contextmanager
def shop(spark: SparkSession, server: MySqlServer, home: Path) -> Iterator[Shop]:
    home.mkdir()
    with new_database(server) as database, closing(connected(server)) as client, client.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT)")
        cursor.execute(f"INSERT INTO {database}.t VALUES (1, 0)")
        lake = pipeline(spark, server, database, home, name=home.name)
        one = Shop(lake, lambda: cursor.execute(f"UPDATE {database}.t SET v = v + 1"), f"{database}.t")
        lake.run(once=True)
        one.run()
        yield one


def log_of(folder: Path) -> Path:
    return folder / "_delta_log"


def newest(log: Path) -> int:
    return max(int(name[:20]) for name in os.listdir(log) if name.endswith(".json") and name[:20].isdigit())


def lengthen(folder: Path, commits: int) -> None:
    """Give a table so many further commits, which have the note of its newest one, and checkpoints."""
    log = log_of(folder)
    last, checkpoint, pointer = newest(log), "{:020}.checkpoint.parquet".format, log / "_last_checkpoint"
    make_checkpoint(str(folder), last)
    lines = (log / f"{last:020}.json").read_text().splitlines(keepends=True)
    [note] = [line for line in lines if line.startswith('{"commitInfo"')]
    for n in range(commits):
        version = last + 1 + n
        if n % _LINKS == 0:
            (log / f"{version:020}.json").write_text(note)
        else:
            os.link(log / f"{version - n % _LINKS:020}.json", log / f"{version:020}.json")
        if (n + 1) % _CHECKPOINT == 0:
            os.link(log / checkpoint(last), log / checkpoint(version))
    pointer.write_text(json.dumps({**json.loads(pointer.read_text()), "version": last + commits}))


def move_on(offsets: Path, commits: int) -> None:
    """Have a stream that reads bronze stand so many commits later."""
    for sum_of_file in offsets.glob(".*.crc"):
        sum_of_file.unlink()
    for file in offsets.iterdir():
        *before, offset = file.read_text().splitlines()
        there = json.loads(offset)
        there["reservoirVersion"] += commits
        file.write_text("\n".join([*before, json.dumps(there)]))


@pytest.fixture
def shops(spark: SparkSession, mysql: MySqlServer, tmp_path: Path) -> Iterator[tuple[Shop, Shop]]:
    """One with those commits, as it is after years, and a new one."""
    with shop(spark, mysql, tmp_path / "old") as old, shop(spark, mysql, tmp_path / "new") as new:
        for folder in old.folders:
            lengthen(folder, COMMITS)
        silver = old.folders[-1]
        delete_all_but(str(silver), MOST, newest(log_of(silver)))  # as after each hundredth commit
        move_on(tmp_path / "old/lakehouse/_checkpoints/old/silver/offsets", COMMITS)
        for one in (old, new):
            one.run()
        yield old, new


def test_a_batch_takes_no_longer(spark: SparkSession, shops: tuple[Shop, Shop]) -> None:
    """Changes of the two take turns, so that what else the machine does is the same for both."""
    old, new = shops
    assert newest(log_of(old.folders[0])) > COMMITS
    took: tuple[list[float], list[float]] = [], []
    with running(spark, old.lake), running(spark, new.lake):
        streams = old.in_silver(), new.in_silver()
        for _ in range(CHANGES):
            for stream, seconds in zip(streams, took, strict=True):
                seconds.append(next(stream))
                time.sleep(random.uniform(0.2, 0.6))  # at any time between two looks at the source
    with_commits, without = map(statistics.median, took)
    print(f"with {COMMITS} commits {with_commits:.2f} s, new {without:.2f} s: {with_commits / without:.2f}")
    assert with_commits / without <= TIMES
    began = time.monotonic()
    assert old.lake.status().silver is not None
    print(f"status: {time.monotonic() - began:.1f} s")
    assert time.monotonic() - began < STATUS_SECONDS
    assert all(one.lake.verify().verified for one in shops)
