"""All tables of a server that has many: seconds of discovery, of the first load, of an idle batch and of a small one.

    uv run python -m bench.whole_server [--quick] [--json] [--databases 400] [--tables 5] [--engine auto]
                                        [--write bench]

The databases are alike, as the shards of a service are; each of their tables has a few rows. Everything happens in one
Spark session, but for `session`: the median of processes that make a session, count to one and end. At the end some
tables, drawn at random, are compared with the source.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.command import bare_session
from bench.machine import machine
from bench.report import results, write
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.mysql.catalog import read_tables
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, connect
from lakehouse_cdc.pipeline.config.model import PipelineConfig
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.runtime.session import local_session
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.workers.launcher import programs

_ROWS, _COMPARED, _SESSIONS = 10, 20, 3


@dataclass(frozen=True)
class Plan:
    """So many databases with so many tables each; how many of the tables get a change; silver's engine."""

    databases: int = 400
    tables: int = 5
    changed: int = 200
    engine: str = "auto"


QUICK = Plan(databases=2, tables=2, changed=2)


@dataclass(frozen=True)
class Run:
    """Seconds of each step."""

    session: float
    discovery: float
    doctor: float
    first: float
    idle: float
    changes: float


def run(plan: Plan, folder: Path) -> Run:
    """All steps. Raises AssertionError where a table that is compared is not as the source's."""
    session = statistics.median(_timed(bare_session) for _ in range(_SESSIONS))
    _say(f"a bare session: {session:.1f} s")
    with MySqlServer.start(version="mysql-8.0") as server:
        _make(server, plan)
        spark = local_session("bench", log=folder / "spark.log", python=programs())
        source = {"url": server.url, "tables": ["shard_*.*"], "tls": "disabled"}
        target = {"path": str(folder / "lake"), "bronze": "bronze", "silver": "silver", "engine": plan.engine}
        names = {"shard_*.*": {"silver_name": "{database}__{table}"}}
        config = {"name": "bench", "source": source, "target": target, "tables": names}
        pipeline = Pipeline(PipelineConfig.parse(config), spark)
        seconds = [_timed(lambda: _discover(server, plan)), _timed(pipeline.doctor)]
        for changes in (False, False, True):
            if changes:
                _change(server, plan)
            seconds.append(_timed(lambda: pipeline.run(once=True)))
            _say(f"{seconds[-1]:.1f} s")
        for database, table in random.Random(1).sample(_names(plan), min(_COMPARED, len(_names(plan)))):
            _require_right(spark, server, pipeline, database, table)
    return Run(*(round(one, 1) for one in (session, *seconds)))


def _timed(step: Callable[[], Any]) -> float:
    began = time.monotonic()
    step()
    return time.monotonic() - began


def _names(plan: Plan) -> list[tuple[str, str]]:
    return [(f"shard_{d:03}", f"t{t}") for d in range(plan.databases) for t in range(plan.tables)]


def _make(server: MySqlServer, plan: Plan) -> None:
    rows = ", ".join(f"({n}, 0, 'name {n}', {n}.5)" for n in range(_ROWS))
    with closing(server.connect(autocommit=True)) as connection, connection.cursor() as cursor:
        for database, table in _names(plan):
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS {database}")
            columns = "id BIGINT PRIMARY KEY, v INT, name VARCHAR(40), price DECIMAL(12,2)"
            cursor.execute(f"CREATE TABLE {database}.{table} ({columns})")
            cursor.execute(f"INSERT INTO {database}.{table} VALUES {rows}")


def _change(server: MySqlServer, plan: Plan) -> None:
    with closing(server.connect(autocommit=True)) as connection, connection.cursor() as cursor:
        for database, table in random.Random(0).sample(_names(plan), min(plan.changed, len(_names(plan)))):
            cursor.execute(f"UPDATE {database}.{table} SET v = v + 1 WHERE id = 1")


def _discover(server: MySqlServer, plan: Plan) -> None:
    with connect(ConnectionOptions.from_url(server.url, password="", tls="disabled")) as session:
        assert len(read_tables(session, Selection(["shard_*.*"]))) == len(_names(plan))


def _require_right(spark: SparkSession, server: MySqlServer, pipeline: Pipeline, database: str, table: str) -> None:
    silver = read(spark, pipeline.layout.silver_table(f"{database}.{table}"))
    held = sorted(tuple(row.values()) for row in silver.select("id", "v", "name", "price").toArrow().to_pylist())
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT id, v, name, price FROM {database}.{table} ORDER BY id")
        assert held == [tuple(row) for row in cursor.fetchall()], (database, table)


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(prog="python -m bench.whole_server", description="All tables of a server.")
    parser.add_argument("--quick", action="store_true", help="few tables, to see that it works")
    parser.add_argument("--json", action="store_true", help="one line of JSON on stdout")
    parser.add_argument("--databases", type=int, help="so many databases")
    parser.add_argument("--tables", type=int, help="so many tables in each")
    parser.add_argument("--engine", choices=("auto", "spark"), default="auto", help="silver's engine (auto)")
    parser.add_argument("--write", type=Path, help="a folder for RESULTS.md and whole_server.json")
    asked = parser.parse_args()
    plan = QUICK if asked.quick else Plan()
    plan = Plan(asked.databases or plan.databases, asked.tables or plan.tables, plan.changed, asked.engine)
    busy = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        done = run(plan, Path(scratch))
    data = {"machine": machine(), "busy": round(busy, 1), "plan": asdict(plan), "run": asdict(done)}
    if asked.write is not None:
        write(asked.write, "whole_server", data)
    print(json.dumps(data) if asked.json else results("whole_server", data), flush=True)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
