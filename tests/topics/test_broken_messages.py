"""Thousands of broken messages through a real broker: each is a dead letter, once, and the good ones are in silver."""

from __future__ import annotations

import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from lakehouse_cdc.messages.reading import Reason
from tests.support.kafka_broker import Broker
from tests.support.topic_messages import BROKEN, MAX_BYTES, TABLE, Message, mixed
from tests.topics.test_pipeline import from_topics

OF_EACH = 120  # of 17 kinds


@pytest.fixture
def topic(broker: Broker) -> str:
    """Of one partition, so that there is one order."""
    name, admin = f"broken-{uuid.uuid4().hex[:8]}", broker.admin()  # which has to be there until it is answered
    [made] = admin.create_topics([NewTopic(name, 1, 1)], operation_timeout=30).values()
    made.result(60)
    return name


def send(broker: Broker, topic: str, messages: list[Message]) -> None:
    producer = Producer({"bootstrap.servers": broker.address, "acks": "all", "enable.idempotence": True})
    for key, value in messages:
        producer.produce(topic, key=key, value=value, partition=0)
        producer.poll(0)
    assert producer.flush(120) == 0


@pytest.mark.long
@pytest.mark.timeout(900)
def test_2000_broken_messages_are_dead_letters_and_the_good_ones_are_in_silver(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, seed: int
) -> None:
    messages, reasons = mixed(seed, OF_EACH)
    broken = {at: reason for at, reason in enumerate(reasons) if reason is not None}
    assert len(BROKEN) >= 15
    assert len(broken) >= 2000
    copy = from_topics(spark, broker, tmp_path, [topic], kafka={"max_message_bytes": MAX_BYTES})
    third = len(messages) // 3
    for part in (messages[:third], messages[third:]):
        send(broker, topic, part)
        copy.run(once=True)
    assert copy.status().dead_letters == Counter(reason.value for reason in broken.values())
    letters = spark.read.format("delta").load(str(copy.layout.dead_letters)).collect()
    assert {(one["topic"], one["partition"]) for one in letters} == {(topic, 0)}
    assert sorted(one["offset"] for one in letters) == [*broken]
    for one in letters:
        assert (_bytes(one["key"]), _bytes(one["value"])) == messages[one["offset"]]
        assert one["reason"] == broken[one["offset"]].value
        assert one["text"]
    silver = spark.read.format("delta").load(str(copy.layout.silver_table(TABLE)))
    good = [at + 10 for at, reason in enumerate(reasons) if reason is None]  # the position is the row's id
    assert sorted(tuple(row) for row in silver.select("id", "v").collect()) == [(id, 1) for id in good]
    assert {*broken.values()} == set(Reason) - {Reason.SCHEMA_CHANGE, Reason.NOT_AVRO}


def _bytes(held: Any) -> bytes | None:
    return None if held is None else bytes(held)
