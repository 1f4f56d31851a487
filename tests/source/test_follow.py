"""A stream that follows to another server: each transaction is in bronze once, and nothing is read again."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from lakehouse_cdc.errors import TransientError, codes
from lakehouse_cdc.model.changelog import Change, Op, fold, invalid
from lakehouse_cdc.model.gtid import GtidSet
from lakehouse_cdc.source import retry
from lakehouse_cdc.source.planning import server_change
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.versions import Version
from tests.remedies import remedy
from tests.support.servers import connected, start_or_skip
from tests.support.source.driver import Driver, changes, exact_bytes
from tests.support.source.replication import Member, group, member
from tests.support.source.stage import Stage, on_stage
from tests.support.source.starts import places
from tests.support.source.ways_out import of, stopped

pytestmark = [pytest.mark.mysql, pytest.mark.one_server]


class Moving:
    """A stream over a group of servers: the first member is what is written to, and read."""

    def __init__(self, members: list[Member], stage: Stage, **options: str) -> None:
        self.members, self.stage = members, stage
        self.at, self.counter = members[0], 0
        urls = ",".join(f"127.0.0.1:{one.server.port}" for one in members)
        self.driver = stage.driver()
        self.driver.options |= {"url": f"mysql://cdc@{urls}", "onFailover": "follow", **options}
        self.driver.restart()

    def run(self, sql: str) -> None:
        """A transaction on the primary."""
        self.at.run(f"USE {self.stage.database}")
        self.at.run(sql)

    def fail_over(self, number: int = 1, *, caught_up: bool = True) -> Member:
        """The primary is gone, and a replica takes its place."""
        to = self.members[number]
        if caught_up:
            to.caught_up(self.at)
        self.at.server.kill()
        self.at = to.promoted()
        self.stage.connection, self.stage.server = to.connection, to.server
        self.run("SELECT 1")
        return to

    def exact(self) -> None:
        """Bronze is the source now, and each of its transactions is there once."""
        self.stage.drain(self.driver)
        self.stage.same(self.driver)
        self.once()

    def once(self) -> None:
        """Each of its changes is in bronze once: no two of a test are alike."""
        written = [c for c in self.driver.log if c.op in (Op.INSERT, Op.UPDATE, Op.DELETE)]
        seen = Counter((c.op, c.table, c.key, c.before, c.after) for c in written)
        twice = [one for one, n in seen.items() if n > 1]
        assert not twice
        assert len({c.seq for c in written}) == len(written)


@pytest.fixture(params=["mysql-5.7", "mysql-8.0", "mysql-9", "mariadb-10.11", "mariadb-11"])
def version(request: pytest.FixtureRequest) -> Version:
    """Each kind of server with GTIDs."""
    given: Version = request.param
    return given


@pytest.fixture
def moving(version: Version, tmp_path: Path) -> Iterator[Moving]:
    """Two servers, and a table with rows."""
    with group(version) as members:
        for stage in on_stage(members[0].server, "moved", tmp_path):
            stage.create(rows=12)
            yield Moving(members, stage)


def epochs_of(changes: Iterable[Change]) -> set[int]:
    return {change.seq // 10**34 for change in changes}


def epochs(driver: Driver) -> set[int]:
    return epochs_of(driver.log)


@pytest.mark.long
def test_a_replica_is_promoted_after_the_snapshot(moving: Moving) -> None:
    moving.stage.snapshot(moving.driver)
    moving.run("UPDATE t SET v = 1 WHERE id < 50")
    moving.stage.drain(moving.driver)
    moving.run("UPDATE t SET v = 2 WHERE id = 0")  # which bronze has from the other server
    before = moving.driver.offset
    moving.fail_over()
    moving.run("INSERT INTO t VALUES (1, 3)")
    assert moving.driver.batch()
    moved = moving.driver.offset
    assert (moved["epoch"], moved["unbroken"]) == (2, 1)
    assert moved["server_uuid"] != before["server_uuid"]
    assert GtidSet.parse(moved["gtid"]) == GtidSet.parse(before["gtid"])
    moving.exact()
    assert epochs(moving.driver) == {1, 2}
    assert not [c for c in moving.driver.log if c.op is Op.READ and c.seq >= 2 * 10**34], "nothing is read again"
    moving.run("DELETE FROM t WHERE id = 10")
    moving.exact()
    assert invalid(moving.driver.log) is None
    assert len(fold(moving.driver.log)) == 12


# ---------------------------------------------------------------- many in one run, while it reads


def _some(moving: Moving, chosen: random.Random, count: int) -> None:
    """Random transactions, no two alike."""
    for _ in range(count):
        moving.counter += 1
        value, key, other = moving.counter, chosen.randrange(60), chosen.randrange(60)
        moving.run(
            chosen.choice(
                [
                    f"INSERT IGNORE INTO t (id, v) VALUES ({key}, {value})",
                    f"UPDATE t SET v = {value} WHERE id = {key}",
                    f"UPDATE IGNORE t SET id = {other}, v = {value} WHERE id = {key}",
                    f"DELETE FROM t WHERE id = {key}",
                    f"REPLACE INTO t (id, v) VALUES ({key}, {value}), ({other}, -{value})",
                ]
            )
        )


@pytest.mark.long
def test_five_failovers_in_one_run(version: Version, tmp_path: Path, seed: int) -> None:
    """Under writes, while tables are read and after that; batches that were planned before are executed after it.

    The server that was lost comes back as a replica of the new one. One batch in three is in bronze already when it is
    executed again.
    """
    chosen, replayed = random.Random(seed), Counter[str]()
    with group(version, 2) as members:
        for stage in on_stage(members[0].server, "moved", tmp_path):
            stage.create(rows=30)
            moving = Moving(members, stage, chunkRows="2", chunksPerTrigger="1")
            driver = moving.driver
            for turn in range(5):
                for _ in range(chosen.randrange(1, 5)):
                    _some(moving, chosen, chosen.randrange(4))
                    driver.batch()
                if turn == 3:
                    moving.run("CREATE TABLE born (id INT PRIMARY KEY, v INT)")
                    moving.run("INSERT INTO born VALUES (1, 1), (2, 2)")
                if turn == 4:
                    moving.run("ALTER TABLE t ADD COLUMN w INT")
                _some(moving, chosen, chosen.randrange(3))
                kept = None
                if chosen.random() < 0.7 and driver.plan():
                    kept = driver.read() if chosen.random() < 0.4 else None
                    replayed["in bronze" if kept is not None else "planned"] += 1
                else:
                    driver.planned = None
                    replayed["none"] += 1
                old, to = moving.at, moving.members[1 - moving.members.index(moving.at)]
                moving.fail_over(moving.members.index(to))
                driver.restart()
                if driver.planned is not None:
                    rows = driver.read()
                    driver.log.extend(changes(rows if kept is None else kept))
                    driver.offset, driver.planned = driver.planned[1], None
                _some(moving, chosen, chosen.randrange(3))
                assert driver.batch()
                assert driver.offset["epoch"] > turn + 1
                old.rejoin(to)
            moving.stage.snapshot(driver)
            moving.stage.drain(driver)
            stage.same(driver, "t", "born")
            moving.once()
            print(replayed, epochs(driver))


@pytest.mark.long
@remedy(codes.SERVER_MOVED)
def test_a_planned_batch_is_executed_on_the_new_server(moving: Moving, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its chunks are read later; what was planned on the old server and is in bronze is not there twice."""
    driver = moving.driver
    moving.stage.snapshot(driver)
    moving.run("UPDATE t SET v = 5 WHERE id = 30")
    assert driver.plan()
    url, driver.options["url"] = driver.options["url"], moving.members[1].url
    with monkeypatch.context() as at_once:
        at_once.setattr(retry, "_WAITS", ())
        with pytest.raises(TransientError) as moved:
            driver.read()  # its tasks alone reach the other server
    assert moved.value.code is codes.SERVER_MOVED
    assert moved.value.hint.startswith("run again")
    moving.fail_over()
    driver.options["url"] = url
    driver.restart()
    first, again = driver.read(), driver.read()
    assert exact_bytes(first) == exact_bytes(again)
    [change] = changes(first)
    assert (change.op, epochs_of([change])) == (Op.UPDATE, {2})
    assert driver.planned is not None
    driver.log.extend(changes(first))
    driver.offset = driver.planned[1]
    moving.run("UPDATE t SET v = 6 WHERE id = 30")
    moving.exact()
    assert epochs(driver) == {1, 2, 3}
    [old] = [one for one in moving.members if one is not moving.at]
    old.rejoin(moving.at)
    assert driver.offset["epoch"] == 3, "the stream stays where it is"
    moving.exact()


# ---------------------------------------------------------------- what is refused


@pytest.mark.long
@remedy(codes.SERVER_LAGS, codes.SERVER_LACKS)
def test_what_a_server_lacks_is_named(moving: Moving, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that has not applied it yet, and does so later; the stream then follows."""
    driver, replica = moving.driver, moving.members[1]
    moving.stage.snapshot(driver)
    moving.stage.drain(driver)
    replica.caught_up(moving.at)
    replica.pause()
    moving.run("UPDATE t SET v = 7 WHERE id = 30")
    moving.stage.drain(driver)
    lacking = driver.offset["last_gtid"]
    driver.options["url"] = replica.url
    driver.restart()
    planner = driver.reader.planner
    with pytest.raises(TransientError, match=lacking.rpartition(":")[2]) as waits:
        planner.latest(of(driver), max_rows=None, max_bytes=None)
    assert waits.value.code is codes.SERVER_LAGS
    monkeypatch.setattr(server_change, "PATIENCE", 0.0)
    error = stopped(driver, codes.SERVER_LACKS)
    assert f"has not executed {lacking}" in error.what
    assert "wait, if it is a replica that still applies them, and run again" in error.hint
    replica.resume()
    replica.caught_up(moving.at)
    moving.stage.connection, moving.stage.server = replica.connection, replica.server
    replica.run(f"USE {moving.stage.database}")
    moving.exact()  # a replica is read as its source is
    moving.run("DELETE FROM t WHERE id = 30")
    replica.caught_up(moving.at)
    moving.exact()


@pytest.mark.long
def test_what_a_server_has_purged_is_a_gap(moving: Moving) -> None:
    driver = moving.driver
    moving.stage.snapshot(driver)
    moving.stage.drain(driver)
    moving.run("UPDATE t SET v = 7 WHERE id = 30")
    to = moving.fail_over()
    moving.run("UPDATE t SET v = 8 WHERE id = 30")
    moving.stage.purge()
    error = stopped(driver, codes.POSITION_PURGED)
    assert "has purged transactions that bronze lacks" in error.what
    assert str(to.run("SELECT @@server_id")[0][0]) in error.what or "mariadb" not in to.server.version
    assert "set source.on_gap: resnapshot" in error.hint
    driver.options["onGap"] = "resnapshot"
    driver.restart()
    moving.stage.snapshot(driver)
    moving.stage.drain(driver)
    moving.stage.same_rows(driver)


@pytest.mark.long
@remedy(codes.LOG_ORDER_DIFFERS)
def test_writes_of_their_own(version: Version, tmp_path: Path) -> None:
    """A replica that was written to: read where that was after all that bronze holds, refused where it was before."""
    with group(version, 2, **({"gtid_strict_mode": "OFF"} if version.startswith("mariadb") else {})) as members:
        for stage in on_stage(members[0].server, "moved", tmp_path):
            stage.create(rows=12)
            moving = Moving(members, stage)
            driver, replica = moving.driver, members[1]
            stage.snapshot(driver)
            stage.drain(driver)
            replica.caught_up(members[0])
            replica.pause()
            replica.run(f"USE {stage.database}")
            replica.run("INSERT INTO t VALUES (1001, 1)")
            moving.run("INSERT INTO t VALUES (1002, 2)")
            before = dict(driver.offset)
            stage.drain(driver)
            replica.resume()
            until = time.monotonic() + 60
            while not replica.run("SELECT 1 FROM t WHERE id = 1002"):
                assert time.monotonic() < until
                time.sleep(0.05)
            moving.fail_over(caught_up=False)
            error = stopped(driver, codes.LOG_ORDER_DIFFERS)
            assert "logged after" in error.what
            assert "set source.on_gap: resnapshot" in error.hint
            driver.options["onGap"] = "resnapshot"
            driver.restart()
            stage.snapshot(driver)
            stage.drain(driver)
            stage.same_rows(driver)
            driver.options["schemaFolder"] = str(tmp_path / "schemas")
            driver.options.pop("onGap")
            driver.offset, driver.log = before, [c for c in driver.log if c.seq < 2 * 10**34 and c.after != _row(1002)]
            driver.restart()
            moving.exact()  # it was after all that bronze holds now


def _row(key: int) -> tuple[Any, ...]:
    return (("id", key), ("v", key - 1000))


@pytest.mark.long
@pytest.mark.parametrize("version", ["mysql-8.0"])
def test_a_replica_that_commits_in_another_order(version: Version, tmp_path: Path) -> None:
    """Two transactions on the primary, of which a replica commits the second first: refused between the two alone."""
    options = {
        "replica_preserve_commit_order": "OFF", "replica_parallel_workers": "4",
        "replica_parallel_type": "LOGICAL_CLOCK", "binlog_transaction_dependency_tracking": "WRITESET",
    }  # fmt: skip
    with group(version, 2, **options) as members:
        for stage in on_stage(members[0].server, "moved", tmp_path):
            stage.create(rows=12)
            moving = Moving(members, stage, maxRowsPerTrigger="1")
            driver, replica = moving.driver, members[1]
            driver.limit = ReadMaxRows(1)
            stage.snapshot(driver)
            stage.drain(driver)
            replica.caught_up(members[0])
            with closing(connected(replica.server, database="moved")) as locking, locking.cursor() as cursor:
                cursor.execute("BEGIN")
                cursor.execute("SELECT * FROM t WHERE id = 10 FOR UPDATE")
                moving.run("UPDATE t SET v = 1 WHERE id = 10")
                moving.run("UPDATE t SET v = 2 WHERE id = 20")
                replica.run("USE moved")
                until = time.monotonic() + 60
                while not replica.run("SELECT 1 FROM t WHERE id = 20 AND v = 2"):
                    assert time.monotonic() < until
                    time.sleep(0.05)
                cursor.execute("ROLLBACK")
            assert driver.batch()
            one = driver.offset["last_gtid"]
            moving.fail_over()
            error = stopped(driver, codes.LOG_ORDER_DIFFERS)
            assert one in error.what
            # all that was in another order is before: the order of what bronze has does not matter any more
            both = GtidSet.parse(driver.offset["gtid"]).union(GtidSet.parse(moving.at.executed()))
            driver.offset["gtid"] = str(both)
            driver.log.extend(
                [
                    Change(
                        driver.log[-1].seq + 1,
                        Op.UPDATE,
                        "moved.t",
                        (("id", 20),),
                        (("id", 20), ("v", 0)),
                        (("id", 20), ("v", 2)),
                    )
                ]
            )
            driver.restart()
            moving.exact()


def test_a_table_that_is_another_one_there(moving: Moving) -> None:
    driver, replica = moving.driver, moving.members[1]
    moving.stage.snapshot(driver)
    moving.stage.drain(driver)
    replica.caught_up(moving.at)
    replica.run("SET SESSION sql_log_bin = 0")
    replica.run(f"ALTER TABLE {moving.stage.name()} MODIFY v BIGINT")
    replica.run("SET SESSION sql_log_bin = 1")
    moving.fail_over()
    error = stopped(driver, codes.FAILOVER_REFUSED)
    assert f"its tables are not those of the old server: {moving.stage.name()}" in error.what
    replica.run("SET SESSION sql_log_bin = 0")
    replica.run(f"ALTER TABLE {moving.stage.name()} MODIFY v INT")
    replica.run("SET SESSION sql_log_bin = 1")
    moving.exact()


def test_tables_that_are_yet_to_begin(moving: Moving) -> None:
    """Where they begin is found on the new server, by the transactions before."""
    stage, driver = moving.stage, moving.driver
    stage.create("u", rows=2)
    begin = places(stage)["position"]
    for value in range(1, 4):
        moving.run(f"UPDATE t SET v = {value}")
        moving.run(f"UPDATE u SET v = {value}")
    later = places(stage)["position"]
    moving.run("UPDATE u SET v = 4")
    starts = {"start": json.dumps(begin), "starts": json.dumps({stage.name("u"): later})}
    driver.options |= {"snapshot": "never", "maxRowsPerTrigger": "1", **starts}
    driver.limit = ReadMaxRows(1)
    driver.restart()
    driver.batches(2)
    [[file, pos, gtids, tables]] = driver.offset["starts"]
    assert f"{file}:{pos}" == later["position"]
    assert [*tables] == [stage.name("u")]
    before = driver.offset["server_uuid"]
    moving.fail_over()
    moving.run("UPDATE u SET v = 5")
    assert driver.batch()
    assert driver.offset["server_uuid"] != before
    assert [*driver.offset["starts"][0][2:]] == [gtids, tables]
    stage.drain(driver)
    moving.once()
    of_u = sorted((c for c in driver.log if c.table == stage.name("u")), key=lambda change: change.seq)
    values = [dict(c.after)["v"] for c in of_u if c.op is Op.UPDATE]
    assert values == [4, 4, 5, 5]
    assert sum(c.table == stage.name() and c.op is Op.UPDATE for c in driver.log) == 36


@pytest.mark.long
def test_prepared_transactions(moving: Moving) -> None:
    """Rows of an XA transaction that was prepared on the old server, and is committed on the new one."""
    driver = moving.driver
    moving.stage.snapshot(driver)
    with closing(connected(moving.at.server, database="moved")) as connection, connection.cursor() as cursor:
        for sql in ("XA START 'a'", "INSERT INTO t VALUES (71, 1)", "XA END 'a'", "XA PREPARE 'a'"):
            cursor.execute(sql)
    moving.run("UPDATE t SET v = 3 WHERE id = 20")
    moving.stage.drain(driver)
    assert driver.offset["prepared"]
    to = moving.fail_over()
    assert driver.batch()
    assert driver.offset["prepared"]
    to.run("XA COMMIT 'a'")
    moving.exact()
    assert (("id", 71),) in {key for _, key in fold(driver.log)}


@pytest.mark.long
def test_a_replica_of_a_backup(version: Version, tmp_path: Path) -> None:
    """It never logged what it was set up with; a stream goes there, and back to one that did."""
    with member(version, 1) as primary, member(version, 2) as replica:
        for stage in on_stage(primary.server, "moved", tmp_path):
            stage.create(rows=12)
            replica.run("SET SESSION sql_log_bin = 0")
            for sql in ("CREATE DATABASE moved", "CREATE TABLE moved.t (id INT PRIMARY KEY, v INT)"):
                replica.run(sql)
            for key, value in stage.run("SELECT * FROM t"):
                replica.run("INSERT INTO moved.t VALUES (%s, %s)", key, value)
            replica.run("SET SESSION sql_log_bin = 1")
            variable = "gtid_slave_pos" if replica.is_mariadb else "gtid_purged"
            replica.run(f"SET GLOBAL {variable} = %s", primary.executed())
            replica.follow(primary)
            moving = Moving([primary, replica], stage)
            stage.snapshot(moving.driver)
            moving.run("UPDATE t SET v = 1 WHERE id = 20")
            moving.exact()
            moving.fail_over()
            moving.run("UPDATE t SET v = 2 WHERE id = 20")
            moving.exact()
            primary.rejoin(replica)
            moving.fail_over(0)
            moving.run("UPDATE t SET v = 3 WHERE id = 20")
            moving.exact()
            assert epochs(moving.driver) == {1, 2, 3}


@pytest.mark.long
@remedy(codes.FAILOVER_REFUSED)
@pytest.mark.parametrize("version", ["mysql-8.0"])
def test_without_gtids_nothing_is_proven(version: Version, mysql: MySqlServer, tmp_path: Path) -> None:
    with start_or_skip(version, options={"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"}) as other:
        for stage in on_stage(other, "moved", tmp_path):
            stage.create(rows=3)
            driver = stage.driver(onFailover="follow")
            stage.snapshot(driver)
            url = driver.options["url"]
            driver.options["url"] = f"mysql://cdc@127.0.0.1:{mysql.port}"
            driver.restart()
            error = stopped(driver, codes.FAILOVER_REFUSED)
            assert "the checkpoint holds no GTIDs" in error.what
            assert "point source.url at the old server" in error.hint
            driver.options["url"] = url
            driver.restart()
            stage.run("UPDATE t SET v = 2")
            stage.drain(driver)
            stage.same(driver)
