"""ALTERs that people write every day are followed, or their table is read again, also when later DDL hides them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.versions import MARIADB
from tests.judge.judge import Verdict, judged
from tests.support.servers import row_metadata

pytestmark = pytest.mark.every_server

SETUP = (
    "CREATE TABLE p (id INT PRIMARY KEY)",
    "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
    "INSERT INTO t VALUES (1, 1)",
)
GENERATED = (
    "ALTER TABLE t ADD g INT AS (a * 2) STORED",
    "INSERT INTO t (id, a) VALUES (2, 2)",
    "ALTER TABLE t ADD v INT GENERATED ALWAYS AS (a + 1) VIRTUAL",
    "UPDATE t SET a = 7",
)
TYPES = (
    "ALTER TABLE t ADD x INT REFERENCES p (id)",
    "ALTER TABLE t ADD n VARCHAR(20) BINARY",
    "ALTER TABLE t ADD r REAL",
    "ALTER TABLE t ADD l LONG",
    "ALTER TABLE t ADD lv LONG VARBINARY",
    "ALTER TABLE t MODIFY a BIGINT",
    "INSERT INTO t (id, a, n, r, l, lv) VALUES (4, 5, 'é', 0.5, 'long', 'long')",
    "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id)",
    "UPDATE t SET n = 'N'",
)
OF_MARIADB = (
    "ALTER TABLE t MODIFY t.a BIGINT NULL",
    "ALTER TABLE t ADD COLUMN IF NOT EXISTS z INT",
    "ALTER TABLE t ADD u UUID",
    "ALTER TABLE t ADD i4 INET4, ADD i6 INET6",
    "ALTER TABLE t ADD c VARCHAR(100) COMPRESSED, ADD cb BLOB COMPRESSED",
    "INSERT INTO t (id, a, u, i4, i6, c, cb) VALUES (6, 5, UUID(), '1.2.3.4', '::1', REPEAT('c', 99), 'cb')",
    "UPDATE t SET z = id, i4 = '4.3.2.1'",
    # the server logs a hidden column for each of these keys
    "ALTER TABLE t ADD lt TEXT, ADD UNIQUE (lt), ADD k VARCHAR(9)",
    "UPDATE t SET z = 7",
    "CREATE UNIQUE INDEX k ON t (k) USING HASH",
    "UPDATE t SET k = id",
    "DROP INDEX k ON t",
    "UPDATE t SET k = 'k'",
)
# the server counts a VECTOR among the columns with a character set
OF_MYSQL_9 = (
    "ALTER TABLE t ADD w VECTOR AFTER id, ADD b VARCHAR(9) CHARACTER SET latin1",
    "INSERT INTO t (id, a, w, b, n) VALUES (6, 6, STRING_TO_VECTOR('[1.5,2]'), 'é', 'ü')",
    "ALTER TABLE t ADD m VECTOR(3) FIRST",
    "UPDATE t SET b = 'à'",
)


@pytest.mark.parametrize("metadata", ["FULL", pytest.param("least", marks=pytest.mark.long)])
def test_nothing_is_set_aside(any_server: MySqlServer, any_database: str, tmp_path: Path, metadata: str) -> None:
    logged = any_server.version != "mariadb-11"  # it leaves generated columns out of updates
    own = OF_MARIADB if any_server.version in MARIADB else OF_MYSQL_9 if any_server.version == "mysql-9" else ()
    units = (*(GENERATED if logged else ()), *TYPES, *own)
    with row_metadata(any_server, metadata):
        findings = judged(any_server, f"{any_database}_j", tmp_path, SETUP, (*units, "ALTER TABLE t ADD q INT"))
    assert [str(one) for one in findings if one.failed or one.verdict is Verdict.QUARANTINED] == []
    assert [str(one) for one in findings if one.refused] == []
