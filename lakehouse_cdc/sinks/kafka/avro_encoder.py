"""Keys and values in Avro as Confluent's serializer writes them, their schemas in a registry; and its errors as ours.

A zero byte and the schema's number in the registry, in four bytes, are in front of the data. A schema is registered
before the first message that has it is handed to the producer, under the subject `<topic>-key` or `<topic>-value`; so
whatever a topic has, the registry knows. To register a schema once more changes nothing, and gives the same number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.errors import codes
from lakehouse_cdc.messages.change import Encoder, Part
from lakehouse_cdc.options.measures import seconds
from lakehouse_cdc.runtime.extras import installing
from lakehouse_cdc.sinks.kafka.options import KafkaConfig

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

_REFUSED, _BUSY, _FAILED = 400, (408, 425, 429), 500  # of HTTP
_SETTINGS = {"auto.register.schemas": True, "use.latest.version": False, "normalize.schemas": False}


class Encoders:
    """Of the topics of one sink, by one client of the registry, which remembers what it has registered."""

    def __init__(self, config: KafkaConfig) -> None:
        self._config = config
        self._client: SchemaRegistryClient | None = None

    def of(self, topic: str) -> Encoder:
        """That of a topic. Raises ConfigError without the package, or for a setting that the client refuses."""
        _require_package()
        from confluent_kafka.schema_registry import topic_subject_name_strategy
        from confluent_kafka.schema_registry.avro import AvroSerializer
        from confluent_kafka.serialization import MessageField, SerializationContext

        if self._client is None:
            self._client = self._made()
        client = self._client
        settings = {**_SETTINGS, "subject.name.strategy": topic_subject_name_strategy}

        def encoder(part: Part, schema: Mapping[str, Any]) -> Callable[[Any], bytes]:
            serializer = AvroSerializer(client, json.dumps(schema), conf=settings)
            context = SerializationContext(topic, {"key": MessageField.KEY, "value": MessageField.VALUE}[part])

            def encoded(datum: Any) -> bytes:
                with _asking(f"{topic}-{part}"):
                    written = serializer(datum, context)
                assert isinstance(written, bytes)
                return written

            return encoded

        return encoder

    def _made(self) -> SchemaRegistryClient:
        from confluent_kafka.schema_registry import SchemaRegistryClient

        config = self._config
        given: dict[str, Any] = {"url": config.registry, "timeout": seconds(config.timeout)}
        if config.registry_username is not None:
            given["basic.auth.user.info"] = f"{config.registry_username}:{config.registry_password.reveal()}"
        if config.registry_ca is not None:
            given["ssl.ca.location"] = config.registry_ca
        try:
            return SchemaRegistryClient(given)
        except (ValueError, TypeError, OSError) as error:
            raise codes.KAFKA_SETTING_REFUSED.error(f"cannot make the registry's client: {error}") from error


def _require_package() -> None:
    try:
        import confluent_kafka.schema_registry.avro  # noqa: F401
        import fastavro  # noqa: F401
    except ImportError as error:
        raise codes.PACKAGE_MISSING.error(
            "the format debezium-avro needs fastavro and the registry's client", hint=installing("avro")
        ) from error


@contextmanager
def _asking(subject: str) -> Iterator[None]:
    """Whatever the registry answers inside is an error of ours."""
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    try:
        yield
    except SchemaRegistryError as error:
        status = error.http_status_code
        refused = _REFUSED <= status < _FAILED and status not in _BUSY
        code = codes.SCHEMA_REGISTRY_REFUSED if refused else codes.SCHEMA_REGISTRY_UNAVAILABLE
        raise code.error(f"the registry answers {status}: {error.error_message}", where=subject) from error
    except _transport_error() as error:
        what = f"the registry does not answer: {error}"
        raise codes.SCHEMA_REGISTRY_UNAVAILABLE.error(what, where=subject) from error


def _transport_error() -> type[Exception]:
    """What the registry's client raises where it has no answer: of the library of HTTP that it uses."""
    error: type[Exception] = import_module("httpx2" if find_spec("httpx2") else "httpx").TransportError
    return error
