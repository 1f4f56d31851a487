"""DDL on real servers: what a statement is said to make of a table is what the server made of it, rows too."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pymysql
import pytest

from lakehouse_cdc.mysql.catalog import logs_generated, read_tables
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, Session, connect
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.sql.ddl.alter import altered
from lakehouse_cdc.sql.ddl.column_type import Given
from lakehouse_cdc.sql.lexer import NotUnderstood
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.versions import MARIADB
from tests.support.catalog_schema import added, expected, plain, said_of
from tests.support.servers import connected

pytestmark = pytest.mark.every_server

# types that one column may take after another, with values of theirs
NUMBERS = [
    *("TINYINT", "TINYINT(1)", "BOOL", "SMALLINT UNSIGNED", "INT1", "INT2", "MIDDLEINT", "INT3", "INT", "INTEGER(7)"),
    *("INT UNSIGNED ZEROFILL", "INT4", "INT8", "BIGINT", "BIGINT UNSIGNED", "INT SIGNED", "DEC", "DECIMAL(12,3)"),
    *("NUMERIC(12)", "FIXED(14,3)", "DECIMAL(20,0) UNSIGNED", "FLOAT", "FLOAT(24)", "FLOAT(25)", "FLOAT(9,3)"),
    *("DOUBLE PRECISION", "DOUBLE(12,3)", "DOUBLE UNSIGNED", "YEAR", "BIT(9)", "BIT"),
]
TEXTS = [
    *("CHAR", "CHAR(12)", "CHARACTER(20)", "NCHAR(9)", "NATIONAL CHAR(8)", "NATIONAL VARCHAR(8)", "NVARCHAR(8)"),
    *("VARCHAR(12)", "VARCHAR(300)", "CHARACTER VARYING(20)", "VARCHAR(15) CHARACTER SET latin1", "VARCHAR(15) ASCII"),
    *("CHAR(9) CHARSET utf8", "CHAR(7) UNICODE", "TEXT", "TEXT(200)", "TEXT(20000)", "TEXT(70000)", "TINYTEXT"),
    *("MEDIUMTEXT CHARACTER SET latin1", "LONGTEXT COLLATE utf8mb4_bin", "VARCHAR(9) COLLATE latin1_bin"),
    *("ENUM('a', 'b', 'it''s')", "ENUM('b', 'a', '', 'it\\'s', 'c ')", "SET('a', 'b')", "ENUM('a') CHARSET latin1"),
    *("CHAR(9) CHARACTER SET binary", "TEXT CHARACTER SET binary", "CHAR(8) BYTE"),
]
BYTES = ["BINARY", "BINARY(8)", "BINARY(12)", "VARBINARY(9)", "VARBINARY(300)", "BLOB", "BLOB(100)", "BLOB(70000)",
         "TINYBLOB", "LONGBLOB"]  # fmt: skip
TIMES = ["DATE", "DATETIME", "DATETIME(6)", "DATETIME(2)", "TIMESTAMP NULL", "TIMESTAMP(3) NULL", "TIME", "TIME(2)"]
OTHERS = ["JSON", "GEOMETRY", "POINT"]
VALUES = [
    (NUMBERS, ["0", "1", "-7", "100", "255", "2020", "1.5", "NULL"]),
    (TEXTS, ["''", "'a'", "'b'", "'it''s'", "'é'", "'a  '", "NULL"]),
    (BYTES, ["''", "'a'", "X'00FF'", "'a '", "NULL"]),
    (TIMES, ["'2020-01-02 03:04:05.678'", "'2021-12-31'", "'11:12:13'", "NULL"]),
    (OTHERS, ["NULL"]),
]
FAMILIES = (NUMBERS, TEXTS, BYTES, TIMES, OTHERS)
ATTRIBUTES = [
    *("", "", "", "NULL", "NOT NULL", "NULL DEFAULT NULL", "COMMENT 'x, \\' (y'", "UNIQUE", "COLUMN_FORMAT DEFAULT"),
    *("DEFAULT 7", "NOT NULL DEFAULT '5'", "DEFAULT -1", "DEFAULT 1.5 NOT NULL", "DEFAULT 'a'", "DEFAULT 'b '"),
    *("DEFAULT TRUE", "DEFAULT (1 + 1)", "DEFAULT '2020-01-02'", "DEFAULT X'61'"),
]
NOTHING = [
    "ADD INDEX i{n} (id)", "ADD KEY k{n} (`c0`, id)", "ADD CONSTRAINT u{n} UNIQUE (id)", "COMMENT = 'a, b'", "FORCE",
    "ENGINE=InnoDB", "ROW_FORMAT=DYNAMIC", "ALGORITHM=COPY", "AUTO_INCREMENT=77",
    "DEFAULT CHARACTER SET = latin1", "CHARSET utf8mb4 COLLATE utf8mb4_bin", "DEFAULT COLLATE latin1_bin",
    "ADD CONSTRAINT c{n} CHECK (id <> -5)", "ALTER COLUMN id SET DEFAULT 5", "ALTER id DROP DEFAULT", "ORDER BY id",
    "STATS_PERSISTENT=1 STATS_SAMPLE_PAGES 9, KEY_BLOCK_SIZE 0", "ENABLE KEYS", "PARTITION BY HASH(id) PARTITIONS 3",
]  # fmt: skip


def values(kind: str) -> list[str]:
    return next(values for kinds, values in VALUES if kind in kinds)


class Ddl:
    """Random statements on one table, which the server may refuse."""

    def __init__(self, seed: int, mariadb: bool) -> None:
        self.rng = random.Random(seed)
        self.families = [f if f is not OTHERS or not mariadb else ["JSON"] for f in FAMILIES]
        self.count = 0

    def created(self) -> tuple[str, list[str]]:
        """A table of random columns, and its statements of rows."""
        kinds = [self.rng.choice(self.rng.choice(self.families)) for _ in range(self.rng.randrange(2, 5))]
        columns = ", ".join(f"`c{i}` {kind}" for i, kind in enumerate(kinds))
        self.family = {f"c{i}": next(f for f in self.families if kind in f) for i, kind in enumerate(kinds)}
        rows = [
            f"INSERT IGNORE INTO t VALUES ({n}, {', '.join(self.rng.choice(values(kind)) for kind in kinds)})"
            for n in range(1, 9)
        ]
        self.count = len(kinds)
        return f"CREATE TABLE t (id INT NOT NULL PRIMARY KEY, {columns}) CHARACTER SET utf8mb4", rows

    def statement(self, names: list[str]) -> str:
        if self.rng.random() < 0.1:
            self.count += 1
            return self.rng.choice(
                [f"CREATE INDEX x{self.count} ON t (id)", f"CREATE UNIQUE INDEX x{self.count} ON t (id)"]
            )
        return "ALTER TABLE t " + ", ".join(self.clause(names) for _ in range(self.rng.choice([1, 1, 2, 3])))

    def clause(self, names: list[str]) -> str:
        name, self.count = self.rng.choice(names), self.count + 1
        family = self.family.get(name.lower(), NUMBERS)
        kind = self.rng.choice(family if self.rng.random() < 0.8 else self.rng.choice(self.families))
        rest = f"{kind} {self.rng.choice(ATTRIBUTES)} {self.place(names)}".strip()
        new = f"n{self.count}" if self.rng.random() < 0.9 else name.upper()
        self.family[new] = self.rng.choice(self.families)
        what = self.rng.randrange(12)
        if what < 2:
            return f"{self.rng.choice(['ADD', 'ADD COLUMN'])} {new} {rest}"
        if what < 3:
            return f"ADD (`{new}` {kind}, {new}x DATE, INDEX ix{self.count} (id))"
        if what < 5:
            return f"{self.rng.choice(['MODIFY', 'MODIFY COLUMN'])} `{name}` {rest}"
        if what < 7:
            return f"CHANGE {name} {self.rng.choice([new, name])} {rest}"
        if what < 8:
            return f"DROP {self.rng.choice(['', 'COLUMN '])}{name}"
        if what < 9:
            other = self.rng.choice(names)
            swap = f"RENAME COLUMN {name} TO {other}, RENAME COLUMN {other} TO {name}"
            return self.rng.choice([f"RENAME COLUMN {name} TO {new}", swap])
        if what < 10:
            return self.rng.choice([
                f"ADD PRIMARY KEY ({name}, id)", "DROP PRIMARY KEY", "DROP PRIMARY KEY, ADD PRIMARY KEY (id DESC)",
                f"CONVERT TO CHARACTER SET {self.rng.choice(['utf8mb4', 'latin1', 'utf8'])}",
            ])  # fmt: skip
        return self.rng.choice(NOTHING).format(n=self.count)

    def place(self, names: list[str]) -> str:
        return self.rng.choice(["", "", "FIRST", f"AFTER {self.rng.choice(names)}", f"AFTER `n{self.count - 1}`"])


@pytest.fixture
def session(any_server: MySqlServer) -> Iterator[Session]:
    with connect(ConnectionOptions(host="127.0.0.1", port=any_server.port, user="root", password="")) as session:
        yield session


def known(session: Session, database: str) -> TableSchema:
    """As the server's catalog has it; the names of collations and of utf8mb3 are its own."""
    [schema] = read_tables(session, Selection([f"{database}.t"])).values()
    return plain(schema)


def rows(cursor: Any, schema: TableSchema, names: list[str]) -> Counter[Any]:
    """All rows, a float as its exact value."""
    kinds = {column.name: column.type for column in schema.columns}
    shown = [f"`{name}` + 0e0" if kinds[name] == "float" else f"`{name}`" for name in names]
    cursor.execute(f"SELECT {', '.join(shown)} FROM t")
    return Counter(cursor.fetchall())


@pytest.mark.parametrize("seed", range(6))
def test_the_server_agrees(any_server: MySqlServer, any_database: str, session: Session, seed: int) -> None:
    agree(any_server, any_database, session, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 200))
def test_the_server_agrees_many_times(any_server: MySqlServer, any_database: str, session: Session, seed: int) -> None:
    agree(any_server, any_database, session, seed)


def agree(any_server: MySqlServer, any_database: str, session: Session, seed: int) -> None:
    ddl = Ddl(seed, any_server.version in MARIADB)
    seen = Counter[str]()
    with closing(connected(any_server, database=any_database)) as connection:
        cursor = connection.cursor()
        cursor.execute(f"SET sql_mode = {ddl.rng.choice(['DEFAULT', repr('')])}")
        cursor.execute("SHOW GLOBAL VARIABLES LIKE 'explicit_defaults_for_timestamp'")
        nullable = cursor.fetchone()[1] == "ON"
        sql, inserts = ddl.created()
        try:
            for statement in (sql, *inserts):
                cursor.execute(statement)
        except pymysql.err.MySQLError:
            pytest.fail(sql)
        before = known(session, any_database)
        for _ in range(25):
            sql = ddl.statement([column.name for column in before.columns])
            given = Given(before.charset, any_server.version in MARIADB, nullable, logs_generated(session))
            held = rows(cursor, before, [column.name for column in before.columns])
            try:
                cursor.execute(sql)
            except pymysql.err.MySQLError:
                seen["refused"] += 1
                continue
            after = known(session, any_database)
            try:
                said = altered(sql, before, given)
            except NotUnderstood:
                seen["not understood"] += 1
                assert any(word in sql for word in ("CONVERT", "IF", "AFTER", "CHARACTER", "CHARSET", "COLLATE")), sql
            else:
                seen["understood"] += 1
                assert said_of(said, after) == after, sql
                if said.kept:
                    seen["kept"] += 1
                    found = rows(cursor, after, [*said.origin, *added(after, said)])
                    assert found == expected(before, after, said, held), sql
            before = after
    assert seen["understood"] > seen["not understood"], seen
