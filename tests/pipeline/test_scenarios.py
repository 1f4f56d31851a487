"""Every kind of DDL at once, on the whole road: silver has the columns and the rows that each scenario says.

Of type 2 also what there was: each version that an update or a delete ended holds what its before image says, under
whatever schema that was; but for tables that are read again, of which a before image may tell what no one has read.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.silver.definition.form import OPEN
from lakehouse_cdc.testing import MySqlServer
from tests.scenarios import SCENARIOS, Scenario, image
from tests.support.pipelines import pipeline
from tests.support.servers import connected, row_metadata

WAYS = [
    ("mysql-5.7", "MINIMAL", "backlog", 1), ("mysql-8.0", "MINIMAL", "live", 1), ("mysql-9", "FULL", "backlog", 1),
    ("mariadb-10.11", "FULL", "live", 1), ("mariadb-11", "MINIMAL", "backlog", 1), ("mysql-8.0", "FULL", "backlog", 2),
]  # fmt: skip
GENERATED = "column_added_that_is_generated"  # MariaDB 11.8.9 does not log such columns: their table is quarantined


def database(scenario: Scenario) -> str:
    return f"ddl_{scenario.name}"


@contextmanager
def databases(server: MySqlServer, scenarios: list[Scenario]) -> Iterator[None]:
    """A database for each scenario, with its tables."""
    with closing(connected(server, charset="utf8mb4")) as connection, connection.cursor() as cursor:
        for scenario in scenarios:
            cursor.execute(f"CREATE DATABASE {database(scenario)}")
            cursor.execute(f"USE {database(scenario)}")
            for sql in scenario.schema:
                cursor.execute(sql)
        yield
        for scenario in scenarios:
            cursor.execute(f"DROP DATABASE {database(scenario)}")


def change(server: MySqlServer, scenarios: list[Scenario], pause: float) -> None:
    """All changes: the first of each scenario, then the second of each, and so on."""
    stop = threading.Event()
    with closing(connected(server, charset="utf8mb4")) as connection, connection.cursor() as cursor:
        for statements in zip_longest(*(scenario.changes for scenario in scenarios)):
            for scenario, sql in zip(scenarios, statements, strict=True):
                if sql is not None:
                    if not sql.startswith("CREATE DATABASE"):  # it is gone
                        cursor.execute(f"USE {database(scenario)}")
                    cursor.execute(sql.replace("{database}", database(scenario)))
                    stop.wait(pause)


def follow(lake: Pipeline, server: MySqlServer, scenarios: list[Scenario], when: str) -> None:
    if when == "backlog":
        change(server, scenarios, 0)
    else:
        writer = threading.Thread(target=change, args=(server, scenarios, 0.3))
        writer.start()
        while writer.is_alive():
            lake.run(once=True)
        writer.join()
    lake.run(once=True)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("any_server", "metadata", "when", "scd"), WAYS, indirect=["any_server"])
def test_silver(
    spark: SparkSession, any_server: MySqlServer, metadata: str, when: str, scd: int, tmp_path: Path
) -> None:
    server, scenarios = any_server, [s for s in SCENARIOS if any_server.version in s.servers]
    source, target = {"tables": ["ddl_*.*"]}, {"silver_name": "{database}__{table}"}
    with row_metadata(server, metadata), databases(server, scenarios):
        tables = {"ddl_*.*": {"scd": 2}} if scd == 2 else {}
        lake = pipeline(spark, server, "", tmp_path, source=source, target=target, tables=tables)
        lake.run(once=True)
        follow(lake, server, scenarios, when)
        report = lake.verify()
        unlogged = [s for s in scenarios if s.name == GENERATED and server.version == "mariadb-11"]
        assert set(report.quarantined) == {f"{database(s)}.{table}" for s in unlogged for table in s.tables}
        assert not report.failed
        assert all(table.equal for table in report.tables), report.to_json()
        scenarios = [s for s in scenarios if s not in unlogged]
        wrong = [found for scenario in scenarios for found in differences(spark, lake, scenario, scd)]
        wrong += lost_history(spark, lake, scenarios) if scd == 2 else []
        assert not wrong, "\n".join(wrong)


def differences(spark: SparkSession, lake: Pipeline, scenario: Scenario, scd: int) -> Iterator[str]:
    """Where silver is not what the scenario says; of type 2 a column of another type stands beside the old one."""
    for table, held in scenario.tables.items():
        silver = read(spark, lake.layout.silver_table(f"{database(scenario)}.{table}")).drop("_seq", "_commit_ts")
        if scd == 2:
            silver = silver.where(OPEN).select([name for name in silver.columns if name in held.columns])
        if dict(silver.dtypes) != held.columns:
            yield f"{scenario.name}: {table} has {dict(silver.dtypes)}"
            continue
        rows: list[Any] = [image(row.asDict(), held.columns) for row in silver.collect()]
        if sorted(map(repr, rows)) != sorted(map(repr, held.images().elements())):
            yield f"{scenario.name}: {table} holds {rows}"


def lost_history(spark: SparkSession, lake: Pipeline, scenarios: list[Scenario]) -> Iterator[str]:
    """The updates and deletes of which silver has no version that ended there with the numbers and texts of before."""
    changes = read(spark, lake.layout.changes).where(
        "op IN ('u', 'd') AND to_json(before) <> to_json(after) OR op = 'd'"
    )
    ended: dict[str, dict[Any, set[str]]] = {}
    checked = 0
    again = {f"{database(scenario)}.{table}" for scenario in scenarios for table in scenario.read_again}
    for change in changes.selectExpr("source_table", "seq", "to_json(before) AS before").collect():
        if (name := change.source_table) in again:
            continue
        if name not in ended:
            versions = read(spark, lake.layout.silver_table(name)).where(f"NOT {OPEN}").collect()
            ended[name] = {v["__END_AT"].seq: set(map(str, v.asDict().values())) for v in versions}
        said = {str(value) for value in json.loads(change.before).values() if type(value) in (int, str)}
        if not said <= ended[name].get(change.seq, set()):
            yield f"{name} at {change.seq}: {said} is not in {ended[name].get(change.seq)}"
        checked += 1
    assert checked > 20
