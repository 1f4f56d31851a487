"""SELECT by the binary protocol on a real server: bounded pieces, TLS, errors before the rows and among them."""

from __future__ import annotations

import random
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import numpy as np
import pymysql
import pytest

from lakehouse_cdc.errors import DefiniteError, TransientError
from lakehouse_cdc.images.buffers import Sink
from lakehouse_cdc.images.program import ProgramSet
from lakehouse_cdc.images.rows.image import Scratch
from lakehouse_cdc.images.rows.result_set import find_packets, read_rows
from lakehouse_cdc.images.status import DONE, FULL
from lakehouse_cdc.model.variant import decode
from lakehouse_cdc.mysql.wire.select import Images, select_images
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.testing import MySqlServer
from tests.support.images.guarded import guarded, guarded_copy
from tests.support.images.tables import ID, SESSION, create, insert, select
from tests.support.rounds import rounds

STATEMENTS = "performance_schema.prepared_statements_instances"
V = Column("v", "int")
S = Column("s", "varchar", length=200, charset="latin1")


@pytest.fixture
def many(session: pymysql.Connection[Any], database: str) -> TableSchema:
    """3000 rows of a number and a text."""
    schema = TableSchema(database, "t", (ID, V, S), ("id",))
    create(session, schema)
    with session.cursor() as cursor:
        rows = ", ".join(f"({i}, {i * 7}, REPEAT('ä', {i % 200}))" for i in range(3000))
        cursor.execute(f"INSERT INTO {database}.t VALUES {rows}")
    return schema


def alive(session: pymysql.Connection[Any]) -> bool:
    """Whether the connection serves the next command, and is in step with it."""
    if not session.open:
        return False
    with session.cursor() as cursor:
        cursor.execute("SELECT 4711")
        return bool(cursor.fetchall() == ((4711,),))


@pytest.mark.parametrize("image_bytes", [1, 1000, 100_000, 32 << 20])
def test_pieces_are_bounded_and_whole(session: pymysql.Connection[Any], many: TableSchema, image_bytes: int) -> None:
    sql = f"SELECT id, v, s FROM {many.database}.t ORDER BY id"
    pieces = list(select_images(session, sql, many, image_bytes=image_bytes))
    names = ProgramSet.of([many]).metadata[0]
    found = [decode(piece.after[i] or b"", names) for piece in pieces for i in range(piece.n)]
    assert found == [{"id": i, "v": i * 7, "s": "ä" * (i % 200)} for i in range(3000)]
    assert all(piece.n == 1 or len(piece.after.data) <= image_bytes for piece in pieces)
    assert (len(pieces) == 1) == (image_bytes > 1_000_000)
    assert pieces[0].after.to_arrow()[0].as_py() == pieces[0].after[0]
    assert alive(session)


def test_no_rows_are_no_pieces(session: pymysql.Connection[Any], many: TableSchema) -> None:
    assert list(select_images(session, f"SELECT id, v, s FROM {many.database}.t WHERE id < 0", many)) == []
    assert alive(session)


def test_statements_are_closed(session: pymysql.Connection[Any], many: TableSchema) -> None:
    def open_statements() -> Any:
        with session.cursor() as cursor:
            cursor.execute(f"SELECT COUNT(*) FROM {STATEMENTS} WHERE SQL_TEXT LIKE '%{many.database}%'")
            return cursor.fetchall()

    for _ in range(3):
        select(session, many)
        with pytest.raises(DefiniteError):
            list(select_images(session, f"SELECT id FROM {many.database}.t", many))
    assert open_statements() == ((0,),)


def test_a_closed_connection_is_transient(session: pymysql.Connection[Any], many: TableSchema) -> None:
    inside: Any = session
    inside._force_close()
    with pytest.raises(TransientError):
        select(session, many)


def test_an_unfinished_iterator_closes_the_connection(session: pymysql.Connection[Any], many: TableSchema) -> None:
    pieces: Iterator[Any] = select_images(session, f"SELECT id, v, s FROM {many.database}.t", many, image_bytes=1000)
    next(pieces)
    pieces.close()  # type: ignore[attr-defined]
    assert not session.open


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT id, v, s FROM {0}.missing", "error 1146.*dropped, renamed"),
        ("SELECT id, nope, s FROM {0}.t", "error 1054"),
        ("SELECT", "error 1064"),
        ("SELECT id, v, s FROM {0}.t WHERE id = ?", "parameters"),
        ("SET @a = 1", "gives no rows"),
    ],
)
def test_a_refused_statement_leaves_the_connection(
    session: pymysql.Connection[Any], many: TableSchema, sql: str, words: str
) -> None:
    with pytest.raises(DefiniteError, match=words):
        list(select_images(session, sql.format(many.database), many))
    assert alive(session)


def test_no_right_to_read(mysql: MySqlServer, session: pymysql.Connection[Any], many: TableSchema) -> None:
    with session.cursor() as cursor:
        cursor.execute("CREATE USER IF NOT EXISTS 'blind'@'%' IDENTIFIED BY 'x'")
    with (
        closing(mysql.connect(user="blind", password="x")) as blind,
        pytest.raises(DefiniteError, match="GRANT SELECT"),
    ):
        list(select_images(blind, f"SELECT id, v, s FROM {many.database}.t", many))


def test_an_error_between_rows(session: pymysql.Connection[Any], many: TableSchema) -> None:
    one = f"(SELECT u.v FROM {many.database}.t u WHERE u.id = t.id OR (t.id = 2500 AND u.id < 3))"
    sql = f"SELECT id, {one}, s FROM {many.database}.t t ORDER BY id"
    pieces = Pieces(select_images(session, sql, many, image_bytes=1000))
    with pytest.raises(DefiniteError, match="error 1242"):
        pieces.read()
    assert 2000 < pieces.rows <= 2500
    assert alive(session)


class Pieces:
    """Reads an iterator of images to its end, with something done after each piece."""

    def __init__(self, pieces: Iterator[Images], after_each: Callable[[], object] = lambda: None) -> None:
        self.rows = 0
        self._pieces, self._after_each = pieces, after_each

    def read(self) -> None:
        for piece in self._pieces:
            self.rows += piece.n
            self._after_each()


def test_a_killed_query_may_be_tried_again(
    mysql: MySqlServer, session: pymysql.Connection[Any], many: TableSchema
) -> None:
    sql = f"SELECT t.id, u.v, t.s FROM {many.database}.t, {many.database}.t u"
    kill = f"KILL QUERY {session.thread_id()}"  # type: ignore[no-untyped-call]  # the stub has no annotations here
    with closing(mysql.connect()) as other:
        pieces = Pieces(select_images(session, sql, many, image_bytes=100_000), lambda: other.query(kill))
        with pytest.raises(TransientError, match="error 1317"):
            pieces.read()
    assert pieces.rows
    assert alive(session)


def test_a_killed_connection_is_transient(
    mysql: MySqlServer, session: pymysql.Connection[Any], many: TableSchema
) -> None:
    sql = f"SELECT t.id, u.v, t.s FROM {many.database}.t, {many.database}.t u"
    kill = f"KILL {session.thread_id()}"  # type: ignore[no-untyped-call]  # the stub has no annotations here

    def once() -> None:
        with suppress(pymysql.err.Error):  # the second time there is nobody to kill
            other.query(kill)

    with closing(mysql.connect()) as other:
        pieces = Pieces(select_images(session, sql, many, image_bytes=100_000), once)
        with pytest.raises(TransientError):
            pieces.read()
    assert pieces.rows


def test_a_silent_server_times_out(mysql: MySqlServer, many: TableSchema) -> None:
    with closing(mysql.connect(read_timeout=1)) as connection:
        with connection.cursor() as cursor:
            cursor.execute(SESSION)
        sql = f"SELECT id, v, s FROM {many.database}.t WHERE id = 1 AND SLEEP(3) = 0"
        with pytest.raises(TransientError):
            list(select_images(connection, sql, many))
        assert not connection.open


def test_over_tls(mysql: MySqlServer, many: TableSchema) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with closing(mysql.connect(ssl=context)) as connection, closing(mysql.connect(ssl_disabled=True)) as plain:
        for each in (connection, plain):
            with each.cursor() as cursor:
                cursor.execute(SESSION)
        with connection.cursor() as cursor:
            cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
            assert cursor.fetchall()[0][1]
        assert select(connection, many) == select(plain, many)
        assert alive(connection)


WRONG = [
    (ID, V),
    (ID, V, S, V),
    (ID, Column("v", "bigint"), S),
    (ID, Column("v", "int", unsigned=True), S),
    (ID, V, Column("s", "varbinary", length=200)),
    (ID, V, Column("s", "varchar", length=200, charset="utf8mb4")),
    (ID, V, Column("s", "char", length=200, charset="latin1")),
    (ID, Column("v", "decimal", precision=10, scale=0), S),
]


@pytest.mark.parametrize("columns", WRONG)
def test_columns_that_contradict_the_schema(
    session: pymysql.Connection[Any], many: TableSchema, columns: tuple[Column, ...]
) -> None:
    named = tuple(Column(**{**vars(column), "name": f"c{i}"}) for i, column in enumerate(columns))
    schema = TableSchema(many.database, "t", named, ("c0",))
    with pytest.raises(DefiniteError, match="the table was changed"):
        list(select_images(session, f"SELECT id, v, s FROM {many.database}.t", schema))


def test_scale_and_fraction_are_part_of_a_type(session: pymysql.Connection[Any], database: str) -> None:
    columns = (ID, Column("d", "decimal", precision=9, scale=2), Column("at", "datetime", fraction=3))
    create(session, TableSchema(database, "t", columns, ("id",)))
    for i, wrong in ((1, Column("d", "decimal", precision=9, scale=3)), (2, Column("at", "datetime", fraction=6))):
        changed = (*columns[:i], wrong, *columns[i + 1 :])
        with pytest.raises(DefiniteError, match="the table was changed"):
            select(session, TableSchema(database, "t", changed, ("id",)))
        assert alive(session)


@pytest.mark.parametrize("charset", ["utf8mb4", "latin1"])
def test_a_session_that_converts_text_is_refused(session: pymysql.Connection[Any], database: str, charset: str) -> None:
    other = "latin1" if charset == "utf8mb4" else "utf8mb4"
    schema = TableSchema(database, "t", (ID, Column("s", "text", charset=other)), ("id",))
    create(session, schema)
    insert(session, schema, [(1, "ä")])
    with session.cursor() as cursor:
        cursor.execute(f"SET character_set_results = {charset}")
    with pytest.raises(DefiniteError, match="character_set_results"):
        select(session, schema)


DAMAGED = (
    *(Column("a", "int"), Column("b", "varchar", length=9, charset="latin1"), Column("c", "decimal", precision=20)),
    *(Column("d", "datetime"), Column("e", "blob")),
)


def test_damaged_packets_give_an_error_or_a_result() -> None:
    programs = ProgramSet.of([TableSchema("db", "t", DAMAGED, ("a",))])
    dice, n = random.Random(3), 0
    scratch = Scratch.of(len(DAMAGED), 1)
    for _ in range(rounds(400)):
        row = guarded_copy(np.frombuffer(b"\0\0" + dice.randbytes(dice.randrange(60)), np.uint8))
        key, after = (Sink(guarded(dice.randrange(200)), np.zeros(2, np.int64), guarded(1)) for _ in range(2))
        ends = np.array([len(row)])
        status = read_rows(
            row, np.zeros(1, np.int64), ends, 1, programs.wire, np.zeros(2, np.int64), key, after, scratch
        )
        n += status in (DONE, FULL)
    assert n


def test_damaged_framing_stays_inside() -> None:
    dice = random.Random(4)
    for _ in range(rounds(200)):
        raw = guarded_copy(np.frombuffer(dice.randbytes(dice.randrange(40)), np.uint8))
        small = guarded_copy(raw)
        small[1:3] = 0
        for data in (raw, small):
            starts, ends = guarded(3, np.int64), guarded(3, np.int64)
            found, at, _ = find_packets(data, 0, len(data), int(data[3]) if len(data) > 3 else 0, starts, ends)
            assert found <= 3
            assert at <= len(data)
            assert all(0 <= a <= b <= len(data) for a, b in zip(starts[: max(found, 0)], ends, strict=False))
