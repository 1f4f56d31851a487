"""Commands that only look: seconds of each, as a process of its own, in bare Spark sessions started beside them.

    uv run python -m bench.commands [--quick] [--json] [--tables 40] [--engine spark] [--write bench]

The pipeline is over the tables of a real server, each with rows that were changed. What is measured is warm: each
command has run once before. A bare session is a process that makes one, counts to one and ends. At the end `status` in
a session of Spark's must have said the same.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.machine import machine
from bench.report import results, write
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.testing import MySqlServer

_BARE = "from lakehouse_cdc.runtime.session import local_session as s; a = s('bare'); a.range(1).count(); a.stop()"
_CLI = "from lakehouse_cdc.cli.main import main; main()"
_COMMANDS = {
    "status": ("status",),
    "as-of": ("as-of",),
    "report": ("report",),
    "doctor": ("doctor",),
    "signal": ("signal", "resume"),
}
_FILE = """\
name: bench
source: {{url: "{url}", tables: ["bench.*"], tls: disabled}}
target: {{path: ./lake, bronze: bronze, silver: silver, engine: {engine}}}
"""


@dataclass(frozen=True)
class Plan:
    """So many tables, of so many rows each; silver's engine; how often each command is timed, and a bare session."""

    tables: int = 40
    rows: int = 500
    engine: str = "spark"
    times: int = 7
    sessions: int = 3


QUICK = Plan(tables=2, rows=10, times=1, sessions=1)


@dataclass(frozen=True)
class Run:
    """Seconds: medians of a bare session, of a process of Python's that does nothing, and of each command."""

    session: float
    python: float
    commands: dict[str, float]


def run(plan: Plan, folder: Path) -> Run:
    """All of it. Raises AssertionError where `status` is another by Spark."""
    file = folder / "pipeline.yml"
    with MySqlServer.start(version="mysql-8.0") as server:
        _make(server, plan)
        file.write_text(_FILE.format(url=server.url, engine=plan.engine))
        for _ in range(3):
            with closing(Pipeline.from_yaml(file)) as pipeline:
                pipeline.run(once=True)
            _change(server, plan)
        python = _median([sys.executable, "-c", "pass"], folder, plan.times)
        commands = {}
        for name, words in _COMMANDS.items():
            command = [sys.executable, "-c", _CLI, *words, "-c", str(file), "--json"]
            _seconds(command, folder)
            commands[name] = round(_median(command, folder, plan.times), 2)
            _say(f"{name}: {commands[name]} s")
        session = _median([sys.executable, "-c", _BARE], folder, plan.sessions)
        _require_same(file)
    return Run(round(session, 2), round(python, 3), commands)


def _median(command: Sequence[str], folder: Path, times: int) -> float:
    return statistics.median(_seconds(command, folder) for _ in range(times))


def _seconds(command: Sequence[str], folder: Path) -> float:
    began = time.monotonic()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - began


def _make(server: MySqlServer, plan: Plan) -> None:
    rows = ", ".join(f"({n}, 0, 'name {n}', {n}.5)" for n in range(plan.rows))
    with closing(server.connect(autocommit=True)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE bench")
        for n in range(plan.tables):
            columns = "id BIGINT PRIMARY KEY, v INT, name VARCHAR(40), price DECIMAL(12,2)"
            cursor.execute(f"CREATE TABLE bench.t{n:04} ({columns})")
            cursor.execute(f"INSERT INTO bench.t{n:04} VALUES {rows}")


def _change(server: MySqlServer, plan: Plan) -> None:
    with closing(server.connect(autocommit=True)) as connection, connection.cursor() as cursor:
        for n in range(plan.tables):
            cursor.execute(f"UPDATE bench.t{n:04} SET v = v + 1 WHERE id < 5")


def _require_same(file: Path) -> None:
    from lakehouse_cdc.lake.readers.spark import SparkReader

    with closing(Pipeline.from_yaml(file)) as pipeline:
        without = pipeline.status().tables
        for name, table in without.items():
            place = pipeline.layout.silver_table(name)
            assert SparkReader(pipeline.spark).count(place) == table.silver_rows, name


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(prog="python -m bench.commands", description="Commands that only look.")
    parser.add_argument("--quick", action="store_true", help="few tables, to see that it works")
    parser.add_argument("--json", action="store_true", help="one line of JSON on stdout")
    parser.add_argument("--tables", type=int, help="so many tables")
    parser.add_argument("--engine", choices=("auto", "spark"), help="silver's engine (spark)")
    parser.add_argument("--write", type=Path, help="a folder for RESULTS.md and commands.json")
    asked = parser.parse_args()
    plan = QUICK if asked.quick else Plan()
    plan = Plan(asked.tables or plan.tables, plan.rows, asked.engine or plan.engine, plan.times, plan.sessions)
    busy = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        done = run(plan, Path(scratch))
    data = {"machine": machine(), "busy": round(busy, 1), "plan": asdict(plan), "run": asdict(done)}
    if asked.write is not None:
        write(asked.write, "commands", data)
    print(json.dumps(data) if asked.json else results("commands", data), flush=True)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
