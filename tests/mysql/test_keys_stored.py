"""Keys as the server stores and prints them: what a row gives, a key image gives, and no byte of it is special."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pytest

from lakehouse_cdc.mysql.catalog import read_tables
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, Session, connect
from lakehouse_cdc.mysql.key_range import KeySpace
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.testing import MySqlServer


@pytest.fixture
def session(mysql: MySqlServer, database: str) -> Iterator[Session]:
    with connect(ConnectionOptions.from_url(mysql.url)) as session:
        session.query(f"USE {database}")
        yield session


def _table(session: Session, columns: str, key: str) -> KeySpace:
    session.query(f"CREATE TABLE t ({columns}, payload INT, PRIMARY KEY ({key}))")
    name = f"{session.scalar('SELECT DATABASE()')}.t"
    return KeySpace(read_tables(session, Selection([name]))[name])


def _bounds(session: Session, space: KeySpace, rows: int) -> list[Any]:
    bounds: list[Any] = [None]
    while (cut := space.cut(session, bounds[-1], rows)) is not None:
        bounds.append(cut)
    return bounds


def _sizes(session: Session, space: KeySpace, bounds: list[Any]) -> list[int]:
    ends = [*bounds[1:], None]
    counts = []
    for lo, hi in zip(bounds, ends, strict=True):
        where = space.where(lo, hi)
        counts.append(session.scalar(f"SELECT COUNT(*) FROM t{' WHERE ' + where if where else ''}"))
    return counts


@pytest.mark.parametrize("charset", ["latin1", "utf8mb4", "ascii"])
@pytest.mark.parametrize("type_", ["VARCHAR(20)", "CHAR(20)", "VARBINARY(20)"])
def test_no_character_of_a_key_is_special(session: Session, type_: str, charset: str) -> None:
    text = "" if "BINARY" in type_ else f" CHARACTER SET {charset} COLLATE {charset}_bin"
    space = _table(session, f"`k'%s` {type_}{text}", "`k'%s`")
    keys = [b"", b"\x00", b"\x00\x00", b"%", b"%s", b"%(a)s", b"'", b"\\", b"\\'", b'"', b"`", b"a\\0", b"\x1a", b"a\n"]
    for key in keys:
        session.query(f"INSERT INTO t VALUES (X'{key.hex()}', 1)")
    bounds = _bounds(session, space, 1)
    assert _sizes(session, space, bounds) == [1] * len(keys)
    shown = [key.hex().upper() if "BINARY" in type_ else key.decode() for key in keys]
    first = space.step(session, None, 0)  # not always '': padded with a space, it comes after a NUL
    assert first is not None
    assert sorted(bound[0] for bound in [first, *bounds[1:]]) == sorted(shown)
    for bound in bounds[1:]:
        below = session.scalar(f"SELECT COUNT(*) FROM t WHERE {space.where(None, bound)}")
        assert sum(space.below(session, [[key] for key in shown], bound)) == below


@pytest.mark.parametrize(
    ("type_", "stored"),
    [
        ("DATE", ["0000-00-00", "2020-00-00", "2020-05-00", "2020-05-01", "9999-12-31"]),
        ("DATETIME(2)", ["0000-00-00 00:00:00.00", "2020-00-00 01:00:00.00", "2020-05-01 00:00:00.01"]),
        ("TIMESTAMP(3)", ["0000-00-00 00:00:00.000", "1970-01-01 00:00:01.000", "2020-05-01 00:00:00.010"]),
    ],
)
def test_zero_and_partial_dates_are_keys_as_well(session: Session, type_: str, stored: list[str]) -> None:
    space = _table(session, f"k {type_} NOT NULL", "k")
    for value in stored:
        session.query(f"INSERT INTO t VALUES ('{value}', 1)")
    bounds = _bounds(session, space, 1)
    assert bounds == [None, *([value] for value in stored[1:])]
    assert _sizes(session, space, bounds) == [1] * len(stored)
    for i, bound in enumerate(stored):
        assert space.below(session, [[value] for value in stored], [bound]) == [j < i for j in range(len(stored))]


def test_a_timestamp_key_is_utc_whoever_writes_it(session: Session, mysql: MySqlServer) -> None:
    """The hour that a zone repeats in autumn holds different keys; a range of one of them holds that one."""
    space = _table(session, "k TIMESTAMP(1) NOT NULL", "k")
    with connect(ConnectionOptions.from_url(mysql.url)) as writer:
        writer.query("SET time_zone = '-05:30'")
        for i, wall in enumerate(("2024-10-26 19:00:00.5", "2024-10-26 20:00:00.5")):
            writer.query(f"INSERT INTO {space.table} VALUES ('{wall}', {i})")
    images = [datetime(2024, 10, 27, hour, 30, 0, 500000, timezone.utc) for hour in (0, 1)]
    keys = [space.cursor({"k": image}) for image in images]
    assert keys == [["2024-10-27 00:30:00.5"], ["2024-10-27 01:30:00.5"]]
    assert _bounds(session, space, 1) == [None, keys[1]]
    assert session.query(f"SELECT payload FROM t WHERE {space.where(keys[0], keys[1])}") == [(0,)]
    assert session.query(f"SELECT payload FROM t WHERE {space.where(keys[1], None)}") == [(1,)]


@pytest.mark.parametrize(
    ("type_", "stored", "image"),
    [
        ("TINYINT", "-128", -128),
        ("BIGINT", "-9223372036854775808", -(2**63)),
        ("BIGINT UNSIGNED", "18446744073709551615", Decimal(2**64 - 1)),
        ("DECIMAL(38,4)", "-1234567890123456789012345678901234.5", Decimal("-1234567890123456789012345678901234.5000")),
        ("DECIMAL(5,2)", "0", Decimal("0.00")),
        ("DECIMAL(20,0)", "100", Decimal(100)),
        ("DATE", "'0001-02-03'", date(1, 2, 3)),
        ("DATETIME", "'0999-12-31 23:59:59'", datetime(999, 12, 31, 23, 59, 59)),
        ("DATETIME(6)", "'2024-02-29 00:00:00.000001'", datetime(2024, 2, 29, 0, 0, 0, 1)),
        ("TIMESTAMP(3)", "'2038-01-19 03:14:07.5'", datetime(2038, 1, 19, 3, 14, 7, 500000, timezone.utc)),
        ("VARCHAR(9) CHARACTER SET latin1", "X'e920'", "é "),
        ("CHAR(9) CHARACTER SET utf8mb4", "'\U0001f600 '", "\U0001f600"),
        ("BINARY(4)", "X'80'", b"\x80\x00\x00\x00"),
        ("VARBINARY(4)", "X'8000'", b"\x80\x00"),
    ],
)
def test_a_row_and_its_key_image_give_one_cursor(session: Session, type_: str, stored: str, image: object) -> None:
    space = _table(session, f"k {type_} NOT NULL", "k")
    session.query(f"INSERT INTO t VALUES ({stored}, 1)")
    cursor = space.cursor({"k": image})
    assert space.step(session, None, 0) == cursor
    assert session.query(f"SELECT payload FROM t WHERE {space.where(cursor, None)}") == [(1,)]
    assert session.query(f"SELECT payload FROM t WHERE {space.where(None, cursor)}") == []
    assert space.contains(session, [cursor], cursor, None) == [True]


@pytest.mark.parametrize("collation", ["utf8mb4_0900_ai_ci", "utf8mb4_general_ci", "latin1_swedish_ci", "utf8mb4_bin"])
def test_spaces_at_the_end_of_a_char_are_not_part_of_it(session: Session, collation: str) -> None:
    """'a ' is not what CHAR stores: an index range takes it for 'a', a comparison of NO PAD literals does not."""
    space = _table(session, f"k CHAR(9) CHARACTER SET {collation.split('_')[0]} COLLATE {collation}, l INT", "k, l")
    keys = [[text, n] for text in ("", "a", "a\t", "aGG") for n in (0, 1)]
    for text, n in keys:
        session.query(f"INSERT INTO t VALUES (X'{str(text).encode().hex()}', {n}, 1)")
    for text, n in (("a ", 0), ("a  ", 1), (" ", 1), ("a\t ", 1)):
        bound = space.cursor({"k": text, "l": n})
        assert bound == [text.rstrip(" "), n]
        rows = session.query(f"SELECT k, l FROM t WHERE {space.where(None, bound)}")
        below = [key for key, yes in zip(keys, space.below(session, keys, bound), strict=True) if yes]
        assert sorted(below) == sorted([k, n] for k, n in rows)


def test_the_estimate_is_not_a_memory_of_an_empty_table(session: Session) -> None:
    space = _table(session, "k INT", "k")
    database = session.scalar("SELECT DATABASE()")
    session.query(f"SELECT TABLE_ROWS FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA = '{database}'")
    assert space.estimate(session) <= 1
    session.query("INSERT INTO t VALUES " + ", ".join(f"({n}, 0)" for n in range(5000)))
    assert 2500 <= space.estimate(session) <= 10000
    session.query("DELETE FROM t WHERE k % 50")  # what is left is sparse: never a chunk for each number
    assert len(_bounds(session, space, 20)) <= 50
