"""How many rows a second of CPU time the kernels decode, beside Python's readers in the same run (-m long -s)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pymysql
import pytest
from pymysql.cursors import SSCursor
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent

from lakehouse_cdc.images.program import ProgramSet
from lakehouse_cdc.images.rows.decode import count_rows, decode_rows
from lakehouse_cdc.images.warm import warm_up
from lakehouse_cdc.mysql.wire.select import select_images
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.testing import MySqlServer
from tests.support.images.binlog_file import read_log
from tests.support.images.tables import create
from tests.support.positions import binlog_end

ROWS = 100_000
CUSTOMER = (
    *(Column("sk", "int", nullable=False), Column("id", "char", length=16, charset="utf8mb4")),
    *(Column(f"fk{i}", "int") for i in range(5)),
    *(Column(f"name{i}", "char", length=30, charset="utf8mb4") for i in range(4)),
    *(Column("born", "date"), Column("country", "varchar", length=20, charset="utf8mb4")),
    *(Column("login", "char", length=13, charset="utf8mb4"), Column("email", "char", length=50, charset="utf8mb4")),
    *(Column("seen", "timestamp", fraction=6), Column("credit", "decimal", precision=12, scale=2)),
    Column("visits", "bigint"),
)
VALUES = (
    "n, CONCAT('AAAAAAAA', n), n * 7, n * 3, n * 11, 2450000, 2452000, 'Dr.', 'Javier', 'Lewis', 'Y', '1936-12-09', "
    "'CHILE', NULL, CONCAT('Javier.Lewis', n, '@VFAxlnZEvOx.org'), '2024-01-01 00:00:00.5', n / 7, n"
)


def rate(rows: int, read: Callable[[], int]) -> float:
    """Rows a second of this thread's CPU time: other work on the machine does not count."""
    best = float("inf")
    for _ in range(3):
        began = time.thread_time()
        assert read() == rows
        best = min(best, time.thread_time() - began)
    return rows / best


@pytest.mark.long
def test_speed(mysql: MySqlServer, session: pymysql.Connection[Any], database: str) -> None:
    schema = TableSchema(database, "t", CUSTOMER, ("sk",))
    create(session, schema)
    numbers = "WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < %s)"
    with session.cursor() as cursor:
        cursor.execute(f"SET cte_max_recursion_depth = {ROWS}")
        cursor.execute(f"INSERT INTO {database}.t {numbers} SELECT {VALUES} FROM s", [ROWS])
        cursor.execute("FLUSH BINARY LOGS")
        start = binlog_end(session)
        sql = f"SELECT * FROM {database}.t"
    warm_up()
    programs = ProgramSet.of([schema])
    by_kernel = rate(ROWS, lambda: sum(p.n for p in select_images(session, sql, schema, programs=programs)))

    def by_cursor() -> int:
        with mysql.connect() as plain, plain.cursor(SSCursor) as cursor:
            cursor.execute(sql)
            return sum(1 for _ in cursor)

    by_pymysql = rate(ROWS, by_cursor)
    with session.cursor() as cursor:
        cursor.execute(f"DELETE FROM {database}.t")
    log = read_log(session, start, [schema])
    binlog = rate(ROWS, lambda: decode_rows(log.buffer, log.events, programs).n)
    counted = rate(ROWS, lambda: int(count_rows(log.buffer, log.events, programs).sum()))

    def by_reader() -> int:
        account = {"host": "127.0.0.1", "port": mysql.port, "user": "root", "passwd": ""}
        stream = BinLogStreamReader(
            account, server_id=77, log_file=start[0], log_pos=start[1], only_events=[DeleteRowsEvent]
        )
        rows = sum(len(event.rows) for event in stream)
        stream.close()
        return rows

    by_replication = rate(ROWS, by_reader)
    print(f"\nselect: {by_kernel:,.0f} rows/s, PyMySQL {by_pymysql:,.0f}: {by_kernel / by_pymysql:.0f} times")
    print(f"binlog: {binlog:,.0f} rows/s, mysql-replication {by_replication:,.0f}: {binlog / by_replication:.0f} times")
    print(f"count_rows: {counted:,.0f} rows/s")
    assert by_kernel > 5 * by_pymysql
    assert binlog > 5 * by_replication
