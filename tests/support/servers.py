"""The servers of the suite by version: skipped where this platform has no build, and for no other reason."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pymysql.cursors import Cursor

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.testing import MySqlServer, Version

_numbers = count(1)
_SHARED = ("log_bin_compress", "log_bin_compress_min_len", "max_allowed_packet", "sql_mode", "sync_binlog", "time_zone")


def start_or_skip(
    version: Version, directory: Path | None = None, options: Mapping[str, str | None] | None = None
) -> MySqlServer:
    """A server of that version; skips the test, with the reason, where there is none for this platform."""
    try:
        return MySqlServer.start(directory, version=version, options=options)
    except DefiniteError as error:
        if error.code is not codes.SERVER_BUILD_MISSING:
            raise
        pytest.skip(str(error))


def require_generated_columns_in_the_log(server: MySqlServer) -> None:
    """Skip the test of a server that leaves them out; that they are refused there is another test's."""
    if server.version == "mariadb-11":
        pytest.skip("MariaDB 11.8.9 does not log generated columns, so they are not captured")


def connected(server: MySqlServer, **settings: Any) -> pymysql.Connection[Any]:
    """A connection as root in autocommit, in the clear: to encrypt it would take longer than most tests use it."""
    return server.connect(autocommit=True, ssl_disabled=True, **settings)


@contextmanager
def new_database(server: MySqlServer) -> Iterator[str]:
    """The name of a new, empty database, dropped at the end of the block; the server is to be as it was then."""
    name = f"test_{next(_numbers)}"
    with closing(connected(server)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        before = _settings(cursor)
    yield name
    with closing(connected(server)) as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {name}")
        assert _settings(cursor) == before, "settings that the tests share were left otherwise than they were"


def _settings(cursor: Cursor) -> dict[str, str]:
    cursor.execute("SET sql_big_selects = 1")  # a test may have set how many rows a SELECT looks at
    cursor.execute(rf"SHOW GLOBAL VARIABLES WHERE Variable_name IN {_SHARED} OR Variable_name LIKE 'binlog\_%'")
    return dict(cursor.fetchall())


@contextmanager
def row_metadata(server: MySqlServer, value: str) -> Iterator[None]:
    """Have table maps carry that much, `least` being what the server has for that; 5.7 has one way alone."""
    if server.version == "mysql-5.7":
        yield
        return
    least = "NO_LOG" if server.version.startswith("mariadb") else "MINIMAL"
    with closing(connected(server)) as connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL binlog_row_metadata = %s", (least if value == "least" else value,))
        try:
            yield
        finally:
            cursor.execute("SET GLOBAL binlog_row_metadata = FULL")


def gone(pid: int) -> bool:
    """Whether no process has that id."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
