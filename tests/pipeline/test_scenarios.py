"""Every kind of DDL at once, on the whole road: silver has the columns and the rows that each scenario says."""

from __future__ import annotations

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
from lakehouse_cdc.testing import MySqlServer
from tests.pipeline.test_run import pipeline
from tests.scenarios import SCENARIOS, Scenario, image, row_metadata

WAYS = [
    ("mysql-5.7", "MINIMAL", "backlog"), ("mysql-8.0", "MINIMAL", "live"), ("mysql-9", "FULL", "backlog"),
    ("mariadb-10.11", "FULL", "live"), ("mariadb-11", "MINIMAL", "backlog"),
]  # fmt: skip


def database(scenario: Scenario) -> str:
    return f"ddl_{scenario.name}"


@contextmanager
def databases(server: MySqlServer, scenarios: list[Scenario]) -> Iterator[None]:
    """A database for each scenario, with its tables."""
    with closing(server.connect(autocommit=True, charset="utf8mb4")) as connection, connection.cursor() as cursor:
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
    with closing(server.connect(autocommit=True, charset="utf8mb4")) as connection, connection.cursor() as cursor:
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
@pytest.mark.parametrize(("any_server", "metadata", "when"), WAYS, indirect=["any_server"])
def test_silver(spark: SparkSession, any_server: MySqlServer, metadata: str, when: str, tmp_path: Path) -> None:
    server, scenarios = any_server, [s for s in SCENARIOS if any_server.version in s.servers]
    source, target = {"tables": ["ddl_*.*"]}, {"silver_name": "{database}__{table}"}
    with row_metadata(server, metadata), databases(server, scenarios):
        lake = pipeline(spark, server, "", tmp_path, source=source, target=target)
        lake.run(once=True)
        follow(lake, server, scenarios, when)
        report = lake.verify()
        assert report.verified, report.to_json()
        wrong = [found for scenario in scenarios for found in differences(spark, lake, scenario)]
        assert not wrong, "\n".join(wrong)


def differences(spark: SparkSession, lake: Pipeline, scenario: Scenario) -> Iterator[str]:
    """Where silver is not what the scenario says."""
    for table, held in scenario.tables.items():
        silver = read(spark, lake.layout.silver_table(f"{database(scenario)}.{table}")).drop("_seq", "_commit_ts")
        if dict(silver.dtypes) != held.columns:
            yield f"{scenario.name}: {table} has {dict(silver.dtypes)}"
            continue
        rows: list[Any] = [image(row.asDict(), held.columns) for row in silver.collect()]
        if sorted(map(repr, rows)) != sorted(map(repr, held.images().elements())):
            yield f"{scenario.name}: {table} holds {rows}"
