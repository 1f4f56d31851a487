"""Messages in Avro by a registry: their schemas are there before they are, and what it refuses is an error of ours."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from lakehouse_cdc.errors import CdcError, Code, codes
from lakehouse_cdc.messages.change import Settings
from lakehouse_cdc.messages.debezium.avro import writer
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.options.declaration import Section
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.sinks.kafka.avro_encoder import Encoders
from lakehouse_cdc.sinks.kafka.options import KafkaConfig
from lakehouse_cdc.sinks.kafka.registry import Registry as Reached
from tests.messages.test_round_trip import ID, NOW, change
from tests.remedies import remedy
from tests.support.avro_messages import read
from tests.support.schema_registry import Registry, running

TOPIC = "srv.shop.t"
SCHEMA = TableSchema("shop", "t", (ID, Column("v", "int")), ("id",))
WIDER = replace(SCHEMA, columns=(*SCHEMA.columns, Column("w", "int", False)))


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running() as started:
        yield started


def config(registry: Registry | str, **more: Any) -> KafkaConfig:
    url = registry if isinstance(registry, str) else registry.url
    given = {"bootstrap_servers": "b:9092", "format": "debezium-avro", "registry": url, "timeout": "5s", **more}
    return Section(KafkaConfig).check(given)


def given(of: KafkaConfig) -> Reached:
    reached = Reached.of(of)
    assert reached is not None
    return reached


def write(of: KafkaConfig, schema: TableSchema = SCHEMA, **row: Any) -> tuple[bytes, bytes]:
    """The key and the value of an insert, by a sink that has just started."""
    made = writer(schema, Settings("srv", TOPIC, encoder=Encoders(given(of)).of(TOPIC)))
    [message] = made(change(Op.INSERT, None, {"id": 7, "v": 1, **row}), NOW)
    assert message.key is not None
    assert message.value is not None
    return message.key, message.value


def refused(of: KafkaConfig, code: Code[Any], schema: TableSchema = SCHEMA, **row: Any) -> CdcError:
    with pytest.raises(CdcError) as caught:
        write(of, schema, **row)
    assert caught.value.code is code, caught.value
    return caught.value


def test_a_schema_is_registered_once_and_names_what_the_message_is(registry: Registry) -> None:
    key, value = write(config(registry))
    assert registry.subjects == {f"{TOPIC}-key": [1], f"{TOPIC}-value": [2]}
    assert (key[:5], value[:5]) == (b"\0\0\0\0\1", b"\0\0\0\0\2")
    assert read(registry.schemas[0], key[5:]) == {"id": 7}
    assert read(registry.schemas[1], value[5:])["after"] == {"id": 7, "v": 1}
    assert write(config(registry)) == (key, value)
    assert len(registry.schemas) == 2


def test_the_registry_s_own_reader_reads_it(registry: Registry) -> None:
    schema = replace(SCHEMA, columns=(*SCHEMA.columns, Column("d", "decimal", precision=12, scale=3)))
    _, value = write(config(registry), schema, d="-7.125")
    reader = AvroDeserializer(SchemaRegistryClient({"url": registry.url}))
    held = reader(value, SerializationContext(TOPIC, MessageField.VALUE))
    assert isinstance(held, dict)
    assert {name: str(one) for name, one in held["after"].items()} == {"id": "7", "v": "1", "d": "-7.125"}
    assert (held["before"], held["op"], held["source"]["table"]) == (None, "c", "t")


@remedy(codes.SCHEMA_REGISTRY_REFUSED)
def test_a_password_is_corrected_and_never_shown(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.login = ("cdc", "right-pass")
    monkeypatch.setenv("WRONG", "wr0ng-pass")
    monkeypatch.setenv("RIGHT", "right-pass")
    error = refused(
        config(registry, registry_username="cdc", registry_password="${env:WRONG}"), codes.SCHEMA_REGISTRY_REFUSED
    )
    assert "wr0ng-pass" not in f"{error} {error.__cause__!r}"
    assert error.kind == "definite"
    write(config(registry, registry_username="cdc", registry_password="${env:RIGHT}"))


@remedy(codes.SCHEMA_REGISTRY_REFUSED)
def test_a_schema_that_is_not_compatible_is_let_through(registry: Registry) -> None:
    write(config(registry))
    error = refused(config(registry), codes.SCHEMA_REGISTRY_REFUSED, WIDER, w=1)
    assert f"{TOPIC}-value" in str(error)
    registry.compatibility[f"{TOPIC}-value"] = "NONE"
    key, value = write(config(registry), WIDER, w=1)
    assert (key[4], value[4]) == (1, 3)


@remedy(codes.SCHEMA_REGISTRY_UNAVAILABLE)
def test_a_registry_that_does_not_answer_is_asked_again(registry: Registry) -> None:
    there = config(registry)
    nowhere = replace(there, registry="http://127.0.0.1:1")
    assert refused(nowhere, codes.SCHEMA_REGISTRY_UNAVAILABLE).kind == "transient"
    registry.failing = True
    assert refused(there, codes.SCHEMA_REGISTRY_UNAVAILABLE).kind == "transient"
    registry.failing = False
    write(there)


def test_a_file_of_authorities_that_is_not_there(registry: Registry) -> None:
    refused(config(registry, registry_ca="/no/such/file"), codes.KAFKA_SETTING_REFUSED)


def test_a_package_that_is_missing_is_named(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    error = refused(config(registry), codes.PACKAGE_MISSING)
    assert "confluent-kafka[avro]" in (error.hint or "")
