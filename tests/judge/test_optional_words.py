"""Statements with optional words before a name, with odd quotes, bytes and sizes, or that change values unseen."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.versions import MARIADB
from tests.judge.judge import Unit, Verdict, judged
from tests.support.servers import row_metadata

SETUP = (
    "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)",
    "INSERT INTO t VALUES (1, 1, 2), (2, 3, 4), (3, 5, 6)",
    "CREATE TABLE f (id INT PRIMARY KEY, v DOUBLE, w FLOAT, d DATETIME(6))",
    "INSERT INTO f VALUES (1, 1.23456, 1.23456, '2026-01-01 00:00:00.654321')",
    "CREATE TABLE p (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2",
    "INSERT INTO p VALUES (1), (2), (3)",
    "CREATE TABLE {other}.u (a INT, b INT)",
)
MODES = ("ANSI_QUOTES", "NO_BACKSLASH_ESCAPES")
UNITS: tuple[Unit, ...] = (
    "ALTER TABLE f MODIFY v DOUBLE(10, 2)",
    "ALTER TABLE f MODIFY w FLOAT(7, 1)",
    "ALTER TABLE f MODIFY w DOUBLE(10, 2)",
    "ALTER TABLE t ADD COLUMN n SERIAL",
    "ALTER TABLE t RENAME t",
    *(
        (f"SET sql_mode = '{mode}'", f"CREATE TABLE {{other}}.m{n} (a INT COMMENT 'a\\b')", "SET sql_mode = DEFAULT")
        for n, mode in enumerate(MODES)
    ),
    ("SET NAMES binary", "CREATE TABLE {other}.r (a INT) /* \u00e9 */ COMMENT '\u00e9'", "SET NAMES utf8mb4"),
    "CREATE VIEW {other}.w AS SELECT '\u00e9'",
    f"CREATE PROCEDURE {{other}}.large() SELECT '{'x' * (1 << 20)}'",
    ("SET binlog_format = STATEMENT", "INSERT INTO {other}.u VALUES (1, 1)", "SET binlog_format = ROW"),
)
OF_MARIADB: tuple[Unit, ...] = (
    "ALTER TABLE IF EXISTS t CHANGE a b INT, CHANGE b a INT",
    "ALTER TABLE IF EXISTS p TRUNCATE PARTITION p0",
    "ALTER TABLE IF EXISTS t MODIFY a INT UNSIGNED",
    "UPDATE t SET a = 4000000000",
    "ALTER TABLE IF EXISTS f MODIFY d DATETIME",
    "ALTER TABLE IF EXISTS f RENAME TO g",
    "SET STATEMENT max_statement_time = 60 FOR FLUSH TABLES",
    "CREATE INDEX IF NOT EXISTS i ON {other}.u (b)",
    "RENAME TABLE {other}.u WAIT 10 TO {other}.u2",
    "TRUNCATE p WAIT 5",
    ("CREATE OR REPLACE DATABASE {database}", "USE {database}", "CREATE TABLE t (id INT PRIMARY KEY)"),
    "INSERT INTO t VALUES (1)",
)
VECTORS: tuple[Unit, ...] = ("ALTER TABLE t ADD e VECTOR(3)", "UPDATE t SET e = VEC_FromText('[1, 2, 3.5]')")


@pytest.mark.parametrize("metadata", ["FULL", pytest.param("least", marks=pytest.mark.long)])
def test_they_are_followed_live_and_as_a_backlog(
    any_server: MySqlServer, any_database: str, tmp_path: Path, metadata: str
) -> None:
    vectors = VECTORS if any_server.version == "mariadb-11" else ()
    units = (*UNITS, *vectors, *(OF_MARIADB if any_server.version in MARIADB else ()))
    with row_metadata(any_server, metadata):
        findings = judged(any_server, f"{any_database}_j", tmp_path, SETUP, units)
    assert [str(one) for one in findings if one.failed or one.verdict is Verdict.QUARANTINED] == []
    assert [str(one)[:200] for one in findings if one.refused] == []
