"""The other types: by SELECT and by binlog the same bytes, and the value that the server says.

The server says what a value is: as text, as a number, or converted to UTF-8; never this package.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import pymysql
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse_cdc.schema.charsets import CHARSETS, UNICODE
from lakehouse_cdc.schema.table import Carried, Column, TableSchema
from tests.support.images.tables import ID, compare, create


def values_of(
    session: pymysql.Connection[Any], database: str, column: Column, literals: Sequence[str], said: str
) -> tuple[list[Any], list[Any]]:
    """Of rows with these SQL values: what both readers make of them, and what the server says by the expression."""
    schema = TableSchema(database, "t", (ID, column), ("id",))
    with session.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {database}.t")
    start = create(session, schema)
    with session.cursor() as cursor:
        for i, literal in enumerate([*literals, "NULL"]):
            cursor.execute(f"INSERT INTO {database}.t VALUES ({i}, {literal})")
        found = [row["v"] for row in compare(session, schema, start)]
        cursor.execute(f"SELECT {said} FROM {database}.t ORDER BY id")
        told = [row[0] for row in cursor.fetchall()]
    assert found[-1] is told[-1] is None
    return found[:-1], told[:-1]


AS_TEXT = "CONVERT(CAST(v AS CHAR) USING utf8mb4)"


def texts(told: Sequence[Any]) -> list[str]:
    return [value.decode() if isinstance(value, bytes) else str(value) for value in told]


@pytest.mark.parametrize("digits", range(7))
def test_time(session: pymysql.Connection[Any], database: str, digits: int) -> None:
    times = [
        *("00:00:00", "00:00:01", "-00:00:01", "23:59:59.999999", "24:00:00", "99:59:59", "100:00:00", "838:59:59"),
        *("-838:59:59", "-00:00:00.000001", "-00:00:00.5", "-00:00:01.000001", "-12:34:56.789012", "00:00:00.25"),
        *("01:02:03.040506", "-01:00:00", "-00:59:59.999999", "837:59:59.999999"),
    ]
    found, told = values_of(session, database, Column("v", "time", fraction=digits), [f"'{t}'" for t in times], AS_TEXT)
    assert found == texts(told)


def test_year(session: pymysql.Connection[Any], database: str) -> None:
    literals = ["0", "1901", "1970", "2000", "2069", "2155"]
    found, told = values_of(session, database, Column("v", "year"), literals, "CAST(v AS UNSIGNED)")
    assert found == told == [0, 1901, 1970, 2000, 2069, 2155]


@pytest.mark.parametrize("bits", [1, 2, 7, 8, 9, 16, 31, 32, 33, 56, 63, 64])
def test_bit(session: pymysql.Connection[Any], database: str, bits: int) -> None:
    numbers = sorted({0, 1, 2**bits - 1, 2 ** (bits - 1), 2**bits // 3})
    found, told = values_of(session, database, Column("v", "bit", length=bits), list(map(str, numbers)), "v + 0")
    assert found == told == numbers
    assert bits > 1 or {type(value) for value in found} == {bool}


LABELS = ("a", "it's", "two words", "", "öß", "日本", "\\n", '"', "x" * 70, "😀")


@pytest.mark.parametrize("many", [False, True])
def test_enum(session: pymysql.Connection[Any], database: str, many: bool) -> None:
    labels = LABELS + tuple(f"label {n}" for n in range(300 if many else 0))
    column = Column("v", "enum", charset="utf8mb4", values=labels)
    found, told = values_of(session, database, column, [str(n + 1) for n in range(len(labels))], AS_TEXT)
    assert found == texts(told) == list(labels)
    with session.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")  # a label that is not known is stored as number 0
    found, told = values_of(session, database, column, ["'nothing'", "'A'"], AS_TEXT)
    assert found == texts(told) == ["", "a"]


@pytest.mark.parametrize("count", [1, 8, 9, 17, 25, 33, 64])
def test_set(session: pymysql.Connection[Any], database: str, count: int) -> None:
    labels = tuple([*(label for label in LABELS if "," not in label), *(f"l{n}" for n in range(64))][:count])
    column = Column("v", "set", charset="utf8mb4", values=labels)
    numbers = sorted({0, 1, 2**count - 1, 2 ** (count - 1), 2**count // 3})
    found, told = values_of(session, database, column, list(map(str, numbers)), AS_TEXT)
    assert found == texts(told)


def test_labels_in_another_character_set(session: pymysql.Connection[Any], database: str) -> None:
    for charset in ("latin1", "cp1251", "sjis", "utf16", "utf32"):
        labels = ("a", "я") if charset == "cp1251" else ("a", "é") if charset == "latin1" else ("a", "日本")
        for kind in ("enum", "set"):
            column = Column("v", kind, charset=charset, values=labels)
            found, told = values_of(session, database, column, ["1", "2"], AS_TEXT)
            assert found == texts(told) == list(labels)


def decimal(number: int, scale: int) -> str:
    """number / 10^scale, exactly."""
    digits = f"{abs(number):0{scale + 1}d}"
    return f"{'-' if number < 0 else ''}{digits[: len(digits) - scale]}.{digits[len(digits) - scale :] or 0}"


@pytest.mark.parametrize(("precision", "scale"), [(39, 0), (39, 30), (40, 2), (57, 29), (65, 0), (65, 30)])
def test_decimals_of_more_than_38_digits(
    session: pymysql.Connection[Any], database: str, precision: int, scale: int
) -> None:
    most = 10**precision - 1
    numbers = [0, 1, -1, most, -most, int("1234567890" * 7) % 10**precision, -(10**scale), 10 ** (precision - 1)]
    literals = [decimal(n, scale) for n in numbers]
    column = Column("v", "decimal", precision=precision, scale=scale)
    found, told = values_of(session, database, column, literals, AS_TEXT)
    assert found == texts(told)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_random_long_decimals(session: pymysql.Connection[Any], database: str, data: st.DataObject) -> None:
    precision = data.draw(st.integers(39, 65))
    scale = data.draw(st.integers(0, 30))
    numbers = data.draw(st.lists(st.integers(-(10**precision) + 1, 10**precision - 1), min_size=1, max_size=9))
    literals = [decimal(n, scale) for n in numbers]
    column = Column("v", "decimal", precision=precision, scale=scale)
    found, told = values_of(session, database, column, literals, AS_TEXT)
    assert found == texts(told)


def test_geometry(session: pymysql.Connection[Any], database: str) -> None:
    shapes = [
        *("POINT(1 2)", "LINESTRING(0 0, 1 1)", "POLYGON((0 0, 1 0, 1 1, 0 0))", "MULTIPOINT(1 1, 2 2)"),
        *("GEOMETRYCOLLECTION(POINT(1 1), LINESTRING(0 0, 2 2))", "GEOMETRYCOLLECTION EMPTY"),
    ]
    literals = [f"ST_GeomFromText('{shape}', {srid})" for shape in shapes for srid in (0, 4326)]
    wkb = "CONCAT(REVERSE(UNHEX(LPAD(HEX(ST_SRID(v)), 8, '0'))), ST_AsBinary(v, 'axis-order=long-lat'))"
    found, told = values_of(session, database, Column("v", "geometry"), literals, wkb)
    assert found == told


def test_a_point_column(session: pymysql.Connection[Any], database: str) -> None:
    found, _ = values_of(session, database, Column("v", "point"), ["ST_GeomFromText('POINT(1.5 -2)')"], "1 = 0 OR v")
    assert found == [struct.pack("<IBIdd", 0, 1, 1, 1.5, -2.0)]


CHARACTERS = [chr(code) for code in range(1, 0x10000) if not 0xD800 <= code < 0xE000] + ["😀", "𠀋", "𝕬", "\U0010ffff"]


@pytest.mark.parametrize("charset", [name for name in CHARSETS if name not in UNICODE])
def test_every_character_of_every_character_set(session: pymysql.Connection[Any], database: str, charset: str) -> None:
    """All of Unicode is given to the server; what it cannot hold in the character set it makes a question mark."""
    schema = TableSchema(database, "t", (ID, Column("v", "text", charset=charset)), ("id",))
    start = create(session, schema)
    with session.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")
        lines = ["".join(CHARACTERS[i : i + 500]) for i in range(0, len(CHARACTERS), 500)]
        places = ", ".join(f"({i}, _utf8mb4 x'{line.encode().hex()}')" for i, line in enumerate(lines))
        cursor.execute(f"INSERT INTO {database}.t VALUES {places}")
        cursor.execute(f"SELECT HEX(CONVERT(v USING utf8mb4)) FROM {database}.t ORDER BY id")
        told = [bytes.fromhex(texts([row[0]])[0]).decode() for row in cursor.fetchall()]
    found = [row["v"] for row in compare(session, schema, start)]
    for ours, theirs in zip(found, told, strict=True):
        assert ours == theirs
    assert sum(c != "?" for line in found for c in line) > 120


@pytest.mark.parametrize("charset", ["utf16", "utf16le", "utf32", "ucs2", "sjis", "gb18030", "cp1251", "ujis"])
def test_a_char_without_its_padding(session: pymysql.Connection[Any], database: str, charset: str) -> None:
    column = Column("v", "char", length=20, charset=charset)
    literals = ["'a'", "''", "' b '", "_utf8mb4'я  '", f"'{'x' * 20}'"]
    found, told = values_of(session, database, column, literals, AS_TEXT)
    assert found == texts(told)


DAYS = {  # all that can be stored; None where no calendar has the day
    "0000-00-00": None,
    "2024-00-00": None,
    "2024-02-00": None,
    "2023-02-29": None,
    "2024-02-31": None,
    "1000-01-01": date(1000, 1, 1),
    "2024-02-29": date(2024, 2, 29),
    "9999-12-31": date(9999, 12, 31),
}
STAMPS = ("1970-01-01 00:00:01", "1972-02-29", "1972-03-01", "2000-02-29", "2024-12-31", "2038-01-19 03:14:07")


def dates(
    session: pymysql.Connection[Any], database: str, column: Column, clock: str = ""
) -> tuple[list[Any], list[Any]]:
    with session.cursor() as cursor:
        cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES'")
    days = ("0000-00-00", *STAMPS) if column.type == "timestamp" else tuple(DAYS)
    literals = [f"'{day}{'' if ' ' in day or day.startswith('0') else clock}'" for day in days]
    return values_of(session, database, column, literals, AS_TEXT)


@pytest.mark.parametrize("digits", range(7))
def test_dates_as_text(session: pymysql.Connection[Any], database: str, digits: int) -> None:
    for kind, fraction in (("date", 0), ("datetime", digits), ("timestamp", digits)):
        clock = "" if kind == "date" else " 23:59:58.987654"
        found, told = dates(session, database, Column("v", kind, fraction=fraction, carried="text"), clock)
        assert found == texts(told)


def test_dates_that_no_calendar_has_are_null(session: pymysql.Connection[Any], database: str) -> None:
    found, _ = dates(session, database, Column("v", "date", carried="null"))
    assert found == list(DAYS.values())
    found, _ = dates(session, database, Column("v", "datetime", fraction=2, carried="null"))
    assert found == [day and datetime(day.year, day.month, day.day) for day in DAYS.values()]
    found, told = dates(session, database, Column("v", "timestamp", fraction=1, carried="null"))
    assert [value and f"{value:%Y-%m-%d %H:%M:%S}.0" for value in found] == [None, *texts(told)[1:]]


def test_years_and_short_decimals_as_text(session: pymysql.Connection[Any], database: str) -> None:
    found, told = values_of(session, database, Column("v", "year", carried="text"), ["0", "1901", "2155"], AS_TEXT)
    assert found == texts(told) == ["0000", "1901", "2155"]
    column = Column("v", "decimal", precision=10, scale=2, carried="text")
    found, told = values_of(session, database, column, ["0", "-0.05", "12345678.90", "-1"], AS_TEXT)
    assert found == texts(told) == ["0.00", "-0.05", "12345678.90", "-1.00"]


def test_json(session: pymysql.Connection[Any], database: str) -> None:
    documents = [
        "'{}'", "'[]'", "'null'", "'true'", "'-1'", "'18446744073709551615'", "'1.5'", "'1e100'", "'\"ä\\\\u0001\"'",
        "'{\"b\": [1, {\"a\": null}], \"aa\": 0.1}'", "CAST(1.10 AS JSON)", "CAST(CAST('2024-02-29' AS DATE) AS JSON)",
        "JSON_ARRAY(CAST('-12:00:00.5' AS TIME(1)), x'00ff', NOW(6), REPEAT('x', 70000))",
    ]  # fmt: skip
    text = "CONVERT(CAST(v AS CHAR) USING utf8mb4)"
    choices: tuple[Carried, ...] = ("", "text")
    for carried in choices:
        found, told = values_of(session, database, Column("v", "json", carried=carried), documents, text)
        assert found == texts(told)
