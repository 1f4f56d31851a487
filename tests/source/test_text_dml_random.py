"""Random histories of statements logged as text, of rows, and of DDL: bronze is the source afterwards.

One session logs text, one as the server sees fit (MIXED), one rows. They write captured tables and others, by
themselves and by way of triggers, foreign keys, views and routines, some of which come and go. The stream reads now and
then, sometimes each batch twice, or finds all of it in a backlog.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from lakehouse_cdc.model.multiset import remaining
from tests.support.servers import connected, row_metadata
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage
from tests.support.source.text_dml import away_of, read_again

TABLES = ("t", "u", "k", "child")
# each with the captured tables that it may change, and for what it is written by way of
PLAIN: list[tuple[str, set[str]]] = [
    ("REPLACE INTO {a}.beat VALUES ({n}, {m})", set()),
    ("INSERT INTO {a}.beat SELECT {n} + id, v FROM t WHERE id < 20 ON DUPLICATE KEY UPDATE v = 't'", set()),
    ("UPDATE {a}.beat SET v = {m} WHERE id % 3 = 1", set()),
    ("DELETE FROM {a}.beat WHERE id % 5 = {m} % 5", set()),
    ("REPLACE INTO {a}.beat VALUES ({n}, {a}.reads())", set()),
    ("REPLACE INTO t (id, v) VALUES ({m}, {n}), ({m} + 1, {n})", {"t"}),
    ("UPDATE t SET v = {n} WHERE id % 4 = {m} % 4", {"t"}),
    ("DELETE FROM t WHERE id = {m}", {"t"}),
    ("UPDATE u, {a}.beat b SET u.v = b.id WHERE u.id = {m}", {"u"}),
    ("INSERT INTO k VALUES ({m} % 3, {n} % 2)", {"k"}),
    ("DELETE FROM k LIMIT 2", {"k"}),
    ("UPDATE {a}.v SET v = v + 1 WHERE id < {m}", {"u"}),
    ("INSERT INTO {a}.fires VALUES ({n})", {"t"}),
    ("DELETE FROM {a}.parent WHERE id = {m} % 6", {"child"}),
    ("SELECT {a}.writes({m})", {"u"}),
    ("REPLACE INTO {a}.beat VALUES ({n}, {a}.writes({m}))", {"u"}),
    ("CALL {a}.both({m})", {"t", "u"}),
]
ROWS = [
    "REPLACE INTO t (id, v) VALUES ({m}, {n})", "UPDATE u SET v = v + 1 LIMIT 3", "DELETE FROM u WHERE id = {m}",
    "INSERT INTO k VALUES (1, 1)", "INSERT INTO child VALUES ({n}, NULL)", "UPDATE {a}.beat SET v = 3 LIMIT 1",
]  # fmt: skip
DDL = [
    "ALTER TABLE t ADD COLUMN x{n} INT DEFAULT 3", "ALTER TABLE u MODIFY v BIGINT", "TRUNCATE TABLE k",
    "CREATE OR REPLACE VIEW {a}.v AS SELECT id, v FROM t", "CREATE OR REPLACE VIEW {a}.v AS SELECT id, v FROM u",
    "DROP TRIGGER IF EXISTS {a}.r", "DROP TABLE IF EXISTS {a}.old; RENAME TABLE {a}.fires TO {a}.old;"
    " CREATE TABLE {a}.fires (id INT)", "ALTER TABLE {a}.beat COMMENT = 't'",
    "DROP TRIGGER IF EXISTS {a}.r; CREATE TRIGGER {a}.r BEFORE INSERT ON {a}.fires FOR EACH ROW"
    " UPDATE {d}.u SET v = {n}",
]  # fmt: skip


def prepare(stage: Stage) -> None:
    a, d = away_of(stage), stage.database
    for table in ("t", "u"):
        stage.create(table, rows=9)
    for sql in (
        "CREATE TABLE k (a INT, v INT)", "INSERT INTO k VALUES (1, 1), (1, 1), (2, 0)", f"CREATE DATABASE {a}",
        f"CREATE TABLE {a}.beat (id INT PRIMARY KEY, v VARCHAR(40))", f"CREATE TABLE {a}.parent (id INT PRIMARY KEY)",
        f"INSERT INTO {a}.parent VALUES (0), (1), (2), (3), (4), (5)", f"CREATE TABLE {a}.fires (id INT)",
        f"CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES {a}.parent (id) ON DELETE CASCADE)",
        "INSERT INTO child VALUES (1, 1), (2, 2), (3, 1), (4, 5)", f"CREATE VIEW {a}.v AS SELECT id, v FROM {d}.u",
        f"CREATE TRIGGER {a}.r AFTER INSERT ON {a}.fires FOR EACH ROW UPDATE {d}.t SET v = v + NEW.id WHERE id < 50",
        f"CREATE FUNCTION {a}.reads() RETURNS INT DETERMINISTIC RETURN (SELECT COUNT(*) FROM {d}.t)",
        f"CREATE FUNCTION {a}.writes(n INT) RETURNS INT DETERMINISTIC BEGIN UPDATE {d}.u SET v = n; RETURN n; END",
        f"CREATE PROCEDURE {a}.both(n INT) BEGIN UPDATE {d}.t SET v = n; DELETE FROM {d}.u WHERE id = n; END",
    ):  # fmt: skip
        stage.run(sql)


@contextmanager
def sessions(stage: Stage) -> Iterator[list[Any]]:
    """Cursors of sessions that log text, as the server sees fit, and rows."""
    with closing(connected(stage.server, database=stage.database)) as one, \
         closing(connected(stage.server, database=stage.database)) as two, \
         closing(connected(stage.server, database=stage.database)) as three:  # fmt: skip
        found = [one.cursor(), two.cursor(), three.cursor()]
        for cursor, form in zip(found, ("STATEMENT", "MIXED", "ROW"), strict=True):
            cursor.execute(f"SET SESSION binlog_format = {form}")
        yield found


def same(stage: Stage, driver: Driver) -> None:
    stage.same_rows(driver, "t", "u", "child")
    assert remaining(change for change in driver.log if change.table == stage.name("k")) == stage.images("k")


def history(stage: Stage, rng: random.Random, *, backlog: bool, ddl: bool, steps: int) -> tuple[Driver, set[str]]:
    """What a stream has of a random history, and the tables that a text in it may have changed."""
    driver = stage.driver(chunkRows="4", chunksPerTrigger=rng.choice(["1", "9"]))
    driver.batch()
    changed: set[str] = set()
    if not rng.randrange(3):
        stage.snapshot(driver)
    with sessions(stage) as (text, mixed, rows):
        for step in range(steps):
            values = {"a": away_of(stage), "d": stage.database, "n": 1000 + step, "m": rng.randrange(100)}
            draw = rng.random()
            if draw < 0.55:
                sql, tables = rng.choice(PLAIN)
                cursor = text if draw < 0.4 else mixed
                several = rng.random() < 0.3
                for one in ("BEGIN", sql, rng.choice(PLAIN[:5])[0], "COMMIT") if several else (sql,):
                    cursor.execute(one.format(**values))
                changed |= tables
            elif draw < 0.9 or not ddl:
                rows.execute(rng.choice(ROWS).format(**values))
            else:
                for one in rng.choice(DDL).split("; "):
                    rows.execute(one.format(**values))
            if not backlog and rng.random() < 0.4:
                driver.batch(
                    between=(lambda: None) if rng.random() < 0.3 and step % 2 else None, altered=lambda: captured(stage)
                )
            if rng.random() < 0.05:
                driver.restart()
    while driver.batch(between=lambda: None):
        pass
    stage.drain(driver)
    return driver, changed


def captured(stage: Stage) -> set[str]:
    return {stage.name(table) for table in TABLES}


def run(stage: Stage, seed: int, steps: int, *, backlog: bool, ddl: bool) -> None:
    prepare(stage)
    try:
        driver, changed = history(stage, random.Random(seed), backlog=backlog, ddl=ddl, steps=steps)
        same(stage, driver)
        assert ddl or read_again(driver) <= changed
        assert not any(state.get("quarantined") for state in driver.offset["tables"].values())
    finally:
        stage.run("SET foreign_key_checks = 0")
        stage.run(f"DROP DATABASE {away_of(stage)}")


@pytest.mark.parametrize("backlog", [True, False])
def test_a_random_history(stage: Stage, backlog: bool) -> None:
    run(stage, 1, 40, backlog=backlog, ddl=True)


@pytest.mark.long
@pytest.mark.parametrize("metadata", ["FULL", "least"])
@pytest.mark.parametrize("seed", range(12))
def test_random_histories(any_stage: Stage, metadata: str, seed: int) -> None:
    with row_metadata(any_stage.server, metadata):
        run(any_stage, seed, 80, backlog=bool(seed % 2), ddl=bool(seed // 2 % 2))
