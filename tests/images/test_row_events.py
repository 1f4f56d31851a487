"""Rows events of a real server: what becomes of them, what is refused by name, and that damage never reads outside."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pymysql
import pytest

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.images import buffers
from lakehouse_cdc.images.binlog.row_events import RowEvents
from lakehouse_cdc.images.buffers import Sink
from lakehouse_cdc.images.program import ProgramSet
from lakehouse_cdc.images.rows import decode as row_decoder
from lakehouse_cdc.images.rows.decode import ChangeImages, count_rows, decode_rows
from lakehouse_cdc.model.variant import decode
from lakehouse_cdc.schema.charsets import CHARSETS
from lakehouse_cdc.schema.representation import DATES
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.type_registry import MARIADBS
from tests.support.images.binlog_file import Log, read_log
from tests.support.images.guarded import guarded, guarded_copy
from tests.support.images.tables import ID, changes, create, select
from tests.support.positions import binlog_end
from tests.support.rounds import rounds

TEXT = Column("s", "varchar", length=300, charset="latin1")
WIDE = (
    *(
        ID,
        TEXT,
        Column("d", "decimal", precision=38, scale=10),
        Column("b", "binary", length=9),
        Column("l", "longblob"),
    ),
    *(Column("at", "datetime", fraction=6), Column("ts", "timestamp", fraction=3), Column("day", "date")),
    *(Column("u", "bigint", unsigned=True), Column("c", "char", length=255, charset="utf8mb4"), Column("f", "float")),
)


def run(session: pymysql.Connection[Any], *statements: str) -> None:
    with session.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def table(database: str, *columns: Column, key: Sequence[str] = ("id",)) -> TableSchema:
    return TableSchema(database, "t", columns, tuple(key))


def heads(images: ChangeImages) -> list[tuple[str, int]]:
    return [(chr(op), int(ordinal)) for op, ordinal in zip(images.op, images.ordinal, strict=True)]


def wide_log(session: pymysql.Connection[Any], database: str) -> tuple[ProgramSet, Log]:
    """A table of most types, with inserts, updates, a moved key and deletes."""
    schema = table(database, *WIDE)
    start = create(session, schema)
    values = (
        "'äé€', -12345678901234567890.5, x'0102', REPEAT('z', 300), '2024-02-29 12:00:00.123456', '2024-01-01 0:0:1.5'"
    )
    rest = "'1999-12-31', 18446744073709551615, '日本 ', 5592405.5"
    run(
        session,
        *(
            f"INSERT INTO {database}.t VALUES ({i}, {values}, {rest}), ({i + 1}, {', '.join(['NULL'] * 10)})"
            for i in (1, 3)
        ),
        f"UPDATE {database}.t SET s = 'x', l = NULL",
        f"UPDATE {database}.t SET id = id + 10",
        f"DELETE FROM {database}.t",
    )
    log = read_log(session, start, [schema])
    return ProgramSet.of([schema], log.maps), log


def test_ordinals_count_through_a_transaction(session: pymysql.Connection[Any], database: str) -> None:
    schema = table(database, ID, TEXT)
    start = create(session, schema)
    name = f"{database}.t"
    run(session, "BEGIN", f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')", f"UPDATE {name} SET id = 3 WHERE id = 1")
    run(session, f"UPDATE {name} SET s = 'c' WHERE id = 3", "COMMIT", f"DELETE FROM {name}")
    images = changes(session, start, schema)
    in_order = [("c", 0), ("c", 1), ("d", 2), ("c", 3), ("u", 4), ("d", 0), ("d", 1)]
    assert heads(images) == in_order
    assert images.event.tolist() == [0, 0, 1, 1, 2, 3, 3]
    names = ProgramSet.of([schema]).key_metadata[0]
    assert [decode(images.key[i] or b"", names)["id"] for i in range(images.n)] == [1, 2, 1, 3, 3, 2, 3]
    assert images.ordinals == 2
    assert [images.before[i] is None for i in range(images.n)] == [op == "c" for op, _ in in_order]
    assert [images.after[i] is None for i in range(images.n)] == [op == "d" for op, _ in in_order]


def test_a_transaction_goes_on_in_the_next_buffer(session: pymysql.Connection[Any], database: str) -> None:
    programs, log = wide_log(session, database)
    events = replace(log.events, txn=np.zeros_like(log.events.txn))
    whole = decode_rows(log.buffer, events, programs)
    for cut in range(len(events) + 1):
        first = decode_rows(log.buffer, _part(events, slice(cut)), programs)
        rest = decode_rows(log.buffer, _part(events, slice(cut, None), first.ordinals), programs)
        assert heads(first) + heads(rest) == heads(whole)


def test_arrow_shares_the_bytes(session: pymysql.Connection[Any], database: str) -> None:
    programs, log = wide_log(session, database)
    images = decode_rows(log.buffer, log.events, programs)
    for column in (images.key, images.before, images.after):
        array = column.to_arrow()
        array.validate(full=True)
        assert array.to_pylist() == [column[i] for i in range(images.n)]
        assert array.buffers()[2].address == column.data.ctypes.data
        assert array.null_count == sum(column[i] is None for i in range(images.n))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (Column("v", "date"), "'0000-00-00'"),
        (Column("v", "date"), "'2024-00-10'"),
        (Column("v", "datetime", fraction=2), "'2024-05-00 10:00:00'"),
        (Column("v", "timestamp"), "'0000-00-00 00:00:00'"),
        (Column("v", "date"), "'2024-02-31'"),
        (Column("v", "datetime"), "'2023-02-29 01:02:03'"),
    ],
)
def test_dates_that_no_calendar_has_are_refused(
    session: pymysql.Connection[Any], database: str, column: Column, value: str
) -> None:
    schema = table(database, ID, column)
    start = create(session, schema)
    run(session, "SET sql_mode = 'ALLOW_INVALID_DATES'", f"INSERT INTO {database}.t VALUES (1, {value})")
    for read in (lambda: changes(session, start, schema), lambda: select(session, schema)):
        with pytest.raises(DefiniteError, match=rf"column v of {database}\.t holds a (zero date|day that)"):
            read()


@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_partial_images_are_refused(session: pymysql.Connection[Any], database: str, image: str) -> None:
    schema = table(database, ID, TEXT, Column("b", "blob"))
    start = create(session, schema)
    run(session, f"INSERT INTO {database}.t VALUES (1, 'a', 'b')", f"SET SESSION binlog_row_image = {image}")
    run(session, f"UPDATE {database}.t SET s = 'c'")
    for read in (decode_rows, count_rows):
        log = read_log(session, start, [schema])
        with pytest.raises(DefiniteError, match=rf"{database}\.t does not hold all columns.*binlog_row_image = FULL"):
            read(log.buffer, log.events, ProgramSet.of([schema]))


def test_another_number_of_columns_is_refused(session: pymysql.Connection[Any], database: str) -> None:
    schema = table(database, ID, TEXT)
    start = create(session, schema)
    run(session, f"INSERT INTO {database}.t VALUES (1, 'a')")
    log = read_log(session, start, [schema])
    wider = table(database, ID, TEXT, Column("x", "int"))
    with pytest.raises(DefiniteError, match=rf"{database}\.t has another number of columns"):
        decode_rows(log.buffer, log.events, ProgramSet.of([wider]))
    with pytest.raises(DefiniteError, match="2 columns in the binlog and 3"):
        ProgramSet.of([wider], log.maps)
    with pytest.raises(DefiniteError, match=r"column s of .* not int"):
        ProgramSet.of([table(database, ID, Column("s", "int"))], log.maps)


EXCLUDED = (
    "e ENUM('a','b') NULL, s SET('x','y','z') NULL, j JSON NULL, b BIT(13) NULL, t TIME(3) NULL, y YEAR NULL, "
    "g GEOMETRY NULL, u CHAR(200) CHARACTER SET utf16 NULL, d DECIMAL(65, 2) NULL, w VARCHAR(9) CHARACTER SET gbk NULL"
)


def test_excluded_columns_of_any_type_are_passed_over(session: pymysql.Connection[Any], database: str) -> None:
    names = [
        part.split()[0] for part in EXCLUDED.replace("('a','b')", "").replace("('x','y','z')", "").split(" NULL, ")
    ]
    types = ["enum", "set", "json", "bit", "time", "year", "geometry", "char", "decimal", "varchar"]
    others = tuple(Column(n, t, precision=65, captured=False) for n, t in zip(names, types, strict=True))
    schema = table(database, ID, *others, Column("z", "int"))
    start = binlog_end(session)
    run(session, f"CREATE TABLE {database}.t (id INT PRIMARY KEY, {EXCLUDED}, z INT)")
    values = "'b', 'x,z', '[1, 2]', 4097, '-01:02:03.5', 2024, ST_GeomFromText('POINT(1 2)'), 'uu', -1.5, 'w'"
    run(session, f"INSERT INTO {database}.t VALUES (1, {values}, 7), (2, {', '.join(['NULL'] * 10)}, 8)")
    images = changes(session, start, schema)
    names_of = ProgramSet.of([schema]).metadata[0]
    assert [decode(images.after[i] or b"", names_of) for i in range(2)] == [{"id": 1, "z": 7}, {"id": 2, "z": 8}]
    log = read_log(session, start, [schema])
    with pytest.raises(DefiniteError, match=r"column e of .* needs the binlog's table map"):
        decode_rows(log.buffer, log.events, ProgramSet.of([schema]))


def guard_outputs(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Let every output end at the end of its memory, and begin with room for `most` bytes at most."""

    def sink(rows: int, size: int) -> Sink:
        out = Sink(guarded(min(size, most)), guarded(rows + 1, np.int64), guarded(rows))
        out.offsets[0] = 0
        return out

    for module in (buffers, row_decoder):
        monkeypatch.setattr(module, "grown", guarded_copy)
    monkeypatch.setattr(Sink, "of", staticmethod(sink))


def test_outputs_grow_without_losing_a_row(
    session: pymysql.Connection[Any], database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, log = wide_log(session, database)
    whole = decode_rows(log.buffer, log.events, programs)

    guard_outputs(monkeypatch, most=1)
    grown = decode_rows(log.buffer, log.events, programs)
    assert heads(grown) == heads(whole)
    for a, b in ((grown.key, whole.key), (grown.before, whole.before), (grown.after, whole.after)):
        assert [a[i] for i in range(whole.n)] == [b[i] for i in range(whole.n)]


def attempt(buffer: Any, events: RowEvents, programs: ProgramSet) -> None:
    for read in (decode_rows, count_rows):
        with suppress(DefiniteError):
            read(buffer, events, programs)


def test_damaged_events_give_an_error_or_a_result(
    session: pymysql.Connection[Any], database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, log = wide_log(session, database)
    guard_outputs(monkeypatch, most=600)
    dice = random.Random(1)
    for e in range(len(log.events)):
        start, end = int(log.events.start[e]), int(log.events.end[e])
        raw = log.buffer[start:end]
        for size in range(0, len(raw), 1 + len(raw) // 300):
            attempt(guarded_copy(raw[:size]), _one(log.events, e, size), programs)
        for _ in range(rounds(30)):
            damaged = guarded_copy(raw)
            for _ in range(dice.randrange(1, 4)):
                damaged[dice.randrange(len(damaged))] = dice.choice(
                    (0, 1, 0x7F, 0x80, 0xFB, 0xFC, 0xFE, 0xFF, dice.randrange(256))
                )
            attempt(damaged, _one(log.events, e, len(damaged)), programs)


def test_random_bytes_give_an_error_or_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    programs, dice = ProgramSet.of([table("db", *WIDE)]), random.Random(2)
    guard_outputs(monkeypatch, most=300)
    for _ in range(rounds(50)):
        raw = guarded_copy(
            np.frombuffer(bytes([len(WIDE), 0xFF, 0xFF]) + dice.randbytes(dice.randrange(200)), np.uint8)
        )
        for kind in (0, 1, 2):
            one = np.array([0]), np.array([len(raw)]), np.array([kind], np.uint8)
            attempt(raw, RowEvents(*one, np.zeros(1, np.int32), np.zeros(1, np.int32)), programs)


OTHERS = (
    *(Column("v", "time", fraction=n) for n in range(7)),
    *(Column("v", "datetime", fraction=n, carried="text") for n in range(7)),
    *(Column("v", kind, carried=choice) for kind in DATES for choice in ("null", "text")),
    *(Column("v", "bit", length=n) for n in (1, 9, 64)),
    *(Column("v", "decimal", precision=n, scale=min(n, 30)) for n in (1, 9, 18, 39, 65)),
    *(Column("v", "varchar", length=300, charset=charset) for charset in CHARSETS),
    *(Column("v", "char", length=60, charset=charset) for charset in CHARSETS),
    *(Column("v", kind, charset="utf8mb4", values=("a", "", "ö" * 70)) for kind in ("enum", "set")),
    *(Column("v", kind) for kind in (*MARIADBS, "year", "json", "vector", "geometry", "longblob")),
    *(Column("v", "year", carried="text"), Column("v", "json", carried="text"), Column("v", "binary", length=255)),
)


def test_random_bytes_as_every_type_give_an_error_or_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    guard_outputs(monkeypatch, most=300)
    dice = random.Random(3)
    for column in OTHERS:
        programs = ProgramSet.of([table("db", ID, column)])
        for _ in range(rounds(5)):
            value = dice.randbytes(dice.randrange(80))
            if dice.random() < 0.7:  # a length that fits, of one byte to four
                value = len(value).to_bytes(dice.choice((1, 2, 4)), "little") + value
            raw = guarded_copy(np.frombuffer(b"\x02\xff\0" + dice.randbytes(4) + value, np.uint8))
            one = np.array([0]), np.array([len(raw)]), np.zeros(1, np.uint8)
            attempt(raw, RowEvents(*one, np.zeros(1, np.int32), np.zeros(1, np.int32)), programs)


def test_an_event_outside_of_the_buffer_is_refused() -> None:
    programs = ProgramSet.of([table("db", ID)])
    for start, end in ((0, 9), (-1, 4), (9, 10)):
        events = RowEvents(
            np.array([start]), np.array([end]), np.zeros(1, np.uint8), np.zeros(1, np.int32), np.zeros(1, np.int32)
        )
        for read in (decode_rows, count_rows):
            with pytest.raises(DefiniteError):
                read(guarded(8), events, programs)


def _part(events: RowEvents, which: slice, ordinal_base: int = 0) -> RowEvents:
    kinds = events.kind[which], events.table[which], events.txn[which]
    return RowEvents(events.start[which], events.end[which], *kinds, ordinal_base)


def _one(events: RowEvents, e: int, size: int) -> RowEvents:
    kinds = events.kind[e : e + 1], events.table[e : e + 1], events.txn[e : e + 1]
    return RowEvents(np.array([0]), np.array([size]), *kinds)
