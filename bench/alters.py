"""A backlog in which the schemas of many tables change, beside the same backlog without these changes.

    uv run python -m bench.alters [--quick] [--json] [--tables 100] [--each 3] [--runs 3] [--engine auto]
        [--write bench]

Two pipelines, each from a database of its own with the same tables, in one Spark session. For each run a row of each
table changes, then, in one of the databases, a statement alters the table, and so on, `each` times; a `run --once` of
each pipeline, by turns, takes all of it. The statements take turns as well: a column that may be NULL, one with a
constant, a wider type, a rename, a longer text, a column that goes. At the end both are verified against the source.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.machine import machine
from bench.report import results, write
from lakehouse_cdc.pipeline.config.model import PipelineConfig
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.runtime.session import local_session
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.workers.launcher import programs

ALTERED, PLAIN = "altered", "plain"
_ROWS = 500
_STATEMENTS = (
    "ADD COLUMN n{i} INT NULL",
    "ADD COLUMN c{i} INT NOT NULL DEFAULT 7",
    "MODIFY v{v} BIGINT",
    "RENAME COLUMN name{r} TO name{next}",
    "MODIFY t VARCHAR({length})",
    "DROP COLUMN w{w}",
)


@dataclass(frozen=True)
class Plan:
    """So many tables, each with so many statements in a backlog; runs that count."""

    tables: int = 100
    each: int = 3
    runs: int = 3
    engine: str = "auto"


QUICK = Plan(tables=6, each=2, runs=1)


@dataclass(frozen=True)
class Run:
    """Seconds of a run with the statements and without them: the medians, and their ratio."""

    altered: float
    plain: float
    ratio: float


def statement(table: int, i: int) -> str:
    """The statement `i` for a table; none comes twice for one table."""
    turn = i // len(_STATEMENTS)
    text = _STATEMENTS[(table + i) % len(_STATEMENTS)]
    return text.format(i=i, v=turn % 8, r=turn, next=turn + 1, length=50 + i, w=turn % 8)


def run(plan: Plan, folder: Path) -> tuple[Run, dict[str, list[float]]]:
    """All runs. Raises AssertionError where a table is not as the source's at the end."""
    spark = local_session("bench", log=folder / "spark.log", python=programs())
    with MySqlServer.start() as server:
        for database in (ALTERED, PLAIN):
            _make(server, database, plan.tables)
        pipelines = {}
        for database in (ALTERED, PLAIN):
            source = {"url": server.url, "tables": [f"{database}.*"], "tls": "disabled"}
            target = {"path": str(folder / database), "bronze": "bronze", "silver": "silver", "engine": plan.engine}
            config = PipelineConfig.parse({"name": database, "source": source, "target": target})
            pipelines[database] = Pipeline(config, spark)
            pipelines[database].run(once=True)
            _say(f"{database}: {plan.tables} tables of {_ROWS} rows loaded")
        seconds: dict[str, list[float]] = {ALTERED: [], PLAIN: []}
        for number in range(plan.runs + 1):
            for database, pipeline in pipelines.items():
                _change(server, database, plan, number)
                began = time.monotonic()
                pipeline.run(once=True)
                seconds[database].append(round(time.monotonic() - began, 2))
                _say(f"run {number}: {database}: {seconds[database][-1]:.1f} s")
        for pipeline in pipelines.values():
            report = pipeline.verify()
            assert report.verified, report
    counted = {database: statistics.median(times[1:]) for database, times in seconds.items()}
    ratio = round(counted[ALTERED] / counted[PLAIN], 2)
    return Run(counted[ALTERED], counted[PLAIN], ratio), seconds


def _make(server: MySqlServer, database: str, tables: int) -> None:
    numbers = f"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {_ROWS}) "
    columns = "id BIGINT PRIMARY KEY, v INT, name0 VARCHAR(40), t VARCHAR(40), price DECIMAL(12,2), at DATETIME(6)"
    columns += "".join(f", v{n} INT, w{n} INT" for n in range(8))
    values = "i, 0, CONCAT('name ', i), 'text', i / 3, '2024-02-29 01:02:03.000004'" + ", i, i" * 8
    with closing(server.connect(autocommit=True)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {database}")
        for name in _names(tables):
            cursor.execute(f"CREATE TABLE {database}.{name} ({columns})")
            cursor.execute(f"INSERT INTO {database}.{name} {numbers} SELECT {values} FROM n")


def _names(tables: int) -> list[str]:
    return [f"t{i:04}" for i in range(tables)]


def _change(server: MySqlServer, database: str, plan: Plan, number: int) -> None:
    with closing(server.connect(autocommit=True)) as connection, connection.cursor() as cursor:
        for i in range(number * plan.each, (number + 1) * plan.each):
            for table, name in enumerate(_names(plan.tables)):
                cursor.execute(f"UPDATE {database}.{name} SET v = v + 1 WHERE id = {1 + 37 * i % _ROWS}")
                if database == ALTERED:
                    cursor.execute(f"ALTER TABLE {database}.{name} {statement(table, i)}")
        for name in _names(plan.tables):
            cursor.execute(f"UPDATE {database}.{name} SET v = v + 1 WHERE id = {1 + number}")


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(prog="python -m bench.alters", description="Schemas that change in a backlog.")
    parser.add_argument("--quick", action="store_true", help="few tables, to see that it works")
    parser.add_argument("--json", action="store_true", help="one line of JSON on stdout")
    parser.add_argument("--tables", type=int, help="so many tables in each database")
    parser.add_argument("--each", type=int, help="so many statements for each table in a backlog")
    parser.add_argument("--runs", type=int, help="so many runs count")
    parser.add_argument("--engine", choices=("auto", "spark"), default="auto", help="silver's engine (auto)")
    parser.add_argument("--write", type=Path, help="a folder for RESULTS.md and alters.json")
    asked = parser.parse_args()
    plan = QUICK if asked.quick else Plan()
    plan = Plan(asked.tables or plan.tables, asked.each or plan.each, asked.runs or plan.runs, asked.engine)
    busy = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        done, seconds = run(plan, Path(scratch))
    data = {"machine": machine(), "busy": round(busy, 1), "plan": asdict(plan), "run": asdict(done), "seconds": seconds}
    if asked.write is not None:
        write(asked.write, "alters", data)
    print(json.dumps(data) if asked.json else results("alters", data), flush=True)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
