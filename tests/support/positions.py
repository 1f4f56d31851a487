"""Where a server's binlog ends, asked in its own version's words."""

from __future__ import annotations

import re
from typing import Any

import pymysql


def binlog_end(connection: pymysql.Connection[Any]) -> tuple[str, int]:
    """The file and the end of the last event."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT VERSION()")
        [(version,)] = cursor.fetchall()
        numbers = re.match(r"(\d+)\.(\d+)", version)
        new = "MariaDB" not in version and numbers is not None and (int(numbers[1]), int(numbers[2])) >= (8, 2)
        cursor.execute("SHOW BINARY LOG STATUS" if new else "SHOW MASTER STATUS")
        row = cursor.fetchone()
    assert row is not None
    return str(row[0]), int(row[1])
