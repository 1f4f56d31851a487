"""Row images become the columns that they were made of, and whatever else comes is refused, and never read past."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakehouse_cdc.images.program import row_metadata
from lakehouse_cdc.images.typed import columns as typed_columns
from lakehouse_cdc.images.typed.columns import ImageColumns, NotOurs, arrow_type
from lakehouse_cdc.model import variant
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.type_registry import Kind
from lakehouse_cdc.schema.types import Mapped
from tests.support.images.guarded import guarded_copy
from tests.support.rounds import rounds
from tests.support.row_images import EVERY_KIND, image, plain, random_row

WHOLE = TableSchema("shop", "t", (Column("id", "int", False), *EVERY_KIND), ("id",))


def at_the_edge(images: list[bytes]) -> pa.Array:
    """The images, behind the last of which memory ends: to read one byte more ends the process."""
    data = guarded_copy(np.frombuffer(b"".join(images) or b"\0", np.uint8))
    ends = np.cumsum([0, *map(len, images)], dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), len(images), [None, pa.py_buffer(ends), pa.py_buffer(data)])


def columns(schema: TableSchema, images: Any, chosen: Any = None) -> list[dict[str, Any]]:
    """The rows that are read of those images."""
    array = images if isinstance(images, pa.Array) else at_the_edge(images)
    places = np.arange(len(array)) if chosen is None else np.array(chosen, np.int64)
    names, found = [c.name for c in schema.captured], []
    for block in ImageColumns(schema).read(array, places):
        for column in block:
            column.validate(full=True)
        found += pa.RecordBatch.from_arrays(block, names).to_pylist()
    return found


def same(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    assert [[plain(v) for v in row.values()] for row in found] == [[plain(v) for v in row.values()] for row in wanted]


def test_rows_of_every_kind_come_back(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in small blocks, of some of the images, and of a slice; the images are VARIANTs that say the same."""
    chosen = random.Random(seed)
    rows = [random_row(chosen, WHOLE, chosen.choice((0.0, 0.2, 1.0))) for _ in range(300)]
    images = [image(WHOLE, row) for row in rows]
    for row, made in zip(rows[:40], images[:40], strict=True):
        read = variant.decode(made, row_metadata(WHOLE))
        assert {n: plain(v) for n, v in read.items()} == {n: plain(v) for n, v in row.items()}
    same(columns(WHOLE, images), rows)
    same(columns(WHOLE, pa.array([b"", *images, b"x"], pa.binary()).slice(1, 300)), rows)
    monkeypatch.setattr(typed_columns, "_BLOCK_BYTES", 100_000)
    monkeypatch.setattr(typed_columns, "_BLOCK_ROWS", 17)
    odd = [*images, b"no image"]
    same(columns(WHOLE, odd, range(0, 300, 3)), rows[::3])
    assert columns(WHOLE, [], []) == []


@pytest.mark.parametrize("fields", [1, 255, 256, 257, 700])
def test_an_object_of_any_number_of_fields(seed: int, fields: int) -> None:
    chosen = random.Random(seed)
    kinds = [chosen.choice(EVERY_KIND[:4]) for _ in range(fields)]
    wide = TableSchema("shop", "w", tuple(Column(f"c{i}", kind.type) for i, kind in enumerate(kinds)), ())
    rows = [random_row(chosen, wide) for _ in range(9)]
    same(columns(wide, [image(wide, row) for row in rows]), rows)


def test_a_byte_that_is_another_is_refused_or_another_value(seed: int) -> None:
    """What is read is what the format's plain reader says, and the image is the only one that is written of it."""
    chosen = random.Random(seed)
    small = tuple(c for c in EVERY_KIND if c.captured)
    names, refused, changed = row_metadata, 0, 0
    for _ in range(rounds(400)):
        schema = TableSchema("shop", "t", tuple(chosen.sample(small, chosen.randrange(1, 6))), ())
        row = random_row(chosen, schema)
        made = image(schema, row)
        if len(made) > 5000:
            continue
        odd = bytearray(made)
        for _ in range(chosen.choice((1, 1, 2))):
            odd[chosen.randrange(len(odd))] = chosen.choice((0, 0xFF, chosen.randrange(256)))
        cut = chosen.random()
        odd = odd[: chosen.randrange(len(odd))] if cut < 0.1 else odd + b"\0" if cut > 0.95 else odd
        try:
            [found] = columns(schema, [bytes(odd)])
        except NotOurs:
            refused += 1
            continue
        except (ValueError, OverflowError):
            continue  # a time that Python does not have
        said = variant.decode(bytes(odd), names(schema))
        assert {n: plain(v) for n, v in found.items()} == {n: plain(v) for n, v in said.items()}
        if "nan" not in str(found):  # of which Python keeps not all bits
            assert image(schema, found) == bytes(odd)
        changed += found != row
    assert refused > rounds(60)
    assert changed > rounds(12)


def test_other_forms_of_the_same_value_are_refused() -> None:
    """They are none of our encoder's, though Spark reads them."""
    one = TableSchema("shop", "t", (Column("n", "int"),), ())
    for value in (7, 2**40, "7", True):
        with pytest.raises(NotOurs):
            columns(one, [variant.encode({"n": value})[0]])
    assert columns(one, [variant.encode({"n": 70_000})[0]]) == [{"n": 70_000}]
    for odd in (variant.encode({"n": 70_000, "o": 1})[0], variant.encode(70_000)[0], b"", b"\x02"):
        with pytest.raises(NotOurs):
            columns(one, [odd])
    with pytest.raises(NotOurs):
        columns(one, pa.array([None, image(one, {"n": 1})], pa.binary()))
    assert columns(one, pa.array([None, image(one, {"n": 1})], pa.binary()), [1]) == [{"n": 1}]


def test_a_decimal_has_the_digits_of_its_column() -> None:
    for precision in (1, 9, 10, 18, 19, 38):
        wide = TableSchema("shop", "t", (Column("n", "decimal", precision=38, scale=0),), ())
        bytes_of = {9: 4, 18: 8, 38: 16}[next(n for n in (9, 18, 38) if precision <= n)]
        for number, fits in ((10**precision - 1, True), (1 - 10**precision, True), (10**precision, False)):
            if abs(number) >> (8 * bytes_of - 1):
                continue
            narrow = TableSchema("shop", "t", (Column("n", "decimal", precision=precision, scale=0),), ())
            head = {4: 8, 8: 9, 16: 10}[bytes_of]
            value = bytes([head << 2, 0]) + number.to_bytes(bytes_of, "little", signed=True)
            made = bytes([2, 1, 0, 0, len(value)]) + value
            if fits:
                assert columns(narrow, [made]) == [{"n": number}]
            else:
                with pytest.raises(NotOurs):
                    columns(narrow, [made])
            assert len(image(wide, {"n": number})) == 5 + 18


def test_json_has_no_column() -> None:
    assert arrow_type(Mapped(Kind.JSON)) is None
    assert all(arrow_type(Mapped(kind, 5, 2)) is not None for kind in Kind if kind is not Kind.JSON)
