"""MySQL into bronze into topics, and Flink's own readers of these: what they materialise is the source's table."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.messages.change import Message
from lakehouse_cdc.messages.formats import FormatName
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.topics.declared import column
from tests.support.flink.reader import Flink, running
from tests.support.flink.types import FlinkType, image, row_type, types_of
from tests.support.kafka_broker import Broker
from tests.support.pipelines import pipeline
from tests.support.row_images import plain
from tests.support.servers import connected
from tests.topics.test_pipeline import SOURCE, VALUES

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
# what the server prints of a column, where its client does not have the value as bronze has it
_PRINTED = {"flag": "flag + 0", "flags": "flags + 0", "span": "CAST(span AS CHAR)", "f": "CAST(f AS DOUBLE)"}
STEPS = (
    [
        "UPDATE t SET big = 7, doc = NULL WHERE id = 2",
        "UPDATE t SET id = 30 WHERE id = 3",
        "DELETE FROM t WHERE id = 1",
    ],
    [f"INSERT INTO t VALUES (5, {VALUES})", "UPDATE t SET name = 'x', tags = '' WHERE id > 3"],
    ["DELETE FROM t WHERE id = 5", "TRUNCATE TABLE t", f"INSERT INTO t VALUES (4, {VALUES})"],
)


@pytest.fixture(scope="module")
def flink() -> Iterator[Flink]:
    with running() as process:
        yield process


@pytest.fixture
def source(mysql: MySqlServer, database: str) -> Iterator[pymysql.cursors.Cursor]:
    with closing(connected(mysql, database=database)) as connection, connection.cursor() as cursor:
        yield cursor


def materialised(flink: Flink, types: dict[str, FlinkType], messages: Iterable[Message]) -> Counter[Any]:
    """What is there after the changelog: each row that it adds and does not take away, and no row below zero."""
    held: Counter[Any] = Counter()
    for message in messages:
        for row in flink.read(message):
            values = tuple(sorted(plain(image(types, row.values)).items()))
            held[values] += 1 if row.kind.startswith("+") else -1
            assert held[values] >= 0, f"{row.kind} of a row that is not there"
    return +held


def table(source: Any) -> Counter[Any]:
    """The table's rows, as the server says."""
    columns = ", ".join(f"{_PRINTED.get(name, name)} AS {name}" for name in SOURCE)
    source.execute(f"SELECT {columns} FROM t")
    names = [one[0] for one in source.description]
    rows = [dict(zip(names, row, strict=True)) for row in source.fetchall()]
    for row in rows:
        if row["id"] is not None and row["name"] is not None:
            row["instant"] = row["instant"].replace(tzinfo=timezone.utc)
            row["flag"] = bool(row["flag"])
            row["big"] = Decimal(row["big"])
    return Counter(tuple(sorted(plain(row).items())) for row in rows)


@pytest.mark.parametrize("format", ["debezium-json", "canal-json", "maxwell"])
def test_it_is_the_source_s_table(
    spark: SparkSession, mysql: MySqlServer, database: str, source: Any, broker: Broker, flink: Flink, tmp_path: Path,
    format: FormatName,
) -> None:  # fmt: skip
    """After a snapshot, changes, a change of a key and a truncation; each time from the beginning of the topic."""
    prefix = f"k{uuid.uuid4().hex[:8]}"
    kafka = {
        "bootstrap_servers": broker.address, "format": format, "exact": True, "partitions": 1,
        "topic": f"{prefix}.{{database}}.{{table}}",
    }  # fmt: skip
    lake = pipeline(spark, mysql, database, tmp_path, prefix, target={"silver": None}, sinks={"out": {"kafka": kafka}})
    source.execute(f"CREATE TABLE t ({', '.join(f'{name} {kind}' for name, kind in SOURCE.items())})")
    source.execute("SET time_zone = '+00:00'")
    nulls = ", ".join(["NULL"] * (len(SOURCE) - 1))
    source.execute(f"INSERT INTO t VALUES (1, {VALUES}), (2, {nulls}), (3, {VALUES}), (4, {VALUES})")
    declared = {name: kind.removesuffix(" PRIMARY KEY").removesuffix(" NULL") for name, kind in SOURCE.items()}
    schema = TableSchema(database, "t", tuple(column(name, kind) for name, kind in declared.items()), ("id",))
    types = types_of(format, schema, exact=True)
    for statements in ([], *STEPS):
        for statement in statements:
            source.execute(statement)
        lake.run(once=True)
        flink.use(format, row_type(types))
        messages = (Message(one.key, one.value) for one in broker.records(f"{prefix}.{database}.t"))
        assert materialised(flink, types, messages) == table(source)
