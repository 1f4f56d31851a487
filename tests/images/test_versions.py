"""Which images of a system-versioned table count as rows: all kinds of events, wherever the column is, and damaged."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.images.binlog.row_events import DELETE, UPDATE, WRITE, RowEvents
from lakehouse_cdc.images.layout import LONG, TIMESTAMP2, VARCHAR, BinlogType
from lakehouse_cdc.images.program import ProgramSet
from lakehouse_cdc.images.rows.decode import count_rows, decode_rows
from lakehouse_cdc.model.variant import decode
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.versioning import Versioning

GREATEST = {"2038-01-19 03:14:07.999999": 0x7FFFFFFF << 24, "2106-02-07 06:28:15.999999": 0xFFFFFFFF << 24}
NUMBERS = {text: seconds | 999_999 for text, seconds in GREATEST.items()}
KINDS: dict[str, BinlogType] = {"int": (LONG, b""), "varchar": (VARCHAR, b"\x08\x00"), "timestamp": (TIMESTAMP2, b"\6")}
Row = tuple[int, str | None, int]  # id, note, end


def schema(place: int, greatest: str, *, captured: bool) -> TableSchema:
    """A table (id, note) with the end of its period at that place among its columns."""
    columns = [Column("id", "int", nullable=False), Column("note", "varchar", length=2, charset="utf8mb4")]
    columns.insert(place, Column("e", "timestamp", nullable=False, fraction=6, captured=captured))
    return TableSchema("d", "t", tuple(columns), ("id",), versioning=Versioning("s", "e", greatest))


def image(row: Row, table: TableSchema) -> bytes:
    number, note, end = row
    values = {
        "id": struct.pack("<I", number),
        "note": None if note is None else bytes([len(note)]) + note.encode(),
        "e": end.to_bytes(7, "big"),
    }
    bits = sum(1 << i for i, column in enumerate(table.columns) if values[column.name] is None)
    return bytes([bits]) + b"".join(values[column.name] or b"" for column in table.columns)


def changes(rows: list[Row], kind: int, table: TableSchema) -> list[tuple[str, int, object, object]]:
    """(op, id of the key, id and note before, and after) of one event, by the kernels."""
    sets = 2 if kind == UPDATE else 1
    data = bytes([3]) + b"\x07" * sets + b"".join(image(row, table) for row in rows)
    buffer = np.frombuffer(data, np.uint8).copy()
    one, none = np.array([len(data)], np.int64), np.zeros(1, np.int64)
    events = RowEvents(none, one, np.array([kind], np.uint8), none.astype(np.int32), none.astype(np.int32))
    programs = ProgramSet.of([table], [[KINDS[column.type] for column in table.columns]])
    found = decode_rows(buffer, events, programs)
    assert count_rows(buffer, events, programs).tolist() == [len(rows) // sets]
    assert found.ordinal.tolist() == [*range(found.n)]

    def shown(value: bytes | None) -> object:
        if value is None:
            return None
        names = decode(value, programs.metadata[0])
        return names["id"], names["note"]

    keys = [decode(key, programs.key_metadata[0])["id"] for key in found.key.to_arrow().to_pylist()]
    images = [[shown(v) for v in buffer.to_arrow().to_pylist()] for buffer in (found.before, found.after)]
    return list(zip(map(chr, found.op.tolist()), keys, *images, strict=True))


def wanted(rows: list[Row], kind: int, greatest: int) -> list[tuple[str, int, object, object]]:
    """What the rule of `schema.versioning` makes of it."""
    pairs: list[tuple[Row | None, Row | None]]
    if kind == UPDATE:
        pairs = list(zip(rows[::2], rows[1::2], strict=True))
    else:
        pairs = [(row, None) if kind == DELETE else (None, row) for row in rows]
    found: list[tuple[str, int, object, object]] = []
    for pair in pairs:
        old, new = (None if row is None or row[2] != greatest else row[:2] for row in pair)
        if old and new and old[0] == new[0]:
            found.append(("u", new[0], old, new))
            continue
        found += [("d", old[0], old, None)] if old else []
        found += [("c", new[0], None, new)] if new else []
    return found


@given(
    st.data(), st.sampled_from([*NUMBERS]), st.integers(0, 2), st.booleans(), st.sampled_from([WRITE, UPDATE, DELETE])
)
def test_what_counts_is_what_is_current(
    data: st.DataObject, greatest: str, place: int, captured: bool, kind: int
) -> None:
    ends = st.sampled_from([NUMBERS[greatest], NUMBERS[greatest] - 1, 1_700_000_000 << 24 | 5, 1 << 24])
    row = st.tuples(st.integers(0, 2), st.sampled_from([None, "", "a"]), ends)
    rows = data.draw(st.lists(row, min_size=1, max_size=6))
    rows += rows if kind == UPDATE and len(rows) % 2 else []
    table = schema(place, greatest, captured=captured)
    assert changes(rows, kind, table) == wanted(rows, kind, NUMBERS[greatest])
    # without versioning, each image is a row
    plain = replace(table, versioning=None)
    assert len(changes(rows, kind, plain)) >= len(rows) // (2 if kind == UPDATE else 1)


@pytest.mark.parametrize("kind", [WRITE, UPDATE, DELETE])
def test_the_greatest_end_of_another_server_is_refused(kind: int) -> None:
    before, since = NUMBERS.items()
    for greatest, other in ((before[0], since[1]), (since[0], before[1])):
        rows: list[Row] = [(1, None, other), (1, None, NUMBERS[greatest])]
        with pytest.raises(DefiniteError, match="greatest time of another server"):
            changes(rows, kind, schema(1, greatest, captured=False))


def test_an_image_that_is_no_row_is_not_looked_into() -> None:
    """A version that has ended may hold what no row may hold any more, here a zero date: it is passed over."""
    greatest = "2106-02-07 06:28:15.999999"
    rows: list[Row] = [(1, "a", 0), (2, "b", NUMBERS[greatest])]
    table = schema(1, greatest, captured=True)
    assert changes(rows, WRITE, table) == [("c", 2, None, (2, "b"))]
    with pytest.raises(DefiniteError, match="a zero date"):
        changes(rows, WRITE, replace(table, versioning=None))


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_event_without_the_end_is_refused(place: int) -> None:
    """Whether or not the column is captured: who knows whether its images are rows?"""
    table = schema(place, "2106-02-07 06:28:15.999999", captured=False)
    lacking = replace(table, columns=tuple(c for c in table.columns if c.name != "e"))
    data = bytes([3, 7 & ~(1 << place)]) + image((1, "a", 0), lacking)
    buffer = np.frombuffer(data, np.uint8).copy()
    one, none = np.array([len(data)], np.int64), np.zeros(1, np.int64)
    events = RowEvents(none, one, np.array([WRITE], np.uint8), none.astype(np.int32), none.astype(np.int32))
    programs = ProgramSet.of([table], [[KINDS[column.type] for column in table.columns]])
    with pytest.raises(DefiniteError, match="does not hold all columns: e is not in it"):
        decode_rows(buffer, events, programs)


def test_an_end_of_another_type_is_refused() -> None:
    """As servers with mysql56_temporal_format=OFF have it; also where the column is not captured."""
    table = schema(1, "2106-02-07 06:28:15.999999", captured=False)
    kinds = [(TIMESTAMP2, b"\3") if column.name == "e" else KINDS[column.type] for column in table.columns]
    with pytest.raises(DefiniteError, match="the end of its period, has the binlog type"):
        ProgramSet.of([table], [kinds])


def test_every_cut_is_noticed() -> None:
    """Damaged bytes give an error, never a read outside of the event."""
    table = schema(1, "2106-02-07 06:28:15.999999", captured=False)
    whole = bytes([3, 7, 7]) + image((1, "a", 9), table) + image((1, "b", NUMBERS["2106-02-07 06:28:15.999999"]), table)
    programs = ProgramSet.of([table], [[KINDS[column.type] for column in table.columns]])
    for size in range(4, len(whole)):
        buffer = np.frombuffer(whole, np.uint8).copy()
        one, none = np.array([size], np.int64), np.zeros(1, np.int64)
        events = RowEvents(none, one, np.array([UPDATE], np.uint8), none.astype(np.int32), none.astype(np.int32))
        with pytest.raises(DefiniteError):
            decode_rows(buffer, events, programs)


def test_a_schema_is_stored_with_its_period() -> None:
    table = schema(1, "2106-02-07 06:28:15.999999", captured=True)
    assert TableSchema.from_json(table.to_json()) == table
    assert table.id != replace(table, versioning=None).id
    assert "versioning" not in replace(table, versioning=None).to_dict()
