"""From a commit on the source to the row in silver, while rows change at a steady rate.

    uv run python -m bench.latency [--quick] [--json] [--rates 100 1000 5000] [--every 1.0] [--seconds 60]
                                   [--write bench]

`lakehouse-cdc run` follows one table, by either engine, and a writer in another process changes it; then ten tables,
each of which gets a tenth of the second rate. The first half of a minute is not counted. A change is visible when
silver's table has the version that holds it: which one that is says the ledger, by the commit time of the last
transaction in each batch, and when that version was made, Delta's log. At the end silver is compared with the source.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_args

import numpy as np
import numpy.typing as npt
from pyspark.sql import SparkSession

from bench.command import configured, following, run_once
from bench.machine import machine
from bench.peers import python
from bench.process import run
from bench.report import results, write
from bench.tables import LIVE, LIVES, Workload
from lakehouse_cdc.lake.tables import described_history, read
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.runtime.session import local_session
from lakehouse_cdc.silver.definition.engine import Configured
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.workers.launcher import programs

_WARM_SECONDS, _REST_SECONDS = 30, 30


@dataclass(frozen=True)
class Latency:
    """Of `changes` changes at `rate` a second; times in seconds. `batches` are silver's, while these came.

    `engine` is `target.engine` in the configuration, `tables` how many there are.
    """

    rate: int
    engine: str
    tables: int
    changes: int
    p50: float
    p99: float
    slowest: float
    batches: int


def measure(
    server: MySqlServer, folder: Path, tables: Sequence[Workload], engine: str, rate: int, seconds: int, every: float
) -> Latency:
    """One rate, with that trigger, in seconds.

    Raises AssertionError where silver is not the source at the end, RuntimeError for a run that fails.
    """
    for table in tables:
        table.create(server, 0)
    names = [table.name for table in tables]
    file = configured(server, names, folder / f"{engine}-{len(tables)}-{rate}", engine)
    run_once(file)
    with following(file, every):
        time.sleep(_REST_SECONDS)  # until it follows
        begun = time.time() + _WARM_SECONDS
        written = run(python("writer", server.port, ",".join(names), rate, seconds + _WARM_SECONDS))
        time.sleep(_REST_SECONDS)
    spark = local_session("bench", log=folder / "spark.log", python=programs())
    pipeline = Pipeline.from_yaml(file, spark)
    report = pipeline.verify()
    assert report.verified, report.to_json()
    assert read(spark, pipeline.layout.changes).where("op IN ('c', 'u', 'd')").count() == written.rows
    late = waited(spark, pipeline, names, begun)
    p50, p99 = np.percentile(late.seconds, [50, 99])
    return Latency(
        rate, engine, len(tables), len(late.seconds), round(float(p50), 2), round(float(p99), 2),
        round(float(late.seconds.max()), 2), late.batches,
    )  # fmt: skip


@dataclass(frozen=True)
class Waited:
    """How long each change waited, in seconds, and how many batches of silver took them."""

    seconds: npt.NDArray[np.float64]
    batches: int


def waited(spark: SparkSession, pipeline: Pipeline, names: Sequence[str], begun: float) -> Waited:
    """How long the changes of tables waited that were made from a time on."""
    entered = read(spark, pipeline.layout.ledger).orderBy("seq").collect()
    until = np.array([row["commit_ts"].timestamp() for row in entered])
    waits, batches = [], set[int]()
    for name in names:
        made = {
            row["version"]: row["timestamp"].timestamp()
            for row in described_history(spark, pipeline.layout.silver_table(name)).collect()
        }
        visible = np.array([made[row["tables"][name]] for row in entered])
        changes = read(spark, pipeline.layout.changes).where(f"op IN ('c', 'u', 'd') AND source_table = '{name}'")
        rows = changes.selectExpr("unix_micros(commit_ts) AS at").toArrow()
        at = np.sort(rows.column("at").to_numpy()) / 1e6
        at = at[at >= begun]
        batch = np.searchsorted(until, at)
        assert len(at), f"no change of {name} was counted"
        assert batch.max() < len(until), f"the ledger lacks changes of {name}"
        waits.append(visible[batch] - at)
        batches |= {*batch.tolist()}
    return Waited(np.concatenate(waits), len(batches))


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(prog="python -m bench.latency", description="From a commit to the row in silver.")
    parser.add_argument("--quick", action="store_true", help="one rate, for ten seconds, to see that it works")
    parser.add_argument("--json", action="store_true", help="one line of JSON on stdout")
    parser.add_argument("--rates", type=int, nargs="+", default=[100, 1_000, 5_000], help="changes a second")
    parser.add_argument("--every", type=float, default=1.0, help="the trigger: seconds between batches (1)")
    parser.add_argument("--seconds", type=int, default=60, help="how long each rate is measured (60)")
    parser.add_argument("--write", type=Path, help="a folder for RESULTS.md, latency.json and its charts")
    asked = parser.parse_args()
    rates, seconds = ([100], 10) if asked.quick else (asked.rates, asked.seconds)
    found = []
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, MySqlServer.start(version="mysql-8.0") as server:
        contests = [([LIVE], engine, rate) for rate in rates for engine in get_args(Configured)]
        if len(rates) > 1:
            contests += [(list(LIVES), engine, rates[1]) for engine in get_args(Configured)]
        for tables, engine, rate in contests:
            found.append(measure(server, Path(folder), tables, engine, rate, seconds, asked.every))
            print(found[-1], file=sys.stderr, flush=True)
    rows = [asdict(one) for one in found]
    data = {"machine": machine(), "seconds": seconds, "every_seconds": asked.every, "rates": rows}
    if asked.write is not None:
        write(asked.write, "latency", data)
    print(json.dumps(data) if asked.json else results("latency", data), flush=True)


if __name__ == "__main__":
    main()
