"""Rows that were changed by statements logged as text: those tables are read again that a statement may have changed.

No other one is, and a statement that can have changed none is passed over. Every batch is executed twice. After the run
bronze is the source.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

import pytest

from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.multiset import remaining
from lakehouse_cdc.model.seq import unpack
from lakehouse_cdc.source.test_hooks import Step
from tests.support.servers import connected
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage
from tests.support.source.text_dml import away_of, read_again

BODY = "BEGIN UPDATE {db}.t SET v = v + 1 WHERE id = 10; RETURN 1; END"


@dataclass(frozen=True)
class Case:
    """Statements that are logged as text, after some that are not, and the tables that are read again for them."""

    name: str
    texts: Sequence[str]
    again: frozenset[str] = frozenset()
    before: Sequence[str] = ()
    mariadb: bool | None = None  # where alone there is such a thing
    since: tuple[int, ...] = ()


T, U, K, CHILD = (frozenset((name,)) for name in ("t", "u", "k", "child"))
CASES = [
    Case("a heartbeat", ["REPLACE INTO {away}.beat VALUES (1, SYSDATE(6), 'it''s t')"]),
    Case("in its own database", ["UPDATE beat SET note = CONCAT('{db}.t', '\\'')"], before=["USE {away}"]),
    Case(
        "a checksum",
        [
            "REPLACE INTO {away}.beat (id, note) SELECT 7, COALESCE(LOWER(CONV(BIT_XOR(CAST(CRC32(CONCAT_WS('#', `id`,"
            " `v`)) AS UNSIGNED)), 10, 16)), 0) AS crc FROM `{db}`.`t` FORCE INDEX(`PRIMARY`) WHERE ((`id` >= '3'))",
            "UPDATE {away}.beat SET note = 't' WHERE id = 7 AND note <> 'u'",
        ],
    ),
    Case("rows that go", ["DELETE FROM {away}.beat WHERE id > 100 ORDER BY id, note LIMIT 3"]),
    Case("variables and numbered rows", ["SET @t = 5, @u = 6", "INSERT INTO {away}.n (v) VALUES (@t), (RAND())"]),
    Case("an insert", ["INSERT INTO t VALUES (3, 1)"], T),
    Case("an update", ["UPDATE u SET v = v + 1 WHERE id < 50"], U),
    Case("a delete", ["DELETE FROM `{db}` . `t` WHERE id = 3"], T),
    Case("a replace", ["REPLACE u SET id = 3, v = 4"], U),
    Case("no key", ["INSERT INTO k VALUES (1, 1), (1, 1)", "UPDATE k SET v = 2 LIMIT 1"], K),
    Case("several tables", ["UPDATE {away}.beat b, t SET t.v = t.v + 1 WHERE t.id = 10"], T),
    Case("rows of several tables", ["DELETE a FROM t AS a JOIN {away}.beat b WHERE a.id = 20"], T),
    Case("a view", ["UPDATE {away}.v SET v = v + 1"], T, ["CREATE VIEW {away}.v AS SELECT id, v FROM {db}.t"]),
    Case("a view of it", ["DELETE FROM {away}.w WHERE id = 30"], T, ["CREATE VIEW {away}.w AS SELECT * FROM {away}.v"]),
    Case("a view that is read", ["INSERT INTO {away}.beat (id) SELECT 55 FROM {away}.v WHERE id = 0"]),
    Case(
        "a trigger",
        ["INSERT INTO {away}.fired VALUES (1)"],
        U,
        [
            "CREATE TABLE {away}.fired (id INT)",
            "CREATE TRIGGER {away}.r AFTER INSERT ON {away}.fired FOR EACH ROW UPDATE {db}.u SET v = v + NEW.id",
        ],
    ),
    Case(
        "a trigger that writes nothing",
        ["INSERT INTO {away}.plain VALUES (1)"],
        before=[
            "CREATE TABLE {away}.plain (id INT)",
            "CREATE TRIGGER {away}.s BEFORE INSERT ON {away}.plain FOR EACH ROW SET NEW.id = 2",
        ],
    ),
    Case("a function", ["SELECT {away}.f()"], T, [f"CREATE FUNCTION {{away}}.f() RETURNS INT DETERMINISTIC {BODY}"]),
    Case("a function in a value", ["INSERT INTO {away}.beat (id) VALUES (1000 + {away}.f())"], T),
    Case(
        "a function in another",
        ["DO {away}.g()"],
        T,
        ["CREATE FUNCTION {away}.g() RETURNS INT DETERMINISTIC RETURN {away}.f()"],
    ),
    Case(
        "a function in a view",
        ["INSERT INTO {away}.beat (id) SELECT 2000 + x FROM {away}.q"],
        T,
        ["CREATE VIEW {away}.q AS SELECT {away}.f() AS x"],
    ),
    Case(
        "a function that reads",
        ["INSERT INTO {away}.beat (id) VALUES (3000 + {away}.h())"],
        before=["CREATE FUNCTION {away}.h() RETURNS INT DETERMINISTIC RETURN (SELECT COUNT(*) FROM {db}.t)"],
    ),
    Case(
        "a procedure",
        ["CALL {away}.p()"],
        U,
        ["CREATE PROCEDURE {away}.p() BEGIN UPDATE {db}.u SET v = v + 1; DELETE FROM {away}.beat WHERE id = 1; END"],
    ),
    Case(
        "a foreign key",
        ["DELETE FROM {away}.parent WHERE id = 1"],
        CHILD,
    ),
    Case("a foreign key that keeps", ["DELETE FROM {away}.other WHERE id = 9"]),
    Case("a transaction", ["BEGIN", "UPDATE t SET v = 9", "INSERT INTO {away}.n (v) VALUES (1)", "COMMIT"], T),
    Case(
        "one that is rolled back",
        ["BEGIN", "UPDATE t SET v = 7", "INSERT INTO {away}.m VALUES (1)", "ROLLBACK"],
        T,
        mariadb=True,
    ),
    Case(
        "part of one",
        ["BEGIN", "SAVEPOINT s", "INSERT INTO {away}.m VALUES (1)", "ROLLBACK TO s", "COMMIT"],
        mariadb=True,
    ),
    Case("a temporary table", ["CREATE TEMPORARY TABLE x (id INT)", "INSERT INTO x VALUES (1)", "DROP TABLE x"]),
    Case("double quotes", ['INSERT INTO "{away}"."beat" (id) VALUES (77)'], before=["SET sql_mode = 'ANSI_QUOTES'"]),
    Case("single ones", ["UPDATE {away}.beat SET note = 'a\\'"], before=["SET sql_mode = 'NO_BACKSLASH_ESCAPES'"]),
    Case("settings", ["SET STATEMENT max_statement_time = 60 FOR UPDATE {away}.beat SET at = NOW()"], mariadb=True),
    Case("settings for it", ["SET STATEMENT max_statement_time = 60 FOR UPDATE t SET v = 3"], T, mariadb=True),
    Case("returned", ["DELETE FROM {away}.beat WHERE id > 3000 RETURNING id, note"], mariadb=True),
    Case(
        "a common table",
        ["WITH t AS (SELECT 1 AS i) DELETE FROM {away}.beat WHERE id IN (SELECT i FROM t)"],
        mariadb=False,
        since=(8,),
    ),
    Case(
        "a common table for it",
        ["WITH b AS (SELECT 10 AS i) UPDATE t JOIN b ON t.id = b.i SET v = 8"],
        T,
        mariadb=False,
        since=(8,),
    ),
]


def texts(stage: Stage, statements: Sequence[str], before: Sequence[str] = ()) -> None:
    """Execute `before`, and then the statements, which are logged as text where they can be."""
    with closing(connected(stage.server, database=stage.database)) as session:
        cursor = session.cursor()
        for sql in (*before, "SET SESSION binlog_format = STATEMENT", *statements):
            cursor.execute(sql.format(db=stage.database, away=away_of(stage)))
        cursor.execute("SELECT CONNECTION_ID()")
        [(number,)] = cursor.fetchall()
    while stage.run("SELECT 1 FROM INFORMATION_SCHEMA.PROCESSLIST WHERE ID = %s", [number]):
        time.sleep(0.001)  # until then nobody else may decide on what it prepared


def drain(stage: Stage, driver: Driver, times: int = 2) -> None:
    """Until the source is at rest and nothing is to be read again; every batch is executed twice."""
    while driver.batch(between=lambda: None) if times == 2 else driver.batch():
        pass
    stage.drain(driver)


def same(stage: Stage, driver: Driver) -> None:
    """Bronze is the source; of the table without a key as a multiset."""
    stage.same_rows(driver, "t", "u", "child", "kept")
    assert remaining(change for change in driver.log if change.table == stage.name("k")) == stage.images("k")


@contextmanager
def source(stage: Stage) -> Iterator[Driver]:
    """Captured tables with rows, and some in a database that nobody captures."""
    away = away_of(stage)
    points = f"FOREIGN KEY (p) REFERENCES {away}.{{}} (id)"
    for sql in (
        f"CREATE DATABASE {away}",
        f"CREATE TABLE {away}.beat (id INT PRIMARY KEY, at DATETIME(6), note TEXT)",
        f"CREATE TABLE {away}.n (id INT AUTO_INCREMENT PRIMARY KEY, v DOUBLE)",
        f"CREATE TABLE {away}.m (id INT) ENGINE = MyISAM",
        f"CREATE TABLE {away}.parent (id INT PRIMARY KEY)",
        f"CREATE TABLE {away}.other (id INT PRIMARY KEY)",
        "CREATE TABLE k (a INT, v INT)",
        f"CREATE TABLE child (id INT PRIMARY KEY, p INT, {points.format('parent')} ON DELETE CASCADE)",
        f"CREATE TABLE kept (id INT PRIMARY KEY, p INT, {points.format('other')})",
        f"INSERT INTO {away}.parent VALUES (1), (2)",
        f"INSERT INTO {away}.other VALUES (1), (9)",
        "INSERT INTO child VALUES (1, 1), (2, 2), (3, 1)",
        "INSERT INTO kept VALUES (1, 1)",
        "INSERT INTO k VALUES (1, 1), (1, 1), (2, 2)",
    ):
        stage.run(sql)
    for table in ("t", "u"):
        stage.create(table, rows=12)
    driver = stage.driver()
    stage.snapshot(driver)
    stage.drain(driver)
    yield driver
    same(stage, driver)
    driver.stop()
    stage.run("SET foreign_key_checks = 0")
    stage.run(f"DROP DATABASE {away}")
    stage.run("SET foreign_key_checks = 1")


def fitting(stage: Stage) -> list[Case]:
    [(text,)] = stage.run("SELECT VERSION()")
    version = tuple(int(n) for n in text.split("-")[0].split(".")[:2])
    return [c for c in CASES if c.mariadb in (None, "MariaDB" in text) and (not c.since or version >= c.since)]


@pytest.mark.one_server
def test_exactly_what_a_statement_may_change_is_read_again(any_stage: Stage) -> None:
    stage = any_stage
    with source(stage) as driver:
        for case in fitting(stage):
            begin = len(driver.log)
            texts(stage, case.texts, case.before)
            stage.run("UPDATE t SET v = v + 1 WHERE id = 0")
            drain(stage, driver, times=1 + (len(case.name) % 2))
            assert read_again(driver, begin) == case.again, case.name
            same(stage, driver)
            stage.run("SET SESSION sql_mode = DEFAULT")
        passed, again = driver.offset["texts"]
        assert passed > 10 < again


@pytest.mark.one_server
@pytest.mark.parametrize("known", [True, False])
def test_all_of_them_in_a_backlog(any_stage: Stage, known: bool) -> None:
    """`known`: what leads to what had been asked for before; else only what is there after all of them is seen."""
    stage = any_stage
    with source(stage) as driver:
        if known:
            texts(stage, CASES[0].texts)
            drain(stage, driver)
            assert driver.offset["references"]
        begin = len(driver.log)
        for case in fitting(stage):
            texts(stage, case.texts, case.before)
            stage.run("UPDATE u SET v = v + 1 WHERE id = 0")
            stage.run("FLUSH BINARY LOGS")
        drain(stage, driver)
        assert read_again(driver, begin) == {"t", "u", "k", "child"}


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("known", [True, False])
def test_texts_around_a_chunk_s_window(stage: Stage, at: Callable[..., None], step: Step, known: bool) -> None:
    """At each moment: a chunk whose table they may change gives no rows, or those at W; the other tables' do."""
    stage.create(rows=30)
    stage.create("u", rows=30)
    stage.run(f"CREATE TABLE {away_of(stage)} (id INT)")
    driver = stage.driver(tables=f'["{stage.database}.*", "!{stage.database}.*away"]', chunksPerTrigger="1")
    if known:
        stage.create("first", rows=1)
        driver.batch()
        texts(stage, ["INSERT INTO {away} VALUES (1)"])
        driver.batch()
        assert driver.offset["references"]
    driver.batch()

    begins: list[int] = []

    def act() -> None:
        begins.append(stage.position()[1])
        texts(
            stage,
            ["INSERT INTO {away} VALUES (2)", "UPDATE t SET v = v + 1", "DELETE FROM t WHERE id IN (0, 150, 290)"],
        )

    at(step, act)
    stage.run("UPDATE t SET v = 5 WHERE id = 10")
    while driver.batch(between=lambda: None, altered=lambda: {stage.name()}):
        pass
    stage.drain(driver)
    stage.same_rows(driver, "t", "u")
    assert read_again(driver) <= {"t"}
    reads = [c for c in driver.log if c.op is Op.READ and c.table == stage.name() and c.after is not None]
    assert not [c for c in reads if dict(c.after)["v"] == 1 and unpack(c.seq).pos <= begins[0]], "of a later state"


def test_a_heartbeat_keeps_no_chunk_from_being_read(stage: Stage, at: Callable[..., None]) -> None:
    stage.create(rows=60)
    stage.run(f"CREATE TABLE {away_of(stage)} (id INT PRIMARY KEY, n INT)")
    driver = stage.driver(tables=stage.name(), chunksPerTrigger="1")
    driver.batch()
    for step in (Step.BEFORE_SELECT, Step.AFTER_SELECT):
        at(step, lambda: texts(stage, ["REPLACE INTO {away} VALUES (1, 2)"]), times=1000)
    batches = 0
    while not driver.offset["tables"][stage.name()]["done"]:
        batches += driver.batch()
    assert batches <= 60 / 5 + 2  # what leads to what is asked for once, where one chunk has met the first text
    stage.drain(driver)
    stage.same(driver)


def test_a_day_of_heartbeats_is_one_batch(stage: Stage) -> None:
    stage.create(rows=12)
    stage.run(f"CREATE TABLE {away_of(stage)} (id INT PRIMARY KEY, n INT)")
    driver = stage.driver(tables=stage.name())
    stage.snapshot(driver)
    stage.drain(driver)
    texts(stage, [f"REPLACE INTO {{away}} VALUES (1, {n})" for n in range(3000)])
    stage.run("UPDATE t SET v = 1")
    assert driver.batch()
    assert (driver.offset["file"], driver.offset["pos"]) == stage.position()
    assert driver.offset["texts"] == [3000, 0]


def test_many_changes_of_a_table_have_it_read_again_once(stage: Stage) -> None:
    stage.create(rows=12)
    driver = stage.driver()
    stage.snapshot(driver)
    stage.drain(driver)
    for n in range(40):
        texts(stage, [f"UPDATE t SET v = v + {n}", f"INSERT INTO t VALUES ({1000 + n}, 1)"])
        stage.run(f"UPDATE t SET v = {n} LIMIT 3")
    drain(stage, driver)
    stage.same_rows(driver)
    assert [change.op for change in driver.log].count(Op.END) == 1
    assert driver.offset["texts"] == [0, 80]


def test_texts_and_ddl_of_one_table(any_stage: Stage) -> None:
    stage = any_stage
    stage.create(rows=12)
    driver = stage.driver()
    stage.snapshot(driver)
    for sql in (
        "ADD COLUMN n INT DEFAULT 3",
        "MODIFY v BIGINT",
        "CHANGE v w BIGINT",
        "CHANGE w v INT",
        "DROP COLUMN n",
    ):
        texts(
            stage,
            ["DELETE FROM t LIMIT 1", "INSERT INTO {away} VALUES (1)"],
            ["CREATE TABLE IF NOT EXISTS {away} (i INT)"],
        )
        stage.run(f"ALTER TABLE t {sql}")
        stage.run("UPDATE t SET id = id + 1000 ORDER BY id DESC LIMIT 2")
    texts(stage, ["UPDATE t SET v = 4"])
    stage.run("TRUNCATE TABLE t")
    texts(stage, ["INSERT INTO t VALUES (1, 1)"])
    drain(stage, driver)
    stage.same_rows(driver, "t")
    texts(stage, ["INSERT INTO t VALUES (2, 1)"])
    stage.run("DROP TABLE t")
    drain(stage, driver)
    assert driver.offset["tables"][stage.name()]["dropped"]


@pytest.mark.one_server
@pytest.mark.parametrize("ends", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("between", [True, False])
def test_texts_in_xa_transactions(any_stage: Stage, ends: str, between: bool) -> None:
    """What they change is read again where the transaction is committed; `between`: offsets lie before that."""
    stage = any_stage
    stage.create(rows=12)
    stage.create("u", rows=12)
    driver = stage.driver()
    stage.snapshot(driver)
    stage.drain(driver)
    xa = [
        "XA START 'a'",
        "UPDATE t SET v = 7 WHERE id > 50",
        "INSERT INTO t VALUES (3, 3)",
        "XA END 'a'",
        "XA PREPARE 'a'",
    ]
    texts(stage, xa)
    if between:
        driver.batch()
        driver.restart()
        stage.run("UPDATE u SET v = 1")
        driver.batch()
    stage.run(f"XA {ends} 'a'")
    drain(stage, driver)
    stage.same_rows(driver, "t", "u")
    assert read_again(driver) == ({"t"} if ends == "COMMIT" else set())


def test_an_xa_transaction_that_is_committed_while_its_table_is_read(stage: Stage, at: Callable[..., None]) -> None:
    stage.create(rows=12)
    texts(stage, ["XA START 'a'", "UPDATE t SET v = 7", "XA END 'a'", "XA PREPARE 'a'"])
    driver = stage.driver()
    driver.batch()
    at(Step.BEFORE_SELECT, lambda: stage.run("XA COMMIT 'a'"))
    drain(stage, driver)
    stage.same_rows(driver)


def test_a_trigger_that_nobody_may_see(stage: Stage) -> None:
    """Without the right TRIGGER any write of another table may lead everywhere; with it, nothing is read again."""
    with closing(connected(stage.server)) as root:
        cursor = root.cursor()
        cursor.execute("CREATE USER IF NOT EXISTS 'blind'@'127.0.0.1' IDENTIFIED BY 'b'")
        cursor.execute("GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'blind'@'127.0.0.1'")
        stage.create(rows=12)
        stage.run(f"CREATE TABLE {away_of(stage)} (id INT)")
        stage.run(f"CREATE TRIGGER r AFTER INSERT ON {away_of(stage)} FOR EACH ROW UPDATE t SET v = v + 1")
        url = f"mysql://blind@127.0.0.1:{stage.server.port}"
        driver = stage.driver(url=url, password="b", tables=stage.name())
        stage.snapshot(driver)
        texts(stage, ["INSERT INTO {away} VALUES (1)"])
        drain(stage, driver)
        stage.same_rows(driver)
        cursor.execute(f"GRANT TRIGGER ON {stage.database}.* TO 'blind'@'127.0.0.1'")
        driver.restart()
        stage.run("DROP TRIGGER r")
        drain(stage, driver)
        begin = len(driver.log)
        texts(stage, ["DELETE FROM {away}"])
        drain(stage, driver)
        assert not read_again(driver, begin)
        cursor.execute("DROP USER 'blind'@'127.0.0.1'")


def test_without_snapshots_the_table_is_quarantined(stage: Stage) -> None:
    stage.create(rows=3)
    stage.create("u", rows=3)
    driver = stage.driver(snapshot="never")
    driver.batch()
    stage.run("UPDATE t SET v = 1")
    texts(stage, ["UPDATE t SET v = 2"])
    stage.run("UPDATE u SET v = 3")
    drain(stage, driver)
    assert "logged as text" in driver.offset["tables"][stage.name()]["quarantined"]
    assert [c.op for c in driver.log if c.table == stage.name("u")].count(Op.UPDATE) == 3
