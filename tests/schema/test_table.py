"""The schema of a table: its fingerprint says what it is, its JSON gives it back."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.schema.table import Column, TableSchema

NAMES = st.text(min_size=1, max_size=8)
SMALL = st.none() | st.integers(0, 70000)
COLUMNS = st.builds(
    Column,
    name=NAMES,
    type=st.sampled_from(["int", "varchar", "datetime", "decimal"]),
    nullable=st.booleans(),
    unsigned=st.booleans(),
    length=SMALL,
    precision=SMALL,
    scale=SMALL,
    fraction=st.integers(0, 6),
    charset=st.none() | NAMES,
    collation=st.none() | NAMES,
    captured=st.booleans(),
)
TABLES = st.builds(
    lambda database, table, columns, n: TableSchema(
        database, table, tuple(columns), tuple(c.name for c in columns[:n])
    ),
    NAMES,
    NAMES,
    st.lists(COLUMNS, max_size=4, unique_by=lambda c: c.name),
    st.integers(0, 3),
)
ORDERS = TableSchema(
    "shop",
    "orders",
    (
        Column("id", "bigint", nullable=False, unsigned=True),
        Column("label", "varchar", length=20, charset="utf8mb4", collation="utf8mb4_0900_ai_ci"),
        Column("secret", "varbinary", length=20, captured=False),
    ),
    ("id",),
)


@given(TABLES)
def test_json_gives_the_same_schema_back(table: TableSchema) -> None:
    again = TableSchema.from_json(table.to_json())
    assert again == table
    assert again.id == table.id
    assert TableSchema.from_dict(json.loads(json.dumps(table.to_dict()))) == table


@given(TABLES, TABLES)
def test_the_id_is_the_same_exactly_where_the_schema_is(one: TableSchema, other: TableSchema) -> None:
    assert (one.id == other.id) == (one == other)


def test_the_id_never_changes() -> None:
    # offsets, bronze rows and file names hold it: another value here would orphan them
    assert ORDERS.id == "f7ebf6ce70d6b766"


@pytest.mark.parametrize("name", [f.name for f in fields(Column)])
def test_each_field_of_a_column_counts(name: str) -> None:
    value = getattr(ORDERS.columns[1], name)
    other: Any = not value if isinstance(value, bool) else 3 if isinstance(value, int | None) else f"{value}x"
    changed = replace(
        ORDERS, columns=(ORDERS.columns[0], replace(ORDERS.columns[1], **{name: other}), ORDERS.columns[2])
    )
    assert changed.id != ORDERS.id


def test_order_of_columns_and_key_count() -> None:
    assert replace(ORDERS, columns=ORDERS.columns[::-1]).id != ORDERS.id
    assert replace(ORDERS, key=("id", "label")).id != replace(ORDERS, key=("label", "id")).id


def test_views_of_a_schema() -> None:
    assert ORDERS.name == "shop.orders"
    assert [c.name for c in ORDERS.captured] == ["id", "label"]
    assert [c.name for c in replace(ORDERS, key=("label", "id")).key_columns] == ["label", "id"]


@pytest.mark.parametrize(
    ("column", "declared"),
    [
        (ORDERS.columns[0], "bigint unsigned"),
        (ORDERS.columns[1], "varchar(20)"),
        (Column("c", "decimal", precision=10, scale=2, unsigned=True), "decimal(10,2) unsigned"),
        (Column("c", "decimal", precision=10), "decimal(10,0)"),
        (Column("c", "datetime"), "datetime"),
        (Column("c", "datetime", fraction=6), "datetime(6)"),
    ],
)
def test_a_type_is_written_as_people_do(column: Column, declared: str) -> None:
    assert column.declared == declared
