"""Bytes in Avro are data of a schema that the registry has, or are set aside; a registry that fails fails the batch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse_cdc.errors import CdcError, Code, codes
from lakehouse_cdc.messages.debezium.avro_reader import connect_schema, json_of, reader
from lakehouse_cdc.messages.reading import Declared, Reason, Unreadable
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.sinks.kafka.registry import Registry as Reached
from lakehouse_cdc.topics.avro_decoder import AvroDecoder
from tests.messages.test_round_trip import ID, change, written
from tests.support.avro_messages import SCHEMAS, encoder
from tests.support.row_images import UTF8
from tests.support.schema_registry import Registry, running

pytestmark = pytest.mark.process
NO_COLUMN: Any = None  # nobody declares a column
ROW = {"type": "record", "name": "Row", "namespace": "a.b", "fields": [{"name": "n", "type": "int"}]}


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running() as started:
        started.schemas = SCHEMAS
        yield started


def decoder(registry: Registry, password: str = "") -> AvroDecoder:
    user = "cdc" if password else None
    return AvroDecoder(Reached(registry.url, user, password, None, 5.0))


def reason(decode: AvroDecoder, data: bytes) -> str:
    with pytest.raises(Unreadable) as raised:
        decode.decode(data, "value")
    assert raised.value.reason is Reason.NOT_AVRO
    return raised.value.detail


def test_data_is_read_as_it_is_written(registry: Registry) -> None:
    """A decimal is its bytes."""
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    schema = {**ROW, "fields": [{"name": "n", "type": kind}]}
    made = encoder("value", {**ROW, "name": "Plain", "fields": [{"name": "n", "type": "bytes"}]})({"n": b"\x01\x02"})
    SCHEMAS[-1] = json.dumps(schema)
    number, held, datum = decoder(registry).decode(made, "value")
    assert (number, datum) == (len(SCHEMAS), {"n": b"\x01\x02"})
    [field] = connect_schema(held)["fields"]
    assert field == {
        "type": "bytes", "optional": False, "field": "n", "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2", "connect.decimal.precision": "9"},
    }  # fmt: skip
    assert json_of(held)(datum) == {"n": "AQI="}


def test_what_is_no_data_of_a_schema_is_set_aside(registry: Registry) -> None:
    whole = encoder("value", ROW)({"n": 1000})
    decode = decoder(registry)
    assert decode.decode(whole, "value")[2] == {"n": 1000}
    for data in (b"", b"{}", b"\x01" + whole[1:], whole[:4]):
        assert "does not begin with the number" in reason(decode, data)
    assert "is no data of the schema" in reason(decode, whole[:6])
    assert "more than the data" in reason(decode, whole + b"\x00")
    assert "which the registry has not" in reason(decode, b"\x00\x00\x0f\xff\xff\x02")
    for more in ({"schemaType": "JSON"}, {"references": [{"name": "x", "subject": "x", "version": 1}]}):
        registry.more = {len(SCHEMAS): more}
        assert "which is not one of Avro by itself" in reason(decoder(registry), whole)
    registry.more = {}
    SCHEMAS.append('{"type": "none such"}')
    assert "which cannot be read" in reason(decoder(registry), b"\x00" + len(SCHEMAS).to_bytes(4, "big"))
    SCHEMAS.pop()


@pytest.mark.parametrize("code", [codes.SCHEMA_REGISTRY_UNAVAILABLE, codes.SCHEMA_REGISTRY_REFUSED])
def test_a_registry_that_fails_is_no_fault_of_the_message(registry: Registry, code: Code[Any]) -> None:
    whole = encoder("value", ROW)({"n": 1})
    registry.failing = code is codes.SCHEMA_REGISTRY_UNAVAILABLE
    registry.login = ("cdc", "secret")
    failing = decoder(registry, password="wrong")
    assert "wrong" not in repr(failing._registry)
    with pytest.raises(CdcError) as failed:
        failing.decode(whole, "value")
    assert failed.value.code is code
    assert "wrong" not in str(failed.value)
    registry.failing = False
    assert decoder(registry, password="secret").decode(whole, "value")[2] == {"n": 1}


def test_a_schema_is_asked_for_once(registry: Registry) -> None:
    whole, decode = encoder("value", ROW)({"n": 1}), decoder(registry)
    decode.decode(whole, "value")
    registry.failing = True
    assert decode.decode(whole, "key")[2] == {"n": 1}


@pytest.mark.parametrize(
    "kind",
    [
        {"type": "map", "values": "int"}, ["null", "int", "string"], {"type": "enum", "name": "E", "symbols": ["a"]},
        {"type": "fixed", "name": "F", "size": 2}, ["null", "a.b.Row"],
    ],
)  # fmt: skip
def test_a_column_of_a_type_that_the_format_has_not_is_not_guessed(kind: Any) -> None:
    """Nor one that has its own record in it."""
    row = {**ROW, "fields": [{"name": "id", "type": "int"}, {"name": "v", "type": kind}]}
    source = {"type": "record", "name": "S", "fields": [{"name": one, "type": "string"} for one in ("db", "table")]}
    envelope = {
        "type": "record", "name": "Envelope", "fields": [
            {"name": "after", "type": row}, {"name": "source", "type": source}, {"name": "op", "type": "string"},
        ],
    }  # fmt: skip
    datum = {"after": {"id": 1, "v": None}, "source": {"db": "shop", "table": "t"}, "op": "c"}
    read = reader(Declared(lambda _: None, lambda _: None, NO_COLUMN, decoder=lambda *_: (1, envelope, datum)))
    with pytest.raises(Unreadable) as raised:
        read(None, b"x")
    assert raised.value.reason is Reason.UNKNOWN_TYPE


def test_damaged_bytes_are_read_or_have_a_reason(registry: Registry) -> None:
    """Of a key or of a value; nothing else comes of them."""
    schema = TableSchema(
        "shop", "t", (ID, Column("v", "text", **UTF8), Column("d", "decimal", precision=5, scale=2)), ("id",)
    )
    row = {"id": 7, "v": "ü", "d": Decimal("1.50")}
    [message] = written("debezium-avro", change(Op.INSERT, None, row), schema, exact=True)
    assert message.key is not None
    assert message.value is not None
    key, value = message.key, message.value
    read = reader(Declared(lambda _: None, lambda _: None, NO_COLUMN, decoder=decoder(registry).decode))
    assert [one.after for one in read(key, value)] == [row]

    @settings(max_examples=300)
    @given(st.data())
    def damaged(data: st.DataObject) -> None:
        parts = [bytearray(key), bytearray(value)]
        for _ in range(data.draw(st.integers(1, 4))):
            part = data.draw(st.sampled_from(parts))
            at = data.draw(st.integers(5, max(5, len(part) - 1)))
            match data.draw(st.sampled_from(["change", "cut", "add"])):
                case "change" if at < len(part):
                    part[at] = data.draw(st.integers(0, 255))
                case "cut":
                    del part[at:]
                case _:
                    part.insert(at, data.draw(st.integers(0, 255)))
        try:
            changes = read(bytes(parts[0]), bytes(parts[1]))
        except Unreadable:
            return
        assert len(changes) <= 1  # none where it says nothing of a row by now

    damaged()


@pytest.mark.parametrize("schema", [{"type": "record", "name": "R"}, {"name": "R"}, 7, {"type": "array"}])
def test_a_schema_that_is_none_is_no_fault_of_the_stream(schema: Any) -> None:
    read = reader(Declared(lambda _: None, lambda _: None, NO_COLUMN, decoder=lambda *_: (1, schema, {})))
    with pytest.raises(Unreadable) as raised:
        read(None, b"x")
    assert raised.value.reason is Reason.NOT_AVRO
