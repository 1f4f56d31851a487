"""MySQL into bronze into topics, whole: a run dies at each of its commits to Kafka, and each change is there once."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import CdcError
from lakehouse_cdc.lake.failpoints import Door, Moment
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.testing import MySqlServer
from tests.support.crash_points import Crash, hooked
from tests.support.kafka_broker import Broker
from tests.support.message_readers import debezium
from tests.support.pipelines import bronze, pipeline
from tests.support.servers import connected

CHANGES = (
    ("INSERT INTO t VALUES (4, 18446744073709551615, 'four')", "UPDATE t SET v = v + 1 WHERE id < 3"),
    ("UPDATE t SET id = 30 WHERE id = 3", "DELETE FROM t WHERE id = 1"),
    ("INSERT INTO k VALUES (1), (1)", "DELETE FROM k WHERE a = 1 LIMIT 1"),
    ("TRUNCATE TABLE t", "INSERT INTO t VALUES (2, 2, NULL), (5, 5, 'é')"),
    ("ALTER TABLE t ADD COLUMN d DECIMAL(30, 5) DEFAULT 1.5", "INSERT INTO t VALUES (6, 6, '6', 123.45)"),
)
BRIEF = ([*CHANGES[0], *CHANGES[1], *CHANGES[2]], [*CHANGES[3], *CHANGES[4]])
# at which moments of Kafka's doors runs end, before the first step and in each
DEATHS = [[0, 1, 2, 4, 7, 9], [0, 1, 2], [1, 3, 5], [2, 4], [0, 3, 6], [1, 2]]
# so that the broker compacts within the test
_AT_ONCE = {"segment.ms": 1000, "min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": 1000}


class Dying:
    """Ends the run at the n-th moment of Kafka's doors."""

    def __init__(self, at: int) -> None:
        self._left = at

    def __call__(self, door: Door, moment: Moment, name: str) -> None:
        if door in (Door.TOPIC, Door.RECORDS):
            self._left -= 1
            if self._left < 0:
                raise Crash(f"{moment.value}: {door.value}: {name}")


@pytest.fixture
def source(mysql: MySqlServer, database: str) -> Iterator[pymysql.cursors.Cursor]:
    with closing(connected(mysql, database=database)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, v BIGINT UNSIGNED, name VARCHAR(20))")
        cursor.execute("CREATE TABLE k (a INT)")
        cursor.execute("INSERT INTO t VALUES (1, 1, 'one'), (2, 2, 'two'), (3, 3, NULL)")
        yield cursor


def last_rows(broker: Broker, topic: str, schema: TableSchema) -> dict[Any, Any]:
    """By key what its last message says."""
    held: dict[Any, Any] = {}
    for record in broker.records(topic):
        read = None if record.value is None else debezium(schema, record.key, record.value)
        if read is None or read.op == "d":
            held.pop(record.key, None)
        else:
            held[record.key] = read.after
    return held


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("steps", "deaths"),
    [(BRIEF, [[7], [1], [2]]), (CHANGES, DEATHS)],
    ids=["brief", "whole"],
)
def test_each_change_is_there_once_and_a_compacted_topic_has_the_source_s_rows(
    spark: SparkSession, mysql: MySqlServer, database: str, source: Any, broker: Broker, tmp_path: Path,
    steps: Sequence[Sequence[str]], deaths: Sequence[Sequence[int]],
) -> None:  # fmt: skip
    prefix = f"e{uuid.uuid4().hex[:8]}"
    common = {"bootstrap_servers": broker.address, "exact": True, "transaction_rows": 2, "partitions": 2}
    sinks = {
        "every": {"kafka": {**common, "topic": f"{prefix}.all.{{database}}.{{table}}"}},
        "rows": {
            "kafka": {
                **common, "topic": f"{prefix}.last.{{database}}.{{table}}", "cleanup_policy": "compact",
                "topic_settings": _AT_ONCE,
            }
        },
    }  # fmt: skip
    lake = pipeline(spark, mysql, database, tmp_path, prefix, target={"silver": None}, sinks=sinks)
    for statements, at in zip(((), *steps), deaths, strict=True):
        for statement in statements:
            source.execute(statement)
        dies(lake, at)
    wanted = Counter(str(row.seq) for row in bronze(spark, lake).where("op IN ('r', 'c', 'u', 'd')").collect())
    resets = {str(row.seq) for row in bronze(spark, lake).where("op IN ('t', 'x')").collect()}
    topics = [f"{prefix}.all.{database}.{table}" for table in "tk"]
    seen = Counter(r.headers["seq"].decode() for r in broker.records(*topics) if r.value is not None)
    assert Counter({at: times for at, times in seen.items() if at not in resets}) == wanted
    schema = TableSchema(
        database, "t",
        (Column("id", "int"), Column("v", "bigint", unsigned=True), Column("name", "varchar"),
         Column("d", "decimal", precision=30, scale=5)),
        ("id",),
    )  # fmt: skip
    compacted = f"{prefix}.last.{database}.t"
    require_same_rows(broker, compacted, schema, source)
    for number in range(60):
        if len(broker.records(compacted)) < len(broker.records(topics[0])):
            break
        # compaction leaves the last segment as it is, so there has to be another one
        source.execute(f"UPDATE t SET name = '{number}' WHERE id IN (2, 5, 6)")
        lake.run(once=True)
        time.sleep(1)
    else:
        pytest.fail("the broker has not compacted the topic")
    require_same_rows(broker, compacted, schema, source)


def require_same_rows(broker: Broker, topic: str, schema: TableSchema, source: Any) -> None:
    source.execute("SELECT id, v, name, d FROM t")
    wanted = {row[0]: row[1:] for row in source.fetchall()}
    held = last_rows(broker, topic, schema).values()
    # messages from before a column was added do not have it
    found = {row["id"]: (row["v"], row["name"], row.get("d", Decimal("1.5"))) for row in held}
    assert found == wanted


def dies(lake: Pipeline, at: Sequence[int]) -> None:
    """A run that ends at each of these moments, and one that reaches its end."""
    for moment in at:
        with hooked(Dying(moment)), suppress(CdcError):
            lake.run(once=True)
    lake.run(once=True)
