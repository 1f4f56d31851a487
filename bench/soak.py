"""A pipeline for an hour at a steady rate, with DDL, signals and repairs: whether anything grows that should not.

    uv run python -m bench.soak [--quick] [--json] [--minutes 60] [--rate 500] [--write bench]

`lakehouse-cdc run` follows two tables. One is changed at that rate by another process. The other has a hundred changes
a second, and in each cycle of five minutes two of its columns are added, one widened, one renamed, and both dropped;
the whole table is read again by a signal, and so are some of its rows, which is what a repair does. Once a minute it is
noted what the run holds. At the end silver and bronze are compared with the source, and bronze has each change.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bench.command import configured, following, run_once, until_taken
from bench.holding import Holding, Others, held_by
from bench.latency import waited
from bench.machine import machine
from bench.peers import python
from bench.process import run
from bench.report import results, write
from bench.tables import DATABASE, LIVE, connected
from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.runtime.session import local_session
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.workers.launcher import programs

_ALTERED, _ROWS, _WARM_SECONDS, _TICK = "altered", 1_000, 60, 0.2
_DDL = "statements of DDL"
_STEPS = (  # of a cycle
    (_DDL, "ADD COLUMN a{cycle} INT DEFAULT 7, ADD COLUMN b{cycle} VARCHAR(20)"),
    ("tables read again", ""),
    (_DDL, "MODIFY COLUMN a{cycle} BIGINT DEFAULT 7"),
    ("repairs of rows", "id < {rows}"),
    (_DDL, "RENAME COLUMN b{cycle} TO c{cycle}"),
    (_DDL, "DROP COLUMN a{cycle}, DROP COLUMN c{cycle}"),
)


@dataclass(frozen=True)
class Plan:
    """So many changes a second, for that long; a cycle of DDL, signals and repairs, and how often it is looked at."""

    rate: int = 500
    seconds: int = 3600
    cycle_seconds: int = 300
    look_seconds: int = 60


QUICK = Plan(rate=100, seconds=120, cycle_seconds=60, look_seconds=10)


@dataclass(frozen=True)
class Soak:
    """`changes` are those that were written at the rate; p50, p99, slowest: seconds from a commit to silver.

    `done` counts what happened besides: statements of DDL, tables that were read again, repairs. `looks` are in order.
    """

    changes: int
    p50: float
    p99: float
    slowest: float
    batches: int
    done: dict[str, int]
    looks: list[Holding]


def measure(server: MySqlServer, folder: Path, plan: Plan) -> Soak:
    """Raises AssertionError where a layer is not the source at the end, RuntimeError for a run that fails."""
    LIVE.create(server, 0)
    _create(server)
    file = configured(server, [LIVE.name, f"{DATABASE}.{_ALTERED}"], folder / "soak")
    run_once(file)
    done: Counter[str] = Counter()
    looks: list[Holding] = []
    with following(file) as process:
        begun = time.time() + _WARM_SECONDS
        with (
            _beside(lambda over: _change(server, file, plan, done, over)),
            _beside(lambda over: _look(process.pid, server, file, plan, looks, over)),
        ):
            written = run(python("writer", server.port, LIVE.name, plan.rate, _WARM_SECONDS + plan.seconds))
        until_taken(file, _last_change(server))
    spark = local_session("bench", log=folder / "spark.log", python=programs())
    pipeline = Pipeline.from_yaml(file, spark)
    for layer in ("silver", "bronze"):
        report = pipeline.verify(layer)
        assert report.verified, report.to_json()
    in_bronze = read(spark, pipeline.layout.changes).where(f"op IN ('c', 'u', 'd') AND source_table = '{LIVE.name}'")
    assert in_bronze.count() == written.rows, f"bronze has {in_bronze.count()} of {written.rows} changes"
    late = waited(spark, pipeline, [LIVE.name], begun)
    p50, p99 = np.percentile(late.seconds, [50, 99])
    return Soak(
        written.rows, round(float(p50), 2), round(float(p99), 2), round(float(late.seconds.max()), 2), late.batches,
        dict(done), looks,
    )  # fmt: skip


@contextmanager
def _beside(does: Callable[[threading.Event], None]) -> Iterator[None]:
    """Does it in a thread until the block ends. Raises what it raised, then."""
    over, failures = threading.Event(), list[BaseException]()

    def body() -> None:
        try:
            does(over)
        except BaseException as error:
            traceback.print_exception(error)  # at once: the rest lasts an hour
            failures.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    if failures:
        raise failures[0]


def _create(server: MySqlServer) -> None:
    rows = ", ".join(f"({n}, 0)" for n in range(_ROWS))
    with closing(connected(server.port)) as connection, connection.cursor() as cursor:
        cursor.execute(f"USE {DATABASE}")
        cursor.execute(f"CREATE TABLE {_ALTERED} (id INT PRIMARY KEY, v INT)")
        cursor.execute(f"INSERT INTO {_ALTERED} VALUES {rows}")
        connection.commit()


def _change(server: MySqlServer, file: Path, plan: Plan, done: Counter[str], over: threading.Event) -> None:
    """Change rows of the second table all the time, and in each cycle its columns; have it, or rows of it, read again.

    What happens is spread over the cycle; a step that comes late is not left out.
    """
    with closing(connected(server.port)) as connection, connection.cursor() as cursor:
        cursor.execute(f"USE {DATABASE}")
        began, number = time.monotonic(), 0
        while not over.wait(_TICK):
            cursor.execute(f"UPDATE {_ALTERED} SET v = v + 1 WHERE id % 50 = {int(time.time()) % 50}")
            connection.commit()
            cycle, step = divmod(number, len(_STEPS))
            if time.monotonic() < began + plan.cycle_seconds * (cycle + (step + 0.5) / len(_STEPS)):
                continue
            kind, what = _STEPS[step]
            words = what.format(cycle=cycle, rows=50 + cycle)
            if kind == _DDL:
                cursor.execute(f"ALTER TABLE {_ALTERED} {words}")
            elif not _signalled(file, ["--where", words] if words else []):
                continue  # at the next tick
            done[kind] += 1
            number += 1


def _signalled(file: Path, words: Sequence[str]) -> bool:
    """Have the second table be read again, or rows of it. False while silver lacks the last change of its columns."""
    command = [sys.executable, "-m", "lakehouse_cdc", "signal", "-c", str(file), "--json", "snapshot"]
    signalled = subprocess.run([*command, f"{DATABASE}.{_ALTERED}", *words], capture_output=True, text=True)
    if signalled.returncode == 0:
        return True
    if json.loads(signalled.stdout or "{}").get("name") == codes.TABLE_CHANGED_MEANWHILE.name:
        return False
    raise RuntimeError(f"a signal ended with {signalled.returncode}\n{signalled.stderr[-4000:]}")


def _look(pid: int, server: MySqlServer, file: Path, plan: Plan, looks: list[Holding], over: threading.Event) -> None:
    began, others = time.monotonic(), Others()
    while not over.wait(plan.look_seconds):
        looks.append(held_by(pid, server, file, time.monotonic() - began, others))
        print(looks[-1], file=sys.stderr, flush=True)


def _last_change(server: MySqlServer) -> float:
    """One more change; a moment, in seconds since 1970, at which it was not committed yet."""
    with closing(connected(server.port)) as connection, connection.cursor() as cursor:
        moment = time.time()
        cursor.execute(f"UPDATE {DATABASE}.{_ALTERED} SET v = v + 1 WHERE id = 0")
        connection.commit()
    return moment


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description="An hour at a steady rate, with DDL.")
    parser.add_argument("--quick", action="store_true", help="two minutes, to see that it works")
    parser.add_argument("--json", action="store_true", help="one line of JSON on stdout")
    parser.add_argument("--minutes", type=int, default=60, help="how long (60)")
    parser.add_argument("--rate", type=int, default=500, help="changes a second (500)")
    parser.add_argument("--write", type=Path, help="a folder for RESULTS.md and soak.json")
    asked = parser.parse_args()
    plan = QUICK if asked.quick else Plan(rate=asked.rate, seconds=60 * asked.minutes)
    busy = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, MySqlServer.start(version="mysql-8.0") as server:
        soaked = measure(server, Path(folder), plan)
    data = {"machine": machine(), "busy": round(busy, 1), "plan": asdict(plan), "run": asdict(soaked)}
    if asked.write is not None:
        write(asked.write, "soak", data)
    print(json.dumps(data) if asked.json else results("soak", data), flush=True)


if __name__ == "__main__":
    main()
