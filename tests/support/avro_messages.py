"""Messages in Avro without a registry: fastavro writes them, and Apache's own library reads them.

The schemas are held here, as a registry would, under the numbers that messages have in front: a zero byte, and four
bytes. What is read is as JSON has it: bytes in base64, decimals as the bytes that they are.
"""

from __future__ import annotations

import io
import json
import re
import struct
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import avro.io
import avro.schema
import fastavro

from lakehouse_cdc.messages.change import Part
from lakehouse_cdc.messages.debezium.avro_reader import LOGICAL
from lakehouse_cdc.schema.table import TableSchema

SCHEMAS: list[str] = []


def encoder(part: Part, schema: Mapping[str, Any]) -> Callable[[Any], bytes]:
    """As `Settings.encoder`."""
    del part
    text = json.dumps(schema)
    if text not in SCHEMAS:
        SCHEMAS.append(text)
    number, parsed = SCHEMAS.index(text) + 1, fastavro.parse_schema(dict(schema))

    def written(datum: Any) -> bytes:
        out = io.BytesIO()
        out.write(struct.pack(">bI", 0, number))
        fastavro.schemaless_writer(out, parsed, datum, strict=True)
        return out.getvalue()

    return written


def adjusted_names(schema: TableSchema) -> dict[str, str]:
    """By column the name that Debezium gives it in Avro."""
    return {c.name: re.sub(r"^(?=\d)", "_", re.sub(r"[^A-Za-z0-9_]", "_", c.name)) for c in schema.captured}


def as_json(message: bytes) -> Any:
    """What the message says."""
    magic, number = struct.unpack(">bI", message[:5])
    assert magic == 0
    return read(SCHEMAS[number - 1], message[5:])


def decoder(message: bytes, what: str) -> tuple[int, Any, Any]:
    """As `Declared.decoder`, of messages that are whole."""
    del what
    _, number = struct.unpack(">bI", message[:5])
    schema = SCHEMAS[number - 1]
    return number, json.loads(schema.replace('"logicalType"', f'"{LOGICAL}"')), _datum(schema, message[5:])


def read(schema: str, data: bytes) -> Any:
    """Data of that schema; all bytes have to be of it."""
    return _plain(_datum(schema, data))


def _datum(schema: str, data: bytes) -> Any:
    held = io.BytesIO(data)
    datum = avro.io.DatumReader(_parsed(schema)).read(avro.io.BinaryDecoder(held))
    assert not held.read()
    return datum


@cache
def _parsed(schema: str) -> Any:
    return avro.schema.parse(schema.replace('"logicalType": "decimal"', '"logicalType": "-"'), validate_names=True)


def _plain(datum: Any) -> Any:
    if isinstance(datum, bytes):
        return b64encode(datum).decode()
    if isinstance(datum, dict):
        return {name: _plain(one) for name, one in datum.items()}
    return [*map(_plain, datum)] if isinstance(datum, list) else datum
