"""Binary JSON to text: byte for byte what the same server prints, and no byte outside of it for damaged documents."""

from __future__ import annotations

import json
import random
import struct
from decimal import Decimal
from typing import Any

import pymysql
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse_cdc.images.text.json_text import EXTRA, GROWTH, MAX_DEPTH
from tests.support.images.json_bytes import JsonTable, Printed, array, convert
from tests.support.images.json_values import EXPRESSIONS, VALUES

MANY = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)

COLUMNS = {
    "y YEAR": "2024",
    "b BIT(13)": "4097",
    "e ENUM('a', 'b')": "'b'",
    "st SET('x', 'y')": "'x,y'",
    "tb TINYBLOB": "x'0102'",
    "bl BLOB": "REPEAT(x'00ff', 500)",
    "mb MEDIUMBLOB": "x'03'",
    "lb LONGBLOB": "REPEAT(x'01', 70000)",
    "bi BINARY(5)": "'ab'",
    "vb VARBINARY(9)": "''",
    "tx TEXT": "'té'",
    "l1 VARCHAR(9) CHARACTER SET latin1": "'é'",
    "d DATE": "'2024-02-29'",
    "zd DATE": "'0000-00-00'",
    "dt DATETIME": "'9999-12-31 23:59:59'",
    "zt DATETIME": "'2024-00-00 00:00:00'",
    "dt6 DATETIME(6)": "'1000-01-01 00:00:00.000001'",
    "ts TIMESTAMP": "'2038-01-19 03:14:07'",
    "t TIME": "'-838:59:59'",
    "t3 TIME(3)": "'-00:00:00.001'",
    "g GEOMETRY": "ST_GeomFromText('POLYGON((0 0, 1.5 0, 1e30 1, 0 0))')",
    "f FLOAT": "1.1",
    "db DOUBLE": "-0.1",
    "dc DECIMAL(65, 30)": "-12345678901234567890123456789012345.000000000000000000000000000001",
    "u BIGINT UNSIGNED": "18446744073709551615",
    "n BIGINT": "-9223372036854775808",
    "i TINYINT": "-5",
    "o BOOLEAN": "TRUE",
    "u4 INT UNSIGNED": "4294967295",
}


@pytest.fixture
def table(session: pymysql.Connection[Any], database: str) -> JsonTable:
    return JsonTable(session, database)


def agree(rows: list[Printed]) -> None:
    for document, text in rows:
        assert convert(document) == text


def documents(table: JsonTable) -> list[bytes]:
    """Small documents with every type in them."""
    rows = table.inserted(expression for expression in EXPRESSIONS if len(expression) < 300)
    return [row.document for row in rows if len(row.document) < 500]


def test_every_type_of_value(table: JsonTable) -> None:
    rows = table.inserted(EXPRESSIONS)
    agree(rows)
    kinds = {row.document[0] for row in rows} | {row.document[5] for row in rows if row.document[:2] == b"\2\1"}
    assert kinds >= {0, *range(2, 13), 15}
    assert rows[0] == (b"\4\0", b"null")
    assert any(rb"\u0000\u0001" in row.text and rb"\u0007\b\t\n\u000b\f\r\u000e" in row.text for row in rows)


def test_every_type_of_column(table: JsonTable, session: pymysql.Connection[Any], database: str) -> None:
    with session.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")
        cursor.execute(f"CREATE TABLE {database}.c ({', '.join(COLUMNS)})")
        cursor.execute(f"INSERT INTO {database}.c VALUES ({', '.join(COLUMNS.values())})")
    names = [column.split()[0] for column in COLUMNS]
    agree(table.inserted(f"(SELECT JSON_ARRAY({name}) FROM {database}.c)" for name in names))
    whole = table.inserted(
        f"(SELECT CAST({name} AS JSON) FROM {database}.c)" for name in names if name not in ("tx", "l1")
    )
    agree(whole)
    assert b'"base64:type16:EAE="' in [row.text for row in whole]


def test_an_empty_document_is_null(table: JsonTable) -> None:
    table.run(f"ALTER TABLE {table.name} MODIFY j JSON NOT NULL")
    table.run("SET sql_mode = ''")
    rows = table.changed(f"INSERT IGNORE INTO {table.name} (j) SELECT NULL")
    assert rows == [(b"", b"null")]
    agree(rows)


def test_as_deep_as_the_server_goes(table: JsonTable) -> None:
    texts = ["[" * MAX_DEPTH + "]" * MAX_DEPTH, '{"k": ' * MAX_DEPTH + "1.5" + "}" * MAX_DEPTH]
    rows = table.inserted(["%s"] * len(texts), texts)
    agree(rows)
    for row in rows:
        small, size = row.document[0], len(row.document)
        deeper = struct.pack("<BHHBH", 2, 1, 7 + size - 1, small, 7) + row.document[1:]
        assert table.printed([deeper]) == [None] == [convert(deeper)]


def test_large_documents(table: JsonTable) -> None:
    dice = random.Random(1)
    keys: dict[str, Any] = {
        f"{'é' * dice.randrange(9)}{i}": dice.choice([None, i, 70000 * i, str(i), {}, [i / 7]]) for i in range(5000)
    }
    small = {"a": [1, "b", 70000], "c": {"d": 1.5}}
    values = [keys, {**keys, "small": small, "large": list(range(-40000, -20000))}, [small] * 4000, ["x" * 300] * 400]
    texts = [json.dumps(value) for value in values]
    rows = table.inserted(["%s"] * len(texts), texts)
    agree(rows)
    assert {row.document[0] for row in rows} == {1, 3}


def test_documents_that_were_changed_in_place(table: JsonTable) -> None:
    text = '{"a": "a long text", "b": [1, 2, "another", {"x": 5}], "c": 1, "d": 70000, "e": [0.5, "f"]}'
    table.run(f"INSERT INTO {table.name} (j) VALUES ('{text}')")
    changes = ["JSON_SET(j, '$.a', 'ab')", "JSON_REPLACE(j, '$.b[2]', 7, '$.d', -5)", "JSON_REMOVE(j, '$.b[0]')"]
    for change in [*changes, "JSON_SET(j, '$.c', 'cc')", "JSON_REMOVE(j, '$.a')", "JSON_SET(j, '$.e[0]', 'g')"]:
        [row] = table.changed(f"UPDATE {table.name} SET j = {change}")
        agree([row])
        table.run(f"INSERT INTO {table.name} (j) VALUES ('{text}')")
    table.run(f"UPDATE {table.name} SET j = {changes[0]}")
    [row] = table.changed(f"UPDATE {table.name} SET j = {changes[2]}")
    agree([row])
    assert b"\2ablong text" in row.document


@MANY
@given(values=st.lists(VALUES, min_size=1, max_size=15))
def test_random_documents(table: JsonTable, values: list[Any]) -> None:
    agree(table.inserted(["%s"] * len(values), [json.dumps(value) for value in values]))


PACKED = st.one_of(
    st.tuples(st.just(11), st.booleans(), st.integers(0, 838), st.integers(0, 59), st.integers(0, 999_999)).map(
        lambda t: (t[0], (-1 if t[1] else 1) * ((t[2] << 12 | t[3] << 6 | t[3]) << 24 | t[4]))
    ),
    st.tuples(st.sampled_from([7, 10, 12]), st.datetimes(), st.booleans()).map(
        lambda t: (
            t[0],
            ((t[1].year * 13 + t[1].month * t[2]) << 5 | t[1].day) << 41
            | (t[1].hour << 12 | t[1].minute << 6 | t[1].second) << 24
            | t[1].microsecond,
        )
    ),
)


@MANY
@given(
    moments=st.lists(PACKED, min_size=100, max_size=200),
    opaque=st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=120)), min_size=30, max_size=60),
)
def test_random_values_of_the_servers_own_types(
    table: JsonTable, moments: list[tuple[int, int]], opaque: list[tuple[int, bytes]]
) -> None:
    values = [(15, struct.pack("<BBq", kind, 8, packed)) for kind, packed in moments]
    others = [(kind, data) for kind, data in opaque if kind not in (7, 10, 11, 12, 246)]
    values += [(15, bytes([kind, len(data)]) + data) for kind, data in others]
    document = array(values)
    assert table.printed([document]) == [convert(document)]


@MANY
@given(numbers=st.lists(st.tuples(st.integers(1, 65), st.integers(0, 30), st.integers()), min_size=50))
def test_random_decimals(table: JsonTable, numbers: list[tuple[int, int, int]]) -> None:
    texts = []
    for precision, scale, number in numbers:
        scale = min(scale, precision)
        value = Decimal((int(number < 0), tuple(map(int, str(abs(number))[:precision])), -scale))
        texts.append(f"CAST('{value:f}' AS DECIMAL({precision}, {scale}))")
    agree(table.inserted([f"JSON_ARRAY({', '.join(texts)})"]))


def test_what_the_server_refuses_or_never_wrote(table: JsonTable) -> None:
    refused = [
        "0403",
        "0d",
        "0e00",
        "10",
        "ff",
        "0c8080808080",
        "0ff6030000 80",
        "0ff603020185",
        "0ff62a5a00" + "80" * 40,
    ]
    refused += [
        "02",
        "020000",
        "02000003",
        "0200000500",
        "02010007000d0000",
        "0201000700",
        "0500",
        "0b00",
        "0c",
        "0f0c",
    ]
    for text in refused:
        document = bytes.fromhex(text)
        assert table.printed([document]) == [None] == [convert(document)], text
    # the server prints something, but no such value is there
    for text in ["0b000000000000f07f", "0b000000000000f87f", "0f0b080000000000703400", "0f0b080000000000000080"]:
        assert convert(bytes.fromhex(text)) is None
    for text in ["0f0c08000000000042f47e", "0f0c08000000000042f4ff", "0f0c070000000000 4219"]:
        assert convert(bytes.fromhex(text)) is None
    taken = ["05010099", "0c8000", "0c818080800061", "0f00026162", "0ffd0561220a0800", "0ff604020 17fff", "0c02fffe"]
    taken += [
        "0ff626510080" + "00" * 35,
        "0ff626515180" + "01" * 35,
        "0f0b08000000fb6e340000",
        "0f0a0805000045514 2a519",
    ]
    for text in taken:
        document = bytes.fromhex(text.replace(" ", ""))
        assert table.printed([document]) == [convert(document)] != [None], text


def test_shared_bytes_are_refused() -> None:
    """Offsets to the same bytes again and again: nothing is written twice, and nothing takes long."""
    text = b"\xf0\x2e" + b"x" * 6000
    head = struct.pack("<BHH", 2, 10_000, 4 + 30_000 + len(text))
    assert convert(head + struct.pack("<BH", 12, 30_004) * 10_000 + text) is None
    bomb = struct.pack("<HH", 0, 4)
    for _ in range(60):  # 2^60 elements
        bomb = struct.pack("<HHBHBH", 2, 10 + len(bomb), 2, 10, 2, 10) + bomb
    assert convert(b"\2" + bomb) is None
    assert convert(struct.pack("<BHHBH", 2, 1, 7, 2, 0)) is None  # it would hold itself
    keys = struct.pack("<BHH", 0, 3000, 4 + 7 * 3000 + 500) + struct.pack("<HH", 4 + 21_000, 500) * 3000
    assert convert(keys + struct.pack("<BH", 4, 0) * 3000 + b"k" * 500) is None


def test_the_bound_is_reached() -> None:
    for document, size in ((b"", EXTRA), (b"\x0c\x7f" + b"\1" * 127, GROWTH * 127 + 2)):
        assert len(convert(document) or b"") == size <= GROWTH * len(document) + EXTRA


def damaged(document: bytes, dice: random.Random) -> bytes:
    out = bytearray(document)
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(len(out))
        out[at] = dice.choice((0, 1, 4, 0x7F, 0x80, 0xFF, out[at] ^ 1 << dice.randrange(8), dice.randrange(256)))
    return bytes(out)


def test_damaged_documents_give_a_status_or_a_text(table: JsonTable) -> None:
    dice = random.Random(3)
    for document in documents(table):
        for size in range(len(document)):
            convert(document[:size])
        for _ in range(400):
            convert(damaged(document, dice))


def test_random_bytes_give_a_status_or_a_text() -> None:
    dice = random.Random(4)
    for kind in range(17):
        for _ in range(1500):
            convert(bytes([kind]) + dice.randbytes(dice.randrange(80)))
    for _ in range(10_000):  # little numbers are counts, sizes and types
        convert(
            bytes(dice.choice((0, 0, 1, 2, 4, 7, 12, 15, dice.randrange(32))) for _ in range(dice.randrange(1, 60)))
        )


def test_damaged_documents_that_are_taken_read_as_by_the_server(table: JsonTable) -> None:
    """Only those: others may end the server."""
    dice = random.Random(5)
    some = [damaged(document, dice) for document in documents(table) for _ in range(20)]
    taken = {document: text for document in some if (text := convert(document)) is not None}
    assert len(taken) > len(some) // 4
    assert table.printed(list(taken)) == list(taken.values())
