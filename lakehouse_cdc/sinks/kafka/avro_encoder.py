"""Keys and values in Avro as Confluent's serializer writes them, their schemas in a registry.

A zero byte and the schema's number in the registry, in four bytes, are in front of the data. A schema is registered
before the first message that has it is handed to the producer, under the subject `<topic>-key` or `<topic>-value`; so
whatever a topic has, the registry knows. To register a schema once more changes nothing, and gives the same number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.messages.change import Encoder, Part
from lakehouse_cdc.sinks.kafka.registry import Registry, asking

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

_SETTINGS = {"auto.register.schemas": True, "use.latest.version": False, "normalize.schemas": False}


class Encoders:
    """Of the topics of one sink, by one client of the registry, which remembers what it has registered."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._client: SchemaRegistryClient | None = None

    def of(self, topic: str) -> Encoder:
        """That of a topic. Raises ConfigError without the package, or for a setting that the client refuses."""
        if self._client is None:
            self._client = self._registry.client()
        from confluent_kafka.schema_registry import topic_subject_name_strategy
        from confluent_kafka.schema_registry.avro import AvroSerializer
        from confluent_kafka.serialization import MessageField, SerializationContext

        client = self._client
        settings = {**_SETTINGS, "subject.name.strategy": topic_subject_name_strategy}

        def encoder(part: Part, schema: Mapping[str, Any]) -> Callable[[Any], bytes]:
            serializer = AvroSerializer(client, json.dumps(schema), conf=settings)
            context = SerializationContext(topic, {"key": MessageField.KEY, "value": MessageField.VALUE}[part])

            def encoded(datum: Any) -> bytes:
                with asking(f"{topic}-{part}"):
                    written = serializer(datum, context)
                assert isinstance(written, bytes)
                return written

            return encoded

        return encoder
