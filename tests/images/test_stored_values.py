"""What is in bronze in clear is masked as the same value is where a server sends it: for every type that has a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pymysql
import pytest

from lakehouse_cdc.images.hashing.stored_values import masked_text, masking
from lakehouse_cdc.images.program import ProgramSet, row_metadata
from lakehouse_cdc.model.variant import fields, object_of
from lakehouse_cdc.schema.masks import fingerprint
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.types import can_be_masked
from tests.support.images.tables import ID, create, insert, select

SALT = "a salt that nobody knows"
COLUMNS: list[tuple[Column, Sequence[Any]]] = [
    (Column("", "varchar", length=90, charset="utf8mb4"), ("", "näher", "😀 x", "x" * 90)),
    (Column("", "char", length=9, charset="latin1"), ("a ", "é")),
    (Column("", "tinyint"), (-128, 0, 7)),
    (Column("", "int", unsigned=True), (0, 4294967295)),
    (Column("", "bigint"), (-(2**63), 2**63 - 1)),
    (Column("", "bigint", unsigned=True), (0, 2**64 - 1)),
    (Column("", "decimal", precision=5, scale=2), (Decimal("-0.50"), Decimal("123.00"), 0)),
    (Column("", "decimal", precision=38, scale=30), (Decimal("1.5"), Decimal("-12345678"))),
    (Column("", "decimal", precision=60, scale=5), (Decimal("1" * 50), Decimal("-0.00001"))),
    (Column("", "float"), (0.1, -2.5, 1e30)),
    (Column("", "double"), (0.1, -0.5, 1e100, 123456.75, 0)),
    (Column("", "bit", length=1), (0, 1)),
    (Column("", "bit", length=9), (0, 511)),
    (Column("", "bit", length=64), (2**64 - 1,)),
    (Column("", "year"), (0, 1901, 2155)),
    (Column("", "date"), (date(1, 1, 1), date(1987, 1, 2), date(9999, 12, 31))),
    *(
        (Column("", kind, fraction=n), (datetime(1987, 1, 2, 3, 4, 5, 600_000), datetime(2024, 2, 29)))
        for kind in ("datetime", "timestamp")
        for n in (0, 1, 6)
    ),
    (Column("", "time", fraction=3), ("-838:59:59", "00:00:00.5")),
    (Column("", "enum", values=("", "a", "ü"), charset="utf8mb4"), ("a", "ü")),
    (Column("", "json"), ('{"b": [1, 2.5]}', '"x"')),
    (Column("", "varbinary", length=9), (b"", b"\x00\xff")),
    (Column("", "blob"), (b"abc",)),
]


@pytest.mark.parametrize("mask", ["null", f"hash:{fingerprint(SALT)}", "keep:1:2"])
def test_as_a_server_sends_it(session: pymysql.Connection[Any], database: str, mask: str) -> None:
    columns = [replace(column, name=f"v{i}") for i, (column, _) in enumerate(COLUMNS)]
    clear = TableSchema(database, "t", (ID, *columns), ("id",))
    masks = [replace(c, mask=mask) if can_be_masked(replace(c, mask=mask)) else c for c in columns]
    hidden = replace(clear, columns=(ID, *masks))
    assert len([column for column in masks if column.mask]) >= len(columns) - 2
    create(session, clear)
    longest = max(len(values) for _, values in COLUMNS)
    rows = [[values[n % len(values)] for _, values in COLUMNS] for n in range(longest)]
    insert(session, clear, [(n, *row) for n, row in enumerate([*rows, [None] * len(columns)])])
    makers = {c.name: masking(c, mask, SALT) for c, masked in zip(columns, masks, strict=True) if masked.mask}
    sent = select(session, hidden, programs=ProgramSet.of([hidden], salt=SALT))
    held = select(session, clear)
    assert len(held) == longest + 1
    for (_, before), (_, after) in zip(held, sent, strict=True):
        stored = fields(before or b"", row_metadata(clear))
        made = {name: makers[name](value) if name in makers else value for name, value in stored.items()}
        assert made == fields(after or b"", row_metadata(hidden))
        assert object_of(made)[1] == row_metadata(hidden)


def test_of_a_text() -> None:
    column = Column("v", "varchar", length=9, charset="utf8mb4")
    assert masked_text("secret", column, "keep:1:2", SALT) == "s***et"
