"""Random histories over a few tables that take each other's places, half of them captured.

A statement may be refused: what the server then logs, and what it has done in part, is judged like all else.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

SETUP = (
    "CREATE TABLE a (id INT PRIMARY KEY, v INT, note VARCHAR(20)) ENGINE=InnoDB",
    "CREATE TABLE b (id INT PRIMARY KEY, v INT, note VARCHAR(20)) ENGINE=InnoDB",
    "CREATE TABLE by_a (id INT PRIMARY KEY, v INT, note VARCHAR(20)) ENGINE=InnoDB",
    "CREATE TABLE {other}.a (id INT PRIMARY KEY, v INT, note VARCHAR(20)) ENGINE=InnoDB",
    "CREATE TABLE p (id INT NOT NULL PRIMARY KEY, v INT, note VARCHAR(20)) ENGINE=InnoDB"
    " PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)",
    "INSERT INTO a VALUES (1, 1, 'one'), (2, NULL, 'two')",
    "INSERT INTO b VALUES (1, 10, ''), (5, 50, NULL)",
    "INSERT INTO p VALUES (1, 1, 'low'), (11, 2, 'high')",
)
_TABLES = ("a", "b", "c", "p", "by_a", "{other}.a", "{database}.a")
_MODES = ("ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES", "")
_CHARSETS = ("latin1", "binary", "gbk")
_ALTERS = (
    "ADD COLUMN x{n} INT", "ADD x{n} VARCHAR(9) NOT NULL DEFAULT 'd' AFTER id", "DROP COLUMN x{m}", "MODIFY v BIGINT",
    "MODIFY v SMALLINT", "MODIFY note VARCHAR(60)", "MODIFY note TEXT", "CHANGE note note VARCHAR(30) FIRST",
    "CHANGE x{m} y{n} INT", "ADD INDEX i{n} (v)", "DROP INDEX i{m}", "COMMENT 'back\\\\slash; DROP TABLE a'", "FORCE",
    "ADD COLUMN s{n} INT AS (id + 1) STORED", "ADD x{n} INT, DROP x{m}, MODIFY v INT", "ALTER v SET DEFAULT 3",
    "RENAME TO c", "RENAME TO b", "ENGINE=InnoDB", "ADD UNIQUE (id, v)", "CONVERT TO CHARACTER SET utf8mb4",
)  # fmt: skip
_ROWS = (
    "INSERT IGNORE INTO {t} (id, v) VALUES ({n}, {m}), ({m}, NULL)", "UPDATE {t} SET v = {m} WHERE id % 2 = 1",
    "DELETE FROM {t} WHERE id = {m}", "UPDATE {t} SET note = 'n{n}' LIMIT 2", "INSERT IGNORE INTO {t} SELECT * FROM a",
)  # fmt: skip
_TABLE_DDL = (
    "TRUNCATE TABLE {t}", "DROP TABLE IF EXISTS {t}", "CREATE TABLE {t} LIKE a",
    "CREATE TABLE IF NOT EXISTS {t} LIKE b",
    "CREATE TABLE {t} (id INT PRIMARY KEY, v INT, note VARCHAR(20))", "CREATE TABLE {t} SELECT id, v, note FROM b",
    "CREATE INDEX j{n} ON {t} (v)", "RENAME TABLE {t} TO {u}", "RENAME TABLE {t} TO tmp, {u} TO {t}, tmp TO {u}",
    "ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE {t}", "ALTER TABLE p TRUNCATE PARTITION p1", "DROP TABLE {t}, {u}",
    "RENAME TABLE nothing TO {t}", "OPTIMIZE TABLE {t}", "ANALYZE TABLE {t}",
)  # fmt: skip


def random_history(rng: random.Random, length: int) -> list[Sequence[str]]:
    """That many units: DDL and rows, some of them in another sql_mode or character set."""
    return [_unit(rng, n) for n in range(1, length + 1)]


def _unit(rng: random.Random, n: int) -> Sequence[str]:
    t, u = rng.sample(_TABLES, 2)
    kind = rng.random()
    if kind < 0.4:
        sql = rng.choice(_ROWS)
    elif kind < 0.75:
        sql = f"ALTER TABLE {{t}} {rng.choice(_ALTERS)}"
    else:
        sql = rng.choice(_TABLE_DDL)
    for name, value in (("{t}", t), ("{u}", u), ("{n}", str(n)), ("{m}", str(rng.randrange(1, n + 1)))):
        sql = sql.replace(name, value)
    draw = rng.random()
    if draw < 0.15:
        return f"SET sql_mode = '{rng.choice(_MODES)}'", sql, "SET sql_mode = DEFAULT"
    if draw < 0.25:
        return f"SET NAMES {rng.choice(_CHARSETS)}", sql, "SET NAMES utf8mb4"
    return (sql,)
