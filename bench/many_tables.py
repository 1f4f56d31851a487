"""One change in each of many tables: what silver's batch costs by either engine, in MERGEs of one row by bare Spark.

    uv run python -m bench.many_tables [--quick] [--json] [--tables 100] [--engines auto] [--counted 3] [--form history]
        [--write bench]

The tables are those of a real server, read into bronze by the pipeline itself. Silver is kept twice from the same
bronze, by `engine: spark` and by `engine: auto`, each by an applier and a ledger that live on from batch to batch. The
first batch makes and loads the tables; one more of each is not counted. Beside them, in the same session, a table of as
many rows takes a MERGE of one row as people write it by hand. At the end each silver table is compared with the source.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from bench.machine import machine
from bench.report import results, write
from lakehouse_cdc.lake.commits import history
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.pipeline.config.model import PipelineConfig
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.runtime.session import local_session
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.definition.engine import Configured
from lakehouse_cdc.silver.definition.form import form_named, form_of_columns
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.tables.ledger import Ledger
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.workers.launcher import programs

ENGINES: tuple[Configured, ...] = ("spark", "auto")
_FORMS = ("current", "soft_deletes", "history")
_ROWS = 500


@dataclass(frozen=True)
class Plan:
    """So many tables; batches of which the times count, and MERGEs by bare Spark."""

    tables: int = 100
    counted: int = 3
    merges: int = 10
    engines: tuple[Configured, ...] = ENGINES
    form: str = "current"


QUICK = Plan(tables=3, counted=1, merges=2)


@dataclass(frozen=True)
class Run:
    """What one engine takes for the first load, and for a batch: the median, the slowest, the median in bare MERGEs."""

    engine: str
    form: str
    tables: int
    load: float
    seconds: float
    slowest: float
    merges: float


class Silver:
    """The silver tables by one engine, from a pipeline's bronze."""

    def __init__(self, spark: SparkSession, bronze: Layout, engine: Configured, form: str) -> None:
        self.layout = Layout(bronze.pipeline, bronze=bronze.bronze, silver=f"silver_{engine}", path=bronze.path)
        policy = Policy(engine=engine, form=form_named(form))
        self._applier = Applier(spark, self.layout, policy=lambda _: policy)
        self._ledger, self._spark = Ledger(spark, self.layout), spark
        self._batch, self._after = 0, -1

    def follow(self) -> float:
        """Apply what bronze has; seconds."""
        newest = next(c for c in history(self._spark, self.layout.changes) if c.note is not None)
        assert newest.note is not None
        versions = Versions(None if self._after < 0 else self._after, newest.version)
        note = CommitNote(self.layout.pipeline, "bench", self._batch, newest.note.source_point, newest.version)
        began = time.monotonic()
        self._ledger.prepare()
        touched = self._applier.apply(versions, note)
        self._ledger.enter(note, {}, touched, versions=self._applier.versions)
        seconds = time.monotonic() - began
        self._batch, self._after = self._batch + 1, newest.version
        return seconds


def run(plan: Plan, folder: Path) -> tuple[list[Run], float]:
    """The engines' batches, and the seconds of a MERGE. Raises AssertionError where a table is not as the source's."""
    spark = local_session("bench", log=folder / "spark.log", python=programs())
    with MySqlServer.start() as server:
        _make(server, plan.tables)
        source = {"url": server.url, "tables": ["bench.*"], "tls": "disabled"}
        target = {"path": str(folder / "lake"), "bronze": "bronze"}
        pipeline = Pipeline(PipelineConfig.parse({"name": "bench", "source": source, "target": target}), spark)
        pipeline.run(once=True)
        silvers = {engine: Silver(spark, pipeline.layout, engine, plan.form) for engine in plan.engines}
        loads = {}
        for engine, silver in silvers.items():
            loads[engine] = silver.follow()
            _say(f"{engine}: {plan.tables} tables of {_ROWS} rows loaded in {loads[engine]:.1f} s")
        times: dict[Configured, list[float]] = {engine: [] for engine in plan.engines}
        for i in range(plan.counted + 1):
            _change(server, plan.tables, i)
            pipeline.run(once=True)
            for engine, silver in silvers.items():
                times[engine].append(silver.follow())
                _say(f"{engine}: batch {i}: {times[engine][-1]:.2f} s")
        merge = _bare_merge(spark, folder / "by_hand", plan.merges)
        for silver in silvers.values():
            _require_right(spark, server, silver.layout, plan.tables)
    runs = []
    for engine in plan.engines:
        counted, load = times[engine][1:], round(loads[engine], 1)
        median = statistics.median(counted)
        seconds = round(median, 2), round(max(counted), 2), round(median / merge, 1)
        runs.append(Run(engine, plan.form, plan.tables, load, *seconds))
    return runs, round(merge, 2)


def _names(tables: int) -> list[str]:
    return [f"t{i:04}" for i in range(tables)]


def _say_sql(server: MySqlServer, statements: Sequence[str]) -> None:
    with closing(server.connect(autocommit=True)) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _make(server: MySqlServer, tables: int) -> None:
    numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) "
    statements = ["CREATE DATABASE bench", "SET SESSION cte_max_recursion_depth = 100000"]
    for name in _names(tables):
        columns = "id BIGINT PRIMARY KEY, v INT, name VARCHAR(40), price DECIMAL(12,2), at DATETIME(6), ts TIMESTAMP(6)"
        statements.append(f"CREATE TABLE bench.{name} ({columns})")
        values = "i, 0, CONCAT('name ', i), i / 3, '2024-02-29 01:02:03.000004', '2024-02-29 01:02:03.000004'"
        statements.append(f"INSERT INTO bench.{name} {numbers.format(rows=_ROWS)} SELECT {values} FROM n")
    _say_sql(server, statements)


def _change(server: MySqlServer, tables: int, i: int) -> None:
    key = 1 + 37 * i % _ROWS
    _say_sql(server, [f"UPDATE bench.{name} SET v = v + 1, name = 'x{i}' WHERE id = {key}" for name in _names(tables)])


def _bare_merge(spark: SparkSession, folder: Path, times: int) -> float:
    """The median seconds of a MERGE of one row into a table of as many rows, as Delta makes it by default."""
    table = f"delta.`{folder}`"
    spark.sql(f"CREATE TABLE {table} USING delta AS SELECT id, 0 AS v, concat('name ', id) AS name FROM range({_ROWS})")
    seconds = []
    for i in range(times + 2):
        began = time.monotonic()
        spark.sql(
            f"MERGE INTO {table} t USING (SELECT CAST({i} AS BIGINT) AS id, {i} AS v, 'x' AS name) s ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        seconds.append(time.monotonic() - began)
    return statistics.median(seconds[2:])


def _require_right(spark: SparkSession, server: MySqlServer, layout: Layout, tables: int) -> None:
    for name in _names(tables):
        frame, own = read(spark, layout.silver_table(f"bench.{name}")), layout.own
        current = frame.where(form_of_columns(frame.columns, own).is_current(own))
        rows = current.selectExpr("id", "v", "name", "price").toArrow()
        held = sorted(tuple(row.values()) for row in rows.to_pylist())
        with closing(server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT id, v, name, price FROM bench.{name} ORDER BY id")
            assert held == [tuple(row) for row in cursor.fetchall()], name


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.many_tables", description="One change in each of many tables."
    )
    parser.add_argument("--quick", action="store_true", help="few tables, to see that it works")
    parser.add_argument("--json", action="store_true", help="one line of JSON on stdout")
    parser.add_argument("--tables", type=int, help="so many tables")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, help="these alone")
    parser.add_argument("--counted", type=int, help="so many batches count")
    parser.add_argument("--form", default=Plan.form, choices=_FORMS, help="what silver keeps of rows")
    parser.add_argument("--write", type=Path, help="a folder for RESULTS.md and many_tables.json")
    asked = parser.parse_args()
    plan = QUICK if asked.quick else Plan()
    engines = tuple(asked.engines or plan.engines)
    plan = Plan(asked.tables or plan.tables, asked.counted or plan.counted, plan.merges, engines, asked.form)
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        runs, merge = run(plan, Path(scratch))
    data = {
        "machine": machine(), "rows": _ROWS, "merge": merge, "runs": [asdict(one) for one in runs],
        "asked": f"--tables {plan.tables} --counted {plan.counted} --form {plan.form}",
    }  # fmt: skip
    if asked.write is not None:
        write(asked.write, "many_tables", data)
    print(json.dumps(data) if asked.json else results("many_tables", data), flush=True)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
