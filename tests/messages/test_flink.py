"""Flink's own readers make of the messages exactly the rows that were written, as its changelog has them.

They are a third party: `lakehouse_cdc.messages` was written from documents, and they by others. What differs from the
source by format is in `tests.support.flink.types`, and for users in the guide to the sink.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lakehouse_cdc.messages.change import Message
from lakehouse_cdc.messages.formats import FormatName
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.schema.table import Column, TableSchema
from tests.messages.test_round_trip import ID, LOST, SCHEMA, TYPES, change, same, written
from tests.support.flink.reader import Flink, FlinkRow, Refused, running
from tests.support.flink.types import Document, image, row_type, types_of

pytestmark = pytest.mark.long
# format, exact, with schemas
MODES = [
    ("debezium-json", False, False), ("debezium-json", False, True), ("debezium-json", True, False),
    ("debezium-json", True, True), ("canal-json", False, False), ("maxwell", False, False), ("maxwell", True, False),
]  # fmt: skip
each_mode = pytest.mark.parametrize(("name", "exact", "schemas"), MODES)
COLUMNS = {column.name: column for column in SCHEMA.columns}
ROWS = st.fixed_dictionaries(
    {"id": st.just(7), **{f"v{i}": st.none() | values for i, (_, values) in enumerate(TYPES)}}
)  # fmt: skip


@pytest.fixture(scope="module")
def flink() -> Iterator[Flink]:
    with running() as process:
        yield process


def read(flink: Flink, messages: list[Message]) -> list[FlinkRow]:
    """The rows of all messages; Flink makes none of a tombstone."""
    return [row for message in messages for row in flink.read(message)]


def agree(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        held = found[name]
        if isinstance(held, Document):
            assert held.says(value), (name, held, value)
        else:
            assert same(held, value), (COLUMNS[name].declared, held, value)


def lost(name: FormatName, exact: bool, row: dict[str, Any]) -> dict[str, Any]:
    """The row without what that format loses by default (`LOST`, which tests of it show), and a zero's sign.

    Where a row has a DECIMAL, Flink reads JSON's numbers as decimals, which have no zero below zero.
    """
    kept = dict(row)
    for column, value in row.items():
        declared = COLUMNS[column].declared
        if not exact and (name, declared) in LOST and (value == "null" or (declared != "json" and value is not None)):
            kept[column] = None if declared == "json" else value if value < 2**63 else value - 2**64
        if name == "maxwell" and isinstance(value, float):
            kept[column] = value + 0.0
        if name == "maxwell" and isinstance(value, list):
            kept[column] = [one + 0.0 for one in value]
    return kept


@each_mode
def test_rows_of_every_type_are_the_source_s(flink: Flink, name: FormatName, exact: bool, schemas: bool) -> None:
    types = types_of(name, SCHEMA, exact=exact)
    flink.use(name, row_type(types), schemas=schemas)

    # a failure names the column and both values, so a smaller example says no more
    @settings(max_examples=40, suppress_health_check=[HealthCheck.data_too_large], phases=[Phase.reuse, Phase.generate])
    @given(ROWS, ROWS, st.sampled_from([Op.READ, Op.INSERT, Op.UPDATE, Op.DELETE]))
    def come_back(before: dict[str, Any], after: dict[str, Any], op: Op) -> None:
        was = before if op in (Op.UPDATE, Op.DELETE) else None
        now = None if op is Op.DELETE else after
        found = read(flink, written(name, change(op, was, now), exact=exact, schemas=schemas))
        kinds = {Op.UPDATE: ["-U", "+U"], Op.DELETE: ["-D"]}.get(op, ["+I"])
        assert [row.kind for row in found] == kinds
        for row, wanted in zip(found, [one for one in (was, now) if one is not None], strict=True):
            agree(image(types, row.values), lost(name, exact, wanted))

    come_back()


@each_mode
def test_names_of_columns_are_theirs(flink: Flink, name: FormatName, exact: bool, schemas: bool) -> None:
    names = ["v \"é'\\", "a.b", "`", "op", "data", "😀", "Case", "case_"]
    schema = TableSchema("shop", "t", (ID, *(Column(one, "int") for one in names)), ("id",))
    types = types_of(name, schema, exact=exact)
    flink.use(name, row_type(types), schemas=schemas)
    row = {"id": 7, **{one: at for at, one in enumerate(names)}}
    [found] = read(flink, written(name, change(Op.INSERT, None, row), schema, exact=exact, schemas=schemas))
    assert image(types, found.values) == row


@each_mode
def test_a_deletion_whose_row_is_not_known(flink: Flink, name: FormatName, exact: bool, schemas: bool) -> None:
    """It has the key; with schemas Debezium's `before` is null then, which Flink refuses."""
    schema = TableSchema("shop", "t", (ID, Column("v", "int")), ("id",))
    flink.use(name, row_type(types_of(name, schema, exact=exact)), schemas=schemas)
    messages = written(name, change(Op.DELETE, None, None, {"id": 5}), schema, exact=exact, schemas=schemas)
    if schemas:
        with pytest.raises(Refused, match="null"):
            read(flink, messages)
    else:
        assert [(row.kind, row.values) for row in read(flink, messages)] == [("-D", [5, None])]


# what a reader of the guide has to know: format, column, a type of Flink's that looks right, a value, what comes of it
DIFFERENCES: list[tuple[FormatName, Column, str, Any, Any]] = [
    ("debezium-json", Column("v", "decimal", precision=12, scale=3), "DECIMAL(12, 3)", Decimal("-7.125"), Refused),
    ("debezium-json", Column("v", "date"), "DATE", date(2024, 2, 29), Refused),
    ("debezium-json", Column("v", "datetime", fraction=3), "TIMESTAMP(3)", datetime(2024, 2, 29), Refused),
    ("debezium-json", Column("v", "time"), "TIME", "01:00:00", Refused),
    ("canal-json", Column("v", "bit", length=1), "BOOLEAN", True, False),
    ("canal-json", Column("v", "varbinary", length=9), "BYTES", b"\xff", Refused),
    ("canal-json", Column("v", "timestamp"), "TIMESTAMP_LTZ(3)", datetime(2024, 2, 29, tzinfo=timezone.utc), Refused),
    ("maxwell", Column("v", "timestamp"), "TIMESTAMP_LTZ(3)", datetime(2024, 2, 29, tzinfo=timezone.utc), Refused),
    ("maxwell", Column("v", "json"), "STRING", '"text"', "text"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "column", "sql", "value", "read_as"), DIFFERENCES)
def test_types_that_do_not_fit(
    flink: Flink, name: FormatName, column: Column, sql: str, value: Any, read_as: Any
) -> None:
    schema = TableSchema("shop", "t", (ID, column), ("id",))
    flink.use(name, f"ROW<`id` INT, `v` {sql}>")
    messages = written(name, change(Op.INSERT, None, {"id": 7, "v": value}), schema)
    if read_as is Refused:
        with pytest.raises(Refused):
            read(flink, messages)
    else:
        assert [row.values for row in read(flink, messages)] == [[7, read_as]]


def test_a_zero_below_zero_has_no_sign_beside_a_decimal(flink: Flink) -> None:
    schema = TableSchema("shop", "t", (ID, Column("v", "double")), ("id",))
    [message] = written("maxwell", change(Op.INSERT, None, {"id": 7, "v": -0.0}), schema)
    for more, value in (("", "-0.0"), (", d DECIMAL(2, 1)", "0.0")):
        flink.use("maxwell", f"ROW<id INT, v DOUBLE{more}>")
        assert [row.values[:2] for row in flink.read(message)] == [[7, value]]


@each_mode
def test_other_messages_are_not_in_the_topics_of_rows_for_flink_refuses_them(
    flink: Flink, name: FormatName, exact: bool, schemas: bool
) -> None:
    del exact
    flink.use(name, "ROW<id INT>", schemas=schemas)
    truncation = b'{"op":"t","before":null,"after":null,"database":"shop","table":"t","type":"TRUNCATE","data":null}'
    value = b'{"schema":{},"payload":%b}' % truncation if schemas else truncation
    with pytest.raises(Refused):
        flink.read(Message(None, value))
