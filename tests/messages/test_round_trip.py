"""Each value of each type comes back from each format, as an independent parser reads it.

In the exact mode that is so without exception. `LOST` has what the default mode of a format loses; nothing else.
"""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse_cdc.messages.change import Message, RowChange, Settings
from lakehouse_cdc.messages.formats import FORMATS, FormatName
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.seq import Rank, Seq
from lakehouse_cdc.schema.table import Column, TableSchema
from tests.support.avro_messages import encoder
from tests.support.message_readers import READERS, Read
from tests.support.row_images import UTF8, plain

ROW_OPS = (Op.READ, Op.INSERT, Op.UPDATE, Op.DELETE)
NOW = 1_700_000_000_000_000
# (format, type) -> a value that the default mode loses, and what a reader makes of it
LOST = {
    ("debezium-json", "bigint unsigned"): (Decimal(2**64 - 1), -1),
    ("debezium-avro", "bigint unsigned"): (Decimal(2**64 - 1), -1),
    ("maxwell", "json"): ("null", None),
}

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_dates = st.dates(date(1, 1, 1), date(9999, 12, 31))


def _moments(fraction: int) -> st.SearchStrategy[datetime]:
    unit = 10 ** (6 - fraction)
    return st.datetimes().map(lambda at: at.replace(microsecond=at.microsecond // unit * unit))


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return st.integers(-most, most).map(
        lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale))
    )  # a Decimal's operations round


def _time(hours: int, minutes: int, seconds: int, micros: int, below: bool, fraction: int) -> str:
    text = f"{hours:02}:{minutes:02}:{seconds:02}" + (f".{micros:06}"[: 1 + fraction] if fraction else "")
    zero = not (hours or minutes or seconds or (fraction and micros // 10 ** (6 - fraction)))
    return f"-{text}" if below and not zero else text


def _times(fraction: int) -> st.SearchStrategy[str]:
    sixty = st.integers(0, 59)
    parts = (st.integers(0, 838), sixty, sixty, st.integers(0, 999_999), st.booleans(), st.just(fraction))
    return st.builds(_time, *parts)


def _single(value: float) -> float:
    (single,) = struct.unpack("<f", struct.pack("<f", value))
    return float(single)


_floats = st.floats(allow_nan=False, allow_infinity=False)
_singles = st.floats(allow_nan=False, allow_infinity=False, width=32)
_points = st.builds(
    lambda srid, x, y: struct.pack("<IBIdd", srid, 1, 1, x, y), st.integers(0, 2**32 - 1), _floats, _floats
)
_documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | _texts,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(_texts, inside, max_size=3),
    max_leaves=5,
).map(lambda document: json.dumps(document, ensure_ascii=False))


def _integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


TYPES: list[tuple[Column, st.SearchStrategy[Any]]] = [
    *((Column("", name), _integers(bits)) for name, bits in (("tinyint", 8), ("smallint", 16), ("mediumint", 24))),
    *((Column("", name), _integers(bits)) for name, bits in (("int", 32), ("bigint", 64))),
    *(
        (Column("", name, unsigned=True), st.integers(0, 2**bits - 1))
        for name, bits in (("tinyint", 8), ("smallint", 16), ("mediumint", 24), ("int", 32))
    ),
    (Column("", "bigint", unsigned=True), st.integers(0, 2**64 - 1).map(Decimal)),
    *(
        (Column("", "decimal", precision=p, scale=s), _decimals(p, s))
        for p, s in ((1, 0), (12, 3), (9, 9), (38, 10), (38, 38))
    ),
    (Column("", "decimal", precision=65, scale=30), _decimals(65, 30).map(lambda d: format(d, "f"))),
    (Column("", "decimal", precision=40, scale=0), _decimals(40, 0).map(lambda d: format(d, "f"))),
    (Column("", "float"), _singles),
    (Column("", "double"), _floats),
    (Column("", "bit", length=1), st.booleans()),
    (Column("", "bit", length=10), st.integers(0, 2**10 - 1)),
    (Column("", "bit", length=64), st.integers(0, 2**64 - 1).map(Decimal)),
    *((Column("", name, **UTF8), _texts) for name in ("char", "varchar", "tinytext", "text", "longtext")),
    *((Column("", name), st.binary(max_size=20)) for name in ("binary", "varbinary", "blob", "longblob")),
    (Column("", "date"), _dates),
    *((Column("", "datetime", fraction=f), _moments(f)) for f in (0, 1, 3, 4, 6)),
    *(
        (Column("", "timestamp", fraction=f), _moments(f).map(lambda at: at.replace(tzinfo=timezone.utc)))
        for f in (0, 3, 6)
    ),
    *((Column("", "time", fraction=f), _times(f)) for f in (0, 2, 6)),
    (Column("", "year"), st.integers(1901, 2155) | st.just(0)),
    (Column("", "json"), _documents),
    (Column("", "enum", values=("a", "b"), **UTF8), st.sampled_from(["", "a", "b"])),
    (Column("", "set", values=("x", "y"), **UTF8), st.sampled_from(["", "x", "y", "x,y"])),
    (Column("", "point"), _points),
    (Column("", "geometry"), _points),
    (Column("", "vector"), st.lists(_singles, max_size=4)),
    (Column("", "inet6"), st.sampled_from(["::1", "2001:db8::"])),
    (Column("", "date", carried="text"), st.sampled_from(["0000-00-00", "2024-02-31"])),
    (Column("", "blob", mask="hash:0"), st.just("ab12")),
]
ID = Column("id", "int", False)
SCHEMA = TableSchema(
    "shop", "t", (ID, *(replace(column, name=f"v{i}") for i, (column, _) in enumerate(TYPES))), ("id",)
)
NAME = "v \"é'\\"  # of the column of a type
each_type = pytest.mark.parametrize(("column", "values"), TYPES, ids=[column.declared for column, _ in TYPES])
each_format = pytest.mark.parametrize("name", FORMATS)


def change(op: Op, before: Any, after: Any, key: Any = None) -> RowChange:
    held = before if after is None else after
    identity = {"id": held["id"]} if key is None and held is not None else key
    seq = Seq(1, 1, 500, Rank.EVENT, 3).pack()
    return RowChange(seq, op, identity, before, after, NOW - 5, "binlog.000001", 500, "uuid:7")


def written(name: FormatName, of: RowChange, schema: TableSchema = SCHEMA, **settings: Any) -> list[Message]:
    return FORMATS[name](schema, Settings("shop", "shop.t", encoder=encoder, **settings))(of, NOW)


def read(name: FormatName, message: Message, schema: TableSchema = SCHEMA) -> Read:
    assert message.value is not None
    return READERS[name](schema, message.key, message.value)


def same(found: Any, wanted: Any) -> bool:
    return bool(plain(found) == plain(wanted))


@each_type
def test_every_value_comes_back_in_the_exact_mode(column: Column, values: st.SearchStrategy[Any]) -> None:
    schema = TableSchema("shop", "t", (ID, replace(column, name=NAME)), ("id",))

    @settings(max_examples=15)
    @given(st.none() | values, st.none() | values, st.sampled_from(ROW_OPS), st.booleans())
    def comes_back(one: Any, two: Any, op: Op, schemas: bool) -> None:
        before = {"id": 7, NAME: one} if op in (Op.UPDATE, Op.DELETE) else None
        after = None if op is Op.DELETE else {"id": 7, NAME: two}
        for name in FORMATS:
            require_back(name, schema, change(op, before, after), schemas=schemas)

    comes_back()


def require_back(name: FormatName, schema: TableSchema, of: RowChange, *, schemas: bool) -> None:
    messages = written(name, of, schema, exact=True, schemas=schemas)
    assert all(message.key == messages[0].key for message in messages)
    assert (messages[-1].value is None) == (of.op is Op.DELETE)
    found = [read(name, message, schema) for message in messages if message.value is not None]
    assert all(same(one.key, {"id": 7}) for one in found)
    if name == "changelog-json" and of.op is Op.UPDATE:
        assert [one.op for one in found] == ["-U", "u"]
        assert same(found[0].before, of.before)
        found = found[1:]
    [last] = found
    assert last.op == of.op.value or (of.op is Op.READ and last.op == "c")
    assert same(last.after, of.after)
    if of.op is Op.DELETE or (of.op is Op.UPDATE and name not in ("flat", "changelog-json")):
        assert same(last.before, of.before)


@each_type
def test_the_default_mode_loses_what_is_listed_and_nothing_else(column: Column, values: st.SearchStrategy[Any]) -> None:
    schema = TableSchema("shop", "t", (ID, replace(column, name=NAME)), ("id",))

    @settings(max_examples=15)
    @given(values)
    def comes_back(value: Any) -> None:
        for name in FORMATS:
            if (name, column.declared) not in LOST:
                found = read(name, written(name, change(Op.INSERT, None, {"id": 7, NAME: value}), schema)[0], schema)
                assert same(found.after, {"id": 7, NAME: value}), name

    comes_back()


@pytest.mark.parametrize(("name", "declared"), LOST)
def test_what_is_listed_is_lost_by_default_alone(name: FormatName, declared: str) -> None:
    column = next(column for column in SCHEMA.columns if column.declared == declared)
    value, read_as = LOST[name, declared]
    row = dict.fromkeys(c.name for c in SCHEMA.columns) | {"id": 1, column.name: value}
    for exact, wanted in ((False, read_as), (True, value)):
        found = read(name, written(name, change(Op.INSERT, None, row), exact=exact)[0]).after
        assert found is not None
        assert same(found[column.name], wanted)


@settings(max_examples=15)
@given(_documents.filter(lambda text: text != "null"))
def test_maxwell_s_documents_are_the_same_ones(text: str) -> None:
    schema = TableSchema("shop", "t", (ID, Column("doc", "json")), ("id",))
    found = read("maxwell", written("maxwell", change(Op.INSERT, None, {"id": 7, "doc": text}), schema)[0], schema)
    assert found.after == {"id": 7, "doc": json.loads(text)}


@each_format
@pytest.mark.parametrize("tombstones", [True, False])
def test_a_key_that_was_not_found_is_taken_away(name: FormatName, tombstones: bool) -> None:
    messages = written(name, change(Op.DELETE, None, None, {"id": 5}), tombstones=tombstones)
    found = read(name, messages[0])
    assert found.op == "d"
    assert found.key == {"id": 5}
    if name == "debezium-avro":  # a row would need all columns that are never null
        assert found.before is None
    else:
        assert found.before is not None
        assert {k: v for k, v in found.before.items() if v is not None} == {"id": 5}
    assert [message.value for message in messages[1:]] == ([None] if tombstones else [])


@each_format
def test_a_table_without_a_key_has_no_keys_and_no_tombstones(name: FormatName) -> None:
    schema = TableSchema("shop", "k", (ID,), ())
    deleted = replace(change(Op.DELETE, {"id": 1}, None), key=None)
    [message] = written(name, deleted, schema)
    assert message.key is None
    assert read(name, message, schema).before == {"id": 1}
    assert message.headers == (("seq", str(deleted.seq).encode()),)
