"""Which images lie in a range: by their bytes, beside what a row says of itself."""

from __future__ import annotations

import random
from typing import Any

import pytest

from lakehouse_cdc.images.program import row_metadata
from lakehouse_cdc.model.variant import fields
from lakehouse_cdc.mysql import value_range
from lakehouse_cdc.mysql.value_range import RangeIndex, ValueSpace, comparable
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.source.reading.field_numbers import FieldRange
from tests.support.row_images import EVERY_KIND, UTF8, buffer, image, random_row

pytestmark = pytest.mark.unit

SCHEMA = TableSchema("shop", "t", EVERY_KIND, ("n",))
WIDE = TableSchema("shop", "t", (*EVERY_KIND, *(Column(f"c{i:03}", "int") for i in range(300))), ("n",))
NUMBERS = {"a tiny", "Small", "n", "big", "d4", "d8", "d1", "day", "at", "ts", "y"}  # all of whose values are such
SOME = {"u", "d16"}  # some of whose values have more than 64 bits


Said = list[bool | None]  # None: it is not known


def said(schema: TableSchema, column: Column, images: list[bytes | None], lo: Any, hi: Any) -> Said | None:
    numbers = FieldRange.of(column, [c.name for c in schema.captured], lo, hi)
    if numbers is None:
        return None
    held, unknown = numbers.holds(buffer(images))
    assert not (held & unknown).any()
    return [None if u else h for h, u in zip(held.tolist(), unknown.tolist(), strict=True)]


@pytest.mark.parametrize("schema", [SCHEMA, WIDE], ids=["some columns", "many columns"])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_said_of_an_image_is_what_its_row_says(schema: TableSchema, seed: int) -> None:
    """Of kinds that are such numbers it is said of every image, whatever the bounds."""
    chosen, metadata = random.Random(seed), row_metadata(schema)
    rows = [random_row(chosen, schema) for _ in range(60 if schema is SCHEMA else 9)]
    images: list[bytes | None] = [image(schema, row) for row in rows]
    asked = 0
    for column in (c for c in comparable(schema) if c.name in NUMBERS | SOME):
        space = ValueSpace(schema, RangeIndex("i", column.name))
        values = [value_range._component(column, fields(one, metadata)[column.name]) for one in images if one]
        bounds = [None, *(value for value in values if value is not None)]
        for _ in range(12):
            lo, hi = chosen.choice(bounds), chosen.choice(bounds)
            holds = [
                space.holds(fields(one, metadata), *(None if b is None else [b] for b in (lo, hi)))
                for one in images
                if one
            ]
            says = said(schema, column, images, lo, hi)
            if column.name in NUMBERS:
                assert says == holds, (column, lo, hi)
            elif says is not None:
                assert all(s in (None, h) for s, h in zip(says, holds, strict=True)), (column, lo, hi)
            asked += says is not None
    assert asked > 12 * len(NUMBERS)


def test_nothing_is_said_of_what_is_no_image_of_the_row() -> None:
    """An image with fewer fields, of another type or scale, that is cut off, or empty; one that is absent does not."""
    schema = TableSchema("shop", "t", (Column("a", "int"), Column("d", "decimal", precision=9, scale=2)), ("a",))
    short = TableSchema("shop", "t", schema.columns[:1], ("a",))
    other = TableSchema(
        "shop", "t", (Column("a", "varchar", length=9, **UTF8), Column("d", "decimal", precision=9, scale=1)), ()
    )
    whole = image(schema, {"a": 5, "d": 1})
    images = [None, b"", whole[:2], whole[:-9], image(short, {"a": 5}), image(other, {"a": "5", "d": 1})]
    assert said(schema, schema.columns[0], [*images, whole], 7, None) == [False, *[None] * 5, False]
    assert said(schema, schema.columns[1], [*images, whole], "7", None) == [False, *[None] * 5, False]


@pytest.mark.parametrize(
    ("column", "bound"),
    [
        (Column("a", "varchar", length=9, **UTF8), "x"),
        (Column("a", "time"), "00:00:01"),
        (Column("a", "date"), "0000-03-01"),
        (Column("a", "datetime", carried="text"), "2024-00-01 00:00:00"),
        (Column("a", "bigint", unsigned=True), 2**63),
        (Column("a", "enum", values=("x", "y"), **UTF8), 1),
        (Column("a", "decimal", precision=38, scale=0), "9" * 38),
    ],
    ids=lambda one: one.type if isinstance(one, Column) else str(one),
)  # fmt: skip
def test_bounds_that_are_no_such_numbers(column: Column, bound: Any) -> None:
    assert FieldRange.of(column, ["a"], None, bound) is None


def test_the_upper_bound_of_a_composite_key_is_within() -> None:
    schema = TableSchema("shop", "t", (Column("a", "int"), Column("b", "int")), ("a", "b"))
    images = buffer([image(schema, {"a": a, "b": 0}) for a in (1, 2, 3, 4)])
    closed = FieldRange.of(schema.columns[0], ["a", "b"], 2, 3, closed=True)
    assert closed is not None
    assert closed.holds(images)[0].tolist() == [False, True, True, False]
