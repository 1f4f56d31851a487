"""A shop that never stops writing: four tables on a real server, filled fast, then changed by random transactions.

It is made to be hard on a reader of changes: keys of every kind that orders differ by (auto-increment, unsigned, two
columns, text under an accent- and case-insensitive collation), text in three character sets, NULLs, fractions of a
second; see `shop_writes` for the transactions. There are no foreign keys: a cascade is not in the binlog.

All that is written follows from the seed, the rows that are there and, with several writers, their interleaving.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from types import TracebackType
from typing import Any

import pymysql

from lakehouse_cdc.testing import shop_rows
from lakehouse_cdc.testing.shop_writes import Tally, write_transaction

TABLES = ("customers", "products", "orders", "order_lines")

_CREATE = (
    """
    CREATE TABLE IF NOT EXISTS customers (
      id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
      name VARCHAR(80) NOT NULL,
      city VARCHAR(60) CHARACTER SET latin1,
      email VARCHAR(120) CHARACTER SET ascii,
      level TINYINT UNSIGNED NOT NULL,
      balance DECIMAL(12,2) NOT NULL,
      born DATE,
      registered DATETIME(6) NOT NULL,
      seen TIMESTAMP(3) NULL
    ) DEFAULT CHARSET=utf8mb4""",
    """
    CREATE TABLE IF NOT EXISTS products (
      code VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci NOT NULL PRIMARY KEY,
      title VARCHAR(120) NOT NULL,
      price DECIMAL(10,2) NOT NULL,
      stock INT NOT NULL,
      weight DOUBLE,
      digest BINARY(8)
    ) DEFAULT CHARSET=utf8mb4""",
    """
    CREATE TABLE IF NOT EXISTS orders (
      id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
      customer_id BIGINT NOT NULL,
      status CHAR(9) CHARACTER SET ascii NOT NULL,
      placed DATETIME(6) NOT NULL,
      paid TIMESTAMP(3) NULL,
      total DECIMAL(12,2) NOT NULL,
      note TEXT
    ) DEFAULT CHARSET=utf8mb4""",
    """
    CREATE TABLE IF NOT EXISTS order_lines (
      order_id BIGINT UNSIGNED NOT NULL,
      line SMALLINT UNSIGNED NOT NULL,
      product VARCHAR(40) NOT NULL,
      quantity MEDIUMINT NOT NULL,
      price DECIMAL(10,2) NOT NULL,
      PRIMARY KEY (order_id, line)
    ) DEFAULT CHARSET=utf8mb4""",
)
_BATCH = 2000  # rows in one INSERT: some 200 KB


class Shop:
    """The shop in one database. `connect` opens a connection that may create it; each use opens and closes its own."""

    def __init__(
        self, connect: Callable[[], pymysql.Connection[Any]], database: str = "shop", *, seed: int = 0
    ) -> None:
        self._connect = connect
        self.database = database
        self.seed = seed

    def create(self) -> None:
        """Create the database and its tables, where they are absent.

        Nothing is logged where all are there: the binlog holds CREATE TABLE IF NOT EXISTS also if it did nothing.
        """
        with closing(self._connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT TABLE_NAME FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA = %s", [self.database])
            if {name for (name,) in cursor.fetchall()} >= set(TABLES):
                return
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS `{self.database}` DEFAULT CHARACTER SET utf8mb4")
            connection.select_db(self.database)
            for statement in _CREATE:
                cursor.execute(statement)

    def drop(self) -> None:
        """Drop the database."""
        with closing(self._connect()) as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS `{self.database}`")

    def counts(self) -> dict[str, int]:
        """The number of rows of each table."""
        with closing(self.open()) as connection, connection.cursor() as cursor:
            return {table: _one(cursor, f"SELECT COUNT(*) FROM {table}") for table in TABLES}

    def load(self, rows: int) -> dict[str, int]:
        """Fill the empty tables with that many rows altogether; returns the number in each."""
        parts = {"customers": rows // 5, "products": rows // 50, "orders": rows * 3 // 10}
        parts["order_lines"] = rows - sum(parts.values())
        rng = random.Random(self.seed)
        content: dict[str, Iterator[Sequence[object]]] = {
            "customers": shop_rows.customers(rng, parts["customers"]),
            "products": shop_rows.products(rng, parts["products"]),
            "orders": shop_rows.orders(rng, parts["orders"], parts["customers"]),
            "order_lines": shop_rows.order_lines(rng, parts["order_lines"], parts["orders"], parts["products"]),
        }
        with closing(self.open()) as connection, connection.cursor() as cursor:
            for table, source in content.items():
                while batch := list(islice(source, _BATCH)):
                    places = ",".join(["%s"] * len(batch[0]))
                    cursor.executemany(f"INSERT INTO {table} VALUES ({places})", batch)  # one statement of many rows
                    connection.commit()
        return parts

    def run(
        self, stop: threading.Event, *, rate: float | None = None, seed: int = 1, tally: Tally | None = None
    ) -> Tally:
        """Write random transactions until `stop` is set, at most `rate` a second; returns what was committed."""
        tally = Tally() if tally is None else tally
        rng = random.Random(f"{self.seed}/{seed}")
        due = time.monotonic()
        with closing(self.open()) as connection:
            while not stop.is_set():
                write_transaction(connection, rng, tally)
                if rate is not None:
                    due += 1 / rate
                    stop.wait(max(0.0, due - time.monotonic()))
        return tally

    def write_once(self, rng: random.Random, tally: Tally | None = None) -> Tally:
        """Write one random transaction on a connection of its own; returns what was committed."""
        tally = Tally() if tally is None else tally
        with closing(self.open()) as connection:
            write_transaction(connection, rng, tally)
        return tally

    def open(self) -> pymysql.Connection[Any]:
        """A connection with the shop's database selected, autocommit off, in UTC (no hour is missing there)."""
        connection = self._connect()
        connection.autocommit(False)
        with connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
        connection.select_db(self.database)
        return connection


class ShopWriter:
    """Writes to a shop from a thread of its own, between `start` and `stop` or for a `with` block.

    The counters are of what was committed, rows as the binlog counts them: a key update is one update.
    """

    def __init__(self, shop: Shop, *, rate: float | None = None, seed: int = 1) -> None:
        self.tally = Tally()
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(shop, rate, seed), name=f"shop-{seed}", daemon=True)

    @property
    def transactions(self) -> int:
        """Transactions that were committed."""
        return self.tally.transactions

    @property
    def inserted(self) -> int:
        """Rows that were inserted."""
        return self.tally.inserted

    @property
    def updated(self) -> int:
        """Rows that were changed."""
        return self.tally.updated

    @property
    def deleted(self) -> int:
        """Rows that were deleted."""
        return self.tally.deleted

    def start(self) -> ShopWriter:
        """Begin to write; returns itself."""
        self._thread.start()
        return self

    def check(self) -> None:
        """Raise what the thread failed with, if it did."""
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """End after the current transaction and wait for that; raises what the thread failed with."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self.check()

    def __enter__(self) -> ShopWriter:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if error is None:  # else the block's own failure is the one to see
            self.check()

    def _run(self, shop: Shop, rate: float | None, seed: int) -> None:
        try:
            shop.run(self._stop, rate=rate, seed=seed, tally=self.tally)
        except BaseException as error:
            self._failure = error


def _one(cursor: Any, query: str) -> int:
    cursor.execute(query)
    return int(cursor.fetchone()[0])
