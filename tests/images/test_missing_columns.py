"""Images that lack excluded columns say of the others what whole images say."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.images.binlog.row_events import DELETE, UPDATE, WRITE, RowEvents
from lakehouse_cdc.images.layout import LONG, VARCHAR, BinlogType
from lakehouse_cdc.images.program import ProgramSet
from lakehouse_cdc.images.rows.decode import count_rows, decode_rows
from lakehouse_cdc.schema.table import Column, TableSchema

Row = list[int | None]
_KINDS = (WRITE, UPDATE, DELETE)


def image(row: Row, present: list[bool]) -> bytes:
    """A row image: NULL bits of the columns that are there, then their values; odd columns are short texts."""
    there = [(i, row[i]) for i in range(len(row)) if present[i]]
    bits = sum(1 << n for n, (_, value) in enumerate(there) if value is None)
    out = bits.to_bytes((len(there) + 7) // 8, "little")
    for i, value in there:
        if value is not None:
            out += b"\x04" + struct.pack("<I", value) if i % 2 else struct.pack("<I", value)
    return out


def content(rows: list[Row], kind: int, before: list[bool], after: list[bool]) -> bytes:
    """A rows event from the count of columns on; an update is of two rows."""
    columns = len(before)
    sets = {WRITE: [after], DELETE: [before], UPDATE: [before, after]}[kind]
    head = bytes([columns]) + b"".join(
        sum(1 << i for i, has in enumerate(s) if has).to_bytes((columns + 7) // 8, "little") for s in sets
    )
    return head + b"".join(image(row, sets[i % len(sets)]) for i, row in enumerate(rows))


def column(i: int, captured: bool) -> Column:
    if i % 2:
        return Column(f"c{i}", "varchar", length=2, charset="utf8mb4", collation="utf8mb4_bin", captured=captured)
    return Column(f"c{i}", "int", captured=captured)


def decoded(data: bytes, kind: int, schema: TableSchema) -> tuple[object, ...]:
    kinds: list[BinlogType] = [(VARCHAR, b"\x08\x00") if i % 2 else (LONG, b"") for i in range(len(schema.columns))]
    one, none = np.array([len(data)], np.int64), np.zeros(1, np.int64)
    events = RowEvents(none, one, np.array([kind], np.uint8), none.astype(np.int32), none.astype(np.int32))
    programs = ProgramSet.of([schema], [kinds])
    buffer = np.frombuffer(data, np.uint8).copy()
    found = decode_rows(buffer, events, programs)
    images = [b.to_arrow().to_pylist() for b in (found.key, found.before, found.after)]
    return (found.op.tolist(), *images, count_rows(buffer, events, programs).tolist())


def _number(characters: list[int]) -> int:
    return int.from_bytes(bytes(characters), "little")


@settings(max_examples=60)
@given(st.data(), st.integers(1, 20), st.sampled_from(_KINDS))
def test_excluded_columns_may_be_missing(data: st.DataObject, columns: int, kind: int) -> None:
    captured = [True, *data.draw(st.lists(st.booleans(), min_size=columns - 1, max_size=columns - 1))]
    schema = TableSchema("d", "t", tuple(column(i, own) for i, own in enumerate(captured)), ("c0",))
    value = st.one_of(st.none(), st.lists(st.integers(0x20, 0x7E), min_size=4, max_size=4).map(_number))
    rows: list[Row] = []
    for _ in range(data.draw(st.integers(1, 3)) * (2 if kind == UPDATE else 1)):
        rest = data.draw(st.lists(value, min_size=columns - 1, max_size=columns - 1))
        rows.append([data.draw(st.integers(0, 9)), *rest])
    before, after = ([own or data.draw(st.booleans()) for own in captured] for _ in range(2))
    every = [True] * columns
    whole = decoded(content(rows, kind, every, every), kind, schema)
    assert decoded(content(rows, kind, before, after), kind, schema) == whole


@pytest.mark.parametrize("kind", _KINDS)
def test_a_captured_column_that_is_missing_is_named(kind: int) -> None:
    schema = TableSchema("d", "t", tuple(column(i, i != 1) for i in range(3)), ("c0",))
    first = [True, False, False]
    data = content([[1, 2, 3], [1, 2, 4]], kind, first, first)
    with pytest.raises(DefiniteError, match=r"d\.t does not hold all columns: c2 is not in it"):
        decoded(data, kind, schema)
