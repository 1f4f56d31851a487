"""A source database under one writer, whose whole state is remembered at every binlog position.

One connection writes, so after each commit the server's position is the end of that transaction and a SELECT is the
state at it. That is the oracle: `states[position]` is what any as-of read at that position must give.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pymysql

from tests.support.positions import binlog_end

Row = dict[str, Any]

# Key columns: the SQL type, and values that have hurt others (collations, signs, padding, extremes).
KEYS: dict[str, tuple[str, list[Any]]] = {
    "int": ("INT NOT NULL", [*range(-5, 40), 2**31 - 1, -(2**31)]),
    "bigint unsigned": (
        "BIGINT UNSIGNED NOT NULL",
        [0, 1, 2, 3, 7, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, *range(1000, 1030)],
    ),
    "few": ("TINYINT NOT NULL", [1, 2]),
    "decimal": ("DECIMAL(20,3) NOT NULL", [Decimal(n) / 1000 for n in (-5000, -1, 0, 1, 15, 999, 10**15, *range(20))]),
    "date": ("DATE NOT NULL", [date(1000, 1, 1) + timedelta(days=n) for n in (0, 1, 2, 364877, *range(300, 320))]),
    "datetime": (
        "DATETIME(6) NOT NULL",
        [datetime(1999, 12, 31, 23, 59, 59, 999999 - n) for n in (0, 1, 999999, *range(10, 30))],
    ),
    "ai_ci": (
        "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci NOT NULL",
        [
            "aGG",
            "agg",
            "GbG",
            "Z",
            "a",
            "A",
            "é",
            "e",
            "E",
            "",
            " ",
            "a ",
            "ß",
            "ss",
            "𝕬",
            "日本",
            "z",
            "Ä",
            "_",
            "\\'",
        ],
    ),
    "general_ci": (
        "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL",
        ["aGG", "agg", "GbG", "Z", "a", "A", "é", "e", "E", "", "a ", "ß", "s", "日本", "z", "Ä", "_", "a\tb", "%"],
    ),
    "latin1": (
        "CHAR(10) CHARACTER SET latin1 COLLATE latin1_swedish_ci NOT NULL",
        ["aGG", "GbG", "Z", "a", "A", "é", "E", "", "ÿ", "€", "Ü", "y", "o", "ö", "\x81"],
    ),
    "bin": (
        "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL",
        ["aGG", "GbG", "Z", "a", "A", "é", "", "𝕬", "日本", "a b", "zz"],
    ),
    "binary": (
        "BINARY(4) NOT NULL",
        [bytes([n, 0, 0, m]) for n in (0, 0x7F, 0x80, 0xFF) for m in (0, 1, 0x80, 0xFF)],
    ),
    "utf16": ("VARCHAR(9) CHARACTER SET utf16 NOT NULL", ["aGG", "a", "A", "é", "", "日本", "a b", "😀", "z"]),
    "sjis": ("CHAR(9) CHARACTER SET sjis NOT NULL", ["aGG", "a", "A", "", "日本", "ｱ", "ア", "\\", "z", "Z"]),
    "year": ("YEAR NOT NULL", [0, 1901, 1970, 2155, *range(1999, 2030)]),
    "time": (
        "TIME(3) NOT NULL",
        ["-838:59:59.000", "-00:00:00.001", "00:00:00.000", "09:00:00.000", "10:00:00.500", "100:00:00.000"],
    ),
    "bit": ("BIT(33) NOT NULL", [0, 1, 2, 255, 256, 2**32, 2**33 - 1, *range(70, 90)]),
    "enum": ("ENUM('z', 'a', 'm', '9', '10', 'it''s') NOT NULL", ["z", "a", "m", "9", "10", "it's"]),
    "set": ("SET('z', 'a', 'm', '9') NOT NULL", ["", "z", "a", "z,a", "m", "z,m", "a,m", "z,a,m", "9", "z,9"]),
    "varbinary": ("VARBINARY(8) NOT NULL", [b"", b"\0", b"\0\0", b"\x7f", b"\x80", b"\xff", b"a", b"A", b"ab", b"'"]),
}
# read as one view: the values repeat in no condition, or the index has prefixes alone; a kind with `(n)` is a prefix
_FLOATS = [
    0.0,
    -0.0,
    1.1,
    -1.1,
    0.1,
    3.4e38,
    -3.4e38,
    1e-45,
    16777216.0,
    16777217.0,
    5592405.5,
    *(n / 7 for n in range(20)),
]
WHOLE_KEYS: dict[str, tuple[str, list[Any]]] = {
    "float": ("FLOAT NOT NULL", _FLOATS),
    "double": ("DOUBLE NOT NULL", [*_FLOATS, 1.7e308, 5e-324, 0.1 + 0.2, 2.0**53 + 1]),
    "prefix(2)": (
        "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL",
        ["", "a", "A ", "ab", "abc", "ABD", "é", "éx", "ß", "s", "日本語", "日本", "zz", "zzz", "_"],
    ),
    "text(3)": ("TEXT CHARACTER SET utf8mb4 NOT NULL", ["", " ", "abc", "abcd", "ABCe", "a ", "ss", "ß", "x" * 3000]),
    "blob(2)": ("BLOB NOT NULL", [b"", b"\0", b"\0\0", b"a", b"A", b"ab", b"abc", b"\xff\xff", b"\xff\xff\0"]),
}
KEYS |= WHOLE_KEYS
# what MariaDB alone has
MARIADB_KEYS: dict[str, tuple[str, list[Any]]] = {
    "uuid": ("UUID NOT NULL", [str(UUID(int=n << 77 | n, version=1 + n % 5)) for n in range(1, 24)]),
    "inet6": (
        "INET6 NOT NULL",
        ["::", "::1", "::ffff:1.2.3.4", "fe80::1", "1::", *(f"2001:db8::{n:x}" for n in range(20))],
    ),
    "inet4": ("INET4 NOT NULL", ["0.0.0.0", "255.255.255.255", *(f"10.0.{n}.9" for n in range(0, 250, 9))]),
}

ALL_KEYS = KEYS | MARIADB_KEYS

KEYLESS = "no key"
UNIQUE = "unique key"
VERSIONED = "versioned"
PERIOD = "versioned, by columns of its own"
MARKS = (KEYLESS, UNIQUE, VERSIONED, PERIOD)

# how a test reads what its client has in another form than VARIANT
SHOWN = {"time": "CAST({} AS CHAR)", "bit": "CAST({} AS UNSIGNED)", "float": "{} * 1e0"}  # a FLOAT is printed rounded


@dataclass
class Table:
    """`database.name` with key columns k0, k1, ... of the given kinds and two plain columns.

    With `KEYLESS` in front of the kinds they are no key, and many rows are alike; with `UNIQUE` the key is an index.
    With `VERSIONED` or `PERIOD` in front of these the table is system-versioned; that declares columns for it.
    """

    database: str
    name: str
    kinds: tuple[str, ...]
    engine: str = "InnoDB"

    def __post_init__(self) -> None:
        marks = [kind for kind in self.kinds if kind in MARKS]
        self.keyed, self.unique = KEYLESS not in marks, UNIQUE in marks
        self.versioned = VERSIONED in marks or PERIOD in marks
        self.period = ["s", "e"] if PERIOD in marks else []
        self.kinds = tuple(kind for kind in self.kinds if kind not in MARKS)

    @property
    def full(self) -> str:
        return f"{self.database}.{self.name}"

    @property
    def keys(self) -> list[str]:
        return [f"k{i}" for i in range(len(self.kinds))]

    def create(self) -> str:
        columns = [f"`{k}` {ALL_KEYS[kind][0]}" for k, kind in zip(self.keys, self.kinds, strict=True)]
        # the key is not the first column, and its order is not the columns' order
        prefixes = (f"({kind.partition('(')[2]}" if "(" in kind else "" for kind in self.kinds)
        parts = ", ".join(map(str.__add__, self.keys, prefixes))
        key = f", {'UNIQUE first' if self.unique else 'PRIMARY KEY'} ({parts})" if self.keyed else ""
        start, end = (f"TIMESTAMP(6) GENERATED ALWAYS AS ROW {which}" for which in ("START", "END"))
        period = f", s {start}, e {end} INVISIBLE, PERIOD FOR SYSTEM_TIME (s, e)" if self.period else ""
        return (
            f"CREATE TABLE `{self.database}`.`{self.name}` (v INT, {', '.join(reversed(columns))}{period}, "
            f"note VARCHAR(300) CHARACTER SET latin1{key}) ENGINE={self.engine}"
            f"{' WITH SYSTEM VERSIONING' if self.versioned else ''}"
        )

    def random_key(self, rng: random.Random) -> list[Any]:
        return [rng.choice(ALL_KEYS[kind][1]) for kind in self.kinds]


@dataclass
class World:
    """The writer, and what it remembers."""

    connection: pymysql.Connection
    tables: list[Table]
    rng: random.Random
    states: dict[tuple[str, int], dict[str, dict[Any, Row]]] = field(default_factory=dict)
    counter: int = 0
    mariadb: bool = False
    ddl: Mapping[str, float] = field(default_factory=dict)  # how often a transaction is one of these instead
    calm: bool = False  # no DDL any more
    altered: dict[str, tuple[str, int]] = field(default_factory=dict)  # where each table was, the last time
    doubtful: list[tuple[str, tuple[str, int], tuple[str, int]]] = field(default_factory=list)  # see `test_exact`
    second: Callable[[], pymysql.Connection] | None = None  # for XA transactions, which outlive their sessions
    pending: list[str] = field(default_factory=list)

    def create(self) -> None:
        self.mariadb = "MariaDB" in self.run("SELECT VERSION()")[0][0]
        for table in self.tables:
            self.run(table.create())
        self.remember()

    def run(self, sql: str, args: Any = None) -> Any:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, args)
            return cursor.fetchall()

    def position(self) -> tuple[str, int]:
        return binlog_end(self.connection)

    def remember(self) -> None:
        self.states[self.position()] = {table.full: self.rows(table) for table in self.tables}

    def rows(self, table: Table) -> dict[Any, Row]:
        columns = ["v", *reversed(table.keys), "note", *self.more(table), *table.period]
        kinds = dict(zip(table.keys, table.kinds, strict=True))
        shown = [SHOWN.get(kinds.get(name, ""), "{}").format(name) for name in columns]
        try:
            found = self.run(f"SELECT {', '.join(shown)} FROM `{table.database}`.`{table.name}`")
        except pymysql.err.ProgrammingError as error:
            if error.args[0] != 1146:
                raise
            return {}  # there is none at the moment
        rows = [dict(zip(columns, values, strict=True)) for values in found]
        for row in rows:
            row |= {name: row[name].replace(tzinfo=timezone.utc) for name in table.period}
        if not table.keyed:
            return dict(enumerate(rows))
        return {tuple(sorted((k, row[k]) for k in table.keys)): row for row in rows}

    def transaction(self, size: int | None = None) -> None:
        """One random transaction over random tables; one in eight is rolled back."""
        draw = self.rng.random() + self.calm
        for kind, often in self.ddl.items():
            if 0 <= draw < often:
                does = {
                    "truncate": self.truncate,
                    "alter": self.alter,
                    "replace": self.replace,
                    "create": self.birth,
                    "key": self.rekey,
                    "versioning": self.version,
                }
                self.decide()  # DDL would wait for a transaction that is prepared and has written to the table
                chosen = [table for table in self.tables if table.unique] if kind == "key" else self.tables
                does[kind](self.rng.choice(chosen))
                return
            draw -= often
        if self.second is not None and self.rng.random() < 0.4:
            self.xa(self.second())
            return
        try:
            self.plain_transaction(size)
        except pymysql.err.OperationalError as error:
            if error.args[0] != 1205 or not self.pending:  # it waited for a row that an XA transaction holds
                raise
            self.run("ROLLBACK")
            self.decide()

    def truncate(self, table: Table) -> None:
        self.run(f"TRUNCATE TABLE `{table.database}`.`{table.name}`")
        self.remember()
        self.altered[table.full] = self.position()

    def alter(self, table: Table) -> None:
        """Something that the rows bear: columns x0, x1, ... come, go, and change; `v` and `note` get another type."""
        more, self.counter = self.more(table), self.counter + 1
        new, kind = f"x{self.counter}", self.rng.choice(["INT", "BIGINT", "VARCHAR(30)", "VARCHAR(40) CHARSET utf8mb4"])
        place = self.rng.choice(["", " FIRST", " AFTER v", " AFTER k0"])
        clauses = [
            f"ADD COLUMN {new} {kind}{place}", f"ADD COLUMN {new} {kind}{place}, ADD {new}b DECIMAL(9,2)",
            f"ADD COLUMN {new} INT NOT NULL DEFAULT 7", f"MODIFY v {self.rng.choice(['INT', 'BIGINT', 'INT FIRST'])}",
            f"MODIFY note VARCHAR({self.rng.choice([300, 400])}) CHARSET {self.rng.choice(['latin1', 'utf8mb4'])}",
            f"ADD INDEX {new} (v)",
        ]  # fmt: skip
        clauses += [f"ENGINE = {engine}" for engine in ("InnoDB", table.engine) if table.engine != "InnoDB"]
        if more:
            one, two = self.rng.choice(more), self.rng.choice(more)
            clauses += [
                f"DROP COLUMN {one}", f"DROP COLUMN {one}, ADD COLUMN {one} {kind}", f"CHANGE {one} {new} {kind}",
                f"CHANGE {one} {two} INT, CHANGE {two} {one} INT" if one != two else f"MODIFY {one} {kind}{place}",
                f"DROP {one}, CHANGE v v INT, ADD {new} {kind}",
            ]  # fmt: skip
        self.run(f"ALTER TABLE `{table.database}`.`{table.name}` {self.rng.choice(clauses)}")
        self.remember()
        self.altered[table.full] = self.position()

    def rekey(self, table: Table) -> None:
        """Another key, or none, by indexes over the same columns: no two rows ever have the same values there."""
        name, parts, kind = f"`{table.database}`.`{table.name}`", ", ".join(table.keys), ALL_KEYS[table.kinds[0]][0]
        found = self.run(f"SHOW INDEX FROM {name} WHERE NON_UNIQUE = 0")
        here, self.counter = [*dict.fromkeys(str(row[2]) for row in found)], self.counter + 1
        index, new, primary = self.rng.choice(here), f"i{self.counter}", "PRIMARY" in here
        drop = "DROP PRIMARY KEY" if index == "PRIMARY" else f"DROP INDEX {index}"
        clauses = [
            f"{drop}, ADD UNIQUE {new} ({parts})", f"ADD UNIQUE ({', '.join(reversed(table.keys))})",
            f"ADD CONSTRAINT {new} UNIQUE ({parts})", f"MODIFY k0 {kind}",
        ]  # fmt: skip
        clauses += [drop] if len(here) > 1 else []
        clauses += [f"RENAME INDEX {index} TO {new}"] if index != "PRIMARY" else []
        if not primary:
            clauses += [f"MODIFY k0 {kind.replace('NOT NULL', 'NULL')}", f"ADD PRIMARY KEY ({parts})"]
        self.run(f"ALTER TABLE {name} {self.rng.choice(clauses)}")
        self.remember()
        self.altered[table.full] = self.position()

    def version(self, table: Table) -> None:
        """It becomes system-versioned, or ceases to be; or its history is put into partitions of its own."""
        name = f"`{table.database}`.`{table.name}`"
        there = str(self.run(f"SHOW CREATE TABLE {name}")[0][1])
        clauses = ["ADD SYSTEM VERSIONING"]
        if "WITH SYSTEM VERSIONING" in there:
            clauses = ["DROP SYSTEM VERSIONING"]
            by_time = " PARTITION BY SYSTEM_TIME LIMIT 1000 (PARTITION p HISTORY, PARTITION c CURRENT)"
            clauses = ["REMOVE PARTITIONING"] if "PARTITION BY" in there else [*clauses, by_time]
        if table.period:
            clauses = ["FORCE"]
        self.run(f"ALTER TABLE {name} {self.rng.choice(clauses)}")
        self.remember()
        self.altered[table.full] = self.position()

    def replace(self, table: Table) -> None:
        """Another table gets the name: one made beside it, with some of its rows, or a new one; or it comes back."""
        self.counter += 1
        name, new, old = (f"`{table.database}`.`{n}`" for n in (table.name, f"_{table.name}_gho", f"_{table.name}_del"))
        columns = ", ".join(["v", *table.keys, "note", *self.more(table)])
        part = self.rng.choice(["", " WHERE v % 3 > 0"])
        moves = self.rng.choice(
            [
                [
                    f"CREATE TABLE {new} LIKE {name}", f"ALTER TABLE {new} ADD x{self.counter} INT NOT NULL DEFAULT 3",
                    f"INSERT INTO {new} ({columns}) SELECT {columns} FROM {name}{part}",
                    f"RENAME TABLE {name} TO {old}, {new} TO {name}", f"DROP TABLE {old}",
                ],
                [f"DROP TABLE {name}", table.create()],
                [f"RENAME TABLE {name} TO {old}", f"RENAME TABLE {old} TO {name}"],
            ]
        )  # fmt: skip
        for sql in moves:
            self.run(sql)
            self.remember()
        self.altered[table.full] = self.position()

    def birth(self, table: Table) -> None:
        """Another table like one that there is, and, for some, something done to it at once."""
        new = Table(table.database, f"t{len(self.tables)}", table.kinds, table.engine)
        if len(self.tables) < 6:
            self.run(new.create())
            self.tables.append(new)
            self.remember()
            for does in self.rng.choice([(), (), (self.alter,), (self.truncate,), (self.statement, self.alter)]):
                does(new)
                self.remember()
            self.altered[new.full] = self.position()

    def more(self, table: Table) -> list[str]:
        """The columns that have been added."""
        if not self.ddl:
            return []
        sql = "SELECT COLUMN_NAME FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
        return sorted(str(name) for (name,) in self.run(sql, [table.database, table.name]) if name[0] == "x")

    def xa(self, session: pymysql.Connection) -> None:
        """Prepare one in a session that then ends; or decide on one that is prepared."""
        if self.pending:
            session.close()
            self.decide()
            return
        xid, own, self.counter = f"xa{self.counter}", self.connection, self.counter + 1
        self.connection = session
        try:
            self.run(f"XA START '{xid}'")
            for _ in range(self.rng.choice([1, 1, 3])):
                self.statement(self.rng.choice(self.tables))
            self.run(f"XA END '{xid}'")
            self.run(f"XA PREPARE '{xid}'")
            [(number,)] = self.run("SELECT CONNECTION_ID()")
        finally:
            self.connection = own
            session.close()
        while self.run("SELECT 1 FROM INFORMATION_SCHEMA.PROCESSLIST WHERE ID = %s", [number]):
            time.sleep(0.001)  # until then nobody else may decide on it
        self.pending.append(xid)
        self.remember()

    def decide(self) -> None:
        """Commit, or roll back, what is prepared; one that changed nothing has ended with its session."""
        while self.pending:
            verb = "COMMIT" if self.rng.random() < 0.8 else "ROLLBACK"
            try:
                self.run(f"XA {verb} '{self.pending.pop()}'")
            except pymysql.err.OperationalError as error:
                if error.args[0] not in (1397, 1402):  # the second is MariaDB's
                    raise
            self.remember()

    def plain_transaction(self, size: int | None = None) -> None:
        by_itself = any(table.engine != "InnoDB" for table in self.tables)  # each statement is logged, and remains
        self.run("DO 0" if by_itself else "BEGIN")
        for _ in range(size or self.rng.choice([1, 1, 2, 5, 30])):
            self.statement(self.rng.choice(self.tables))
            if by_itself:
                self.remember()
        if self.rng.random() < 0.125:
            self.run("ROLLBACK")
        else:
            self.run("COMMIT")
        self.remember()

    def statement(self, table: Table) -> None:
        name, keys = f"`{table.database}`.`{table.name}`", table.keys
        where = " AND ".join(f"{k} = %s" for k in keys)
        key = table.random_key(self.rng)
        self.counter += 1
        values = [self.counter, *key, self.rng.choice([None, "", "x" * 300, f"é{self.counter}"])]
        what = self.rng.randrange(10)
        if not table.keyed:
            values = [self.rng.randrange(3), *key, self.rng.choice([None, "", "é"])]
            if self.rng.random() < 0.2:
                self.run(f"DELETE FROM {name} LIMIT {self.rng.randrange(1, 4)}")
                return
        more = self.more(table)
        if table.versioned and not self.ddl and self.rng.random() < 0.1:
            self.run(f"DELETE HISTORY FROM {name}")
            return
        if more and self.rng.random() < 0.2:
            self.run(f"UPDATE {name} SET {self.rng.choice(more)} = %s", [self.counter])
            return
        if what < 4:
            columns = ", ".join(["v", *keys, "note"])
            self.run(f"REPLACE INTO {name} ({columns}) VALUES ({', '.join(['%s'] * len(values))})", values)
        elif what < 6:
            self.run(f"UPDATE {name} SET v = %s WHERE {where}", [self.counter, *key])
        elif what < 8:
            self.run(f"DELETE FROM {name} WHERE {where}", key)
        elif what < 9:  # a key update, often onto the same key in another spelling
            sets = ", ".join(f"{k} = %s" for k in keys)
            self.run(f"UPDATE IGNORE {name} SET {sets} WHERE {where}", [*table.random_key(self.rng), *key])
        else:
            self.run(f"UPDATE {name} SET v = v + 1 LIMIT 7")

    def some(self, n: int) -> None:
        for _ in range(self.rng.randrange(n + 1)):
            self.transaction()
        if self.rng.random() < 0.05:
            self.run("FLUSH BINARY LOGS")
            self.await_checkpoint()
            self.remember()

    def await_checkpoint(self) -> None:
        """MariaDB notes some time later, in a new file, that the older ones are not needed after a crash.

        Behind a transaction that came first, that would hide where the transaction ended.
        """
        file, _ = self.position()
        while self.mariadb and file not in [row[5] for row in self.run(f"SHOW BINLOG EVENTS IN '{file}'")]:
            time.sleep(0.001)

    def state(self, position: tuple[str, int]) -> dict[str, dict[Any, Row]]:
        """The state at a position at which a transaction ended.

        In front of MariaDB's checkpoint the state is that of the file's begin: see `await_checkpoint`.
        """
        if position not in self.states and self.mariadb:
            position = max(known for known in self.states if known <= position)
        assert position in self.states, f"W = {position} is not the end of a transaction"
        return self.states[position]

    def is_end(self, position: tuple[str, int]) -> bool:
        """Whether nothing is behind a position, but for such a checkpoint."""
        return position == self.position() or (self.mariadb and position >= max(self.states))


def shop_tables(database: str, shapes: Iterable[tuple[str, ...]]) -> list[Table]:
    return [Table(database, f"t{i}", kinds) for i, kinds in enumerate(shapes)]
