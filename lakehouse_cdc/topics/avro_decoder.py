"""Data in Avro as Confluent's serializers write it, by schemas that a registry has: in Spark's tasks.

A zero byte and the schema's number in the registry, in four bytes, are in front of the data. A number always names the
same schema, so each is asked for once a task. A registry that does not answer fails the batch, which comes again;
bytes that say no schema of the registry's, or are not data of theirs, are no message of the format.

Source: Confluent's "Wire format" of its Schema Registry.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from typing import Any

from lakehouse_cdc.messages.debezium.avro_reader import LOGICAL
from lakehouse_cdc.messages.reading import Reason, Unreadable
from lakehouse_cdc.sinks.kafka.registry import NOT_THERE, Registry, asking

_HEAD = struct.Struct(">bI")
_AVRO = "AVRO"


class AvroDecoder:
    """See `messages.reading.Decoder`. `decode` raises TransientError and DefiniteError of the registry's, too."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._client: Any = None
        self._known: dict[int, tuple[Any, Callable[[io.BytesIO], Any]] | str] = {}  # or why there is none

    def decode(self, data: bytes, what: str) -> tuple[int, Any, Any]:
        """The number of the schema, the schema, and the data. Raises Unreadable."""
        if len(data) < _HEAD.size or data[0] != 0:
            raise Unreadable(Reason.NOT_AVRO, f"the {what} does not begin with the number of a schema")
        _, number = _HEAD.unpack_from(data)
        if number not in self._known:
            self._known[number] = self._asked(number)
        known = self._known[number]
        if isinstance(known, str):
            raise Unreadable(Reason.NOT_AVRO, f"the {what} has the schema {number}, {known}")
        schema, read = known
        rest = io.BytesIO(data[_HEAD.size :])
        try:
            datum = read(rest)
        except Exception as error:  # whatever a damaged length or branch leads to
            text = f"the {what} is no data of the schema {number}: {type(error).__name__} {error}"
            raise Unreadable(Reason.NOT_AVRO, text) from error
        if rest.read(1):
            raise Unreadable(Reason.NOT_AVRO, f"the {what} has more than the data of the schema {number}")
        return number, schema, datum

    def _asked(self, number: int) -> tuple[Any, Callable[[io.BytesIO], Any]] | str:
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        if self._client is None:
            self._client = self._registry.client()
        with asking(f"schema {number}"):
            try:
                held = self._client.get_schema(number)
            except SchemaRegistryError as error:
                if error.http_status_code != NOT_THERE:
                    raise
                return "which the registry has not"
        if held.schema_type != _AVRO or held.references:
            return "which is not one of Avro by itself"
        return _reading(held.schema_str)


def _reading(text: str) -> tuple[Any, Callable[[io.BytesIO], Any]] | str:
    """The schema without logical types, and what reads data of it as it is written."""
    import fastavro

    try:
        schema = _plain(json.loads(text))
        parsed = fastavro.parse_schema(schema)
    except Exception as error:  # a schema that this library does not take
        return f"which cannot be read: {type(error).__name__} {error}"
    return schema, lambda data: fastavro.schemaless_reader(data, parsed, None)


def _plain(schema: Any) -> Any:
    """Decimals are bytes then, and moments numbers."""
    if isinstance(schema, list):
        return [*map(_plain, schema)]
    if not isinstance(schema, dict):
        return schema
    made = {name: _plain(one) if name in ("type", "items", "values", "fields") else one for name, one in schema.items()}
    if "logicalType" in made:
        made[LOGICAL] = made.pop("logicalType")
    return made
