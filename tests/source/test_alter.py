"""DDL that changes the columns or the key of a captured table, at every moment of the algorithm."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pymysql
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from lakehouse_cdc.errors import CdcError
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.source.test_hooks import Step
from tests.support.servers import connected
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage

# what proves itself to keep the rows, and what does not
KEPT = [
    "ALTER TABLE t ADD COLUMN note VARCHAR(20)",
    "ALTER TABLE t ADD COLUMN first INT FIRST, ADD w BIGINT AFTER id",
    "ALTER TABLE t DROP COLUMN v",
    "ALTER TABLE t RENAME COLUMN v TO value",
    "ALTER TABLE t CHANGE v V INT",
    "ALTER TABLE t RENAME COLUMN id TO v, RENAME COLUMN v TO id",
    "ALTER TABLE t MODIFY v BIGINT",
    "ALTER TABLE t MODIFY v INT FIRST",
    "ALTER TABLE t MODIFY id BIGINT NOT NULL",
    "ALTER TABLE t DROP COLUMN v, ADD COLUMN v DATETIME(3)",
    "ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT 7 FIRST, ADD name VARCHAR(9) DEFAULT 'a'",
    "ALTER TABLE t ADD price DECIMAL(9,2) NOT NULL DEFAULT 1.5, ADD kind ENUM('x', 'y') NOT NULL, ADD f FLOAT NOT NULL",
]
READ_AGAIN = [
    "ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT (7 + 1)",
    "ALTER TABLE t MODIFY v TINYINT",
    "ALTER TABLE t MODIFY v VARCHAR(20)",
    "ALTER TABLE t ADD COLUMN k INT NOT NULL DEFAULT 3, DROP PRIMARY KEY, ADD PRIMARY KEY (k, id)",
]


def finish(stage: Stage, driver: Driver, *, valid: bool = True) -> None:
    """Some more of everything, each batch executed twice; then bronze is the source, and a valid changelog."""
    stage.run("INSERT IGNORE INTO t (id) VALUES (1), (61)")
    while driver.batch(between=lambda: None):
        pass
    stage.run("DELETE FROM t WHERE id IN (10, 61)")
    stage.drain(driver)
    assert all(state["done"] for state in driver.offset["tables"].values())
    if not valid or any(change.op is Op.END for change in driver.log):
        stage.same_rows(driver)  # rows that the log says nothing of are no valid changelog until they are read again
    else:
        stage.same(driver)


def changed(driver: Driver) -> list[Any]:
    """The changes of schemas that bronze holds."""
    return [change for change in driver.log if change.op is Op.SCHEMA and change.before is not None]


@pytest.mark.parametrize("step", [*Step, None])
@pytest.mark.parametrize("ddl", ["ALTER TABLE t ADD COLUMN note VARCHAR(20)", "ALTER TABLE t MODIFY v TINYINT"])
@pytest.mark.parametrize("batch", [2, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 4))])
def test_at_any_moment(stage: Stage, at: Callable[..., None], step: Step | None, ddl: str, batch: int) -> None:
    stage.create(rows=30)
    driver = stage.driver()
    for _ in range(batch - 1):
        driver.batch()
        stage.run("UPDATE t SET v = v + 1")

    def act() -> None:
        stage.run("UPDATE t SET v = v + 1")
        stage.run(ddl)
        stage.run("INSERT INTO t (id, v) VALUES (5, 5), (500, 9)")

    if step is not None:
        at(step, act)
    driver.batch()
    if step is None:
        act()
    # a chunk that met it has emitted nothing: then its rows may be updated before they come
    finish(stage, driver, valid=step is None)


@pytest.mark.parametrize("ddl", [*KEPT, *READ_AGAIN])
def test_each_kind(stage: Stage, ddl: str) -> None:
    stage.create(rows=12)
    driver = stage.driver()
    stage.snapshot(driver)
    stage.run("UPDATE t SET v = id")
    stage.run(ddl)
    finish(stage, driver)
    [change] = changed(driver)
    assert dict(change.after)["statement"] == ddl
    assert [c.op for c in driver.log].count(Op.END) == (ddl in READ_AGAIN)


@pytest.mark.parametrize("backlog", [False, True])
@pytest.mark.parametrize(
    "ddl",
    [
        "ALTER TABLE t DROP COLUMN v, ADD COLUMN v INT",
        "ALTER TABLE t CHANGE v w INT AFTER id, CHANGE w v INT AFTER w",
        "ALTER TABLE t CHANGE id v INT, CHANGE v id INT FIRST, DROP PRIMARY KEY, ADD PRIMARY KEY (id)",
    ],
)
def test_columns_that_change_places_under_one_schema(any_stage: Stage, ddl: str, backlog: bool) -> None:
    """The table looks as before, and a column has what another had, or nothing."""
    stage = any_stage
    stage.run("CREATE TABLE t (id INT NOT NULL PRIMARY KEY, v INT NOT NULL DEFAULT 7, w INT NOT NULL DEFAULT 8)")
    stage.run("INSERT INTO t VALUES (1, 2, 3), (4, 5, 6)")
    driver = stage.driver()
    stage.drain(driver)
    stage.run("UPDATE t SET w = 9 WHERE id = 1")
    stage.run(ddl)
    if backlog:
        stage.run("ALTER TABLE t ADD COLUMN x INT")
    stage.drain_twice(driver)
    stage.same_rows(driver)


def alter(stage: Stage, *statements: str) -> None:
    """Each statement with rows before and behind it, in files of their own."""
    for n, sql in enumerate(statements):
        stage.run(f"INSERT IGNORE INTO t (id) VALUES ({n + 1}), ({1000 + n})")
        stage.run(sql)
        stage.run(f"DELETE FROM t WHERE id = {1000 + n}")
        if n % 2:
            stage.run("FLUSH BINARY LOGS")


BACKLOG = [
    "ALTER TABLE t ADD note VARCHAR(20), ADD INDEX (v)",
    "ALTER TABLE t ADD COLUMN w BIGINT AFTER id, CHANGE v value INT",
    "CREATE TABLE IF NOT EXISTS t (other INT)",
    "ALTER TABLE t MODIFY value BIGINT FIRST",
    "ALTER TABLE t CHANGE w value BIGINT, CHANGE value w BIGINT",
    "ALTER TABLE t DROP INDEX v, DROP COLUMN note, ADD note DATETIME(3)",
    "ALTER TABLE t DEFAULT CHARACTER SET latin1",
    "ALTER TABLE t ADD name VARCHAR(9), MODIFY id BIGINT NOT NULL",
]


def test_a_backlog_of_changes(any_stage: Stage) -> None:
    """The catalog knows the last schema alone: the others are read from the statements."""
    stage = any_stage
    stage.create(rows=12)
    driver = stage.driver()
    stage.snapshot(driver)
    stage.drain(driver)
    alter(stage, *BACKLOG)
    finish(stage, driver)
    assert [dict(change.after)["statement"] for change in changed(driver)] == [s for s in BACKLOG if "IF NOT" not in s]
    assert not [change for change in driver.log if change.op is Op.END]


def test_a_backlog_of_changes_that_are_read_again(any_stage: Stage) -> None:
    stage = any_stage
    stage.create(rows=12)
    driver = stage.driver()
    stage.snapshot(driver)
    alter(
        stage, "ALTER TABLE t ADD n INT NOT NULL DEFAULT 7", "ALTER TABLE t MODIFY v VARCHAR(20)",
        "ALTER TABLE t DROP PRIMARY KEY, ADD k INT NOT NULL DEFAULT 3, ADD PRIMARY KEY (k, id)", "ALTER TABLE t DROP n",
    )  # fmt: skip
    finish(stage, driver)
    assert len(changed(driver)) == 4


def test_a_change_that_the_grammar_does_not_have(stage: Stage) -> None:
    """The catalog has it, as long as nothing else happened to the table since; to others it may have."""
    stage.create(rows=12)
    elsewhere = f"{stage.database}_elsewhere"
    stage.run(f"CREATE DATABASE {elsewhere}")
    stage.run(f"CREATE TABLE {elsewhere}.t (id INT PRIMARY KEY)")
    driver = stage.driver(tables=f"{stage.database}*.*")
    stage.snapshot(driver)
    stage.run("ALTER TABLE t ADD COLUMN total INT DEFAULT 7, CONVERT TO CHARACTER SET DEFAULT")
    stage.run("ALTER TABLE t ADD INDEX (v)")
    stage.run(f"ALTER TABLE {elsewhere}.t ADD COLUMN v INT")
    stage.run(f"DROP DATABASE {elsewhere}")
    stage.run("TRUNCATE TABLE t")
    finish(stage, driver)
    [change] = [c for c in changed(driver) if c.table == stage.name()]
    assert not dict(change.after)["kept"]


def test_a_column_that_is_left_out_stays_so_under_another_name(stage: Stage) -> None:
    stage.create(rows=3)
    stage.run("ALTER TABLE t ADD email VARCHAR(20) DEFAULT 'secret'")
    driver = stage.driver(exclude=f'{{"{stage.name()}": ["email"]}}')
    stage.snapshot(driver)
    stage.drain(driver)
    stage.run("ALTER TABLE t CHANGE email mail VARCHAR(30) DEFAULT 'secret'")
    stage.run("INSERT INTO t (id) VALUES (77)")
    stage.drain(driver)
    assert "secret" not in repr([(c.before, c.after) for c in driver.log if c.op is not Op.SCHEMA])
    assert len(changed(driver)) == 1
    driver.options["exclude"] = f'{{"{stage.name()}": ["email", "v"]}}'
    driver.restart()
    with pytest.raises(CdcError, match="the excluded column email does not exist"):
        driver.batch()
    driver.options["exclude"] = f'{{"{stage.name()}": ["mail"]}}'
    driver.restart()
    stage.drain(driver)


@pytest.mark.parametrize(
    ("column", "types"),
    [("TIME", "{}"), ("DATETIME", '{"*.t": {"at": "text"}}')],
)
def test_a_text_with_more_digits_of_a_second_is_another_one(stage: Stage, column: str, types: str) -> None:
    """And so the rows are read again, though the server keeps each value."""
    stage.run(f"CREATE TABLE t (id INT PRIMARY KEY, at {column})")
    stage.run("INSERT INTO t VALUES (1, '2024-01-01 10:00:00')")
    driver = stage.driver(types=types)
    stage.snapshot(driver)
    stage.run(f"ALTER TABLE t MODIFY at {column}(3)")
    stage.drain(driver)
    texts = [dict(c.after)["at"] for c in driver.log if c.op is Op.READ]
    assert [text[-9:] for text in texts] == [texts[0][-9:], ":00:00.000"[-9:]]
    assert len(set(texts)) == 2


def test_changes_in_a_small_batch(stage: Stage) -> None:
    """Batches that end at limits of their own, in front of the statement and behind it."""
    stage.create(rows=12)
    driver = stage.driver(limit=ReadMaxRows(3), maxRowsPerTrigger="3")
    for n in range(4):
        driver.batch()
        stage.run("UPDATE t SET v = v + 1")
        stage.run(f"ALTER TABLE t ADD c{n} INT")
    finish(stage, driver)


def test_a_change_that_is_under_way_while_the_catalog_is_asked(stage: Stage) -> None:
    """It is in the log when the table can be selected from; so the catalog's word is not taken for an older place."""
    stage.create(rows=4000)
    driver = stage.driver(chunkRows="10000")
    stage.snapshot(driver)
    stop = threading.Event()

    def ddl() -> None:
        with closing(connected(stage.server, database=stage.database)) as connection:
            cursor = connection.cursor()
            for n in range(12):
                cursor.execute(f"ALTER TABLE t ADD c{n} INT, ALGORITHM=COPY")
                cursor.execute(f"UPDATE t SET c{n} = {n} WHERE id < 40")
        stop.set()

    thread = threading.Thread(target=ddl)
    thread.start()
    while not stop.is_set():
        driver.batch()
    thread.join()
    finish(stage, driver)
    assert len(changed(driver)) == 12


def phases(stage: Stage, began: tuple[str, int]) -> list[tuple[str, bool]]:
    """The halves of ALTERs in the binlog from there on, and whether rows lie behind each, in front of the next."""
    found: list[tuple[str, bool]] = []
    for _, _, kind, _, _, info in stage.run(f"SHOW BINLOG EVENTS IN '{began[0]}' FROM {began[1]}"):
        if kind == "Gtid" and "ALTER" in info:
            found.append((info.split(" ", 2)[2].split(" id")[0], False))
        elif kind.startswith("Write_rows") and found:
            found[-1] = (found[-1][0], True)
    return found


@pytest.mark.parametrize("any_server", ["mariadb-10.11", "mariadb-11"], indirect=True)
def test_an_alter_that_mariadb_also_logs_when_it_begins(any_stage: Stage) -> None:
    """With rows of the old columns in between, and one that is given up."""
    stage = any_stage
    stage.run("CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT)")
    stage.run("INSERT INTO t SELECT seq, 1, seq FROM seq_1_to_50000")
    driver = stage.driver(chunkRows="50000")
    stage.snapshot(driver)
    began = stage.position()
    writes, stop = threading.Event(), threading.Event()

    def write() -> None:
        with closing(connected(stage.server, database=stage.database)) as other, other.cursor() as cursor:
            for n in range(60_000, 10**6):
                cursor.execute(f"INSERT INTO t (id, v) VALUES ({n}, {n})")
                writes.set()
                if stop.is_set():
                    return

    writer = threading.Thread(target=write)
    writer.start()
    times = 0
    try:
        assert writes.wait(60)
        stage.run("SET SESSION binlog_alter_two_phase = 1")
        while ("START ALTER", True) not in phases(stage, began):
            assert times < 20, "no row came while the table was altered"
            times += 1
            stage.run("ALTER TABLE t CHANGE w v INT, CHANGE v w INT, FORCE, ALGORITHM=INPLACE, LOCK=NONE")
        with pytest.raises(pymysql.err.IntegrityError):
            stage.run("ALTER TABLE t ADD x INT, ADD UNIQUE KEY (w), ADD UNIQUE KEY (v)")
    finally:
        stop.set()
        writer.join()
    stage.run("UPDATE t SET w = 7 WHERE id = 5")
    halves = [half for half, _ in phases(stage, began)]
    assert halves == [*["START ALTER", "COMMIT ALTER"] * times, "START ALTER", "ROLLBACK ALTER"]
    stage.drain(driver)
    assert len(changed(driver)) == times
    stage.same(driver)
