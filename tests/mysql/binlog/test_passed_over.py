"""Statements that do not concern us are passed over whatever they hold, and those that do are seen, on every server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from lakehouse_cdc.model.ddl_effect import Effect
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.mysql.binlog.scan import LoggedStatement
from lakehouse_cdc.mysql.binlog.scanner import BinlogScanner
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.sql.statements import StatementKind
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.versions import MARIADB
from tests.support.binlog_log import Log, joined
from tests.support.positions import binlog_end
from tests.support.servers import connected

pytestmark = pytest.mark.every_server

MINE = (Column("id", "int", nullable=False), Column("a", "int"), Column("b", "int"))
CREATE = "CREATE TABLE mine (id INT NOT NULL PRIMARY KEY, a INT, b INT)"


@pytest.fixture
def log(any_server: MySqlServer) -> Iterator[Log]:
    with ExitStack() as stack:
        yield Log(any_server, stack)


def logged(log: Log, database: str, statements: list[str | bytes]) -> list[LoggedStatement]:
    """What a scanner that captures `mine` says of the statements."""
    schema = TableSchema(database, "mine", MINE, ("id",))
    with closing(connected(log.server, charset="utf8mb4", database=database)) as connection:
        start = Position(*binlog_end(connection))
        for statement in statements:
            connection.query(statement)
        scan = BinlogScanner(start, {schema.name: schema}).feed(joined(log.buffers(start)))
    return list(scan.statements)


def test_quotes_and_bytes_of_a_session_stop_nothing(log: Log, any_database: str) -> None:
    statements: list[str | bytes] = [
        "CREATE TABLE other (id INT PRIMARY KEY)",
        "SET sql_mode = 'ANSI_QUOTES'",
        r"""ALTER TABLE "other" COMMENT 'back\slash "'""",
        r"""CREATE TABLE "oth\er ""2" (id INT PRIMARY KEY)""",
        "SET sql_mode = 'NO_BACKSLASH_ESCAPES'",
        r"""ALTER TABLE other COMMENT 'back\'""",
        r"""CREATE VIEW v AS SELECT 'back\' AS c""",
        "SET sql_mode = 'ANSI'",
        r"""RENAME TABLE "oth\er ""2" TO "third" """,
        "SET sql_mode = ''",
        "SET NAMES binary",
        "ALTER TABLE other COMMENT 'é'".encode(),
        b"CREATE PROCEDURE p() SELECT '\xe9 \x80'",
        "SET NAMES utf8mb4",
        "CREATE PROCEDURE large() SELECT '" + "x" * 2_000_000 + "'",
    ]
    found = logged(log, any_database, statements)
    assert [(s.text[:80], s.concerns, s.statement.kind) for s in found if s.concerns] == []
    tables = ["other", "other", 'oth\\er "2', "other", 'oth\\er "2', "third", "other"]
    assert [name.partition(".")[2] for s in found for name in s.statement.tables] == tables
    assert sum(s.statement.kind is StatementKind.HARMLESS for s in found) == 3


def test_a_backslash_may_hide_a_clause_from_another_mode(log: Log, any_database: str) -> None:
    found = logged(
        log,
        any_database,
        [CREATE, "SET sql_mode = 'NO_BACKSLASH_ESCAPES'", r"ALTER TABLE mine COMMENT 'a\', RENAME u, COMMENT 'b\'"],
    )
    assert found[-1].statement.renames == ((f"{any_database}.mine", f"{any_database}.u"),)
    assert found[-1].effects == (Effect("drop", f"{any_database}.mine"),)


@pytest.mark.parametrize("any_server", MARIADB, indirect=True)
def test_names_after_words_that_only_mariadb_has(log: Log, any_database: str) -> None:
    mine = f"{any_database}.mine"
    found = logged(
        log,
        any_database,
        [
            CREATE,
            "ALTER TABLE IF EXISTS mine CHANGE a b INT, CHANGE b a INT",
            "CREATE INDEX IF NOT EXISTS i ON mine (a)",
            "SET STATEMENT max_statement_time=60 FOR ALTER TABLE mine FORCE",
            "TRUNCATE mine WAIT 5",
            "CREATE TABLE u (id INT)",
            "RENAME TABLE u WAIT 10 TO u2",
            "SET STATEMENT max_statement_time=60 FOR FLUSH TABLES",
            "RENAME TABLE IF EXISTS mine NOWAIT TO m2, absent TO m3",
            "CREATE OR REPLACE SEQUENCE u2",
            "/*M!100100 DROP TABLE m2 */",
        ],
    )
    said = [(s.concerns, s.effects) for s in found]
    assert said[1:] == [
        (True, (Effect("alter", mine),)),
        (False, ()),
        (False, ()),
        (True, (Effect("truncate", mine),)),
        (False, ()),
        (False, ()),
        (False, ()),
        (True, (Effect("drop", mine),)),
        (False, ()),
        (False, ()),
    ]
    assert found[-1].statement.tables == (f"{any_database}.m2",)


@pytest.mark.parametrize("any_server", MARIADB, indirect=True)
def test_a_database_that_is_replaced_is_dropped(log: Log, any_database: str) -> None:
    found = logged(log, any_database, [CREATE, f"CREATE OR REPLACE DATABASE {any_database}"])
    assert found[-1].effects == (Effect("drop", f"{any_database}.mine"),)


def test_a_table_that_gets_its_own_name_stays(log: Log, any_database: str) -> None:
    found = logged(
        log, any_database, [CREATE, "ALTER TABLE mine RENAME mine", "ALTER TABLE mine RENAME TO mine, FORCE"]
    )
    assert [(s.concerns, s.effects) for s in found[1:]] == [(False, ())] * (len(found) - 1)
