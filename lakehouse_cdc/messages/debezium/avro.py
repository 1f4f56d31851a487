"""Debezium's messages in Avro: the keys and values of its JSON, by schemas that a registry keeps.

A schema of Connect's becomes one of Avro as Confluent's converter makes it (`AvroData`, with its defaults). What Avro
has no word for is in `connect.name`, `connect.version`, `connect.parameters` and `connect.type`, so the converter makes
the same schema of Connect's of it. A field that may be null is a union of null and its type, with null as its default.

Names in Avro have letters of ASCII, digits and underscores. Other characters become underscores, as with Debezium's
`field.name.adjustment.mode: avro` and `schema.name.adjustment.mode: avro`; two columns that would have one name are
refused. `connect.name` is the adjusted name, too.

Who encodes data, and how a registry is asked for a schema's number, is given (`Settings.encoder`): this is pure.

Sources: see `lakehouse_cdc.messages.debezium`; `io.confluent.connect.avro.AvroData`; Avro's specification 1.12;
Debezium's page "Avro Serialization".
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any

from lakehouse_cdc.errors import codes
from lakehouse_cdc.messages.change import Message, RowChange, Settings, Writer
from lakehouse_cdc.messages.debezium.envelope import payloads, schemas
from lakehouse_cdc.schema.table import TableSchema

Datum = Callable[[Any], Any]
_PRIMITIVES = {
    "int16": "int", "int32": "int", "int64": "long", "float": "float", "double": "double", "boolean": "boolean",
    "string": "string", "bytes": "bytes",
}  # fmt: skip
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_UNUSABLE = re.compile(r"[^A-Za-z0-9_]")
_SIGN = 2**31  # of an int, from which on a number of 32 bits without a sign is below zero


def writer(schema: TableSchema, settings: Settings) -> Writer:
    """The messages of a table. Raises TableError where two columns have one name in Avro."""
    _require_names(schema)
    assert settings.encoder is not None, "Avro needs an encoder"
    key_schema, value_schema = schemas(schema, settings)
    plain = payloads(schema, settings, described=True)
    of_key, of_value = datum_of(key_schema), datum_of(value_schema)
    key_bytes = settings.encoder("key", avro_schema(key_schema)) if schema.key else None
    value_bytes = settings.encoder("value", avro_schema(value_schema))

    def messages(change: RowChange, now_us: int) -> list[Message]:
        written = []
        for one in plain(change, now_us):
            key = None if one.key is None or key_bytes is None else key_bytes(of_key(json.loads(one.key)))
            value = None if one.value is None else value_bytes(of_value(json.loads(one.value)))
            written.append(Message(key, value, one.headers))
        return written

    return messages


def _require_names(schema: TableSchema) -> None:
    named: dict[str, str] = {}
    for column in schema.captured:
        other = named.setdefault(adjusted(column.name), column.name)
        if other != column.name:
            raise codes.MESSAGE_FORM_UNFIT.error(
                f"{schema.name} has the columns {other} and {column.name}, which have one name in Avro",
                table=schema.name,
                hint="exclude one of the columns, or choose another format for the sink",
            )


def adjusted(name: str) -> str:
    """The name of a field, or a part of a schema's name, as Avro can have it."""
    usable = _UNUSABLE.sub("_", name)
    return f"_{usable}" if not usable or usable[0].isdigit() else usable


def avro_schema(connect: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of Avro for one of Connect's, as its JsonConverter writes it."""
    made: dict[str, Any] = _Made().of(connect)
    return made


class _Made:
    """Makes the parts of one schema; a record that was there before is its name alone."""

    def __init__(self) -> None:
        self._records: set[str] = set()

    def of(self, connect: Mapping[str, Any]) -> Any:
        kind, name = connect["type"], connect.get("name", "")
        if kind == "struct":
            return self._record(connect, ".".join(map(adjusted, name.split("."))))
        made: dict[str, Any] = {"type": _PRIMITIVES.get(kind, kind)}
        if kind == "array":
            made["items"] = self.of(connect["items"])
        if kind == "int16":
            made["connect.type"] = kind
        parameters = connect.get("parameters", {})
        if name == _DECIMAL:
            made |= {"scale": int(parameters["scale"]), "precision": int(parameters["connect.decimal.precision"])}
        if "version" in connect:
            made["connect.version"] = connect["version"]
        if parameters:
            made["connect.parameters"] = dict(parameters)
        if "default" in connect:
            made["connect.default"] = connect["default"]
        if name:
            made["connect.name"] = name
        if name == _DECIMAL:
            made["logicalType"] = "decimal"
        return made if len(made) > 1 else made["type"]

    def _record(self, connect: Mapping[str, Any], name: str) -> Any:
        if name in self._records:
            return name
        self._records.add(name)
        namespace, _, last = name.rpartition(".")
        made = {
            "type": "record",
            "name": last,
            "namespace": namespace,
            "fields": [*map(self._field, connect["fields"])],
        }
        if "version" in connect:
            made["connect.version"] = connect["version"]
        return {**made, "connect.name": name}

    def _field(self, connect: Mapping[str, Any]) -> dict[str, Any]:
        kind, name = self.of(connect), adjusted(connect["field"])
        if not connect["optional"]:
            return {"name": name, "type": kind}
        if "default" in connect:
            return {"name": name, "type": [kind, "null"], "default": connect["default"]}
        return {"name": name, "type": ["null", kind], "default": None}


def datum_of(connect: Mapping[str, Any]) -> Datum:
    """What makes data of Avro's from a value of that schema as JSON has it."""
    kind = connect["type"]
    if kind == "bytes":
        return _or_none(b64decode)
    if kind == "struct":
        fields = [(one["field"], adjusted(one["field"]), datum_of(one)) for one in connect["fields"]]
        return _or_none(lambda held: {name: datum(held[field]) for field, name, datum in fields})
    if kind == "int32":
        return _or_none(lambda held: held - 2 * _SIGN if held >= _SIGN else held)
    if kind in ("float", "double"):
        return _or_none(float)
    if kind == "array":
        items = datum_of(connect["items"])
        return _or_none(lambda held: [*map(items, held)])
    return lambda held: held


def _or_none(datum: Datum) -> Datum:
    return lambda held: None if held is None else datum(held)
