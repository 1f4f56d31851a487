"""Tables of engines that lock the whole table for each statement: exact at each position, whoever writes meanwhile."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

import pymysql
import pytest

from lakehouse_cdc.model.changelog import Op, fold
from lakehouse_cdc.model.multiset import remaining
from lakehouse_cdc.model.seq import Rank, Seq
from lakehouse_cdc.mysql.catalog import read_tables
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, Session, connect
from lakehouse_cdc.schema.engines import LOCKED
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.source.reading import views_of_rows
from lakehouse_cdc.source.requests.requests import Signals
from lakehouse_cdc.source.settling import table_locks
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.versions import MARIADB
from tests.support.servers import connected, start_or_skip
from tests.support.source.driver import Driver
from tests.support.source.play import kinds_of, play
from tests.support.source.stage import Stage, on_stage
from tests.support.source.world import KEYLESS, UNIQUE

ROW_KEYS = {"key": ", PRIMARY KEY (id)", "none": ""}


def engines_of(server: MySqlServer) -> list[str]:
    return [engine for engine in LOCKED if engine != "Aria" or server.version in MARIADB]


def create(stage: Stage, engine: str, key: str = "key", rows: int = 12) -> None:
    stage.run(f"CREATE TABLE t (id INT NOT NULL, v INT NOT NULL{ROW_KEYS[key]}) ENGINE = {engine}")
    if rows:
        stage.run(f"INSERT INTO t VALUES {', '.join(f'({10 * n}, 0)' for n in range(rows))}")


def same(stage: Stage, driver: Driver, table: str = "t") -> None:
    """After `drain`: bronze holds the rows of the source, each as often."""
    mine = [c for c in driver.log if c.table == stage.name(table)]
    keyed = bool(dict(max((c for c in mine if c.op is Op.SCHEMA), key=lambda c: c.seq).after)["key"])
    got = Counter(image for _, image in fold(mine).values()) if keyed else remaining(mine)
    assert got == stage.images(table)


# ------------------------------------------------------------------ at each position


def _played(server: MySqlServer, folder: Path, seed: int, **more: Any) -> None:
    rng = random.Random(seed)
    kinds = [kind for kind in kinds_of(server) if "text" not in kind and "blob" not in kind]  # not in MEMORY
    engines = [engine for engine in engines_of(server) if engine != "CSV"]
    rng.shuffle(engines)
    while True:
        rng.shuffle(kinds)
        shapes = [(kinds[0],), tuple(kinds[1:3]), (KEYLESS, "few"), (UNIQUE, kinds[3])]
        in_memory = [shape for i, shape in enumerate(shapes) if engines[i % len(engines)] == "MEMORY"]
        if not any({"float", "double"} & {*shape} for shape in in_memory):  # two zeros: see below
            break
    play(server, folder, shapes, seed, engines=engines, **more)


@pytest.mark.parametrize("seed", range(2))
def test_every_offset_is_exact(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    _played(any_server, tmp_path, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10, 12))
def test_tables_that_are_altered(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    """Also into InnoDB and back."""
    _played(any_server, tmp_path, seed, ddl={"alter": 0.2, "truncate": 0.05})


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 120))
def test_every_offset_is_exact_many_times(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    _played(any_server, tmp_path, seed, ddl={"alter": 0.1, "replace": 0.05, "create": 0.03} if seed % 2 else {})


# ------------------------------------------------------------------ many writers


class Writers:
    """Sessions that write into `t` at the same time, until the block ends. What fails has done a part of it."""

    def __init__(self, stage: Stage, count: int = 4, rest: float = 0.002) -> None:
        self._stage, self._rest = stage, rest
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(count)]
        self.done: Counter[str] = Counter()

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _write(self, number: int) -> None:
        rng = random.Random(number)
        with closing(connected(self._stage.server, database=self._stage.database)) as connection:
            cursor = connection.cursor()
            while not self._stopped.wait(rng.random() * self._rest):
                verb, statements = self._statements(rng)
                try:
                    for sql in statements:
                        cursor.execute(sql)
                    self.done[verb] += 1
                except (pymysql.err.IntegrityError, pymysql.err.OperationalError):
                    self.done[f"{verb}, in part"] += 1
                    cursor.execute("UNLOCK TABLES")

    def _statements(self, rng: random.Random) -> tuple[str, list[str]]:
        first, value = rng.randrange(300), rng.randrange(1000)
        rows = ", ".join(f"({(first + 7 * n) % 300}, {value})" for n in range(rng.randrange(1, 6)))
        return rng.choice(
            [
                ("insert", [f"INSERT INTO t VALUES {rows}"]),
                ("insert select", [f"INSERT INTO t SELECT id, {value} FROM more WHERE id >= {first} LIMIT 20"]),
                ("insert ignore", [f"INSERT IGNORE INTO t VALUES {rows}"]),
                ("replace", [f"REPLACE INTO t VALUES {rows}"]),
                ("update", [f"UPDATE t SET v = {value} WHERE id BETWEEN {first} AND {first + 20}"]),
                ("update keys", [f"UPDATE t SET id = id + 3 WHERE id BETWEEN {first} AND {first + 20}"]),
                ("delete", [f"DELETE FROM t WHERE id BETWEEN {first} AND {first + 5}"]),
                ("lock", ["LOCK TABLES t WRITE", f"REPLACE INTO t VALUES {rows}", "UNLOCK TABLES"]),
            ]
        )


def until(log: list[Any], offset: dict[str, Any]) -> list[Any]:
    """The rows of bronze up to the position of an offset."""
    last = Seq(1, int(offset["file"].rpartition(".")[2]), offset["pos"], Rank.READ, 0).pack()
    return [change for change in log if change.seq <= last]


def exact_at(stage: Stage, offset: dict[str, Any], mine: list[Any], there: list[Any], *, keyed: bool) -> None:
    """At an offset the rows that were read, and what was done to them, are what all changes come to."""
    state = offset["tables"][stage.name()]
    if state.get("mode") == "again":
        return
    if keyed:
        got, want = images(mine), images(there)
        assert got == (want if state["done"] else {k: want.get(k) for k in got}), offset
    elif state["done"]:
        assert remaining(mine) == remaining(there), offset


def images(log: list[Any]) -> dict[Any, Any]:
    return {key: image for key, (_, image) in fold(log).items()}


BRIEF = {("MyISAM", "key"), ("Aria", "none")}


@pytest.mark.parametrize(
    ("engine", "key"),
    [pytest.param(*one, marks=[] if one in BRIEF else pytest.mark.long) for one in product(LOCKED, ("none", "key"))],
)
def test_rows_are_read_while_many_write(any_stage: Stage, tmp_path: Path, engine: str, key: str) -> None:
    """One stream has seen every change since the table was empty, so it knows what there was at each position; another
    one reads the rows while they are written."""
    stage = any_stage
    if engine not in engines_of(stage.server) or (engine, key) == ("CSV", "key"):
        pytest.skip("the server has no such table")
    create(stage, engine, key, rows=0)
    stage.run("CREATE TABLE more (id INT PRIMARY KEY)")
    stage.run(f"INSERT INTO more VALUES {', '.join(f'({n})' for n in range(300))}")
    events = stage.driver(tables=stage.name(), schemaFolder=str(tmp_path / "events"))
    stage.snapshot(events)
    offsets = []
    with Writers(stage, rest=0.02 if key == "none" else 0.004) as writers:
        time.sleep(0.3)
        driver = stage.driver(
            tables=stage.name(), schemaFolder=str(tmp_path / "rows"), settle="age", settleSeconds="0.01",
            chunkRows="40",
            url=f"mysql://root@127.0.0.1:{stage.server.port}", password="",  # may LOCK TABLES
        )  # fmt: skip
        for n in range(8):
            driver.batch(between=lambda: None)
            offsets.append((dict(driver.offset), len(driver.log)))
            if n == 5:
                Signals(driver.options["schemaFolder"]).request(stage.name())
    stage.drain_twice(driver)
    stage.drain(events)
    same(stage, events)
    same(stage, driver)
    read = [c for c in driver.log if c.op is Op.READ]
    assert read
    for offset, size in offsets:
        exact_at(stage, offset, driver.log[:size], until(events.log, offset), keyed=key == "key")
    print(engine, key, dict(writers.done), len(read), Counter(o["tables"][stage.name()]["done"] for o, _ in offsets))
    assert any("in part" in verb for verb in writers.done) or key == "none"


@pytest.mark.parametrize("key", ROW_KEYS)
def test_rows_that_are_logged_and_hidden_still(any_stage: Stage, key: str) -> None:
    """By a concurrent INSERT that has not given back its lock: no SELECT waits for it, and no age is old enough."""
    stage = any_stage
    create(stage, "MyISAM", key)
    mariadb = stage.server.version in MARIADB
    logged, shown = threading.Event(), threading.Event()

    def write() -> None:
        with closing(connected(stage.server, database=stage.database)) as connection:
            cursor = connection.cursor()
            if mariadb:
                cursor.execute("LOCK TABLES t WRITE CONCURRENT")
            cursor.execute("INSERT INTO t VALUES (5, 5)")
            logged.set()
            time.sleep(1)
            cursor.execute("UNLOCK TABLES")
            shown.set()

    driver = stage.driver(settle="age", settleSeconds="0.01", chunkRows="100")
    begin = stage.position()
    writer = threading.Thread(target=write)
    if not mariadb:
        stage.run("SET GLOBAL binlog_group_commit_sync_delay = 1000000")
    try:
        writer.start()
        while stage.position() == begin:
            time.sleep(0.01)
        if mariadb:
            logged.wait()
            assert not stage.run("SELECT 1 FROM t WHERE id = 5")
        stage.snapshot(driver)
    finally:
        writer.join()
        if not mariadb:
            stage.run("SET GLOBAL binlog_group_commit_sync_delay = 0")
    same(stage, driver)
    assert {dict(c.after)["id"] for c in driver.log if c.op is Op.READ} >= {5}


@pytest.mark.parametrize("moment", ["has_settled", "wait_for_delayed"])
def test_a_write_between_the_look_at_the_log_and_the_lock(
    any_stage: Stage, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Whether the SELECT sees it cannot be said: before it had its lock it does, and after it has ended it does not."""
    stage = any_stage
    create(stage, "MyISAM", "none")
    writes = iter(["INSERT INTO t VALUES (5, 5)", "DELETE FROM t WHERE id = 10"])

    def acting(session: Session, schema: TableSchema) -> bool:
        for sql in writes:
            stage.run(sql)
        return True

    monkeypatch.setattr(views_of_rows, moment, acting)
    before = stage.images()
    driver = stage.driver()
    stage.snapshot(driver)
    assert Counter(c.after for c in driver.log if c.op is Op.READ) == before
    stage.drain_twice(driver)
    same(stage, driver)


@pytest.mark.parametrize("any_server", MARIADB, indirect=True)
@pytest.mark.parametrize("key", ROW_KEYS)
def test_rows_that_are_shown_and_not_logged_yet(any_stage: Stage, key: str, tmp_path: Path) -> None:
    """A thread of MariaDB's writes the rows of INSERT DELAYED, lets readers in between, and logs them later."""
    stage = any_stage
    create(stage, "MyISAM", key, rows=0)
    stage.run("SET GLOBAL delayed_insert_limit = 1")
    events = stage.driver(tables=stage.name(), schemaFolder=str(tmp_path / "events"))
    stage.snapshot(events)
    stopped = threading.Event()
    writers = [threading.Thread(target=_delayed, args=(stage, number, stopped)) for number in range(3)]
    for writer in writers:
        writer.start()
    ends = threading.Timer(2, stopped.set)
    ends.start()
    driver = stage.driver(
        tables=stage.name(), schemaFolder=str(tmp_path / "rows"), settleSeconds="0.01", chunkRows="200"
    )
    offsets = []
    try:
        for _ in range(6):
            driver.batch(between=lambda: None)
            offsets.append((dict(driver.offset), len(driver.log)))
    finally:
        stopped.set()
        for writer in writers:
            writer.join()
        stage.run("SET GLOBAL delayed_insert_limit = DEFAULT")
        stage.run("FLUSH TABLES")
    stage.drain_twice(driver)
    stage.drain(events)
    same(stage, events)
    same(stage, driver)
    for offset, size in offsets:
        exact_at(stage, offset, driver.log[:size], until(events.log, offset), keyed=key == "key")


@pytest.mark.parametrize("any_server", MARIADB, indirect=True)
def test_a_thread_that_shows_rows_before_it_logs_them_is_waited_for(any_stage: Stage) -> None:
    """It has the table open for five minutes after its last row, or until the tables are flushed."""
    stage = any_stage
    create(stage, "MyISAM", "none", rows=0)
    stage.run("INSERT DELAYED INTO t VALUES (1, 1)")
    waited = 0

    def sleep(_: float) -> None:
        nonlocal waited
        waited += 1
        stage.run("FLUSH TABLES")

    options = ConnectionOptions(host="127.0.0.1", port=stage.server.port, user="root", password="")
    with connect(options) as session:
        [schema] = read_tables(session, Selection([stage.name()])).values()
        table_locks.wait_for_delayed(session, schema, sleep=sleep)
    assert waited
    assert stage.images().total() == 1


def _delayed(stage: Stage, number: int, stopped: threading.Event) -> None:
    """Writes until it is stopped; ends the server's thread then."""
    with closing(connected(stage.server, database=stage.database)) as connection:
        cursor, n = connection.cursor(), 0
        while not stopped.is_set():
            n += 1
            cursor.execute(f"INSERT DELAYED INTO t VALUES ({10 * n + number}, {n})")
            if n % 50 == 0:
                time.sleep(0.05)
        cursor.execute("FLUSH TABLES")


# ------------------------------------------------------------------ rows that go, and come, without an event


def reads(driver: Driver, table: str) -> int:
    return sum(change.op is Op.READ and change.table == table for change in driver.log)


def unlogged(stage: Stage, sql: str) -> None:
    for statement in ("SET sql_log_bin = 0", sql, "SET sql_log_bin = 1"):
        stage.run(statement)


@pytest.fixture
def own_stage(any_server: MySqlServer, tmp_path: Path) -> Iterator[Stage]:
    """A stage on a server that may be killed."""
    with start_or_skip(any_server.version, tmp_path / "server") as server:
        yield from on_stage(server, "own", tmp_path)


def again(stage: Stage) -> None:
    """The server is there again; so is the connection."""
    stage.server.restart()
    stage.connection = connected(stage.server, charset="utf8mb4", database=stage.database)


@pytest.mark.parametrize("key", ROW_KEYS)
def test_the_server_crashes(own_stage: Stage, key: str) -> None:
    """What it wrote last may be there and not in the log, or the other way; InnoDB recovers, and is not read again."""
    stage = own_stage
    create(stage, "MyISAM", key)
    stage.run("CREATE TABLE u (id INT PRIMARY KEY) ENGINE = InnoDB")
    stage.run("INSERT INTO u VALUES (1), (2)")
    driver = stage.driver()
    stage.snapshot(driver)
    stage.drain(driver)
    unlogged(stage, "INSERT INTO t VALUES (7, 7)")
    unlogged(stage, "DELETE FROM t WHERE id = 20")
    stage.server.kill()
    again(stage)
    stage.run("INSERT INTO t VALUES (8, 8)")
    stage.run("INSERT INTO u VALUES (3)")
    driver.restart()
    stage.drain_twice(driver)
    same(stage, driver)
    assert {dict(c.after)["id"] for c in driver.log if c.op is Op.READ and c.table == stage.name()} >= {7}
    assert reads(driver, stage.name("u")) == 2
    before = len(driver.log)
    again(stage)  # as it should be
    driver.restart()
    stage.drain_twice(driver)
    assert len(driver.log) == before


@pytest.mark.long
def test_a_crash_in_a_backlog(own_stage: Stage) -> None:
    """While the rows are read, and files before the end of the log."""
    stage = own_stage
    create(stage, "MyISAM", rows=60)
    driver = stage.driver()
    for _ in range(3):
        driver.batch()
    unlogged(stage, "INSERT INTO t VALUES (7, 7), (597, 7)")
    stage.server.kill()
    again(stage)
    for n in range(3):
        stage.run(f"UPDATE t SET v = {n} WHERE id < 100")
        stage.run("FLUSH BINARY LOGS")
    driver.restart()
    stage.drain_twice(driver)
    stage.snapshot(driver)
    stage.drain_twice(driver)
    same(stage, driver)


@pytest.mark.parametrize("key", ROW_KEYS)
@pytest.mark.parametrize("crash", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_table_in_memory_is_empty_after_a_restart(own_stage: Stage, key: str, crash: bool) -> None:
    """The server logs that when the table is opened, which the stream itself may do."""
    stage = own_stage
    create(stage, "MEMORY", key)
    driver = stage.driver()
    stage.snapshot(driver)
    stage.drain(driver)
    if crash:
        stage.server.kill()
    again(stage)
    assert not stage.run("SELECT * FROM t")
    stage.run("INSERT INTO t VALUES (3, 3)")
    driver.restart()
    stage.drain_twice(driver)
    same(stage, driver)


@pytest.mark.parametrize("key", ROW_KEYS)
def test_a_table_is_repaired(any_stage: Stage, key: str) -> None:
    stage = any_stage
    create(stage, "MyISAM", key)
    stage.run("CREATE TABLE u (id INT PRIMARY KEY) ENGINE = InnoDB")
    stage.run("INSERT INTO u VALUES (1), (2)")
    driver = stage.driver()
    stage.snapshot(driver)
    stage.drain(driver)
    unlogged(stage, "DELETE FROM t WHERE id = 20")
    stage.run("REPAIR TABLE u, t QUICK")
    stage.run("INSERT INTO t VALUES (8, 8)")
    stage.drain_twice(driver)
    same(stage, driver)
    assert reads(driver, stage.name("u")) == 2


@pytest.mark.parametrize("any_server", MARIADB, indirect=True)
def test_a_text_in_a_transaction_that_is_rolled_back(any_stage: Stage) -> None:
    """Its rows remain, and are visible long before it is in the log. MySQL refuses that where GTIDs are on."""
    stage = any_stage
    create(stage, "MyISAM")
    stage.run("CREATE TABLE u (id INT PRIMARY KEY) ENGINE = InnoDB")
    driver = stage.driver(chunkRows="100")
    stage.run("SET binlog_format = STATEMENT")
    for end in ("ROLLBACK", "ROLLBACK TO a", "COMMIT"):
        for sql in ("BEGIN", "SAVEPOINT a", "INSERT INTO u VALUES (1)", "UPDATE t SET v = v + 1 WHERE id < 50"):
            stage.run(sql)
        driver.batch()
        stage.run(end)
        stage.run("COMMIT")
        stage.run("DELETE FROM u")
    stage.drain_twice(driver)
    same(stage, driver)


# ------------------------------------------------------------------ another engine


@pytest.mark.long
@pytest.mark.parametrize("key", ROW_KEYS)
def test_a_table_gets_another_engine(any_stage: Stage, key: str) -> None:
    """By statements in a backlog, and near the end of the log; the rows are read again by the rule of the new one."""
    stage = any_stage
    create(stage, "InnoDB", key)
    driver = stage.driver()
    stage.snapshot(driver)
    for backlog in (False, True):
        for engine in ("MyISAM", "memory", "HEAP", *(["Aria"] if stage.server.version in MARIADB else []), "InnoDB"):
            stage.run(f"ALTER TABLE t ENGINE = {engine}, ADD COLUMN c{len(driver.log)} INT")
            stage.run(f"ALTER TABLE t DROP COLUMN c{len(driver.log)}")
            stage.run("INSERT INTO t VALUES (3, 3)")
            stage.run("DELETE FROM t WHERE id = 3")
            if not backlog:
                stage.drain_twice(driver)
                same(stage, driver)
    stage.drain_twice(driver)
    same(stage, driver)
    assert not any("quarantined" in state for state in driver.offset["tables"].values())


def test_a_table_gets_an_engine_that_is_not_captured(any_stage: Stage) -> None:
    stage = any_stage
    if stage.server.version in MARIADB:
        pytest.skip("the server for tests has no engine that keeps no rows")
    create(stage, "MyISAM")
    stage.run("CREATE TABLE u (id INT PRIMARY KEY)")
    driver = stage.driver()
    stage.snapshot(driver)
    stage.run("ALTER TABLE t ENGINE = BLACKHOLE")
    stage.run("INSERT INTO u VALUES (1)")
    stage.drain_twice(driver)
    assert "has the engine BLACKHOLE, which keeps no rows" in driver.offset["tables"][stage.name()]["quarantined"]
    stage.same_rows(driver, "u")
    stage.run("ALTER TABLE t ENGINE = MyISAM")
    stage.run("INSERT INTO t VALUES (4, 4)")
    Signals(driver.options["schemaFolder"]).request(stage.name())
    stage.drain_twice(driver)
    same(stage, driver)


def test_a_table_comes_to_belong_to_a_merge_table(any_stage: Stage) -> None:
    """What is written by way of that is logged under its name: the table is captured no longer, and it alone."""
    stage = any_stage
    create(stage, "MyISAM")
    stage.run("CREATE TABLE u (id INT PRIMARY KEY) ENGINE = MyISAM")
    driver = stage.driver()
    stage.snapshot(driver)
    columns = "(id INT NOT NULL, v INT NOT NULL, PRIMARY KEY (id))"
    stage.run(f"CREATE TABLE IF NOT EXISTS m {columns} ENGINE = MRG_MYISAM UNION = (t) INSERT_METHOD = LAST")
    stage.run("INSERT INTO m VALUES (5, 5)")
    stage.run("INSERT INTO u VALUES (1)")
    stage.drain_twice(driver)
    assert "belongs to the MERGE table" in driver.offset["tables"][stage.name()]["quarantined"]
    stage.same_rows(driver, "u")
    stage.run("DROP TABLE m")
    Signals(driver.options["schemaFolder"]).request(stage.name())
    stage.drain_twice(driver)
    same(stage, driver)


def test_tables_of_a_merge_table_are_left_out(any_stage: Stage) -> None:
    stage = any_stage
    create(stage, "MyISAM")
    stage.run("CREATE TABLE u (id INT PRIMARY KEY) ENGINE = MyISAM")
    stage.run("CREATE TABLE m (id INT NOT NULL, v INT NOT NULL, PRIMARY KEY (id)) ENGINE = MRG_MYISAM UNION = (`t`)")
    driver = stage.driver()
    stage.snapshot(driver)
    assert list(driver.offset["tables"]) == [stage.name("u")]


# ------------------------------------------------------------------ what a server, or an engine, does otherwise


@pytest.mark.parametrize("key", ROW_KEYS)
def test_a_server_that_is_read_only(any_stage: Stage, key: str) -> None:
    """MySQL 8.0 refuses CHECK TABLE there."""
    stage = any_stage
    create(stage, "MyISAM", key)
    driver = stage.driver()
    setting = "read_only" if stage.server.version in MARIADB else "super_read_only"
    stage.run(f"SET GLOBAL {setting} = ON")
    try:
        stage.snapshot(driver)
    finally:
        stage.run(f"SET GLOBAL {setting} = OFF")
        stage.run("SET GLOBAL read_only = OFF")
    stage.run("INSERT INTO t VALUES (5, 5)")
    stage.drain_twice(driver)
    same(stage, driver)


def test_a_timestamp_in_a_file_of_text(any_stage: Stage) -> None:
    """It is what the clock of the session showed that wrote it."""
    stage = any_stage
    stage.run("CREATE TABLE t (id INT NOT NULL, at TIMESTAMP NOT NULL, on_day DATETIME NOT NULL) ENGINE = CSV")
    stage.run("SET time_zone = '+05:00'")
    stage.run("INSERT INTO t VALUES (1, '2024-01-01 10:00:00', '2024-01-01 10:00:00')")
    stage.create("u")
    driver = stage.driver()
    stage.drain(driver)
    assert "a TIMESTAMP of the engine CSV" in driver.offset["tables"][stage.name()]["quarantined"]
    driver = stage.driver(exclude=f'{{"{stage.name()}": ["at"]}}', schemaFolder=str(stage.folder / "without"))
    stage.snapshot(driver)
    stage.run("UPDATE t SET id = 2")
    stage.drain_twice(driver)
    assert [dict(image)["id"] for image in remaining(c for c in driver.log if c.table == stage.name())] == [2]


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_zeros_of_both_signs_in_memory(any_stage: Stage, kind: str) -> None:
    """A hash index has both: they are two rows, of a table without a key, whatever is its primary key."""
    stage, tables = any_stage, ("t", "u")
    stage.run(f"CREATE TABLE t (a {kind} NOT NULL, v INT, UNIQUE (a) USING HASH) ENGINE = MEMORY")
    stage.run(f"CREATE TABLE u (a {kind} NOT NULL, v INT, PRIMARY KEY (a) USING HASH) ENGINE = MEMORY")
    for table in tables:
        stage.run(f"INSERT IGNORE INTO {table} VALUES (0e0, 1), (-0e0, 1)")
    rows = {table: stage.images(table).total() for table in tables}
    # MariaDB takes both literals for 0.0 in some versions
    assert [*rows.values()] == [2, 2] or stage.server.version in MARIADB
    driver = stage.driver()
    stage.drain(driver)
    for table in tables:
        stage.run(f"UPDATE {table} SET v = 2 WHERE v = 1 LIMIT 1")
    stage.drain_twice(driver)
    assert {table: stage.images(table).total() for table in tables} == rows
    for table in tables:
        same(stage, driver, table)
        stage.run(f"DELETE FROM {table} WHERE v = 2")
        stage.run(f"ALTER TABLE {table} ENGINE = InnoDB")
        stage.run(f"UPDATE {table} SET v = 3")
    stage.drain_twice(driver)
    stage.same_rows(driver, *tables)
    for table in tables:
        stage.run(f"ALTER TABLE {table} ENGINE = MEMORY")
        stage.run(f"INSERT INTO {table} VALUES (1.5, 1)")
        stage.run(f"UPDATE {table} SET a = 2.5, v = 4 LIMIT 1")
    stage.drain_twice(driver)
    for table in tables:
        same(stage, driver, table)
