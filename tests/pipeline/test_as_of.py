"""Silver as of a moment is what a replica of the source held at that moment."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.errors import CdcError, ConfigError, DefiniteError
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.silver.definition.form import form_of_columns
from lakehouse_cdc.testing import MySqlServer
from tests.support.pipelines import pipeline
from tests.support.recorded_run import Done, RecordedRun
from tests.support.servers import new_database

TABLES = ("orders", "order_lines")


def recorded(
    spark: SparkSession, server: MySqlServer, database: str, home: Path, rounds: int
) -> tuple[Pipeline, list[Done], int]:
    """A pipeline that followed a run, in batches; all transactions, and how many of them its first batch has."""
    lake = pipeline(
        spark, server, database, home,
        source={"tables": [f"{database}.order*"], "chunk_rows": 20},
        tables={f"{database}.orders": {"deletes": "soft"}, f"{database}.order_lines": {"scd": 2}},
    )  # fmt: skip
    with closing(server.connect(database=database, autocommit=True)) as connection:
        run = RecordedRun(connection, random.Random(8))
        run.go_on(10)
        lake.run(once=True)
        begun = len(run.done)
        for _ in range(rounds):
            run.go_on(20)
            run.alter()
            run.go_on(10)
            lake.run(once=True)
    return lake, run.done, begun


def held(frame: DataFrame, columns: list[str]) -> Counter[Any]:
    return Counter(tuple(row) for row in frame.select(*columns).collect())


def as_replicas(
    lake: Pipeline, server: MySqlServer, database: str, done: list[Done], chosen: set[int]
) -> Iterator[int]:
    """Say all again, and compare at the chosen transactions, by each of their names; yields them."""
    with (
        new_database(server) as other,
        closing(server.connect(database=other, autocommit=True)) as connection,
        connection.cursor() as cursor,
    ):
        for i, transaction in enumerate(done):
            for statement in transaction.statements:
                cursor.execute(statement, ())
            if i not in chosen:
                continue
            for found in (lake.all_as_of(gtid=transaction.gtid), lake.all_as_of(position=transaction.position)):
                assert set(found) == {f"{database}.{table}" for table in TABLES}
                for table in TABLES:
                    cursor.execute(f"SELECT * FROM {table}")
                    columns = [d[0] for d in cursor.description]
                    rows = Counter(cursor.fetchall())
                    assert held(found[f"{database}.{table}"], columns) == rows, (i, table, transaction)
            yield i


@pytest.fixture(scope="module")
def world(
    spark: SparkSession, mysql: MySqlServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Pipeline, str, list[Done], int]]:
    with new_database(mysql) as database:
        lake, done, begun = recorded(spark, mysql, database, tmp_path_factory.mktemp("world"), rounds=2)
        yield lake, database, done, begun


World = tuple[Pipeline, str, list[Done], int]


@pytest.mark.long
def test_as_of_is_what_a_replica_held(world: World, mysql: MySqlServer) -> None:
    lake, database, done, begun = world
    chosen = {begun - 1, len(done) - 1, *random.Random(3).sample(range(begun, len(done)), 1)}
    assert set(as_replicas(lake, mysql, database, done, chosen)) == chosen


@pytest.mark.long
def test_a_time_counts_what_was_committed_by_then(world: World) -> None:
    lake, database, done, begun = world
    table = f"{database}.orders"
    commits = read(lake.spark, lake.layout.changes).where("op IN ('c', 'u', 'd')").orderBy("seq")
    names = [d.gtid for d in done[begun + 40 :]]
    found = commits.where(F.col("position.gtid").isin(names)).select("commit_ts", "position.gtid").head()
    assert found is not None
    time, chosen = found[0].astimezone(timezone.utc), next(d for d in done if d.gtid == found[1])
    columns = ["id", "_seq"]
    at = held(lake.as_of(table, gtid=chosen.gtid), columns)
    assert held(lake.as_of(table, timestamp=time), columns) == at
    assert held(lake.as_of(table, timestamp=time.isoformat()), columns) == at
    before = done[done.index(chosen) - 1]
    earlier = held(lake.as_of(table, timestamp=time - timedelta(microseconds=1)), columns)
    assert earlier == held(lake.as_of(table, gtid=before.gtid), columns)


@pytest.mark.long
def test_what_cannot_be_had_is_refused(world: World) -> None:
    lake, database, done, _ = world
    table = f"{database}.orders"
    uuid, _, number = done[-1].gtid.rpartition(":")
    file = done[-1].position.rpartition(":")[0]
    cases: list[tuple[dict[str, Any], type[CdcError], str]] = [
        ({}, ConfigError, "one moment"),
        ({"gtid": done[-1].gtid, "position": done[-1].position}, ConfigError, "one moment"),
        ({"gtid": f"{uuid}:{int(number) + 1_000_000}"}, DefiniteError, "has not reached"),
        ({"gtid": "nonsense"}, DefiniteError, "not a GTID set"),
        ({"position": f"{file}:{2**40}"}, DefiniteError, "has not reached"),
        ({"position": "12"}, ConfigError, "no position"),
        ({"timestamp": "2999-01-01T00:00:00+00:00"}, DefiniteError, "has not reached"),
        ({"timestamp": "yesterday"}, ConfigError, "no time"),
        ({"timestamp": "2026-01-01T00:00:00"}, ConfigError, "any zone"),
        ({"position": done[10].position}, DefiniteError, "not captured yet.* it goes back to .*: there the"),
    ]  # fmt: skip
    for moment, error, words in cases:
        with pytest.raises(error, match=words):
            lake.as_of(table, **moment)
    with pytest.raises(ConfigError, match="knows no table"):
        lake.as_of(f"{database}.nothing", gtid=done[-1].gtid)


@pytest.mark.long
def test_the_ledger_names_a_version_of_each_table_that_is_as_of_its_row(world: World) -> None:
    lake = world[0]
    rows = read(lake.spark, lake.layout.ledger).orderBy("seq").collect()
    assert len(rows) >= 3
    for row in rows:
        assert row["reading"] == {}
        for name, version in row["tables"].items():
            then = read(lake.spark, lake.layout.silver_table(name), version=version)
            own = lake.layout.own
            then = then.where(form_of_columns(then.columns, own).is_current(own))
            at = lake.as_of(name, position=f"{row['position']['file']}:{row['position']['pos']}")
            columns = [c for c in at.columns if c in then.columns]
            assert held(at, columns) == held(then, columns)


@pytest.mark.long
def test_how_far_back(world: World) -> None:
    lake, database, _, _ = world
    reach = lake.reach()
    assert set(reach) == {f"{database}.{table}" for table in TABLES}
    for name, back in reach.items():
        assert back is not None
        assert back.reason == "there the ledger begins"
        assert lake.as_of(name, position=f"{back.file}:{back.pos}").count() >= 0


@pytest.mark.long
@pytest.mark.timeout(0)
def test_as_of_random_gtids_on_every_server(
    spark: SparkSession, any_server: MySqlServer, any_database: str, tmp_path: Path
) -> None:
    """A hundred of MySQL 8.0, and some of each other server."""
    moments = 100 if any_server.version == "mysql-8.0" else 20
    lake, done, begun = recorded(spark, any_server, any_database, tmp_path, rounds=8)
    chosen = set(random.Random(5).sample(range(begun, len(done)), moments))
    assert set(as_replicas(lake, any_server, any_database, done, chosen)) == chosen
