"""A run of one writer that is written down: what it said, and where each transaction ended; it can be said again."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pymysql

from lakehouse_cdc.model.gtid import GtidSet, gtid_text
from tests.support.positions import binlog_end

_WORDS = (None, "", "plain", "naïve 𝄞", "O'Brien", "x" * 60)
_TABLES = (
    "CREATE TABLE orders (id INT PRIMARY KEY, status VARCHAR(80) CHARACTER SET utf8mb4, total DECIMAL(12,2))",
    "CREATE TABLE order_lines (order_id INT, line SMALLINT, quantity INT, PRIMARY KEY (order_id, line))",
    "CREATE TABLE aside (id INT AUTO_INCREMENT PRIMARY KEY, v INT)",
)
_ALTERS = (
    "ALTER TABLE orders ADD COLUMN note VARCHAR(20) DEFAULT 'none'",
    "ALTER TABLE orders RENAME COLUMN status TO state",
    "ALTER TABLE order_lines MODIFY quantity BIGINT",
    "ALTER TABLE orders DROP COLUMN total",
)
_RENAMED_BEFORE_8 = "ALTER TABLE orders CHANGE status state VARCHAR(80) CHARACTER SET utf8mb4"


@dataclass(frozen=True)
class Done:
    """One transaction: its statements, and how the server calls the moment behind it."""

    statements: tuple[str, ...]
    gtid: str
    position: str


@dataclass
class RecordedRun:
    """Random transactions in a database, on its tables and on `aside`; nobody else writes to the server meanwhile."""

    connection: pymysql.Connection[Any]
    rng: random.Random
    done: list[Done] = field(default_factory=list)

    def __post_init__(self) -> None:
        version = str(self._ask("SELECT VERSION()"))
        self._mariadb = "MariaDB" in version
        self._uuid = "" if self._mariadb else str(self._ask("SELECT @@server_uuid"))
        self._alters = [_RENAMED_BEFORE_8 if "RENAME COLUMN" in a and version.startswith("5.") else a for a in _ALTERS]
        self._names = {"status": "status", "total": "total"}
        for statement in _TABLES:
            self.say(statement)
        for i in range(40):
            self.say(f"INSERT INTO orders VALUES ({i}, {self._word()}, {i}.25)")

    def say(self, *statements: str) -> None:
        """One transaction."""
        with self.connection.cursor() as cursor:
            cursor.execute("BEGIN")
            for statement in statements:
                cursor.execute(statement, ())
            cursor.execute("COMMIT")
        file, pos = binlog_end(self.connection)
        self.done.append(Done(statements, self._gtid(), f"{file}:{pos}"))

    def go_on(self, transactions: int) -> None:
        """So many more."""
        for _ in range(transactions):
            what = self.rng.random()
            if what < 0.15:
                self.say(f"INSERT INTO aside (v) VALUES ({self.rng.randint(0, 9)})")
            else:
                self.say(*(self._change() for _ in range(self.rng.randint(1, 4))))

    def alter(self) -> None:
        """The next change of a table's schema, while there is one."""
        if self._alters:
            statement = self._alters.pop(0)
            self.say(statement)
            self._names["status"] = "state" if "state" in statement else self._names["status"]
            if "DROP COLUMN total" in statement:
                del self._names["total"]

    def _change(self) -> str:
        key, rng = self.rng.randint(0, 60), self.rng
        text = self._names["status"]
        total = f", total = {rng.randint(0, 999)}.50" if "total" in self._names else ""
        return rng.choice([
            f"INSERT INTO orders SET id = {key}, {text} = {self._word()}{total}"
            f" ON DUPLICATE KEY UPDATE {text} = {self._word()}{total}",
            f"UPDATE orders SET {text} = {self._word()}{total} WHERE id BETWEEN {key} AND {key + 5}",
            f"DELETE FROM orders WHERE id = {key}",
            f"REPLACE INTO order_lines VALUES ({key}, {rng.randint(1, 4)}, {rng.randint(1, 9)})",
            f"DELETE FROM order_lines WHERE order_id = {key}",
            f"UPDATE IGNORE orders SET id = id + 100 WHERE id = {key}",
        ])  # fmt: skip

    def _word(self) -> str:
        word = self.rng.choice(_WORDS)
        return "NULL" if word is None else str(self.connection.escape(word))

    def _ask(self, query: str) -> Any:
        with self.connection.cursor() as cursor:
            cursor.execute(query)
            [(value,)] = cursor.fetchall()
        return value

    def _gtid(self) -> str:
        asked = "@@GLOBAL.gtid_binlog_pos" if self._mariadb else "@@GLOBAL.gtid_executed"
        sources = GtidSet.parse(self._ask(f"SELECT {asked}")).sources
        source = max(sources, key=lambda s: sources[s][-1][1]) if self._mariadb else self._uuid
        return gtid_text(source, sources[source][-1][1] - 1)
