"""Debezium's Avro: schemas are those that Confluent's converter makes of Connect's, and names are Avro's."""

from __future__ import annotations

import json
from typing import Any

import avro.schema
import pytest

from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.messages.change import Part, Settings
from lakehouse_cdc.messages.debezium.avro import avro_schema, writer
from lakehouse_cdc.messages.debezium.envelope import schemas
from lakehouse_cdc.schema.table import Column, TableSchema
from tests.support.row_images import UTF8

TABLE = TableSchema(
    "shop", "t",
    (
        Column("id", "int", False), Column("small", "smallint"), Column("price", "decimal", precision=10, scale=2),
        Column("day", "date", False), Column("size", "enum", values=("a", "b"), **UTF8), Column("v", "vector"),
    ),
    ("id",),
)  # fmt: skip


def made(schema: TableSchema = TABLE, topic: str = "srv.shop.t") -> tuple[Any, Any]:
    return tuple(map(avro_schema, schemas(schema, Settings("srv", topic))))  # type: ignore[return-value]


def test_a_schema_is_the_converter_s() -> None:
    """As the converter's rules say; the parts that a value of Debezium's has in its documentation."""
    key, value = made()
    assert key == {
        "type": "record", "name": "Key", "namespace": "srv.shop.t", "fields": [{"name": "id", "type": "int"}],
        "connect.name": "srv.shop.t.Key",
    }  # fmt: skip
    fields = {one["name"]: one for one in value["fields"]}
    assert [*fields] == ["before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns"]
    assert {name: value[name] for name in ("name", "namespace", "connect.version", "connect.name")} == {
        "name": "Envelope", "namespace": "srv.shop.t", "connect.version": 2, "connect.name": "srv.shop.t.Envelope",
    }  # fmt: skip
    assert fields["after"] == {"name": "after", "type": ["null", "srv.shop.t.Value"], "default": None}
    assert fields["op"] == {"name": "op", "type": "string"}
    assert fields["ts_ms"] == {"name": "ts_ms", "type": ["null", "long"], "default": None}
    row = fields["before"]["type"][1]
    assert (row["name"], row["connect.name"]) == ("Value", "srv.shop.t.Value")
    assert row["fields"] == [
        {"name": "id", "type": "int"},
        {"name": "small", "type": ["null", {"type": "int", "connect.type": "int16"}], "default": None},
        {
            "name": "price",
            "type": [
                "null",
                {
                    "type": "bytes", "scale": 2, "precision": 10, "connect.version": 1,
                    "connect.parameters": {"scale": "2", "connect.decimal.precision": "10"},
                    "connect.name": "org.apache.kafka.connect.data.Decimal", "logicalType": "decimal",
                },
            ],
            "default": None,
        },
        {
            "name": "day",
            "type": {"type": "int", "connect.version": 1, "connect.name": "io.debezium.time.Date"},
        },
        {
            "name": "size",
            "type": [
                "null",
                {
                    "type": "string", "connect.version": 1, "connect.parameters": {"allowed": "a,b"},
                    "connect.name": "io.debezium.data.Enum",
                },
            ],
            "default": None,
        },
        {
            "name": "v",
            "type": [
                "null",
                {
                    "type": "array", "items": "float", "connect.version": 1,
                    "connect.name": "io.debezium.data.FloatVector",
                },
            ],
            "default": None,
        },
    ]  # fmt: skip
    source = fields["source"]["type"]
    assert (source["namespace"], source["name"]) == ("io.debezium.connector.mysql", "Source")
    snapshot = next(one for one in source["fields"] if one["name"] == "snapshot")
    assert snapshot["default"] == snapshot["type"][0]["connect.default"] == "false"
    assert snapshot["type"][1] == "null"


def test_names_are_those_that_avro_can_have() -> None:
    schema = TableSchema("shop", "t", (Column("1 é", "int", False), Column("a-b", "int")), ("1 é",))
    key, value = made(schema, "a-topic.9_x")
    assert (key["namespace"], key["fields"][0]["name"]) == ("a_topic._9_x", "_1__")
    assert [one["name"] for one in value["fields"][0]["type"][1]["fields"]] == ["_1__", "a_b"]
    assert value["fields"][1]["type"] == ["null", "a_topic._9_x.Value"]


def test_two_columns_with_one_name_are_refused() -> None:
    schema = TableSchema("shop", "t", (Column("a b", "int", False), Column("a_b", "int")), ("a b",))

    def encoder(part: Part, schema: Any) -> Any:
        raise AssertionError("nothing is to be written")

    with pytest.raises(CdcError) as caught:
        writer(schema, Settings("srv", "t", encoder=encoder))
    assert caught.value.code is codes.MESSAGE_FORM_UNFIT


def test_a_record_that_is_there_twice_is_its_name_alone() -> None:
    columns = (Column("id", "int", False), Column("a", "point"), Column("b", "point", False))
    _, value = made(TableSchema("shop", "t", columns, ("id",)))
    avro.schema.parse(json.dumps(value))
    _, one, other = value["fields"][0]["type"][1]["fields"]
    assert one["type"][1]["name"] == "Point"
    assert other == {"name": "b", "type": "io.debezium.data.geometry.Point"}


def test_schemas_are_plain_json() -> None:
    for one in made():
        assert json.loads(json.dumps(one)) == one
