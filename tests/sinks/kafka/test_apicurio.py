"""Bronze into topics in Avro, with a real registry: what its own deserialiser reads is the source's table."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import ConfigCompatibilityLevel, SchemaRegistryClient, ServerConfig
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import codes
from lakehouse_cdc.messages.debezium import avro_reader
from lakehouse_cdc.messages.reading import Declared
from lakehouse_cdc.schema.table import Column
from lakehouse_cdc.sinks.kafka.registry import Registry
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.topics.avro_decoder import AvroDecoder
from tests.sinks.kafka.test_avro_encoder import SCHEMA, TOPIC, WIDER, config, refused, write
from tests.support.apicurio import running
from tests.support.kafka_broker import Broker
from tests.support.pipelines import pipeline
from tests.support.servers import connected

pytestmark = [pytest.mark.long, pytest.mark.process, pytest.mark.timeout(1200)]
TABLE = (
    "id INT PRIMARY KEY, big BIGINT UNSIGNED, money DECIMAL(12,3), f FLOAT, d DOUBLE, flag BIT(1), flags BIT(10),"
    " name VARCHAR(20), raw VARBINARY(9), day DATE, span TIME(2), moment DATETIME(3), instant TIMESTAMP(6) NULL,"
    " size ENUM('small','large'), tags SET('a','b','c'), doc JSON"
)
VALUES = (
    "9223372036854775807, -7.125, 0.5, 2.5, 1, 513, 'ü 😀', x'00ff', '2024-02-29', '-12:34:56.78',"
    " '2024-02-29 12:34:56.789', '2024-02-29 12:34:56.123456', 'large', 'a,c', '{\"a\": [1, 2.5, null]}'"
)
EPOCH = datetime(1970, 1, 1)
NO_COLUMN: Any = None  # nobody declares a column


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    with running() as url:
        yield url


def test_what_is_compatible_is_the_registry_s_affair(registry: str) -> None:
    client, subject = SchemaRegistryClient({"url": registry}), f"{TOPIC}-value"
    settings = config(registry)
    key, value = write(settings)
    assert write(settings) == (key, value)
    client.set_config(subject, ServerConfig(compatibility=ConfigCompatibilityLevel.BACKWARD))
    write(settings, replace(SCHEMA, columns=(*SCHEMA.columns, Column("n", "int"))), n=None)  # with null as default
    assert subject in str(refused(settings, codes.SCHEMA_REGISTRY_REFUSED, WIDER, w=1))
    client.set_config(subject, ServerConfig(compatibility=ConfigCompatibilityLevel.NONE))
    write(settings, WIDER, w=1)
    assert len(client.get_versions(subject)) == 3


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row that the deserialiser made, as PyMySQL has it."""
    found = dict(row)
    if row["name"] is not None:
        found["day"] = date(1970, 1, 1) + timedelta(days=row["day"])
        found["span"] = timedelta(microseconds=row["span"])
        found["moment"] = EPOCH + timedelta(milliseconds=row["moment"])
        found["instant"] = datetime.fromisoformat(row["instant"].removesuffix("Z"))
        found["flags"] = int.from_bytes(row["flags"], "little")
        found["flag"] = int(row["flag"])
    return found


def test_a_compacted_view_of_the_topic_is_the_table(
    spark: SparkSession, mysql: MySqlServer, database: str, broker: Broker, registry: str, tmp_path: Path
) -> None:
    prefix = f"a{uuid.uuid4().hex[:8]}"
    kafka = {
        "bootstrap_servers": broker.address, "format": "debezium-avro", "registry": registry, "partitions": 2,
        "topic": f"{prefix}.{{database}}.{{table}}",
    }  # fmt: skip
    lake = pipeline(spark, mysql, database, tmp_path, prefix, target={"silver": None}, sinks={"out": {"kafka": kafka}})
    topic = f"{prefix}.{database}.t"
    reader = AvroDeserializer(SchemaRegistryClient({"url": registry}))
    decoder = AvroDecoder(Registry(registry, None, "", None, 30.0))
    read = avro_reader.reader(Declared(lambda _: None, lambda _: None, NO_COLUMN, decoder=decoder.decode))
    with closing(connected(mysql, database=database)) as connection, connection.cursor() as source:
        source.execute(f"CREATE TABLE t ({TABLE})")
        source.execute("SET time_zone = '+00:00'")
        nulls = ", ".join(["NULL"] * 15)
        source.execute(f"INSERT INTO t VALUES (1, {VALUES}), (2, {nulls}), (3, {VALUES})")
        steps: tuple[list[str], ...] = (
            [],
            ["UPDATE t SET id = 30 WHERE id = 3", "DELETE FROM t WHERE id = 1", "UPDATE t SET big = 7 WHERE id = 2"],
            ["ALTER TABLE t ADD COLUMN more INT", f"INSERT INTO t VALUES (5, {VALUES}, 6)"],
        )  # fmt: skip
        for statements in steps:
            for statement in statements:
                source.execute(statement)
            lake.run(once=True)
            held: dict[Any, Any] = {}
            for record in broker.records(topic):
                key: Any = reader(record.key, SerializationContext(topic, MessageField.KEY))
                value: Any = reader(record.value, SerializationContext(topic, MessageField.VALUE))
                ours = [(one.op.value, one.key) for one in read(record.key, record.value)]  # as a source reads it
                assert ours == ([] if value is None else [(value["op"], key)])
                held.pop(key["id"], None)
                if value is not None and value["op"] != "d":
                    held[key["id"]] = plain(value["after"])
            source.execute("SELECT *, flag + 0 AS flag, flags + 0 AS flags FROM t")
            names = [one[0] for one in source.description or ()]
            wanted = {row[0]: dict(zip(names, row, strict=True)) for row in source.fetchall()}
            # a row that was sent before a column was added does not have it
            assert held == {id: {name: row[name] for name in held[id]} for id, row in wanted.items()}
    assert "more" in held[5]
