"""ALTER TABLE from its text: what is proven to change nothing, what is not, and what is not understood."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakehouse_cdc.schema.table import Column, TableSchema, UniqueIndex
from lakehouse_cdc.sql.ddl.alter import altered
from lakehouse_cdc.sql.ddl.column_type import Given
from lakehouse_cdc.sql.ddl.statement_session import StatementSession
from lakehouse_cdc.sql.lexer import NotUnderstood

ID = Column("id", "int", nullable=False)
NAME = Column("name", "varchar", length=20, charset="latin1", collation="latin1_bin")
AT = Column("at", "datetime", fraction=3)
TABLE = TableSchema("d", "t", (ID, NAME, AT), ("id",))
STRICT = Given(session=StatementSession(1 << 21))

NOTHING = [
    "ALTER TABLE t ENGINE=InnoDB",
    "ALTER TABLE d.t ENGINE = innodb ROW_FORMAT=DYNAMIC, COMMENT 'a, b) ('",
    "alter table `t` add index (name), algorithm=inplace, lock=none",
    "CREATE UNIQUE INDEX i ON t (name(3), id) USING BTREE",
    "DROP INDEX i ON t",
    "ALTER TABLE t DROP INDEX i, DROP FOREIGN KEY f, DROP CONSTRAINT c, DROP CHECK d",
    "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (name) REFERENCES u (name) ON DELETE CASCADE",
    "ALTER TABLE t ADD CONSTRAINT CHECK (id > 5) NOT ENFORCED",
    "ALTER TABLE t ALTER name SET DEFAULT 'a', ALTER COLUMN at DROP DEFAULT, ALTER COLUMN at SET INVISIBLE",
    "ALTER TABLE t RENAME INDEX a TO b, ALTER INDEX b INVISIBLE",
    "ALTER TABLE t MODIFY name VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT _latin1'x' AFTER id",
    "ALTER TABLE t CHANGE id id INT NOT NULL COMMENT 'the key' FIRST",
    "ALTER TABLE t PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS THAN MAXVALUE)",
    "ALTER TABLE t REORGANIZE PARTITION p0, p1 INTO (PARTITION p VALUES LESS THAN (9))",
    "ALTER TABLE t ADD PARTITION (PARTITION p9 VALUES LESS THAN (99))",
    "ALTER TABLE t REMOVE PARTITIONING",
    "ALTER TABLE t ORDER BY name, id DESC",
    "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY USING BTREE (ID)",
    "ALTER TABLE t RENAME t",
    "ALTER TABLE t RENAME TO d.t, FORCE",
    "ALTER TABLE IF EXISTS t FORCE",
    "ALTER TABLE t ADD COLUMN IF NOT EXISTS NAME INT, DROP IF EXISTS none, MODIFY IF EXISTS none INT",
    "ALTER TABLE t CHANGE IF EXISTS none some INT, RENAME COLUMN IF EXISTS none TO some, DROP INDEX IF EXISTS i",
    "ALTER TABLE t ADD PRIMARY KEY IF NOT EXISTS (name)",
    "DROP INDEX IF EXISTS i ON t WAIT 5",
    "ALTER TABLE t WAIT 5 MODIFY t.name VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_bin",
    "ALTER TABLE t MODIFY d.t.name VARCHAR(20) COLLATE latin1_bin NULL",
    "SET STATEMENT max_statement_time=5 FOR ALTER TABLE t FORCE",
    "CREATE INDEX IF NOT EXISTS i ON t (name)",
]


@pytest.mark.parametrize("sql", NOTHING)
def test_nothing_changes(sql: str) -> None:
    found = altered(sql, TABLE, Given())
    assert found.schema == TABLE
    assert found.kept


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE t TRUNCATE PARTITION ALL", "ALTER TABLE t DROP PARTITION p0, p1",
        "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE u", "ALTER TABLE t DISCARD TABLESPACE",
        "ALTER TABLE t IMPORT PARTITION p0 TABLESPACE", "ALTER TABLE t MODIFY id INT NOT NULL AUTO_INCREMENT",
        "ALTER TABLE t ADD n DATE NOT NULL", "ALTER TABLE t ADD n INT DEFAULT (7)", "ALTER TABLE t ADD n BIT DEFAULT 1",
        "ALTER TABLE t ADD n INT DEFAULT 1.5", "ALTER TABLE t ADD n DECIMAL(5,2) DEFAULT 1.005",
        "ALTER TABLE t ADD n VARCHAR(5) CHARSET latin1 DEFAULT 'é'", "ALTER TABLE t ADD n BLOB NOT NULL",
        "ALTER TABLE t ADD n VARCHAR(5) CHARSET latin1 DEFAULT 7",
        "ALTER TABLE t ADD n INT NOT NULL DEFAULT 3, ADD m DATETIME NOT NULL", "ALTER TABLE t ADD n INT DEFAULT 1e1",
        "ALTER TABLE t ADD n FLOAT DEFAULT 12345678", "ALTER TABLE t ADD n ENUM('a') CHARSET latin1 DEFAULT 'A'",
        "ALTER TABLE t MODIFY id SMALLINT NOT NULL",
        "ALTER TABLE t ADD n INT AUTO_INCREMENT UNIQUE", "ALTER TABLE t DROP PRIMARY KEY", "DROP INDEX `PRIMARY` ON t",
        "ALTER TABLE t MODIFY id INT UNSIGNED NOT NULL", "ALTER TABLE t MODIFY name VARCHAR(19) CHARSET latin1",
        "ALTER TABLE t MODIFY name VARCHAR(20) CHARSET latin1 NOT NULL", "ALTER TABLE t ADD PRIMARY KEY (name, id)",
        "ALTER TABLE t MODIFY at DATETIME",
        "ALTER IGNORE TABLE t ADD UNIQUE (name)", "ALTER TABLE t ADD n INT AS (id + 1) STORED",
        "ALTER TABLE t ADD n INT GENERATED ALWAYS AS (id + 1)", "ALTER TABLE t ADD n SERIAL",
        "ALTER TABLE t ADD n BIGINT SERIAL DEFAULT VALUE",
        "ALTER TABLE t CONVERT TABLE u TO PARTITION p VALUES LESS THAN (5)",
        "ALTER TABLE t CONVERT PARTITION p TO TABLE u", "ALTER TABLE t MODIFY id INT AS (5)",
        "ALTER TABLE t MODIFY at TIMESTAMP(3) NULL", "ALTER TABLE t DROP id",
        "ALTER TABLE t ADD n DATETIME DEFAULT CURRENT_TIMESTAMP", "ALTER TABLE t MODIFY name VARCHAR(20) CHARSET ascii",
    ],
)  # fmt: skip
def test_rows_are_not_proven_to_be_kept(sql: str) -> None:
    assert not altered(sql, TABLE, Given(mariadb=False, logs_generated=True)).kept


def test_a_unique_index_goes_with_the_last_of_its_columns() -> None:
    code = Column("code", "int", nullable=False)
    of_one, of_two = UniqueIndex("u", ("code",)), UniqueIndex("u", ("code", "id"))
    for index, known in ((of_one, True), (of_two, False)):  # what is left of it may be one over fewer columns
        before = replace(TABLE, columns=(ID, NAME, AT, code), key=(), unique=index, more_unique=False)
        after = altered("ALTER TABLE t DROP COLUMN code", before, STRICT)
        assert (after.schema.unique, after.schema.more_unique, after.key_known) == (None, not known, known)


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE t ENGINE=MyISAM", "ALTER TABLE t ENGINE=BLACKHOLE", "ALTER TABLE t ADD n INT8 FANCY",
        "ALTER TABLE t ADD n POINT SRID", "ALTER TABLE t MODIFY name VARCHAR(20)",
        "ALTER TABLE t MODIFY none INT",
        "ALTER TABLE t ADD n TIMESTAMP", "ALTER TABLE t ADD n INT AS (hour(at))",
        "ALTER TABLE t ADD SYSTEM VERSIONING", "ALTER TABLE t ADD n INT AS (id + 1) STORED",
        "ALTER TABLE t ADD n VARCHAR(9) COLLATE uca1400_ai_ci", "ALTER TABLE t ADD n JSON", "ALTER TABLE t ADD id INT",
        "ALTER TABLE t ADD PRIMARY KEY ((name))", "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4",
        "ALTER TABLE t ADD n VARCHAR(30000) CHARSET utf8mb4",
        "ALTER TABLE t DROP id, DROP name, DROP at", "ALTER TABLE t ADD n INT AFTER none", "CREATE TABLE t (id INT)",
        "ALTER TABLE t ADD n ENUM(x'61') CHARSET latin1", "ALTER TABLE t NEW_OPTION = 5", "TRUNCATE TABLE t",
        "ALTER TABLE t DROP name, MODIFY name INT",
        "SET STATEMENT sql_mode='ANSI' FOR ALTER TABLE t FORCE",
    ],
)  # fmt: skip
def test_not_understood(sql: str) -> None:
    with pytest.raises(NotUnderstood):
        altered(sql, TABLE, Given())


def test_columns_keep_how_they_are_captured() -> None:
    table = replace(TABLE, columns=(ID, NAME, replace(AT, captured=False)))
    found = altered("ALTER TABLE t CHANGE at moment DATETIME(6) FIRST, ADD n INT AFTER moment", table, Given())
    assert [(c.name, c.captured) for c in found.schema.columns] == [
        ("moment", False), ("n", True), ("id", True), ("name", True),
    ]  # fmt: skip
    assert found.origin == {"id": "id", "name": "name", "moment": "at"}
    assert found.kept


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ("INT NOT NULL", "0"), ("INT DEFAULT 7", "7"), ("BIGINT NOT NULL DEFAULT '-07'", "-7"),
        ("BOOL DEFAULT TRUE", "1"), ("SMALLINT UNSIGNED DEFAULT +65535", "65535"), ("DECIMAL(5,2) DEFAULT 1.5", "1.50"),
        ("DEC(5,2) NOT NULL", "0.00"), ("DECIMAL(5,2) DEFAULT -0", "0.00"), ("DOUBLE DEFAULT -12", "-12"),
        ("FLOAT NOT NULL", "0"),
        ("VARCHAR(5) CHARSET latin1 NOT NULL", ""), ("VARCHAR(5) CHARSET latin1 NOT NULL DEFAULT 'a b '", "a b "),
        ("CHAR(5) CHARSET latin1 DEFAULT 'ab  '", "ab"), ("ENUM('x', 'y') CHARSET latin1 NOT NULL", "x"),
        ("ENUM('x', 'y') CHARSET latin1 DEFAULT 'y'", "y"), ("INT DEFAULT 5 NOT NULL COMMENT 'five'", "5"),
    ],
)  # fmt: skip
def test_a_constant_that_all_rows_hold_in_a_new_column(definition: str, text: str) -> None:
    found = altered(f"ALTER TABLE t ADD COLUMN n {definition} AFTER id", TABLE, STRICT)
    assert (found.kept, found.filled) == (True, {"n": text})


@pytest.mark.parametrize(
    "definition",
    [
        "SERIAL", "INT SERIAL DEFAULT VALUE", "BIGINT UNSIGNED NOT NULL UNIQUE AUTO_INCREMENT",
        "INT KEY AUTO_INCREMENT", "DOUBLE UNSIGNED DEFAULT -1", "DOUBLE(4,2) DEFAULT 120",
        "ENUM('1', '2') CHARSET latin1 DEFAULT 1",
    ],
)  # fmt: skip
def test_what_rows_hold_in_a_new_column_is_not_proven(definition: str) -> None:
    found = altered(f"ALTER TABLE t ADD n {definition}", TABLE, STRICT)
    assert (found.kept, found.filled) == (False, {})


def test_what_rows_hold_in_a_new_column_depends_on_the_mode() -> None:
    """Two labels may be equal without strict mode, and MariaDB may take an empty text for NULL."""
    label = "ALTER TABLE t ADD n ENUM('x', 'y') CHARSET latin1 DEFAULT 'y'"
    empty = "ALTER TABLE t ADD n VARCHAR(5) CHARSET latin1 DEFAULT ''"
    for sql, mode in ((label, 0), (empty, 1 << 21 | 1 << 32)):
        assert altered(sql, TABLE, STRICT).kept
        assert not altered(sql, TABLE, Given(session=StatementSession(mode))).kept


@pytest.mark.parametrize(("mode", "kind"), [(0, "double"), (1, "float")])
def test_real_is_what_the_mode_says(mode: int, kind: str) -> None:
    found = altered("ALTER TABLE t ADD n REAL(7,2)", TABLE, Given(session=StatementSession(mode))).schema.columns[-1]
    assert (found.type, found.precision, found.scale) == (kind, 7, 2)


def test_null_fills_nothing() -> None:
    assert altered("ALTER TABLE t ADD n INT NULL DEFAULT NULL", TABLE, Given()).filled == {}
