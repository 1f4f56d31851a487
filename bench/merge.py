"""What it costs to bring changes into silver tables of different sizes, with keys near each other and at random.

    uv run python -m bench.merge [--quick] [--json] [--folder /tmp/tables] [--write bench]

Each table is filled from a snapshot, as a pipeline's first batch does it, once, and kept in a folder for the next time;
what is measured is done to a copy. A batch is applied without being counted, then some that are: the median of their
times counts, and the mean of their bytes. At the end the table is compared with what it must hold.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from bench import log
from bench.check import require_right
from bench.lake import Lake, copy
from bench.machine import machine
from bench.report import results, write
from bench.rows import KEYS, Keys, Sample, changes, snapshot
from lakehouse_cdc.runtime.session import local_session
from lakehouse_cdc.workers.launcher import programs

_ROWS_IN_TASK = 250_000


@dataclass(frozen=True)
class Plan:
    """Tables of that many rows, batches of so many changes, and how many of these count."""

    rows: tuple[int, ...] = (100_000, 1_000_000, 10_000_000)
    changes: int = 10_000
    counted: int = 5


QUICK = Plan((2_000,), changes=100, counted=1)


@dataclass(frozen=True)
class Run:
    """One table and one kind of keys. `bytes_written` and the numbers of files are of one batch, the mean.

    `share` is what was written by the table's bytes; `files` are all that the table had at first, `files_read` those
    that may hold the batch's keys, `files_touched` those that held a row that changed or were put together.
    """

    rows: int
    scd: int
    keys: Keys
    seconds: float
    slowest: float
    table_bytes: int
    bytes_written: int
    share: float
    bytes_removed: int
    files: int
    files_read: float
    files_touched: float


def measure(spark: SparkSession, folder: Path, plan: Plan, rows: int, scd: int, keys: Keys) -> Run:
    """Apply batches to a copy of the table; raises AssertionError if that ends with other rows than it must hold."""
    source = prepared(spark, folder, rows)
    with tempfile.TemporaryDirectory(dir=folder, prefix="run-") as place:
        copy(source, Path(place) / "copy")
        lake = Lake(spark, Path(place) / "copy", scd)
        table_bytes, files = log.size(spark, lake.silver)
        samples: dict[int, Sample] = {}
        seconds: list[float] = []
        costs: list[log.Cost] = []
        read: list[int] = []
        for i in range(plan.counted + 1):
            pos = 2 + i
            samples[pos] = Sample.draw(keys, rows, plan.changes, seed=pos)
            lake.write_bronze(changes(spark, samples[pos], pos), pos)
            keys_of = [*samples[pos].updated, *samples[pos].deleted, *samples[pos].inserted]
            meet = log.in_range(lake.silver, lake.newest, "id", min(keys_of), max(keys_of))
            done = lake.write_silver()
            if i:
                read.append(meet)
                seconds.append(done.seconds)
                costs.append(log.cost(lake.silver, done.first, done.last))
        require_right(spark, lake, rows, samples, scd)
    written = statistics.fmean(cost.written for cost in costs)
    return Run(
        rows, scd, keys, round(statistics.median(seconds), 2), round(max(seconds), 2), table_bytes, round(written),
        round(written / table_bytes, 6), round(statistics.fmean(cost.removed for cost in costs)), files,
        statistics.fmean(read), statistics.fmean(cost.touched for cost in costs),
    )  # fmt: skip


def prepared(spark: SparkSession, folder: Path, rows: int) -> Path:
    """A lake whose tables of both types hold the snapshot of so many rows; made where it is missing."""
    place, unfinished = folder / f"rows-{rows}", folder / f"rows-{rows}.unfinished"
    if not place.exists():
        shutil.rmtree(unfinished, ignore_errors=True)
        lake = Lake(spark, unfinished, 1)
        lake.begin()
        lake.write_bronze(snapshot(spark, rows, 1, _ROWS_IN_TASK), 1)
        for scd in (1, 2):
            done = Lake(spark, unfinished, scd).write_silver(first=True)
            _say(f"{rows:,} rows of type {scd} loaded in {done.seconds:.0f} s")
        unfinished.rename(place)
    return place


def run(folder: Path, plan: Plan) -> list[Run]:
    """All of it, in a session as a pipeline makes it."""
    folder.mkdir(parents=True, exist_ok=True)
    spark = local_session("bench", log=folder / "spark.log", python=programs())
    runs = []
    for rows in plan.rows:
        for scd in (1, 2):
            for keys in KEYS:
                runs.append(measure(spark, folder, plan, rows, scd, keys))
                _say(str(runs[-1]))
    return runs


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(prog="python -m bench.merge", description="MERGE into tables of different sizes.")
    parser.add_argument("--quick", action="store_true", help="small tables, to see that it works")
    parser.add_argument("--json", action="store_true", help="one line of JSON on stdout")
    parser.add_argument("--rows", type=int, nargs="+", help="tables of these sizes alone")
    parser.add_argument("--counted", type=int, help="so many batches of each count")
    parser.add_argument("--folder", type=Path, help="where tables are kept for the next time (default: nowhere)")
    parser.add_argument("--write", type=Path, help="a folder for RESULTS.md, merge.json and its charts")
    asked = parser.parse_args()
    plan = QUICK if asked.quick else Plan()
    plan = Plan(tuple(asked.rows or plan.rows), plan.changes, asked.counted or plan.counted)
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        runs = run(asked.folder or Path(scratch), plan)
    data = {"machine": machine(), "changes": plan.changes, "runs": [asdict(one) for one in runs]}
    if asked.write is not None:
        write(asked.write, "merge", data)
    print(json.dumps(data) if asked.json else results("merge", data), flush=True)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
