"""Which changes of names and types say what older rows hold, and which are set aside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakehouse_cdc.schema.change import SchemaChange
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.topics.schema_changes import change_by_names

ID, A = Column("id", "int", False), Column("a", "int")
BEFORE = TableSchema("shop", "t", (ID, A), ("id",))


def to(*columns: Column, key: tuple[str, ...] = ("id",)) -> TableSchema:
    return TableSchema("shop", "t", columns, key)


@pytest.mark.parametrize(
    ("after", "filled", "taken"),
    [
        (to(ID, A, Column("b", "int")), {}, {}),
        (to(ID, A, Column("b", "int", False)), {"b": "5"}, {"b": "5"}),
        (to(ID, Column("b", "int"), A), {"b": "5", "a": "9"}, {"b": "5"}),
        (to(ID), {}, {}),
        (to(ID, replace(A, type="bigint")), {}, {}),
        (to(ID, Column("a", "int", False)), {}, None),
        (to(Column("id", "int"), A), {}, {}),
        (to(ID, A, Column("b", "int", False)), {}, None),
        (to(ID, A, Column("b", "decimal", precision=5, scale=2)), {"b": None}, None),
        (to(ID, Column("b", "int")), {}, None),
        (to(ID, replace(A, type="smallint")), {}, None),
        (to(ID, Column("a", "varchar", length=20, charset="utf8mb4")), {}, None),
        (to(ID, A, key=("id", "a")), {}, None),
    ],
)
def test_a_change_is_taken_where_older_rows_have_one_meaning(
    after: TableSchema, filled: dict[str, str | None], taken: dict[str, str] | None
) -> None:
    found: Any = change_by_names(BEFORE, after, filled)
    if taken is None:
        assert isinstance(found, str)
        accepted = change_by_names(BEFORE, after, filled, accepted=True)
        assert isinstance(accepted, SchemaChange) == (after.key == BEFORE.key)
        return
    assert found.filled == taken
    assert found.kept
    assert found.origin == {column.name: column.name for column in after.columns if column in (ID, A) or
                            column.name in ("id", "a")}  # fmt: skip
