"""Statements made from the grammar run on real servers: what is said of each is what the server did."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import replace
from typing import Any

import pymysql
import pytest

from lakehouse_cdc.mysql.catalog import logs_generated, read_catalog
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, Session, connect
from lakehouse_cdc.mysql.system_versioning import greatest_end
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.sql.ddl.alter import altered
from lakehouse_cdc.sql.ddl.column_type import Given
from lakehouse_cdc.sql.ddl.statement_session import StatementSession
from lakehouse_cdc.sql.grammar.notation import Choice, Expression, Only, Repeated, Sequence, Word, grammar
from lakehouse_cdc.sql.grammar.reserved import reserved
from lakehouse_cdc.sql.lexer import Dialect, NotUnderstood
from lakehouse_cdc.sql.statements import Statement, StatementKind, classify
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.versions import MARIADB
from tests.support.catalog_schema import added, expected, plain, said_of
from tests.support.grammar_statements import CHECK, NAMES, ROWS, SETUP, Point, Statements
from tests.support.servers import connected

pytestmark = pytest.mark.every_server

NOT_UNDERSTOOD = 0.1  # of the ALTERs that are accepted, at most


def test_what_is_said_of_a_statement_is_what_the_server_does(any_server: MySqlServer, any_database: str) -> None:
    judged = judge(any_server, any_database, 100, seed=1, accepted=0.4)  # those that are seldom accepted come first
    missing = judged.statements.points() - set(judged.statements.seen)
    assert [name for kind, name in missing if kind == "production"] == []


@pytest.mark.long
def test_of_many_statements(any_server: MySqlServer, any_database: str, seed: int) -> None:
    judged = judge(any_server, any_database, 2_000, seed, accepted=0.6)
    assert judged.statements.points() - set(judged.statements.seen) == set()


def judge(server: MySqlServer, database: str, count: int, seed: int, accepted: float) -> Judge:
    """Run statements, of which the server takes that share at least, and compare."""
    session = connect(ConnectionOptions(host="127.0.0.1", port=server.port, user="root", password=""))
    with session, closing(connected(server, database=database)) as connection:
        judged = Judge(server, session, connection.cursor(), database, seed)
        for _ in range(count):
            judged.one()
        judged.forget()
        print(judged.report())
        assert judged.seen["accepted"] >= accepted * count, judged.report()
        assert judged.seen["not understood"] <= NOT_UNDERSTOOD * judged.seen["altered"], judged.report()
        assert judged.wrong == []
        return judged


def test_the_server_reserves_the_words_that_are_said_to_be_reserved(any_server: MySqlServer) -> None:
    """Of all words in the grammar, those that cannot be a name."""
    wanted = reserved(frozenset([NAMES[any_server.version]]))
    words = sorted(wanted.union(*map(keywords, grammar().values())))
    with closing(connected(any_server)) as connection, connection.cursor() as cursor:
        found = {word for word in words if not is_name(cursor, word)}
    assert found == wanted


def is_name(cursor: Any, word: str) -> bool:
    """Whether the server takes it for a name."""
    try:
        cursor.execute(f"SELECT 1 FROM (SELECT 1 AS {word}) q")
    except pymysql.err.ProgrammingError:
        return False
    return True


def keywords(part: Expression) -> set[str]:
    if isinstance(part, Word):
        return {part.text}
    if isinstance(part, Sequence | Choice):
        return set().union(*map(keywords, part.parts))
    return keywords(part.part) if isinstance(part, Only | Repeated) else set()


class Judge:
    """One server's tables, and what is said of the statements that run on them."""

    def __init__(self, server: MySqlServer, session: Session, cursor: Any, database: str, seed: int) -> None:
        self.mariadb = server.version in MARIADB
        self.version = NAMES[server.version]
        self.statements = Statements(self.version, seed, database)
        self.seen: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.accepted: set[Point] = set()
        self.not_understood: list[str] = []
        self.refused: list[str] = []
        self._session, self._cursor, self._database = session, cursor, database
        self._dialect = Dialect(0, self.mariadb)
        cursor.execute("SHOW GLOBAL VARIABLES LIKE 'explicit_defaults_for_timestamp'")
        self._nullable = cursor.fetchone()[1] == "ON"
        self._session_state = StatementSession(1 << 21)  # strict, as these servers are by default
        self._state: dict[str, tuple[str, Any]] = {}
        self._made()

    def forget(self) -> None:
        """Drop the databases that statements made."""
        self._cursor.execute(f"SHOW DATABASES LIKE '{self._database}\\_%'")
        for (name,) in self._cursor.fetchall():
            self._cursor.execute(f"DROP DATABASE `{name}`")

    def report(self) -> str:
        """What was seen, with the points that no accepted statement had."""
        points = self.statements.points()
        missing = sorted(points - self.accepted)
        return (
            f"{self.version}: {dict(self.seen)}; productions and alternatives {len(points & set(self.statements.seen))}"
            f" of {len(points)} made, {len(points & self.accepted)} accepted; never accepted: {missing}"
        )

    def _made(self) -> None:
        """The tables as they are at first, where they are not."""
        now = self._tables()
        self._cursor.execute(f"CREATE DATABASE IF NOT EXISTS {self._database}_x")
        for name in now.keys() - SETUP.keys():
            self._cursor.execute("SET foreign_key_checks = 0")
            self._cursor.execute(f"DROP TABLE IF EXISTS `{name}`")
            self._cursor.execute(f"DROP VIEW IF EXISTS `{name}`")
        self._cursor.execute("SET foreign_key_checks = 1")
        for name, sql in SETUP.items():
            if name not in now or now[name] != self._state.get(name):
                self._cursor.execute("SET foreign_key_checks = 0")
                self._cursor.execute(f"DROP TABLE IF EXISTS {name}")
                self._cursor.execute(sql.format(check="" if self.version == "5.7" else CHECK))
                self._cursor.execute(ROWS[name])
                self._cursor.execute("SET foreign_key_checks = 1")
        self._state = self._tables()

    def _tables(self) -> dict[str, tuple[str, Any]]:
        """Each table's definition and rows."""
        self._cursor.execute("SHOW FULL TABLES WHERE Table_type IN ('BASE TABLE', 'SYSTEM VERSIONED')")
        found: dict[str, tuple[str, Any]] = {}
        for name in [row[0] for row in self._cursor.fetchall()]:
            self._cursor.execute(f"SHOW CREATE TABLE `{name}`")
            text = self._cursor.fetchone()[1]
            try:
                self._cursor.execute(f"SELECT * FROM `{name}`")
            except pymysql.err.MySQLError as error:  # its tablespace was discarded
                found[name] = (text, repr(error))
            else:
                found[name] = (text, Counter(map(repr, self._cursor.fetchall())))
        return found

    def _schema(self, table: str) -> TableSchema | None:
        """None where it cannot be captured."""
        catalog = read_catalog(self._session, Selection([f"{self._database}.{table}"]))
        found = catalog.tables.get(f"{self._database}.{table}")
        return plain(found) if found is not None and not catalog.faults else None

    def _rows(self, schema: TableSchema, names: list[str], table: str) -> Counter[Any]:
        kinds = {column.name: column.type for column in schema.columns}
        shown = [f"`{name}` + 0e0" if kinds[name] == "float" else f"`{name}`" for name in names]
        self._cursor.execute(f"SELECT {', '.join(shown)} FROM {table}")
        return Counter(self._cursor.fetchall())

    def one(self) -> None:
        """One statement."""
        sql = self.statements.statement()
        said = classify(sql, self._database, dialect=self._dialect)
        if said.kind is StatementKind.UNKNOWN:
            self.wrong.append(f"unknown: {sql}")
        table = (
            "p"
            if " TABLE p " in f"{sql} "
            else "h"
            if " TABLE h " in f"{sql} "
            else "k"
            if " TABLE k " in f"{sql} "
            else "t"
        )
        before = self._schema(table)
        assert before is not None
        held = self._rows(before, [c.name for c in before.columns], table)
        try:
            self._cursor.execute(sql)
            self._cursor.fetchall()
            self._cursor.execute("COMMIT")
        except pymysql.err.MySQLError as error:
            self.seen["refused"] += 1
            self.refused.append(f"{error.args} {sql}")
            return
        finally:
            self._cursor.execute(f"USE {self._database}")
        self.seen["accepted"] += 1
        self.accepted |= self.statements.made
        after = self._tables()
        self._compare(sql, said, after)
        if said.alters and said.tables[0] == f"{self._database}.{table}" and after.keys() >= {table}:
            self._compare_schema(sql, table, before, held)
        self._made()

    def _compare(self, sql: str, said: Statement, after: dict[str, tuple[str, Any]]) -> None:
        """Which tables are other ones now."""
        names = after.keys() | self._state.keys()
        changed = {f"{self._database}.{name}" for name in names if after.get(name) != self._state.get(name)}
        if said.kind is not StatementKind.DML and changed - set(said.tables):
            self.wrong.append(f"{sorted(changed)} are changed by {sql}: {said}")
        if said.kind is StatementKind.TRUNCATE and any(after[name.split(".")[1]][1] for name in said.tables):
            self.wrong.append(f"not empty after {sql}")
        if said.drops and any(name.split(".")[1] in after for name in said.tables):
            self.wrong.append(f"not dropped by {sql}")

    def _compare_schema(self, sql: str, table: str, before: TableSchema, held: Counter[Any]) -> None:
        self.seen["altered"] += 1
        after = self._schema(table)
        try:
            given = Given(
                before.charset, self.mariadb, self._nullable, logs_generated(self._session), self._session_state,
                greatest_end=greatest_end(self._session) if self.mariadb else None,
            )  # fmt: skip
            found = altered(sql, before, given, self._dialect)
        except NotUnderstood:
            if after is not None:
                self.seen["not understood"] += 1
                self.not_understood.append(sql)
            return
        if after is None:
            return
        if replace(said_of(found, after), charset=after.charset) != after:
            self.wrong.append(f"{sql}: {plain(found.schema)} is {after}")
        elif found.kept:
            self.seen["kept"] += 1
            names = [*found.origin, *added(after, found)]
            if self._rows(after, names, table) != expected(before, after, found, held):
                self.wrong.append(f"the rows are not kept by {sql}")
