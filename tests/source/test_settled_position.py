"""The floor is settled: by each proof, never sooner, and a restart begins with the one that the offset holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pymysql
import pytest

from lakehouse_cdc.errors import DefiniteError, TransientError
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.gtid import GtidSet
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.mysql import server
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, Session, connect
from lakehouse_cdc.source.settling import settled_position
from lakehouse_cdc.source.settling.settled_position import Floor, choose_proof
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.versions import MARIADB
from tests.support.gtids import upto_the_next
from tests.support.servers import connected
from tests.support.source.stage import Stage

pytestmark = pytest.mark.every_server

_NONE = GtidSet()


@pytest.fixture
def root(mysql: MySqlServer) -> Iterator[Session]:
    with connect(ConnectionOptions.from_url(mysql.url)) as session:
        yield session


@pytest.fixture
def reader(mysql: MySqlServer) -> Iterator[Session]:
    with connect(ConnectionOptions("127.0.0.1", mysql.port, "cdc", "cdc-secret")) as session:
        yield session


class Clock:
    """Time that passes when told."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def place(n: int) -> Position:
    return Position("mysql-bin.000001", n)


# ---------------------------------------------------------------- each proof


@pytest.mark.parametrize("proof", ["gtid", "process"])
def test_a_position_settles_only_once_a_select_sees_it(stage: Stage, root: Session, proof: Any) -> None:
    stage.create()
    executed, following = (
        GtidSet.parse(root.scalar("SELECT @@GLOBAL.gtid_executed")),
        GtidSet.parse(upto_the_next(root)),
    )
    before = server.log_position(root).position
    floor = Floor(root, proof, margin=10)
    root.query("SET GLOBAL binlog_group_commit_sync_delay = 1000000")
    try:
        with ThreadPoolExecutor() as pool:
            written = pool.submit(stage.run, "INSERT INTO t VALUES (1, 1)")
            while not before < (tip := server.log_position(root).position):
                time.sleep(0.001)
            floor.saw(before, executed)
            floor.saw(tip, executed.union(following))
            assert floor.settled() != tip
            assert root.scalar(f"SELECT COUNT(*) FROM {stage.name()}") == 0
            floor.wait_for(tip)
            assert root.scalar(f"SELECT COUNT(*) FROM {stage.name()}") == 1
            written.result()
    finally:
        root.query("SET GLOBAL binlog_group_commit_sync_delay = 0")


@contextmanager
def waiting_for_a_replica(root: Session) -> Iterator[None]:
    """Every commit of a MariaDB server stands in the binlog for a second, waiting for a replica that never comes."""
    settings = {"timeout": "1000", "wait_point": "'AFTER_SYNC'", "wait_no_slave": "ON", "enabled": "ON"}
    for name, value in settings.items():
        root.query(f"SET GLOBAL rpl_semi_sync_master_{name} = {value}")
    yield
    root.query("SET GLOBAL rpl_semi_sync_master_enabled = OFF")


def insert(any_server: MySqlServer, database: str) -> None:
    with connect(ConnectionOptions.from_url(any_server.url)) as writer:
        writer.query(f"INSERT INTO {database}.t VALUES (1)")


@pytest.mark.parametrize("any_server", MARIADB, indirect=True)
def test_a_position_of_mariadb_settles_only_once_a_select_sees_it(any_database: str, any_server: MySqlServer) -> None:
    with connect(ConnectionOptions.from_url(any_server.url)) as root, ThreadPoolExecutor() as pool:
        root.query(f"CREATE TABLE {any_database}.t (id INT PRIMARY KEY)")
        before = server.log_position(root).position
        floor = Floor(root, "auto", margin=10)
        assert floor.proof == "snapshot"
        with waiting_for_a_replica(root):
            written = pool.submit(insert, any_server, any_database)
            while not before < (tip := server.log_position(root).position):
                time.sleep(0.001)
            floor.saw(before, _NONE)
            floor.saw(tip, _NONE)
            holes = 0
            while not written.done() and root.scalar(f"SELECT COUNT(*) FROM {any_database}.t") == 0:
                holes += 1
                assert floor.settled() != tip or root.scalar(f"SELECT COUNT(*) FROM {any_database}.t") == 1
            floor.wait_for(tip)
            assert root.scalar(f"SELECT COUNT(*) FROM {any_database}.t") == 1
            written.result()
    assert holes > 10 or any_server.version == "mariadb-10.11"  # which moves its position only when all is visible


def test_age_counts_from_when_we_saw_the_position(root: Session) -> None:
    clock = Clock()
    floor = Floor(root, "age", margin=10, clock=clock, sleep=clock.sleep)
    clock.now += 5000  # however old the floor, or anything else, is
    floor.saw(place(100), _NONE)
    clock.now += 4
    floor.saw(place(200), _NONE)
    clock.now += 5.9
    assert floor.settled() is None
    clock.now += 0.2
    assert floor.settled() == place(100)
    floor.saw(place(200), _NONE)  # seen again: the first time counts
    clock.now += 4
    assert floor.settled() == place(200)


def test_process_waits_for_statements_not_for_threads(root: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy thread is always in a commit: what counts is whether it is the same one."""
    waits = {(1, 10), (2, 5)}
    monkeypatch.setattr(server, "commit_waits", lambda session: set(waits))
    floor = Floor(root, "process", margin=10)
    floor.saw(place(100), _NONE)
    waits.symmetric_difference_update({(1, 10), (1, 11)})
    assert floor.settled() is None
    floor.saw(place(200), _NONE)
    waits.symmetric_difference_update({(2, 5), (2, 6)})
    assert floor.settled() == place(100)
    waits.clear()
    waits.add((1, 12))
    assert floor.settled() == place(200)


@pytest.mark.parametrize("proof", ["process", "snapshot"])
def test_what_xa_recover_still_lists_is_waited_for(root: Session, monkeypatch: pytest.MonkeyPatch, proof: Any) -> None:
    """Of the decided ones alone; and once gone, one that is prepared again is another."""
    listed = {"a", "b", "long"}
    monkeypatch.setattr(server, "commit_waits", lambda session: set())
    monkeypatch.setattr(server, "prepared_xids", lambda session: set(listed))
    monkeypatch.setattr(server, "snapshot_position", lambda session: place(1000))
    monkeypatch.setattr(settled_position, "choose_proof", lambda session, proof, margin: (proof, margin))
    floor = Floor(root, proof, margin=10)
    floor.saw(place(100), _NONE)
    floor.saw(place(200), _NONE, decided={"a", "gone"})
    floor.saw(place(300), _NONE, decided={"a", "b"})
    floor.saw(place(400), _NONE)
    assert floor.settled() == place(100)
    listed.remove("a")
    assert floor.settled() == place(200)
    listed.add("a")
    assert floor.settled() == place(200)
    assert floor.waiting() == [place(300), place(400)]
    listed.remove("b")
    assert floor.settled() == place(400)


@pytest.mark.parametrize("proof", ["process", "snapshot"])
def test_where_xa_recover_is_not_allowed_age_is_the_proof(
    root: Session, monkeypatch: pytest.MonkeyPatch, proof: Any
) -> None:
    monkeypatch.setattr(server, "commit_waits", lambda session: set())
    monkeypatch.setattr(server, "prepared_xids", lambda session: None)
    monkeypatch.setattr(server, "snapshot_position", lambda session: place(1000))
    monkeypatch.setattr(settled_position, "choose_proof", lambda session, proof, margin: (proof, margin))
    clock = Clock()
    floor = Floor(root, proof, margin=10, clock=clock, sleep=clock.sleep)
    floor.saw(place(100), _NONE)
    assert floor.settled() == place(100)
    floor.saw(place(200), _NONE, decided={"a"})
    clock.now += 5
    floor.saw(place(300), _NONE)
    assert floor.settled() == place(100)
    clock.now += 5.1
    assert floor.settled() == place(300)


@pytest.mark.parametrize("proof", ["process", "snapshot"])
def test_after_a_restart_an_xa_commit_of_before_needs_age(
    root: Session, monkeypatch: pytest.MonkeyPatch, proof: Any
) -> None:
    monkeypatch.setattr(server, "commit_waits", lambda session: set())
    monkeypatch.setattr(server, "snapshot_position", lambda session: place(1000))
    monkeypatch.setattr(settled_position, "choose_proof", lambda session, proof, margin: (proof, margin))
    clock = Clock()
    floor = Floor(root, proof, margin=10, settled=place(50), xa=True, clock=clock, sleep=clock.sleep)
    floor.saw(place(100), _NONE)
    clock.now += 9
    assert floor.settled() == place(50)
    clock.now += 1.1
    assert floor.settled() == place(100)


@pytest.mark.parametrize(
    ("any_server", "proof"),
    [("mysql-5.7", "gtid"), ("mysql-8.0", "gtid"), ("mysql-9", "gtid"), ("mysql-8.0", "process")],
    indirect=["any_server"],
)
@pytest.mark.parametrize("own", [True, False], ids=["own session", "another session"])
def test_an_xa_commit_settles_only_once_a_select_sees_it(any_stage: Stage, proof: Any, own: bool) -> None:
    stage = any_stage
    stage.create()
    with _other(stage) as other:
        for sql in ("XA START 'x'", "INSERT INTO t VALUES (1, 1)", "XA END 'x'", "XA PREPARE 'x'"):
            (stage.run if own else other.cursor().execute)(sql)
    with connect(ConnectionOptions.from_url(stage.server.url)) as root:
        _settles_once_seen(stage, root, proof, own)


def _settles_once_seen(stage: Stage, root: Session, proof: Any, own: bool) -> None:
    time.sleep(0.05)
    executed = GtidSet.parse(root.scalar("SELECT @@GLOBAL.gtid_executed"))
    following, before = GtidSet.parse(upto_the_next(root)), server.log_position(root).position
    floor, holes = Floor(root, proof, margin=10), 0
    root.query("SET GLOBAL binlog_group_commit_sync_delay = 500000")
    try:
        with ThreadPoolExecutor() as pool:
            written = pool.submit(stage.run, "XA COMMIT 'x'")
            while not before < (tip := server.log_position(root).position):
                time.sleep(0.001)
            floor.saw(tip, executed.union(following), decided={"78,,1"})
            while root.scalar(f"SELECT COUNT(*) FROM {stage.name()}") == 0:
                holes += 1
                assert floor.settled() != tip or root.scalar(f"SELECT COUNT(*) FROM {stage.name()}") == 1
            floor.wait_for(tip)
            assert root.scalar(f"SELECT COUNT(*) FROM {stage.name()}") == 1
            written.result()
    finally:
        root.query("SET GLOBAL binlog_group_commit_sync_delay = 0")
    # MySQL 5.7 commits in InnoDB first, where it is another session that commits
    assert holes > 2 or (stage.server.version == "mysql-5.7" and not own)


def test_a_newer_position_that_is_proven_settles_the_older_ones(root: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that is not leaves the older floor in force."""
    proven: set[str] = set()
    monkeypatch.setattr(server, "executed_contains", lambda session, gtids: gtids in proven)
    floor = Floor(root, "gtid", margin=10, settled=place(50))
    for n in (1, 2, 3):
        floor.saw(place(n * 100), GtidSet.parse(f"00000000-0000-0000-0000-00000000000a:1-{n}"))
    assert floor.settled() == place(50)
    proven.add("00000000-0000-0000-0000-00000000000a:1-2")
    assert floor.settled() == place(200)
    proven.add("00000000-0000-0000-0000-00000000000a:1-1")
    assert floor.settled() == place(200)


def test_what_never_settles_is_an_error_in_the_end(root: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "executed_contains", lambda session, gtids: False)
    clock = Clock()
    floor = Floor(root, "gtid", margin=10, clock=clock, sleep=clock.sleep)
    floor.saw(place(100), _NONE)
    with pytest.raises(TransientError, match="does not settle"):
        floor.wait_for(place(100))
    assert 1600 <= clock.now < 1610


# ---------------------------------------------------------------- which proof


def with_gtids(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = server.settings
    monkeypatch.setattr(server, "settings", lambda session, like: {**real(session, like), "gtid_mode": mode})


def test_gtids_come_first_then_the_right_then_age(
    root: Session, reader: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert choose_proof(reader, "auto", 10) == ("gtid", 10)
    for mode in ("OFF", "OFF_PERMISSIVE", "ON_PERMISSIVE"):  # in all of these a transaction may be anonymous
        with_gtids(mode, monkeypatch)
        assert choose_proof(root, "auto", 10) == ("process", 10)
        assert choose_proof(reader, "auto", 10) == ("age", 10)
        with pytest.raises(DefiniteError, match="gtid_mode"):
            choose_proof(root, "gtid", 10)


def test_process_needs_the_right(reader: Session) -> None:
    with pytest.raises(DefiniteError, match="GRANT PROCESS"):
        choose_proof(reader, "process", 10)


@pytest.mark.parametrize(
    ("semi_sync", "margin"),
    [(server.SemiSync(True, 60.0, False), 61.0), (server.SemiSync(False, 60.0, False), 10.0),
     (server.SemiSync(False, 1e9, True), 10.0), (server.SemiSync(True, 1.0, False), 10.0)],
)  # fmt: skip
def test_the_margin_exceeds_the_semi_sync_time_out(
    reader: Session, monkeypatch: pytest.MonkeyPatch, semi_sync: server.SemiSync, margin: float
) -> None:
    monkeypatch.setattr(server, "semi_sync", lambda session: semi_sync)
    assert choose_proof(reader, "age", 10) == ("age", margin)


@pytest.mark.parametrize("settle", ["age", "auto"])
def test_endless_semi_sync_refuses_age(reader: Session, monkeypatch: pytest.MonkeyPatch, settle: Any) -> None:
    monkeypatch.setattr(server, "semi_sync", lambda session: server.SemiSync(True, 4e6, True))
    with_gtids("OFF", monkeypatch)
    with pytest.raises(DefiniteError, match="age does not show"):
        choose_proof(reader, settle, 10)


# ---------------------------------------------------------------- in the offset


def test_a_restart_begins_with_the_floor_of_the_offset(stage: Stage, at: Callable[..., None]) -> None:
    """Nothing newer is proven for an hour: W moves, the floor stays, and the chunks are as exact as ever."""
    stage.create(rows=40)
    driver = stage.driver(settle="gtid")
    driver.batch()
    floor = driver.offset["floor"]
    driver.options.update(settle="age", settleSeconds="3600")
    driver.restart()
    for _ in range(30):
        stage.transaction("UPDATE t SET v = v + 1", "DELETE FROM t ORDER BY id DESC LIMIT 1")
        driver.batch(between=lambda: stage.run("UPDATE t SET v = v + 1"))
        assert driver.offset["floor"] == floor
        assert [driver.offset["file"], driver.offset["pos"]] > floor
        if driver.offset["tables"][stage.name()]["done"]:
            break
    stage.drain(driver)
    stage.same(driver)
    assert sum(c.op is Op.READ for c in driver.log) > 20


def test_a_commit_that_does_not_end_keeps_the_floor_below_it(stage: Stage, root: Session) -> None:
    """A transaction in the binlog that no SELECT sees yet, in the middle of a snapshot: its row is in the chunk."""
    stage.create(rows=40)
    driver = stage.driver()
    driver.batch()
    before = server.log_position(root).position
    root.query("SET GLOBAL binlog_group_commit_sync_delay = 2000000")
    try:
        with ThreadPoolExecutor() as pool, _other(stage) as other:
            written = pool.submit(other.cursor().execute, "UPDATE t SET v = 99")
            while not before < server.log_position(root).position:
                time.sleep(0.001)
            driver.batch()
            offset = driver.offset
            assert Position(*offset["floor"]) <= before < Position(offset["file"], offset["pos"])
            assert not written.done()
            written.result()
    finally:
        root.query("SET GLOBAL binlog_group_commit_sync_delay = 0")
    reads = [dict(c.after)["v"] for c in driver.log if c.op is Op.READ]
    assert reads == [0] * 10 + [99] * 10
    stage.drain(driver)
    stage.same(driver)


def _other(stage: Stage) -> pymysql.Connection[Any]:
    return connected(stage.server, database=stage.database)
