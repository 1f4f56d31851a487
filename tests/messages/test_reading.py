"""What this project's own writers write is read as what it was: every type, every op, in every format that is read."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse_cdc.messages.change import RowChange
from lakehouse_cdc.messages.formats import READERS, ReadFormat
from lakehouse_cdc.messages.reading import Declared, ReadChange, Reason, Unreadable
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.seq import Rank, Seq
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.types import mapped
from lakehouse_cdc.sql.ddl.alter import altered
from lakehouse_cdc.sql.ddl.column_type import Given
from lakehouse_cdc.sql.lexer import NotUnderstood
from tests.messages.test_round_trip import ID, LOST, NAME, ROW_OPS, _documents, change, each_type, same, written
from tests.support.avro_messages import decoder

FORMATS = tuple(READERS)
IN_JSON = tuple(name for name in FORMATS if name != "debezium-avro")


def declared(schema: TableSchema | None) -> Declared:
    def column(name: str, text: str) -> Column:
        assert schema is not None
        return next(one for one in schema.columns if one.name == name)

    if schema is None:
        return Declared(lambda _: None, lambda _: None, column, decoder=decoder)
    return Declared(lambda _: schema.columns, lambda _: schema.key, column, decoder=decoder)


def back(name: ReadFormat, of: RowChange, schema: TableSchema, by: TableSchema | None, **how: Any) -> list[ReadChange]:
    """All that the messages of a change say."""
    read = READERS[name](declared(by))
    return [one for message in written(name, of, schema, **how) for one in read(message.key, message.value)]


def require(found: list[ReadChange], of: RowChange) -> None:
    [one] = found
    snapshot_as_insert = one.op is Op.INSERT and of.op is Op.READ and one.place is not None and not one.place.read
    assert one.op is of.op or snapshot_as_insert or one.op is Op.INSERT
    assert same(one.key, of.key)
    assert same(one.after, of.after)
    assert same(one.before, of.before if of.op in (Op.UPDATE, Op.DELETE) else None)


@each_type
def test_debezium_with_schemas_needs_no_declaration(column: Column, values: st.SearchStrategy[Any]) -> None:
    """In the exact mode silver's type of the column is the same, too. In Avro names have letters of ASCII."""

    @settings(max_examples=15)
    @given(st.none() | values, st.none() | values, st.sampled_from(ROW_OPS))
    def comes_back(one: Any, two: Any, op: Op) -> None:
        said("debezium-json", NAME, one, two, op)
        said("debezium-avro", "v", one, two, op)

    def said(name: ReadFormat, of_column: str, one: Any, two: Any, op: Op) -> None:
        schema = TableSchema("shop", "t", (ID, replace(column, name=of_column)), ("id",))
        before = {"id": 7, of_column: one} if op in (Op.UPDATE, Op.DELETE) else None
        of = change(op, before, None if op is Op.DELETE else {"id": 7, of_column: two})
        found = back(name, of, schema, None, schemas=True, exact=True)
        require(found, of)
        assert found[0].op is op
        assert [mapped(c) for c in found[0].schema.columns] == [mapped(c) for c in schema.columns]
        assert (found[0].schema.name, found[0].schema.key) == (schema.name, schema.key)

    comes_back()


@each_type
def test_every_value_is_read_by_a_declaration(column: Column, values: st.SearchStrategy[Any]) -> None:
    schema = TableSchema("shop", "t", (ID, replace(column, name=NAME)), ("id",))

    @settings(max_examples=15)
    @given(st.none() | values, st.none() | values, st.sampled_from(ROW_OPS))
    def comes_back(one: Any, two: Any, op: Op) -> None:
        before = {"id": 7, NAME: one} if op in (Op.UPDATE, Op.DELETE) else None
        of = change(op, before, None if op is Op.DELETE else {"id": 7, NAME: two})
        for name in IN_JSON:
            for exact in (True, False):
                # a JSON column is the document itself in Maxwell's messages, and its text in no one's but ours
                if (name, column.declared) not in LOST:
                    require(back(name, of, schema, schema, exact=exact), of)

    comes_back()


@settings(max_examples=50)
@given(_documents.filter(lambda text: text != "null"))
def test_maxwell_s_documents_are_read_as_they_are(text: str) -> None:
    schema = TableSchema("shop", "t", (ID, Column("doc", "json")), ("id",))
    [one] = back("maxwell", change(Op.INSERT, None, {"id": 7, "doc": text}), schema, schema)
    assert one.after is not None
    assert json.loads(one.after["doc"]) == json.loads(text)


def test_a_big_integer_that_debezium_writes_as_a_negative_one_is_read_as_what_it_was() -> None:
    """Where the message, or the configuration, says that the column is UNSIGNED."""
    schema = TableSchema("shop", "t", (ID, Column("v", "bigint", unsigned=True)), ("id",))
    of = change(Op.INSERT, None, {"id": 7, "v": Decimal(2**64 - 1)})
    require(back("debezium-json", of, schema, schema), of)
    [unknown] = back("debezium-json", of, schema, None, schemas=True)
    assert unknown.after == {"id": 7, "v": -1}


@pytest.mark.parametrize("name", FORMATS)
def test_an_update_that_changes_the_key_is_a_deletion_and_an_insert(name: ReadFormat) -> None:
    """Debezium's connector says so itself, in two messages."""
    schema = TableSchema("shop", "t", (ID, Column("v", "int")), ("id",))
    if name.startswith("debezium"):
        return
    of = replace(change(Op.UPDATE, {"id": 7, "v": 1}, {"id": 8, "v": 1}), key={"id": 8})
    one, two = back(name, of, schema, schema)
    assert (one.op, one.key, one.before, one.after) == (Op.DELETE, {"id": 7}, {"id": 7, "v": 1}, None)
    assert (two.op, two.key, two.before, two.after) == (Op.INSERT, {"id": 8}, None, {"id": 8, "v": 1})


def test_the_order_of_a_transaction_is_that_of_its_rows() -> None:
    schema = TableSchema("shop", "t", (ID, Column("v", "int")), ("id",))
    row, key = {"id": 7, "v": 1}, {"id": 7}
    for name in ("debezium-json", "debezium-avro", "maxwell"):
        places = [
            back(name, replace(change(op, row if op is Op.DELETE else None, None if op is Op.DELETE else row),
                               seq=Seq(1, 1, 500, Rank.EVENT, ordinal).pack(), key=key), schema, schema)[0].place
            for ordinal in (0, 1, 2) for op in (Op.DELETE, Op.INSERT)
        ]  # fmt: skip
        rows = [place.row for place in places if place is not None]
        assert rows == sorted({*rows}), name
        assert len(rows) == len(places)


SOURCE = {"db": "shop", "table": "t", "ts_ms": 1, "file": "bin.000001", "pos": 4, "row": 0}
ID_FIELD = {"type": "int32", "optional": False, "field": "id"}


def envelope(field: Any, payload: Any) -> bytes:
    """A message with a schema whose rows have an id, and that field."""
    fields = [ID_FIELD, field]
    schema = {"type": "struct", "fields": [{"type": "struct", "fields": fields, "optional": True, "field": "after"}]}
    return json.dumps({"schema": schema, "payload": payload}).encode()


def row_message(**changes: Any) -> dict[str, Any]:
    return {"op": "c", "before": None, "after": {"id": 1, "v": 1}, "source": SOURCE, **changes}


INT = {"type": "int32", "optional": True, "field": "v"}
KEY = b'{"id":1}'
BROKEN: list[tuple[Reason, bytes | None, bytes]] = [
    (Reason.NOT_JSON, KEY, b"{"),
    (Reason.NOT_JSON, KEY, b"\xff\xfe"),
    (Reason.NOT_JSON, b"{", envelope(INT, row_message())),
    (Reason.NOT_JSON, KEY, b'{"op":NaN}'),
    (Reason.NOT_JSON, KEY, b"[" * 100_000),
    (Reason.NOT_THE_FORMAT, KEY, b"[1]"),
    (Reason.NOT_THE_FORMAT, KEY, b'{"a":1}'),
    (Reason.NOT_THE_FORMAT, KEY, envelope(INT, row_message(source=None))),
    (Reason.NOT_THE_FORMAT, KEY, envelope(INT, row_message(source={**SOURCE, "db": 1}))),
    (Reason.NOT_THE_FORMAT, KEY, envelope(INT, row_message(source={**SOURCE, "ts_ms": "1"}))),
    (Reason.NOT_THE_FORMAT, KEY, envelope(INT, row_message(after=None))),
    (Reason.NOT_THE_FORMAT, KEY, envelope({**INT, "field": "ID"}, row_message())),
    (Reason.NOT_THE_FORMAT, KEY, envelope(7, row_message())),
    (Reason.UNKNOWN_OP, KEY, envelope(INT, row_message(op="z"))),
    (Reason.UNKNOWN_OP, KEY, envelope(INT, row_message(op=None))),
    (Reason.UNKNOWN_TYPE, KEY, envelope({**INT, "type": "map"}, row_message())),
    (Reason.UNKNOWN_TYPE, KEY, envelope({**INT, "name": "io.debezium.time.NanoTime"}, row_message())),
    (Reason.UNKNOWN_TABLE, KEY, json.dumps(row_message()).encode()),
    (Reason.NO_KEY, None, envelope(INT, row_message())),
    (Reason.NO_KEY, b'{"other":1}', envelope(INT, row_message())),
    (Reason.NO_KEY, b'{"id":2}', envelope(INT, row_message())),
    (Reason.NO_KEY, KEY, envelope(INT, row_message(after={"id": None, "v": 1}))),
    (Reason.NO_POSITION, KEY, envelope(INT, row_message(source={**SOURCE, "pos": None}))),
    (Reason.NO_POSITION, KEY, envelope(INT, row_message(source={**SOURCE, "file": "binlog"}))),
    (Reason.NO_POSITION, KEY, envelope(INT, row_message(source={**SOURCE, "row": -1}))),
    (Reason.OTHER_COLUMNS, KEY, envelope(INT, row_message(after={"id": 1}))),
    (Reason.OTHER_COLUMNS, KEY, envelope(INT, row_message(after={"id": 1, "v": 1, "w": 1}))),
    (Reason.BAD_VALUE, KEY, envelope(INT, row_message(after={"id": 1, "v": "1"}))),
    (Reason.BAD_VALUE, KEY, envelope(INT, row_message(after={"id": 1, "v": 2**31}))),
    (Reason.BAD_VALUE, KEY, envelope(INT, row_message(after={"id": 1, "v": 1.5}))),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "key", "value"), BROKEN)
def test_what_cannot_be_read_has_a_reason(reason: Reason, key: bytes | None, value: bytes) -> None:
    read = READERS["debezium-json"](declared(None))
    assert len(read(KEY, envelope(INT, row_message()))) == 1
    with pytest.raises(Unreadable) as raised:
        read(key, value)
    assert raised.value.reason is reason


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=4), inside, max_size=4),
    max_leaves=6,
)
_parts = st.sampled_from(["op", "source", "after", "before", "type", "data", "old", "database", "table", "es", "ts"])


@pytest.mark.parametrize("name", IN_JSON)
@settings(max_examples=100)
@given(st.data())
def test_any_document_is_read_or_has_a_reason(name: ReadFormat, data: st.DataObject) -> None:
    """A part of a good message is another one, or missing; nothing else than a reason comes of that."""
    schema = TableSchema("shop", "t", (ID, Column("v", "int"), Column("d", "decimal", precision=5, scale=2)), ("id",))
    image = {"id": 7, "v": 1, "d": Decimal("1.50")}
    [message] = written(name, change(Op.UPDATE, {**image, "v": 2}, image), schema, schemas=data.draw(st.booleans()))
    assert message.value is not None
    held = json.loads(message.value)
    places = [held, *(one for one in held.values() if isinstance(one, dict))]
    place = data.draw(st.sampled_from(places))
    where = data.draw(st.sampled_from(sorted(place)) | _parts)
    if data.draw(st.booleans()):
        place[where] = data.draw(_json)
    else:
        place.pop(where, None)
    try:
        changes = READERS[name](declared(schema))(message.key, json.dumps(held).encode())
    except Unreadable:
        return
    assert all(isinstance(one, ReadChange) for one in changes)


@pytest.mark.parametrize(
    "value",
    [
        None, b"", b'{"ts_ms":1}', b'{"status":"BEGIN","id":"u:1","event_count":null}',
        b'{"source":{"db":"shop"},"ts_ms":1,"databaseName":"shop","ddl":"CREATE TABLE t (id INT)","tableChanges":[]}',
    ],
)  # fmt: skip
def test_what_says_nothing_of_a_row_is_passed_over(value: bytes | None) -> None:
    assert READERS["debezium-json"](declared(None))(b'{"id":1}', value) == []


def by_type(name: str, text: str) -> Column:
    """A column of a type as MySQL writes it."""
    table, given = TableSchema("d", "t", (Column("-", "int"),), ()), Given(charset="utf8mb4", mariadb=False)
    try:
        return altered(f"ALTER TABLE t ADD COLUMN `{name}` {text} NULL", table, given).schema.columns[1]
    except NotUnderstood as error:
        raise Unreadable(Reason.UNKNOWN_TYPE, text) from error


def canal(column: str, held: Any) -> Any:
    """A value as Canal has it, read by the type that the message names."""
    value = {
        "database": "shop", "table": "t", "type": "INSERT", "isDdl": False, "es": 1, "pkNames": ["id"],
        "mysqlType": {"id": "int", "v": column}, "data": [{"id": "1", "v": held}], "old": None,
    }  # fmt: skip
    [one] = READERS["canal-json"](Declared(lambda _: None, lambda _: None, by_type))(None, json.dumps(value).encode())
    assert one.after is not None
    return one.after["v"]


def test_canal_names_types_itself() -> None:
    assert canal("decimal(12,3)", "1.5") == Decimal("1.500")
    assert canal("bigint unsigned", "18446744073709551615") == Decimal(2**64 - 1)
    assert canal("enum('a','b')", "2") == canal("enum('a','b')", "b") == "b"
    assert canal("set('a','b')", "3") == canal("set('a','b')", "a,b") == "a,b"
    assert canal("timestamp(3)", "2024-02-29 12:34:56.789") == datetime(2024, 2, 29, 12, 34, 56, 789_000, timezone.utc)
    assert canal("blob", "\u00ff\u0000") == b"\xff\x00"
    for column, held in (("enum('2','b')", "2"), ("enum('a')", "c"), ("decimal(3,1)", "1.25"), ("int", "x"),
                         ("tinyint", "300"), ("datetime", "0000-00-00 00:00:00"), ("set('a')", "4")):  # fmt: skip
        with pytest.raises(Unreadable) as raised:
            canal(column, held)
        assert raised.value.reason is Reason.BAD_VALUE
    with pytest.raises(Unreadable) as raised:
        canal("hologram", "1")
    assert raised.value.reason is Reason.UNKNOWN_TYPE
