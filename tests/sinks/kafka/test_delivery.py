"""Records in transactions with their ledger, on a real broker: each once, whatever ended the process."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from lakehouse_cdc.errors import CdcError, Code, codes
from lakehouse_cdc.lake.failpoints import Door, Moment
from lakehouse_cdc.messages.change import Message
from lakehouse_cdc.options.declaration import Section
from lakehouse_cdc.sinks.kafka.delivery import Delivery
from lakehouse_cdc.sinks.kafka.options import KafkaConfig
from lakehouse_cdc.sinks.kafka.progress import Progress
from tests.remedies import remedy
from tests.support.crash_points import Crash, failing_at
from tests.support.kafka_broker import PASSWORD, Broker

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def sink() -> str:
    return f"p-{uuid.uuid4().hex[:8]}"


@contextmanager
def delivery(broker: Broker, sink: str, **settings: Any) -> Iterator[Delivery]:
    given = {"bootstrap_servers": broker.address, "timeout": "60s", **settings}
    made = Delivery(sink, Section(KafkaConfig).check(given))
    try:
        yield made
    finally:
        made.close()


def message(number: int) -> Message:
    return Message(f"k{number}".encode(), f"v{number}".encode(), (("seq", str(number).encode()),))


def progress(rows: int) -> Progress:
    return Progress("bronze", None, 0, rows, False)


def send(made: Delivery, topic: str, numbers: range) -> None:
    """What a sink does, one transaction: all that the ledger does not have."""
    topics, known = made.open()
    topics.require_rows(topic, keyed=True)
    for number in numbers[known.rows if known else 0 :]:
        made.send(topic, message(number))
    made.commit(progress(len(numbers)))


def keys(broker: Broker, topic: str, *, committed: bool = True) -> list[bytes]:
    return sorted(record.key or b"" for record in broker.records(topic, committed=committed))


def test_records_are_committed_with_the_ledger(broker: Broker, sink: str) -> None:
    with delivery(broker, sink) as made:
        assert made.open()[1] is None
        send(made, f"{sink}.t", range(5))
        made.send(f"{sink}.t", message(9))  # no commit follows
    assert keys(broker, f"{sink}.t") == sorted(message(n).key or b"" for n in range(5))
    with delivery(broker, sink) as again:
        assert again.open()[1] == progress(5)


@pytest.mark.parametrize(("door", "moment"), [
    (Door.TOPIC, Moment.BEFORE), (Door.TOPIC, Moment.AFTER), (Door.RECORDS, Moment.BEFORE),
    (Door.RECORDS, Moment.AFTER),
])  # fmt: skip
def test_a_crash_at_each_step_is_made_up_for(broker: Broker, sink: str, door: Door, moment: Moment) -> None:
    name = sink if door is Door.RECORDS else f"{sink}.t"
    dead = Delivery(sink, Section(KafkaConfig).check({"bootstrap_servers": broker.address}))
    with suppress(Crash), failing_at(door, moment, name, error=Crash):
        send(dead, f"{sink}.t", range(5))  # and it is not closed: its transaction stays open
    with delivery(broker, sink) as again:
        send(again, f"{sink}.t", range(8))
    assert keys(broker, f"{sink}.t") == sorted(message(n).key or b"" for n in range(8))
    del dead


def too_late(one: Delivery, topic: str) -> None:
    """It is known at either, at the latest at the second."""
    one.send(topic, message(2))
    one.commit(progress(99))


@remedy(codes.KAFKA_FENCED)
def test_of_two_processes_the_later_one_counts(broker: Broker, sink: str) -> None:
    with delivery(broker, sink) as one, delivery(broker, sink) as other:
        topics, _ = one.open()
        topics.require_rows(f"{sink}.t", keyed=True)
        one.send(f"{sink}.t", message(1))
        send(other, f"{sink}.t", range(3))
        with pytest.raises(CdcError) as caught:
            too_late(one, f"{sink}.t")
        assert caught.value.code is codes.KAFKA_FENCED
        assert caught.value.hint == "End the other run of this pipeline, and run again."
        other.close()
        assert one.open()[1] == progress(3)
    assert keys(broker, f"{sink}.t") == [b"k0", b"k1", b"k2"]


def test_at_least_once_says_no_more_than_was_acknowledged(broker: Broker, sink: str) -> None:
    with delivery(broker, sink, delivery="at_least_once") as made:
        with suppress(Crash), failing_at(Door.RECORDS, Moment.BEFORE, sink, error=Crash):
            send(made, f"{sink}.t", range(3))
        send(made, f"{sink}.t", range(3))
        assert made.open()[1] == progress(3)
    found = [record.headers["seq"] for record in broker.records(f"{sink}.t")]
    assert {*found} == {b"0", b"1", b"2"}


def test_a_topic_is_made_as_configured(broker: Broker, sink: str) -> None:
    from confluent_kafka.admin._config import ConfigResource

    settings = {"partitions": 5, "replication": 1, "min_insync_replicas": 1, "cleanup_policy": "compact"}
    with delivery(broker, sink, **settings, topic_settings={"delete.retention.ms": 7}) as made:
        topics, _ = made.open()
        topics.require_rows(f"{sink}.t", keyed=True)
        topics.require_rows(f"{sink}.keyless", keyed=False)
        topics.require_ddl(f"{sink}.ddl")
    partitions = {f"{sink}.t": 5, f"{sink}.keyless": 5, f"{sink}.ddl": 1, f"{sink}.ledger": 1}
    assert broker.topics(*partitions) == partitions
    admin = broker.admin()
    wanted = {"t": "compact", "keyless": "delete", "ddl": "delete", "ledger": "compact"}
    for name, policy in wanted.items():
        [future] = admin.describe_configs([ConfigResource("topic", f"{sink}.{name}")]).values()
        described = future.result(30)
        assert described["cleanup.policy"].value == policy, name
        assert described["min.insync.replicas"].value == "1"
    assert described is not None


# Kafka's own UtilsTest.testMurmur2
MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def test_a_key_is_in_the_partition_that_the_java_client_chooses(broker: Broker, sink: str) -> None:
    with delivery(broker, sink, partitions=7) as made:
        topics, _ = made.open()
        topics.require_rows(f"{sink}.t", keyed=True)
        for key in MURMUR2:
            made.send(f"{sink}.t", Message(key, b"v"))
        made.commit(progress(len(MURMUR2)))
    found = {record.key: record.partition for record in broker.records(f"{sink}.t")}
    assert found == {key: (number & 0x7FFFFFFF) % 7 for key, number in MURMUR2.items()}


def refused(made: Delivery, topic: str, of: Code[Any], *records: Message, keyed: bool = True) -> CdcError:
    def sent() -> None:
        topics, _ = made.open()
        topics.require_rows(topic, keyed=keyed)
        for record in records:
            made.send(topic, record)
        made.commit(progress(len(records)))

    with pytest.raises(CdcError) as caught:
        sent()
    assert caught.value.code is of, caught.value
    return caught.value


@remedy(codes.KAFKA_ACCESS_REFUSED)
def test_a_password_is_corrected_and_never_shown(broker: Broker, sink: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WRONG", "wr0ng-pass")
    monkeypatch.setenv("RIGHT", PASSWORD)
    secured = {
        "bootstrap_servers": broker.secured, "security": "sasl_plaintext", "mechanism": "PLAIN", "username": "cdc",
    }  # fmt: skip
    with delivery(broker, sink, **secured, password="${env:WRONG}", timeout="3s") as made:
        error = refused(made, f"{sink}.t", codes.KAFKA_ACCESS_REFUSED)
        assert "wr0ng-pass" not in f"{error} {made.__dict__}"
    with delivery(broker, sink, **secured, password="${env:RIGHT}") as made:
        send(made, f"{sink}.t", range(1))


@remedy(codes.KAFKA_UNAVAILABLE)
def test_brokers_that_cannot_be_reached(broker: Broker, sink: str) -> None:
    with delivery(broker, sink, bootstrap_servers="127.0.0.1:1", timeout="1s") as made:
        error = refused(made, f"{sink}.t", codes.KAFKA_UNAVAILABLE)
    assert error.kind == "transient"
    with delivery(broker, sink) as made:
        send(made, f"{sink}.t", range(1))


@remedy(codes.KAFKA_RECORD_TOO_LARGE)
def test_a_large_record_is_let_through(broker: Broker, sink: str) -> None:
    large = Message(b"k", b"x" * 2_000_000)
    more = {"message.max.bytes": 4_000_000}
    with delivery(broker, sink) as made:
        refused(made, f"{sink}.t", codes.KAFKA_RECORD_TOO_LARGE, large)
    with delivery(broker, sink, producer=more) as made:  # the topic does not take it yet
        refused(made, f"{sink}.t", codes.KAFKA_RECORD_TOO_LARGE, large)
    with delivery(broker, sink, producer=more, topic_settings={"max.message.bytes": 4_000_000}) as made:
        topics, known = made.open()
        assert known is None
        topics.require_rows(f"{sink}.large", keyed=True)
        made.send(f"{sink}.large", large)
        made.commit(progress(1))
    assert keys(broker, f"{sink}.large") == [b"k"]
    assert keys(broker, f"{sink}.t") == []


@remedy(codes.KAFKA_TOPIC_UNUSABLE)
def test_a_topic_is_corrected(broker: Broker, sink: str) -> None:
    with delivery(broker, sink, replication=3) as made:
        refused(made, f"{sink}.t", codes.KAFKA_TOPIC_UNUSABLE)
    with delivery(broker, sink) as made:
        made.open()  # the ledger is there now
    with delivery(broker, sink, create_topics=False) as made:
        error = refused(made, f"{sink}.t", codes.KAFKA_TOPIC_UNUSABLE)
        assert error.hint == "create it, or set create_topics: true of the sink"
    with delivery(broker, sink, cleanup_policy="compact", create_topics=True) as made:
        # a record without a key, in a topic that was made for keys
        refused(made, f"{sink}.t", codes.KAFKA_TOPIC_UNUSABLE, Message(None, b"v"))
    with delivery(broker, sink) as made:
        send(made, f"{sink}.u", range(1))


@remedy(codes.KAFKA_SETTING_REFUSED)
@pytest.mark.parametrize("wrong", [{"producer": {"no.such": 1}}, {"transaction_timeout": "20m"}])
def test_a_setting_is_corrected(broker: Broker, sink: str, wrong: dict[str, Any]) -> None:
    with delivery(broker, sink, **wrong) as made:
        refused(made, f"{sink}.t", codes.KAFKA_SETTING_REFUSED)
    with delivery(broker, sink, producer={"compression.type": "zstd"}, transaction_timeout="1m") as made:
        send(made, f"{sink}.t", range(1))
