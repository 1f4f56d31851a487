"""The one oracle: a row read by SELECT and the same row in the binlog are the same bytes, for every type.

And both are what was inserted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from itertools import zip_longest
from typing import Any

import pymysql
import pytest

from lakehouse_cdc.schema.table import Column, TableSchema
from tests.support.images.tables import ID, SESSION, agree, compare, create, expected, insert


def check(session: pymysql.Connection[Any], database: str, columns: Sequence[tuple[Column, Sequence[Any]]]) -> None:
    """One table of all `columns` (their names are made here), each with its own values; short ones end with NULLs."""
    named = [replace(column, name=f"v{i}") for i, (column, _) in enumerate(columns)]
    schema = TableSchema(database, "t", (ID, *named), ("id",))
    rows = list(zip_longest(*(values for _, values in columns), [None]))
    rows = [row[:-1] for row in rows] + [(None,) * len(named)]
    found = agree(session, schema, [(i, *row) for i, row in enumerate(rows)])
    for i, column in enumerate(named):
        assert [row[column.name] for row in found] == [expected(column, row[i]) for row in rows], column.declared


def integers(bits: int, unsigned: bool) -> list[int]:
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    numbers = {low, low + 1, -128, -1, 0, 1, 100, 127, 128, high // 2, high // 2 + 1, high - 1, high}
    return sorted(n for n in numbers if low <= n <= high)


def test_integers(session: pymysql.Connection[Any], database: str) -> None:
    widths = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
    check(
        session,
        database,
        [(Column("", n, unsigned=u), integers(bits, u)) for n, bits in widths.items() for u in (False, True)],
    )


DECIMALS = [
    *((1, 0), (1, 1), (2, 1), (5, 2), (9, 0), (9, 9), (10, 0), (10, 10), (10, 2), (18, 0), (18, 9), (18, 18)),
    *((19, 0), (19, 10), (20, 19), (27, 9), (30, 30), (36, 18), (37, 1), (38, 0), (38, 9), (38, 10), (38, 30)),
]


def decimals(precision: int, scale: int) -> list[Decimal]:
    most = 10**precision - 1
    digits = int("1234567890" * 4) % 10**precision
    numbers = {0, 1, -1, most, -most, most // 2, digits, -digits, 10 ** (precision - 1), -(10 ** (precision // 2))}
    return [Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)) for n in sorted(numbers)]


def test_decimals(session: pymysql.Connection[Any], database: str) -> None:
    columns = [(Column("", "decimal", precision=p, scale=s), decimals(p, s)) for p, s in DECIMALS]
    positive = [Decimal("0.000"), Decimal("0.001"), Decimal("999999999.999")]
    columns.append((Column("", "decimal", precision=12, scale=3, unsigned=True), positive))
    check(session, database, columns)


FLOATS = [0.0, -0.0, 1.0, -1.5, 5592405.5, 16777216.0, 0.1, 1e-30, 3.4028234663852886e38, -3.4028234663852886e38]


@pytest.mark.parametrize("name", ["float", "double"])
def test_floats_keep_every_bit(session: pymysql.Connection[Any], database: str, name: str) -> None:
    values = [*FLOATS, 1.401298464324817e-45, 1.1754943508222875e-38]
    if name == "double":
        values += [1.7976931348623157e308, 2.2250738585072014e-308, 0.1 + 0.2, -1 / 3, 9007199254740993.0]
    column = Column("v", name)
    schema = TableSchema(database, "t", (ID, column), ("id",))
    found = [row["v"] for row in agree(session, schema, [*enumerate(values)])]
    for value, row in zip([expected(column, v) for v in values], found, strict=True):
        assert (row, math.copysign(1, row)) == (value, math.copysign(1, value))


TEXTS = [
    "",
    "a",
    "a  ",
    "  a",
    "ä",
    "é\u0301",
    "日本語",
    "\U0001f600\U00010348",
    "x" * 63,
    "x" * 64,
    "ä" * 32,
    "\0\x01\x7f",
]


@pytest.mark.parametrize("charset", ["utf8mb4", "utf8mb3", "latin1", "ascii"])
def test_texts(session: pymysql.Connection[Any], database: str, charset: str) -> None:
    most = {"utf8mb4": 0x10FFFF, "utf8mb3": 0xFFFF, "latin1": 0xFF, "ascii": 0x7F}[charset]
    values = [text for text in TEXTS if max(map(ord, text), default=0) <= most]
    columns = []
    for name, length in (("char", 64), ("char", 255), ("varchar", 64), ("varchar", 85), ("varchar", 300)):
        longest = ("x" if charset == "ascii" else "ä") * length
        columns.append((Column("", name, length=length, charset=charset), [*values, longest, "y" * length]))
    check(session, database, [*columns, (Column("", "tinytext", charset=charset), values)])


def test_a_session_that_pads_char(session: pymysql.Connection[Any], database: str) -> None:
    schema = TableSchema(database, "t", (ID, Column("v", "char", length=9, charset="latin1")), ("id",))
    start = create(session, schema)
    insert(session, schema, [(1, "a"), (2, ""), (3, " b ")])
    with session.cursor() as cursor:
        cursor.execute("SET sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'")
    assert [row["v"] for row in compare(session, schema, start)] == ["a", "", " b"]


@pytest.mark.parametrize("name", ["char", "varchar"])
def test_all_bytes_of_latin1(session: pymysql.Connection[Any], database: str, name: str) -> None:
    column = Column("v", name, length=3, charset="latin1")
    schema = TableSchema(database, "t", (ID, column), ("id",))
    codes = [bytes([code]) for code in range(256)]
    found = agree(session, schema, [*enumerate(codes)])
    with session.cursor() as cursor:
        cursor.execute(f"SELECT HEX(CONVERT(v USING utf8mb4)) FROM {database}.t ORDER BY id")
        served = [bytes.fromhex(row[0].decode() if isinstance(row[0], bytes) else row[0]) for row in cursor.fetchall()]
    assert [row["v"].encode() for row in found] == served
    assert found[0x80]["v"] == "€"
    assert found[0x81]["v"] == "\x81"


def test_long_values(session: pymysql.Connection[Any], database: str) -> None:
    columns: list[tuple[Column, Sequence[Any]]] = []
    for prefix, most in (("tiny", 255), ("", 65535), ("medium", 70000), ("long", 70000)):
        texts = [("0123456789abcdef" * 4400)[:size] for size in (255, 256, 65535, 65536, 70000) if size <= most]
        columns.append((Column("", f"{prefix}text", charset="latin1"), [*texts, ""]))
        columns.append((Column("", f"{prefix}blob"), [text.encode() for text in texts]))
    check(session, database, columns)


def test_a_value_of_17_mb_spans_packets(session: pymysql.Connection[Any], database: str) -> None:
    big = bytes(range(256)) * (17 * 4096)
    check(
        session, database, [(Column("", "longblob"), [b"small", big, b"", big[: 0xFFFFFF - 10], big[: 0xFFFFFF - 9]])]
    )


def test_binaries(session: pymysql.Connection[Any], database: str) -> None:
    columns = []
    for name, length in (("binary", 1), ("binary", 16), ("binary", 255), ("varbinary", 300)):
        values = [b"", b"\0", b"\xff", b"\x00\x7f\x80\xff"[:length], b" " * length, b"\0" * length, b"\xfe" * length]
        columns.append((Column("", name, length=length), values))
    check(session, database, columns)


def test_dates(session: pymysql.Connection[Any], database: str) -> None:
    days = [
        date(1, 1, 1),
        date(1000, 1, 1),
        date(1582, 10, 10),
        date(1899, 12, 31),
        date(1970, 1, 1),
        date(1969, 12, 31),
    ]
    days += [date(2000, 2, 29), date(1900, 2, 28), date(2024, 2, 29), date(2024, 3, 1), date(9999, 12, 31)]
    check(session, database, [(Column("", "date"), days)])


MOMENTS = [
    *(datetime(1, 1, 1), datetime(1000, 1, 1, 0, 0, 1), datetime(1969, 12, 31, 23, 59, 59, 999999)),
    *(datetime(1970, 1, 1), datetime(2024, 2, 29, 12, 34, 56, 123456), datetime(9999, 12, 31, 23, 59, 59, 999999)),
    *(datetime(2024, 1, 1, 0, 0, 0, 1), datetime(2024, 1, 1, 0, 0, 0, 100000), datetime(2024, 10, 27, 2, 30)),
]
STAMPS = [
    *(datetime(1970, 1, 1, 0, 0, 1), datetime(2038, 1, 19, 3, 14, 7), datetime(2024, 3, 31, 2, 30, 0, 999999)),
    *(datetime(2001, 9, 9, 1, 46, 40, 123456), datetime(2024, 10, 27, 0, 30), datetime(2024, 10, 27, 1, 30)),
]


def test_moments(session: pymysql.Connection[Any], database: str) -> None:
    columns = []
    for name, moments in (("datetime", MOMENTS), ("timestamp", STAMPS)):
        for digits in range(7):
            step = 10 ** (6 - digits)
            values = [moment.replace(microsecond=moment.microsecond // step * step) for moment in moments]
            columns.append((Column("", name, fraction=digits), values))
    check(session, database, columns)


def test_a_timestamp_written_in_another_time_zone(session: pymysql.Connection[Any], database: str) -> None:
    schema = TableSchema(database, "t", (ID, Column("v", "timestamp", fraction=3)), ("id",))
    start = create(session, schema)
    with session.cursor() as cursor:
        cursor.execute("SET time_zone = '+05:30'")
        insert(session, schema, [(1, datetime(2024, 1, 1, 5, 30, 0, 250000))])
        cursor.execute(SESSION)
    (row,) = compare(session, schema, start)
    assert row["v"].isoformat() == "2024-01-01T00:00:00.250000+00:00"
