"""Stretches of binlog that `bench.speed` reads: one of bulk statements, one of transactions of a single row."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pymysql

from bench.tables import BULK, DATABASE, ONE, SMALL, Workload
from lakehouse_cdc.testing import MySqlServer

_AT_ONCE = 100_000  # rows of one statement


@dataclass(frozen=True)
class Log:
    """What was written to one table, empty at `start`, up to `end`; both are FILE:POS."""

    workload: Workload
    start: str
    end: str
    inserted: int
    updated: int
    deleted: int

    @property
    def changes(self) -> int:
        """Changes of rows, each update one."""
        return self.inserted + self.updated + self.deleted

    @property
    def size(self) -> int:
        """Bytes of binlog. Raises ValueError where it goes on into another file."""
        (file, begin), (last, end) = (at.rsplit(":", 1) for at in (self.start, self.end))
        if file != last:
            raise ValueError(f"the log lies in more than one file: {self.start} to {self.end}")
        return int(end) - int(begin)

    @property
    def images(self) -> int:
        """The same with each update two, one before and one after, as Flink hands them on."""
        return self.changes + self.updated


def write_bulk(server: MySqlServer, rows: int) -> Log:
    """Insert `rows` rows, update the first half and delete every tenth, a hundred thousand a statement.

    Up to 2,500,000 rows come into one file of binlog.
    """
    half, start = rows // 2, new_file(server)
    with closing(_connection(server)) as connection, connection.cursor() as cursor:
        cursor.execute(f"SET cte_max_recursion_depth = {_AT_ONCE + 1}")
        for first in range(1, rows + 1, _AT_ONCE):
            cursor.execute(BULK.insert(first, min(first + _AT_ONCE - 1, rows)))
        for first in range(1, half + 1, _AT_ONCE):
            of = f"c_customer_sk BETWEEN {first} AND {min(first + _AT_ONCE - 1, half)}"
            cursor.execute(f"UPDATE {BULK.table} SET c_birth_year = c_birth_year + 100, c_login = 'moved' WHERE {of}")
        cursor.execute(f"DELETE FROM {BULK.table} WHERE c_customer_sk % 10 = 0")
    return Log(BULK, start, position(server), rows, half, rows // 10)


def write_one(server: MySqlServer, rows: int) -> Log:
    """Insert `rows` rows in a single transaction."""
    start = new_file(server)
    with closing(_connection(server)) as connection, connection.cursor() as cursor:
        cursor.execute(f"SET cte_max_recursion_depth = {_AT_ONCE + 1}")
        connection.begin()
        for first in range(1, rows + 1, _AT_ONCE):
            cursor.execute(ONE.insert(first, min(first + _AT_ONCE - 1, rows)))
        connection.commit()
    return Log(ONE, start, position(server), rows, 0, 0)


def write_small(server: MySqlServer, rows: int, *, after: int = 0) -> Log:
    """For each of `rows` rows, a transaction that inserts it and one that updates it; every tenth is deleted, too.

    They are numbered from behind `after`, a multiple of ten.
    """
    with closing(_connection(server)) as connection, connection.cursor() as cursor:
        cursor.execute("DROP PROCEDURE IF EXISTS work")
        columns = ", ".join(value for _, _, _, value in SMALL.columns)
        cursor.execute(
            f"CREATE PROCEDURE work(i INT, last INT) BEGIN WHILE i <= last DO"
            f" INSERT INTO {SMALL.table} SELECT {columns} FROM (SELECT i AS n, CRC32(i) AS h) AS numbered;"
            f" UPDATE {SMALL.table} SET c_login = 'moved' WHERE c_customer_sk = i;"
            f" IF i % 10 = 0 THEN DELETE FROM {SMALL.table} WHERE c_customer_sk = i; END IF;"
            " SET i = i + 1; END WHILE; END"
        )
        start = position(server)
        cursor.execute(f"CALL work({after + 1}, {after + rows})")
    return Log(SMALL, start, position(server), rows, rows, rows // 10)


def new_file(server: MySqlServer) -> str:
    """Let the binlog go on in a new file, as it does where one is full; returns where that begins, as FILE:POS."""
    with closing(_connection(server)) as connection, connection.cursor() as cursor:
        cursor.execute("FLUSH BINARY LOGS")
    return position(server)


def position(server: MySqlServer) -> str:
    """Where the server's binlog ends, as FILE:POS."""
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW BINARY LOGS")
        *_, last = cursor.fetchall()
    return f"{last[0]}:{last[1]}"


def file_mb(server: MySqlServer) -> float:
    """The size of the file of binlog that is written to, in MB."""
    return int(position(server).rpartition(":")[2]) / 1e6


def _connection(server: MySqlServer) -> pymysql.Connection[Any]:
    return server.connect(database=DATABASE, autocommit=True, charset="utf8mb4")
