"""What is read of a statement's event is what its session was: for all client character sets that a server has."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.images.binlog.words import HEADER, MARIADB_GTID, QUERY, XID
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.mysql.binlog import rare_events as rare
from lakehouse_cdc.mysql.binlog.cursor import Cursor
from lakehouse_cdc.mysql.binlog.session_state import session_state
from lakehouse_cdc.schema.charsets import charset_of
from lakehouse_cdc.testing import MySqlServer
from tests.support.binlog_log import Log, starts
from tests.support.positions import binlog_end
from tests.support.servers import connected

pytestmark = pytest.mark.every_server

_ONE_LETTER = "éßжα中日한א"
_WIDE = ("ucs2", "utf16", "utf16le", "utf32")  # which no client can speak
# variables as servers write them: the code, and its value
_KNOWN = st.sampled_from(
    [
        b"\x00" + bytes(4), b"\x02\x03std\x00", b"\x03\x01\x00\x02\x00", b"\x05\x06SYSTEM", b"\x06\x03std",
        b"\x07\x01\x00", b"\x08\xff\x00", b"\x09" + bytes(8), b"\x0a" + bytes(4), b"\x0b\x04root\x09localhost",
        b"\x0c\x02a\x00b\x00", b"\x0c\xfe", b"\x0d\x01\x02\x03", b"\x10\x01", b"\x11" + bytes(8), b"\x12\xff\x00",
        b"\x13\x00", b"\x14\x01", b"\x80\x01\x02\x03", b"\x81" + bytes(8), b"\x82\x00", b"\x82\x02",
        b"\x82\x04" + bytes(8), b"\x82\x08" + bytes(8), b"\x83\x02\x21\x00\x00\x08\x2d\x00\x00\x09", b"\x83\x00",
    ]
)  # fmt: skip
_UNKNOWN = st.sampled_from([14, 15, 21, 50, 127, 132, 255])


def known(block: bytes) -> tuple[int | None, int | None]:
    state = session_state(Cursor(block, ""))
    return state.sql_mode, state.collation


@given(st.lists(_KNOWN), st.integers(0, 2**64 - 1), st.lists(_KNOWN), st.integers(0, 65535), st.lists(_KNOWN))
def test_every_variable_is_skipped_by_its_size(
    first: list[bytes], mode: int, middle: list[bytes], collation: int, last: list[bytes]
) -> None:
    block = b"".join(
        (*first, b"\x01", struct.pack("<Q", mode), *middle, b"\x04", struct.pack("<HI", collation, 0), *last)
    )
    assert known(block) == (mode, collation)


@given(st.lists(_KNOWN), _UNKNOWN, st.binary())
def test_nothing_after_an_unknown_variable_is_believed(first: list[bytes], code: int, rest: bytes) -> None:
    block = b"".join((b"\x01", bytes(8), *first, bytes([code]), rest))
    assert known(block) == (0, None)


@given(st.lists(_KNOWN, min_size=1))
def test_a_variable_that_is_cut_off_is_an_error(variables: list[bytes]) -> None:
    block = b"".join(variables)
    assert known(block) == (None, None)
    if len(variables[-1]) > 2:
        with pytest.raises(DefiniteError, match="malformed"):
            session_state(Cursor(block[:-1], ""))


@pytest.fixture
def log(any_server: MySqlServer) -> Iterator[Log]:
    with ExitStack() as stack:
        yield Log(any_server, stack)


def test_the_character_set_of_every_collation_is_known(log: Log) -> None:
    columns = {row[0] for row in log.ask("SHOW COLUMNS FROM INFORMATION_SCHEMA.COLLATION_CHARACTER_SET_APPLICABILITY")}
    table = "COLLATION_CHARACTER_SET_APPLICABILITY" if "ID" in columns else "COLLATIONS"
    listed = log.ask(f"SELECT ID, CHARACTER_SET_NAME FROM INFORMATION_SCHEMA.{table}")
    assert len(listed) > 200
    assert [(i, name) for i, name in listed if charset_of(int(i)) != {"utf8": "utf8mb3"}.get(name, name)] == []


def test_statements_of_every_client_character_set_are_read(
    any_server: MySqlServer, any_database: str, log: Log
) -> None:
    """A table of each: its name and its comment hold letters that the character set has."""
    with closing(connected(any_server, charset="utf8mb4", database=any_database)) as connection:
        start = binlog_end(connection)
        cursor = connection.cursor()
        expected = []
        for charset, letters, encoded in client_charsets(log):
            statement = "CREATE TABLE `t_{}{}` (c INT COMMENT '{}')"
            cursor.execute(f"SET NAMES {charset}")
            connection.query(statement.encode().replace(b"{}", b"%b") % (charset.encode(), encoded, encoded))
            expected.append(statement.format(charset, letters, letters))
        cursor.execute("SET NAMES utf8mb4")
        cursor.execute("SET sql_mode = 'ANSI_QUOTES'")
        cursor.execute('CREATE TABLE "é" (c INT)')
    *queries, quoted = [query for query in statements(log, start) if "CREATE TABLE" in query.text]
    assert len(expected) > 25
    assert [query.text for query in queries] == expected
    assert all(query.readable and query.sql_mode is not None and not query.sql_mode & 4 for query in queries)
    assert quoted.text == 'CREATE TABLE "é" (c INT)'
    assert quoted.sql_mode is not None
    assert quoted.sql_mode & 4


def test_what_the_server_writes_in_place_of_a_statement_is_read_as_it_is(
    any_server: MySqlServer, any_database: str, log: Log
) -> None:
    """In UTF-8, whatever the client speaks; where that is not certain, it is not said to be readable."""
    with closing(connected(any_server, charset="utf8mb4", database=any_database)) as connection:
        start = binlog_end(connection)
        connection.query("SET NAMES cp1251")
        selects = any_server.version != "mysql-5.7"  # which refuses it where GTIDs are on
        if selects:
            connection.query("CREATE TABLE `выбор` (c INT COMMENT 'да') SELECT 1 AS c".encode("cp1251"))
        connection.query("CREATE TEMPORARY TABLE `врем` (c INT)".encode("cp1251"))
        connection.query("CREATE TABLE `похож` LIKE `врем`".encode("cp1251"))
        connection.query("CREATE TABLE `таб` LIKE `похож`".encode("cp1251"))
    found = [(query.text, query.readable) for query in statements(log, start) if "CREATE TABLE" in query.text]
    texts, readable = zip(*found, strict=True)
    assert readable == (*(True,) * selects, False, True)
    assert [text.split("`")[1] for text in texts] == [*["выбор"] * selects, "похож", "таб"]


def client_charsets(log: Log) -> list[tuple[str, str, bytes]]:
    """The character sets that a client can have, each with some letters of its own, and these encoded."""
    charsets = {str(row[0]) for row in log.ask("SELECT CHARACTER_SET_NAME FROM INFORMATION_SCHEMA.CHARACTER_SETS")}
    found = []
    for charset in sorted(charsets - {*_WIDE, "binary", "filename", "swe7"}):
        letters = [letter.encode().hex() for letter in _ONE_LETTER]
        there = ", ".join(f"HEX(CONVERT(_utf8mb4 x'{letter}' USING {charset}))" for letter in letters)
        back = ", ".join(
            f"HEX(CONVERT(CONVERT(_utf8mb4 x'{letter}' USING {charset}) USING utf8mb4))" for letter in letters
        )
        [given], [got] = log.ask(f"SELECT {there}"), log.ask(f"SELECT {back}")
        kept = [i for i, letter in enumerate(letters) if got[i].lower() == letter]
        text = "".join(_ONE_LETTER[i] for i in kept)
        found.append((charset, text, b"".join(bytes.fromhex(given[i]) for i in kept)))
    return found


def statements(log: Log, start: tuple[str, int]) -> list[rare.Query]:
    """The QUERY events after `start`, as the scanner has them read."""
    found, begun = [], False
    for buffer in log.buffers(Position(*start)):
        for at in starts(buffer):
            size = int.from_bytes(buffer[at + 9 : at + 13].tobytes(), "little")
            kind = int(buffer[at + 4])
            if kind == MARIADB_GTID:
                begun = not buffer[at + HEADER + 12] & 1  # not of one statement alone
            if kind == QUERY:
                body = buffer[at + HEADER : at + size - rare.CRC_BYTES].tobytes()
                found.append(rare.query(body, "test", alone=not begun))
                begun = begun or found[-1].text == "BEGIN"
            if kind == XID:
                begun = False
    return found
