"""Debezium's messages in Avro, read: the other direction of `avro`, up to the values of Debezium's JSON.

A schema of Avro stands for one of Connect's, as Confluent's converter reads it (`AvroData`), and data of it for values
as JSON has them. From there on a message is read as one in JSON with schemas is. Parts that Connect has no schema for
(unions of several types, maps, enums) are carried along; a column of such a type is not known.

What the writer has done to names (`field.name.adjustment.mode: avro`) cannot be taken back: columns have those names.

Sources: see `lakehouse_cdc.messages.debezium.avro`.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from lakehouse_cdc.messages.debezium.reader import Document, reading
from lakehouse_cdc.messages.reading import Declared, Reader, Reason, Unreadable

Json = Callable[[Any], Any]
_PRIMITIVES = {
    "int": "int32", "long": "int64", "float": "float", "double": "double", "boolean": "boolean", "string": "string",
    "bytes": "bytes",
}  # fmt: skip
_NARROW = ("int8", "int16")
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_PRECISION = "connect.decimal.precision"
LOGICAL = "withheld.logicalType"  # where a decoder leaves what `logicalType` has said, of data that it gives as written
_MOST_KNOWN = 1000  # schemas that are remembered


def reader(declared: Declared) -> Reader:
    """Reads keys and values, which `declared.decoder` decodes."""
    decoder = declared.decoder
    assert decoder is not None, "Avro needs a decoder"
    known: dict[int, tuple[dict[str, Any], Json]] = {}

    def document(data: bytes, what: str) -> Document:
        number, schema, datum = decoder(data, what)
        if number not in known:
            if len(known) >= _MOST_KNOWN:
                known.clear()
            try:
                known[number] = connect_schema(schema), json_of(schema)
            except RecursionError as error:
                raise Unreadable(Reason.UNKNOWN_TYPE, f"a record of the schema {number} has itself in it") from error
            except (KeyError, TypeError, AttributeError) as error:
                raise Unreadable(Reason.NOT_AVRO, f"the schema {number} is none of Avro: {error!r}") from error
        described, value = known[number]
        return Document(described, value(datum), number)

    return reading(declared, document)


def connect_schema(avro: Any) -> dict[str, Any]:
    """The schema of Connect's that one of Avro stands for, as JsonConverter writes it."""
    return _Schemas().connect(avro, optional=False)


def json_of(avro: Any) -> Json:
    """What makes values as JSON has them of data by that schema."""
    return _Schemas().json(avro)


class _Schemas:
    """The parts of one schema; a record is named after it was there once."""

    def __init__(self) -> None:
        self._records: dict[str, Any] = {}

    def _whole(self, avro: Any, namespace: str) -> Any:
        """The schema itself where it is named alone."""
        if not isinstance(avro, str) or avro in _PRIMITIVES:
            return avro
        return self._records.get(avro) or self._records.get(f"{namespace}.{avro}", avro)

    def _remember(self, avro: Mapping[str, Any], namespace: str) -> str:
        """Remember a record by its full name; the namespace within it."""
        name = str(avro["name"])
        within = name.rpartition(".")[0] or str(avro.get("namespace", namespace))
        self._records[name if "." in name or not within else f"{within}.{name}"] = avro
        return within

    def connect(self, avro: Any, *, optional: bool, namespace: str = "") -> dict[str, Any]:
        avro = self._whole(avro, namespace)
        if isinstance(avro, list):
            return self._of_union(avro, namespace)
        kind = avro if isinstance(avro, str) else avro["type"]
        said: Mapping[str, Any] = {} if isinstance(avro, str) else avro
        if kind == "record":
            within = self._remember(said, namespace)
            made: dict[str, Any] = {
                "type": "struct",
                "fields": [self._field(one, within) for one in said["fields"]],
            }
        elif kind == "array":
            made = {"type": kind, "items": self.connect(said["items"], optional=False, namespace=namespace)}
        elif isinstance(kind, str):
            narrow = said.get("connect.type")
            made = {"type": narrow if narrow in _NARROW else _PRIMITIVES.get(kind, kind)}
        else:  # a type within a type
            return self.connect(kind, optional=optional, namespace=namespace)
        return {**made, "optional": optional, **_logical(said)}

    def _field(self, avro: Mapping[str, Any], namespace: str) -> dict[str, Any]:
        described = self.connect(avro["type"], optional=False, namespace=namespace)
        return {**described, **_default(avro), "field": avro["name"]}

    def _of_union(self, avro: list[Any], namespace: str) -> dict[str, Any]:
        others = [one for one in avro if one != "null"]
        if len(others) == 1:
            return self.connect(others[0], optional="null" in avro, namespace=namespace)
        for one in others:  # others may be named by it
            self.connect(one, optional=False, namespace=namespace)
        return {"type": "union", "optional": "null" in avro}

    def json(self, avro: Any, namespace: str = "") -> Json:
        avro = self._whole(avro, namespace)
        if isinstance(avro, list):
            others = [self.json(one, namespace) for one in avro if one != "null"]
            return _or_none(others[0]) if len(others) == 1 else lambda held: held
        kind = avro if isinstance(avro, str) else avro["type"]
        if kind == "bytes":
            return lambda held: b64encode(held).decode()
        if kind in ("float", "double"):
            return _number
        if kind == "array":
            items = self.json(avro["items"], namespace)
            return lambda held: [*map(items, held)]
        if kind == "record":
            within = self._remember(avro, namespace)
            fields = {one["name"]: self.json(one["type"], within) for one in avro["fields"]}
            return lambda held: {name: value(held[name]) for name, value in fields.items()}
        return lambda held: held


def _logical(said: Mapping[str, Any]) -> dict[str, Any]:
    """What a schema has for Connect alone: name, version, parameters."""
    named = {"name": said.get("connect.name"), "version": said.get("connect.version")}
    parameters = said.get("connect.parameters")
    made = {**named, "parameters": dict(parameters) if isinstance(parameters, Mapping) else None}
    if said.get(LOGICAL) == "decimal" and made["name"] in (None, _DECIMAL):
        digits = {"scale": str(said.get("scale", 0)), _PRECISION: str(said.get("precision"))}
        made |= {"name": _DECIMAL, "parameters": {**digits, **(made["parameters"] or {})}}
    return {name: value for name, value in made.items() if value is not None}


def _default(field: Mapping[str, Any]) -> dict[str, Any]:
    """The default of a field, where it is not null."""
    kind = field["type"]
    said = kind if not isinstance(kind, list) else next((one for one in kind if isinstance(one, Mapping)), {})
    default = said.get("connect.default") if isinstance(said, Mapping) else None
    default = field.get("default") if default is None else default
    return {} if default is None else {"default": default}


def _or_none(value: Json) -> Json:
    return lambda held: None if held is None else value(held)


def _number(held: float) -> Any:
    """As JSON's numbers are read; what JSON has no number for stays what it is, and is refused."""
    return Decimal(held) if math.isfinite(held) else held
