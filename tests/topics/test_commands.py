"""Commands of a pipeline from topics, called as a user calls them, on a real broker."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.pipeline.pipeline import Pipeline
from tests.remedies import remedy
from tests.support.commands import call
from tests.support.kafka_broker import PASSWORD, Broker
from tests.support.pipelines import bronze
from tests.support.topic_messages import Message, debezium

pytestmark = pytest.mark.timeout(900)
CONFIG = """\
name: shop
source:
  kafka:
    bootstrap_servers: {servers}
    topics: [{topics}]
    format: debezium-json
    timeout: 20s
  retry_seconds: 1
target: {{path: ./lakehouse, bronze: bronze, silver: silver, maintain: "off"}}
"""


def made(broker: Broker, topic: str, partitions: int = 1) -> str:
    admin = broker.admin()
    for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        future.result(60)
    broker.topics(topic)
    return topic


def produce(broker: Broker, topic: str, messages: Sequence[Message], partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": broker.address, "log_level": 0})
    for key, value in messages:
        producer.produce(topic, value, key, partition)
    assert producer.flush(60) == 0


def written(folder: Path, servers: str, *topics: str) -> Path:
    file = folder / "pipeline.yml"
    file.write_text(CONFIG.format(servers=servers, topics=", ".join(topics)))
    return file


@pytest.mark.long
@remedy(codes.TOPIC_MISSING, codes.NOT_OF_TOPICS)
def test_a_pipeline_from_topics_by_its_commands(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topic = f"c{uuid.uuid4().hex[:8]}"
    file = written(tmp_path, broker.address, topic)
    found = call(1, "doctor", "-c", file)
    assert [one["severity"] for one in found["findings"]] == ["ok", "error"]
    with pytest.raises(CdcError) as caught:
        Pipeline.from_yaml(file, spark).run(once=True)
    assert caught.value.code is codes.TOPIC_MISSING
    made(broker, topic, 2)
    call(0, "doctor", "-c", file)
    produce(broker, topic, [debezium("c", 10, 1, 5), (None, b"no JSON"), debezium("c", 20, 2), (None, None)])
    done = call(0, "run", "-c", file, "--once")
    assert done["tables"]["shop.t"]["c"] == 2
    assert done["position"]["file"] == "bin.000001"
    status = call(0, "status", "-c", file)
    assert status["unread"] == {topic: 0}
    assert status["dead_letters"] == {"not_json": 1}
    assert status["tables"]["shop.t"]["silver_rows"] == 2
    assert "set aside: 1 (1 not_json)" in call(0, "status", "-c", file, as_json=False)
    # what asks a server is refused, and the hint shows what there is instead
    refused = call(2, "verify", "-c", file)
    assert refused["code"] == codes.NOT_OF_TOPICS.label
    call(2, "signal", "snapshot", "shop.t", "-c", file)
    listed = call(0, "dead-letters", "list", "-c", file)
    assert listed["counts"] == {"not_json": 1}
    assert [(one["offset"], one["value"], one["reason"]) for one in listed["letters"]] == [(1, "no JSON", "not_json")]
    assert call(0, "dead-letters", "retry", "-c", file, "--reason", "not_json") == {"tried": 1, "taken": 0}
    call(2, "dead-letters", "drop", "-c", file)
    assert call(0, "dead-letters", "drop", "-c", file, "--yes", "--topic", topic) == {"dropped": 1}
    assert call(0, "dead-letters", "list", "-c", file)["counts"] == {}
    # a redelivery of all gives nothing new, with another checkpoint, too
    produce(broker, topic, [debezium("c", 10, 1, 5), debezium("c", 20, 2)])
    assert call(0, "run", "-c", file, "--once")["tables"] == {}
    call(0, "reset", "--keep-tables", "--yes", "-c", file)
    assert "the topics are read from their beginning" in str(call(0, "run", "-c", file, "--once")["notices"])
    assert bronze(spark, Pipeline.from_yaml(file, spark)).where("op <> 's'").count() == 2


@pytest.mark.long
@remedy(codes.TOPIC_RECORDS_LOST)
def test_messages_that_the_brokers_deleted_stop_the_stream(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topic = made(broker, f"c{uuid.uuid4().hex[:8]}")
    file = written(tmp_path, broker.address, topic)
    produce(broker, topic, [debezium("c", 10, 1)])
    call(0, "run", "-c", file, "--once")
    produce(broker, topic, [debezium("c", 20, 2), debezium("c", 30, 3)])
    admin = broker.admin()
    for future in admin.delete_records([TopicPartition(topic, 0, 2)]).values():
        future.result(60)
    with pytest.raises(CdcError) as caught:
        Pipeline.from_yaml(file, spark).run(once=True)
    assert caught.value.code is codes.TOPIC_RECORDS_LOST
    assert "reset --keep-tables" in caught.value.hint
    produce(broker, topic, [debezium("c", 20, 2)])
    call(0, "reset", "--keep-tables", "--yes", "-c", file)
    call(0, "run", "-c", file, "--once")
    call(0, "dead-letters", "retry", "-c", file)  # what comes after newer rows of its partition
    rows = bronze(spark, Pipeline.from_yaml(file, spark)).where("op <> 's'")
    assert sorted(row[0] for row in rows.selectExpr("key:id::int").collect()) == [1, 2, 3]


@pytest.mark.long
def test_a_password_is_corrected_and_never_shown(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRONG", "wr0ng-pass")
    monkeypatch.setenv("RIGHT", PASSWORD)
    topic = made(broker, f"c{uuid.uuid4().hex[:8]}")
    produce(broker, topic, [debezium("c", 10, 1)])
    file = written(tmp_path, broker.secured, topic)
    secured = "\n    security: sasl_plaintext\n    mechanism: PLAIN\n    username: cdc\n    password: ${env:WRONG}\n"
    file.write_text(file.read_text().replace("\n    format", f"{secured}    format"))
    with pytest.raises(CdcError) as caught:
        Pipeline.from_yaml(file, spark).run(once=True)
    assert caught.value.code is codes.KAFKA_ACCESS_REFUSED
    assert "wr0ng-pass" not in str(caught.value)
    file.write_text(file.read_text().replace("WRONG", "RIGHT"))
    assert call(0, "run", "-c", file, "--once")["tables"]["shop.t"]["c"] == 1


@pytest.mark.long
def test_brokers_that_cannot_be_reached_are_said_to_be(spark: SparkSession, tmp_path: Path) -> None:
    file = written(tmp_path, "127.0.0.1:1", "t")
    file.write_text(file.read_text().replace("20s", "1s"))
    with pytest.raises(CdcError) as caught:
        Pipeline.from_yaml(file, spark).run(once=True)
    assert caught.value.code is codes.KAFKA_UNAVAILABLE
    assert call(3, "doctor", "-c", file)["code"] == codes.KAFKA_UNAVAILABLE.label
