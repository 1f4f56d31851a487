"""Comments on a real server: what they say, of which tables, and as they are now."""

from __future__ import annotations

from contextlib import closing

import pytest
from pymysql.cursors import Cursor

from lakehouse_cdc.mysql.comments import read_comments
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, connect
from lakehouse_cdc.schema.comments import Comments
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.testing import MySqlServer
from tests.support.servers import connected

pytestmark = pytest.mark.every_server

ODD = 'it\'s a \\ "quote", a\nline; Größe, 値'
AS_SQL = ODD.replace("\\", "\\\\").replace("'", "''")


def read(server: MySqlServer, *patterns: str) -> dict[str, Comments]:
    with connect(ConnectionOptions.from_url(server.url)) as session:
        return read_comments(session, Selection(patterns))


def test_what_people_wrote_is_read_as_it_is_now(any_server: MySqlServer, any_database: str) -> None:
    database = any_database
    with closing(connected(any_server)) as connection:
        compare(any_server, connection.cursor(), database)


def compare(server: MySqlServer, cursor: Cursor, database: str) -> None:
    cursor.execute(
        f"CREATE TABLE {database}.orders (id INT PRIMARY KEY COMMENT 'its number', n INT, `a.b` INT COMMENT '{AS_SQL}')"
        f" COMMENT '{AS_SQL}'"
    )
    cursor.execute(f"CREATE TABLE {database}.plain (id INT PRIMARY KEY)")
    cursor.execute(f"CREATE TABLE {database}.audit (id INT PRIMARY KEY COMMENT 'not selected')")
    cursor.execute(f"CREATE VIEW {database}.seen AS SELECT id FROM {database}.orders")
    cursor.execute(f"CREATE TABLE {database}.`of.all` (id INT PRIMARY KEY) COMMENT 'a dot'")
    selected = f"{database}.*", f"!{database}.audit"
    assert read(server, *selected) == {
        f"{database}.orders": Comments(ODD, {"id": "its number", "n": "", "a.b": ODD}),
        f"{database}.plain": Comments("", {"id": ""}),
        f"{database}.`of.all`": Comments("a dot", {"id": ""}),
    }
    cursor.execute(f"ALTER TABLE {database}.orders COMMENT '', MODIFY id INT COMMENT 'another', MODIFY `a.b` INT")
    assert read(server, *selected)[f"{database}.orders"] == Comments("", {"id": "another", "n": "", "a.b": ""})
