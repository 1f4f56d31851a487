"""What each format writes, field by field, as its own documentation and its own programs have it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pytest

from lakehouse_cdc.errors import TableError, codes
from lakehouse_cdc.messages.change import Message, RowChange, Settings
from lakehouse_cdc.messages.debezium.columns import form_of
from lakehouse_cdc.messages.formats import FORMATS, FormatName
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.seq import Rank, Seq
from lakehouse_cdc.schema.table import Column, TableSchema
from tests.remedies import remedy
from tests.support.row_images import UTF8

SCHEMA = TableSchema(
    "dz", "t",
    (
        Column("id", "int", False), Column("name", "varchar", length=20, **UTF8),
        Column("amount", "decimal", precision=12, scale=3),
    ),
    ("id",),
)  # fmt: skip
NOW = 1_700_000_001_234_567
INSERTED = RowChange(
    Seq(1, 1, 900, Rank.EVENT, 2).pack(), Op.INSERT, {"id": 2}, None,
    {"id": 2, "name": "Ada", "amount": Decimal("-123.450")}, 1_700_000_000_111_222, "binlog.000001", 900, "u:1",
)  # fmt: skip
UPDATED = replace(
    INSERTED, op=Op.UPDATE, before=INSERTED.after,
    after={"id": 2, "name": None, "amount": Decimal("-123.450")},
)  # fmt: skip
DELETED = replace(INSERTED, op=Op.DELETE, before=INSERTED.after, after=None)


def written(name: FormatName, change: RowChange, schema: TableSchema = SCHEMA, **settings: Any) -> list[Message]:
    return FORMATS[name](schema, Settings("srv", "srv.dz.t", version="0.1", **settings))(change, NOW)


def value(message: Message) -> Any:
    assert message.value is not None
    return json.loads(message.value)


def test_debezium_without_schemas() -> None:
    [message] = written("debezium-json", INSERTED)
    assert message.key == b'{"id":2}'
    assert message.value == (
        b'{"before":null,"after":{"id":2,"name":"Ada","amount":"/h3G"},"source":{"version":"0.1","connector":"mysql",'
        b'"name":"srv","ts_ms":1700000000111,"snapshot":"false","db":"dz","sequence":null,"ts_us":1700000000111222,'
        b'"ts_ns":1700000000111222000,"table":"t","server_id":0,"gtid":"u:1","file":"binlog.000001","pos":900,"row":2,'
        b'"thread":null,"query":null},"transaction":null,"op":"c","ts_ms":1700000001234,"ts_us":1700000001234567,'
        b'"ts_ns":1700000001234567000}'
    )


def test_debezium_of_a_snapshot_and_of_a_deletion() -> None:
    [message] = written("debezium-json", replace(INSERTED, op=Op.READ))
    assert {name: value(message)["source"][name] for name in ("snapshot", "gtid")} == {"snapshot": "true", "gtid": None}
    assert value(message)["op"] == "r"
    deleted, tombstone = written("debezium-json", DELETED)
    assert (value(deleted)["before"]["name"], value(deleted)["after"]) == ("Ada", None)
    assert (tombstone.key, tombstone.value) == (b'{"id":2}', None)


def test_debezium_with_schemas() -> None:
    [message] = written("debezium-json", INSERTED, schemas=True)
    assert message.key is not None
    assert json.loads(message.key) == {
        "schema": {
            "type": "struct", "fields": [{"type": "int32", "optional": False, "field": "id"}], "optional": False,
            "name": "srv.dz.t.Key",
        },
        "payload": {"id": 2},
    }  # fmt: skip
    schema = value(message)["schema"]
    assert (schema["name"], schema["version"], schema["optional"]) == ("srv.dz.t.Envelope", 2, False)
    fields = [field["field"] for field in schema["fields"]]
    assert fields == ["before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns"]
    assert fields == [*value(message)["payload"]]
    before = schema["fields"][0]
    assert (before["name"], before["optional"]) == ("srv.dz.t.Value", True)
    assert before["fields"][2] == {
        "type": "bytes", "optional": True, "name": "org.apache.kafka.connect.data.Decimal", "version": 1,
        "parameters": {"scale": "3", "connect.decimal.precision": "12"}, "field": "amount",
    }  # fmt: skip
    source = schema["fields"][2]
    assert [field["field"] for field in source["fields"]] == [*value(message)["payload"]["source"]]


def test_debezium_in_the_exact_mode_says_the_source_s_types() -> None:
    """By the parameters that `datatype.propagate.source.type` has a connector add; not by default."""
    [message] = written("debezium-json", INSERTED, schemas=True, exact=True)
    fields = value(message)["schema"]["fields"][0]["fields"]
    prefix = "__debezium.source.column."
    assert [field["parameters"] for field in fields] == [
        {f"{prefix}type": "INT"},
        {f"{prefix}type": "VARCHAR", f"{prefix}length": "20"},
        {"scale": "3", "connect.decimal.precision": "12", f"{prefix}type": "DECIMAL", f"{prefix}length": "12",
         f"{prefix}scale": "3"},
    ]  # fmt: skip


# the values that a connector of Debezium 3.4.1 wrote for these columns of MySQL 8.0, with its defaults
SEEN = [
    (Column("c", "tinyint", length=1), 1, "1", "int16", ""),
    (Column("c", "int", unsigned=True), 4294967295, "4294967295", "int64", ""),
    (Column("c", "bigint", unsigned=True), Decimal(2**64 - 1), "-1", "int64", ""),
    (Column("c", "bit", length=1), True, "true", "boolean", ""),
    (Column("c", "bit", length=10), 0b1010101010, '"qgI="', "bytes", "io.debezium.data.Bits"),
    (Column("c", "date"), date(2024, 2, 29), "19782", "int32", "io.debezium.time.Date"),
    (Column("c", "time", fraction=6), "-12:34:56.789012", "-45296789012", "int64", "io.debezium.time.MicroTime"),
    (Column("c", "time"), "101:00:00", "363600000000", "int64", "io.debezium.time.MicroTime"),
    (Column("c", "datetime", fraction=3), datetime(2024, 2, 29, 12, 34, 56, 789_000), "1709210096789", "int64",
     "io.debezium.time.Timestamp"),
    (Column("c", "datetime", fraction=6), datetime(2024, 2, 29, 12, 34, 56, 789_012), "1709210096789012", "int64",
     "io.debezium.time.MicroTimestamp"),
    (Column("c", "timestamp", fraction=6), datetime(2024, 2, 29, 12, 34, 56, 789_012, timezone.utc),
     '"2024-02-29T12:34:56.789012Z"', "string", "io.debezium.time.ZonedTimestamp"),
    (Column("c", "timestamp"), datetime(2024, 2, 29, 12, 34, 56, 0, timezone.utc), '"2024-02-29T12:34:56Z"', "string",
     "io.debezium.time.ZonedTimestamp"),
    (Column("c", "year"), 2024, "2024", "int32", "io.debezium.time.Year"),
    (Column("c", "set", values=("x", "y"), **UTF8), "x,y", '"x,y"', "string", "io.debezium.data.EnumSet"),
]  # fmt: skip


@pytest.mark.parametrize(("column", "held", "json_value", "kind", "name"), SEEN, ids=lambda one: str(one)[:20])
def test_debezium_s_default_types(column: Column, held: Any, json_value: str, kind: str, name: str) -> None:
    form = form_of(column, exact=False)
    assert (form.piece(held), form.kind, form.name) == (json_value, kind, name)


def test_debezium_s_exact_mode_of_an_unsigned_bigint() -> None:
    form = form_of(Column("c", "bigint", unsigned=True), exact=True)
    assert (form.piece(Decimal(2**64 - 1)), form.name) == ('"AP//////////"', "org.apache.kafka.connect.data.Decimal")


def test_canal() -> None:
    [message] = written("canal-json", UPDATED)
    assert value(message) == {
        "id": 2, "database": "dz", "table": "t", "pkNames": ["id"], "isDdl": False, "type": "UPDATE",
        "es": 1700000000111, "ts": 1700000001234, "sql": "", "sqlType": {"id": 4, "name": 12, "amount": 3},
        "mysqlType": {"id": "int", "name": "varchar(20)", "amount": "decimal(12,3)"},
        "data": [{"id": "2", "name": None, "amount": "-123.450"}], "old": [{"name": "Ada"}], "gtid": "u:1",
    }  # fmt: skip
    deleted, tombstone = written("canal-json", DELETED)
    assert (value(deleted)["type"], value(deleted)["old"], tombstone.value) == ("DELETE", None, None)


def test_maxwell() -> None:
    [message] = written("maxwell", UPDATED)
    assert message.key == b'{"database":"dz","table":"t","pk.id":2}'
    assert message.value == (
        b'{"database":"dz","table":"t","type":"update","ts":1700000000,"xoffset":2,"position":"binlog.000001:900",'
        b'"gtid":"u:1","data":{"id":2,"name":null,"amount":-123.450},"old":{"name":"Ada"}}'
    )


def test_changelog() -> None:
    assert [message.value for message in written("changelog-json", UPDATED)] == [
        b'{"data":{"id":2,"name":"Ada","amount":-123.450},"op":"-U"}',
        b'{"data":{"id":2,"name":null,"amount":-123.450},"op":"+U"}',
    ]
    assert [message.value for message in written("changelog-json", DELETED)] == [
        b'{"data":{"id":2,"name":"Ada","amount":-123.450},"op":"-D"}',
        None,
    ]


def test_flat() -> None:
    [message] = written("flat", UPDATED)
    assert message.value == (
        b'{"id":2,"name":null,"amount":-123.450,"__op":"u","__table":"dz.t",'
        b'"__commit_ts":"2023-11-14T22:13:20.111222Z","__seq":"%d"}' % UPDATED.seq
    )
    [exact] = written("flat", UPDATED, exact=True)
    assert value(exact)["amount"] == "-123.450"


@remedy(codes.MESSAGE_FORM_UNFIT)
def test_a_table_that_the_flat_form_cannot_carry() -> None:
    odd = replace(SCHEMA, columns=(*SCHEMA.columns, Column("__op", "int")))
    with pytest.raises(TableError) as caught:
        written("flat", INSERTED, odd)
    assert caught.value.code is codes.MESSAGE_FORM_UNFIT
    assert caught.value.table == "dz.t"
    assert caught.value.hint == "exclude the column, or choose another format for the sink"
    excluded = replace(odd, columns=(*SCHEMA.columns, Column("__op", "int", captured=False)))
    assert value(written("flat", INSERTED, excluded)[0])["__op"] == "c"
    [message] = written("maxwell", replace(INSERTED, after={**(INSERTED.after or {}), "__op": 7}), odd)
    assert value(message)["data"]["__op"] == 7
