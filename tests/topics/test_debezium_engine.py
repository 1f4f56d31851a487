"""One table captured by Debezium's own engine and by this project's source: silver is the same."""

from __future__ import annotations

import shutil
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from bench.peers import debezium_into_topic
from lakehouse_cdc.testing import MySqlServer
from tests.support.kafka_broker import Broker
from tests.support.pipelines import pipeline
from tests.support.waiting import until
from tests.topics.test_pipeline import SOURCE, VALUES, from_topics, silver_rows, silver_types, source

__all__ = ["source"]  # a fixture
NULLS = ", ".join(["NULL"] * (len(SOURCE) - 1))
SNAPSHOT = [f"INSERT INTO t VALUES (1, {VALUES}), (2, {NULLS}), (3, {VALUES})"]
CHANGES = [  # each one message with a value, but for the change of a key, which is two
    "UPDATE t SET big = 7, doc = NULL WHERE id = 2", "UPDATE t SET id = 30 WHERE id = 3", "DELETE FROM t WHERE id = 1",
    f"INSERT INTO t VALUES (5, {VALUES})", f"INSERT INTO t VALUES (6, {NULLS})", "DELETE FROM t WHERE id = 6",
]  # fmt: skip
MESSAGES = 3 + len(CHANGES) + 1
SETTINGS = (
    "snapshot.mode=initial", "converter.schemas.enable=true", "datatype.propagate.source.type=.+",
    "bigint.unsigned.handling.mode=precise",
)  # fmt: skip


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_silver_is_the_same_whoever_captured_the_source(
    spark: SparkSession, mysql: MySqlServer, database: str, source: Any, broker: Broker, tmp_path: Path
) -> None:
    if shutil.which("mvn") is None:
        pytest.skip("mvn is not installed, which builds the peer")
    prefix, name = f"e{uuid.uuid4().hex[:8]}", f"{database}.t"
    topic, admin = f"{prefix}.{name}", broker.admin()
    [made] = admin.create_topics([NewTopic(topic, 2, 1)], operation_timeout=30).values()
    made.result(60)
    source.execute(f"CREATE TABLE t ({', '.join(f'{column} {kind}' for column, kind in SOURCE.items())})")
    source.execute("SET time_zone = '+00:00'")
    for statement in SNAPSHOT:
        source.execute(statement)
    ours = pipeline(spark, mysql, database, tmp_path)
    ours.run(once=True)
    command = debezium_into_topic(mysql.port, name, MESSAGES, broker.address, prefix, *SETTINGS)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as engine:
        try:
            until(lambda: len(broker.records(topic)) == 3, seconds=300)
            for statement in CHANGES:
                source.execute(statement)
            assert engine.wait(300) == 0
        finally:
            engine.kill()
    copy = from_topics(spark, broker, tmp_path, [topic])
    for lake in (ours, copy):
        lake.run(once=True)
    assert copy.status().dead_letters == {}
    assert silver_rows(spark, copy, name) == silver_rows(spark, ours, name) != []
    assert silver_types(spark, copy, name) == silver_types(spark, ours, name)
