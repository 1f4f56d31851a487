"""A table without a key beside the same with one, while rows change at a steady rate.

    uv run python -m bench.keyless [--quick] [--json] [--rows 5000000] [--rate 1000] [--seconds 60] [--write bench]

Both tables have the same rows and an index on their first column, which is the primary key of one of them. Each is
loaded while it is written, and then followed as in `bench.latency`. At the end silver is compared with the source.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bench.command import configured, following, run_once, until_taken
from bench.latency import waited
from bench.log import cost, size
from bench.machine import machine
from bench.peers import python
from bench.process import run
from bench.report import results, write
from bench.tables import BY_NAME, DATABASE, KEYED, KEYLESS, Workload, connected
from lakehouse_cdc.lake.tables import described_history
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.runtime.session import local_session
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.workers.launcher import programs

_PIECE, _WARM_SECONDS, _REST_SECONDS = 5, 30, 30


@dataclass(frozen=True)
class Followed:
    """Of a table with or without a key: `load` is the first run while it is written, in seconds with Spark's start.

    `p50`, `p99` and `slowest` are seconds from a commit to silver, of `changes` changes; `written` is what silver's
    `batches` wrote meanwhile, in bytes, beside a table of `table_bytes`.
    """

    keyed: bool
    rows: int
    load: float
    changes: int
    p50: float
    p99: float
    slowest: float
    batches: int
    written: int
    table_bytes: int


def measure(server: MySqlServer, folder: Path, workload: Workload, rows: int, rate: int, seconds: int) -> Followed:
    """One table. Raises AssertionError where silver is not the source at the end, RuntimeError for a failed run."""
    workload.create(server, rows)
    file = configured(server, [workload.name], folder / workload.table)
    writer = _Writer(server.port, workload.name, rate, rows)
    with writer.writing():
        time.sleep(_PIECE / 2)
        began = time.monotonic()
        run_once(file)
        load = time.monotonic() - began
    with following(file):
        time.sleep(_REST_SECONDS)  # until it follows
        begun = time.time() + _WARM_SECONDS
        writer.write(seconds + _WARM_SECONDS)
        until_taken(file, writer.write_last())
    spark = local_session("bench", log=folder / "spark.log", python=programs())
    pipeline = Pipeline.from_yaml(file, spark)
    report = pipeline.verify()
    assert report.verified, report.to_json()
    late = waited(spark, pipeline, [workload.name], begun)
    p50, p99 = np.percentile(late.seconds, [50, 99])
    silver = pipeline.layout.silver_table(workload.name)
    versions = [
        row["version"]
        for row in described_history(spark, silver).select("version", "timestamp").collect()
        if row["timestamp"].timestamp() >= begun
    ]
    written = cost(silver, min(versions) - 1, max(versions)).written
    table_bytes, _ = size(spark, silver)
    return Followed(
        workload.keyed, rows, round(load, 1), len(late.seconds), round(float(p50), 2), round(float(p99), 2),
        round(float(late.seconds.max()), 2), late.batches, written, table_bytes,
    )  # fmt: skip


class _Writer:
    """Inserts rows after those that are there, and updates them."""

    def __init__(self, port: int, table: str, rate: int, rows: int) -> None:
        self._port, self._table, self._rate, self._rows = port, table, rate, rows

    def write(self, seconds: int) -> None:
        """That long."""
        done = run(python("writer", self._port, self._table, self._rate, seconds, self._rows))
        self._rows += done.rows // 2

    def write_last(self) -> float:
        """One row; a moment, in seconds since 1970, at which it was not committed yet."""
        self._rows += 1
        with closing(connected(self._port)) as connection, connection.cursor() as cursor:
            cursor.execute(f"USE {DATABASE}")
            moment = time.time()
            cursor.execute(BY_NAME[self._table].insert(self._rows, self._rows))
            connection.commit()
        return moment

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Until the block ends, but for the starts of processes in between."""
        over = threading.Event()

        def pieces() -> None:
            while not over.is_set():
                self.write(_PIECE)

        thread = threading.Thread(target=pieces)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.keyless", description="A table without a key beside one with a key."
    )
    parser.add_argument("--quick", action="store_true", help="small tables, to see that it works")
    parser.add_argument("--json", action="store_true", help="one line of JSON on stdout")
    parser.add_argument("--rows", type=int, default=5_000_000, help="rows of each table at first")
    parser.add_argument("--rate", type=int, default=1_000, help="changes a second")
    parser.add_argument("--seconds", type=int, default=60, help="how long each is measured (60)")
    parser.add_argument("--write", type=Path, help="a folder for RESULTS.md and keyless.json")
    asked = parser.parse_args()
    rows, rate, seconds = (2_000, 100, 10) if asked.quick else (asked.rows, asked.rate, asked.seconds)
    load, found = os.getloadavg()[0], []
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, MySqlServer.start(version="mysql-8.0") as server:
        for workload in (KEYED, KEYLESS):
            found.append(measure(server, Path(folder), workload, rows, rate, seconds))
            print(found[-1], file=sys.stderr, flush=True)
    runs = [asdict(one) for one in found]
    data = {"machine": machine(), "busy": round(load, 1), "rate": rate, "seconds": seconds, "runs": runs}
    if asked.write is not None:
        write(asked.write, "keyless", data)
    print(json.dumps(data) if asked.json else results("keyless", data), flush=True)


if __name__ == "__main__":
    main()
