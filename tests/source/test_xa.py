"""Two-phase XA transactions: their rows count where they are committed, wherever they were prepared."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxBytes, ReadMaxRows

from lakehouse_cdc.errors import DefiniteError, TransientError, codes
from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.model.position import FIRST_EVENT, Position
from lakehouse_cdc.model.seq import unpack
from lakehouse_cdc.mysql import server
from lakehouse_cdc.mysql.binlog.dump import BinlogDump
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, Session, connect
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.planning.first_offset import when_all_is_known
from lakehouse_cdc.source.reading import xa_groups
from lakehouse_cdc.source.reading.xa_groups import Commit, neighbours
from lakehouse_cdc.source.requests.requests import Signals
from lakehouse_cdc.source.spark.stream import MySqlCdcSource
from lakehouse_cdc.source.tail.log_tail import Tail
from lakehouse_cdc.source.test_hooks import Step
from lakehouse_cdc.testing import VERSIONS, MySqlServer, Version
from tests.remedies import remedy
from tests.support.servers import connected, start_or_skip
from tests.support.source.driver import COLUMNS, Driver, changes
from tests.support.source.stage import Stage, on_stage
from tests.support.source.ways_out import of, reset

Streaming = tuple[Stage, Driver]
# what does not depend on a version
of_each_kind = pytest.mark.parametrize("any_server", ["mysql-8.0", "mariadb-11"], indirect=True)


@pytest.fixture
def any_stage(any_server: MySqlServer, any_database: str, tmp_path: Path) -> Iterator[Stage]:
    for stage in on_stage(any_server, any_database, tmp_path):
        try:
            yield stage
        finally:  # what a failed test leaves behind would keep its database from being dropped
            with connect(ConnectionOptions.from_url(any_server.url)) as root:
                for xid in server.prepared_xids(root) or ():
                    one, branch, number = xid.split(",")
                    root.query(f"XA ROLLBACK X'{one}', X'{branch}', {number}")


@pytest.fixture
def streaming(any_stage: Stage) -> Streaming:
    """A stream behind its snapshot of `t` (id, v), which holds the ids 0, 10 and 20."""
    any_stage.create(rows=3)
    driver = any_stage.driver()
    any_stage.snapshot(driver)
    return any_stage, driver


def prepare(stage: Stage, xid: str, *statements: str) -> None:
    """In a session that ends then; `xid` is quoted, unless it is an SQL list of its parts."""
    name = xid if "," in xid else f"'{xid}'"
    with closing(connected(stage.server, database=stage.database)) as other, other.cursor() as cursor:
        for sql in (f"XA START {name}", *statements, f"XA END {name}", f"XA PREPARE {name}"):
            cursor.execute(sql)
        cursor.execute("SELECT CONNECTION_ID()")
        [(session,)] = cursor.fetchall()
    while stage.run("SELECT 1 FROM INFORMATION_SCHEMA.PROCESSLIST WHERE ID = %s", [session]):
        time.sleep(0.001)  # until then nobody else may decide on it


def written(driver: Driver) -> list[Change]:
    """What the binlog gave."""
    return [c for c in driver.log if c.op not in (Op.SCHEMA, Op.READ)]


def end_of(change: Change) -> tuple[int, int]:
    """The file's number and the position that a change is stamped with."""
    seq = unpack(change.seq)
    return seq.file, seq.pos


@pytest.mark.every_server
def test_rows_count_at_the_commit(streaming: Streaming) -> None:
    stage, driver = streaming
    prepare(stage, "one", "INSERT INTO t VALUES (1, 1), (2, 2)", "UPDATE t SET v = 9 WHERE id = 10")
    stage.run("INSERT INTO t VALUES (3, 3)")
    stage.drain(driver)
    assert [change.op for change in written(driver)] == [Op.INSERT]
    stage.same(driver)
    assert len(driver.offset["prepared"]) == 1
    stage.run("FLUSH BINARY LOGS")
    driver.restart()
    stage.run("INSERT INTO t VALUES (4, 4)")
    stage.drain(driver)
    stage.run("XA COMMIT 'one'")
    file, pos = stage.position()
    stage.run("UPDATE t SET v = v + 1")
    stage.drain(driver)
    stage.same(driver)
    rows = [c for c in written(driver) if end_of(c) == (Position(file, pos).number, pos)]
    assert [(c.op, unpack(c.seq).ordinal) for c in rows] == [(Op.INSERT, 0), (Op.INSERT, 1), (Op.UPDATE, 2)]
    for n in (5, 6, 7):
        stage.run(f"INSERT INTO t VALUES ({n}, 1)")
        stage.drain(driver)
    assert "prepared" not in driver.offset  # forgotten, once no reader can meet the commit
    stage.same(driver)


@pytest.mark.every_server
def test_what_is_rolled_back_never_was(streaming: Streaming) -> None:
    stage, driver = streaming
    prepare(stage, "one", "DELETE FROM t")
    stage.drain(driver)
    stage.run("XA ROLLBACK 'one'")
    stage.run("INSERT INTO t VALUES (1, 1)")
    stage.drain(driver)
    stage.same(driver)


def test_an_xid_that_is_used_again(streaming: Streaming) -> None:
    stage, driver = streaming
    for n, verb in enumerate(("COMMIT", "ROLLBACK", "COMMIT"), start=1):
        prepare(stage, "same", f"INSERT INTO t VALUES ({n}, {n})")
        stage.run(f"XA {verb} 'same'")
    stage.drain(driver)
    stage.same(driver)


@of_each_kind
def test_a_backlog_in_several_files_is_read_in_pieces(streaming: Streaming) -> None:
    stage, driver = streaming
    prepare(stage, "one", "INSERT INTO t VALUES (1, 1)")
    stage.run("FLUSH BINARY LOGS")
    stage.run("INSERT INTO t VALUES (2, 2)")
    prepare(stage, "two", "INSERT INTO t VALUES (3, 3)")
    stage.run("FLUSH BINARY LOGS")
    stage.run("XA COMMIT 'two'")
    stage.run("XA COMMIT 'one'")
    stage.run("DELETE FROM t WHERE id = 3")
    stage.drain(driver)
    stage.same(driver)


@pytest.mark.parametrize("step", [Step.BEFORE_SELECT, Step.AFTER_SELECT, Step.BEFORE_POSITION])
def test_committed_around_a_chunk(any_stage: Stage, at: Callable[..., None], step: Step) -> None:
    """Prepared before the batch's position, committed in the window of its chunk or before it."""
    any_stage.create(rows=30)
    driver = any_stage.driver()
    driver.batch()
    changes = (
        "UPDATE t SET v = 5 WHERE id IN (110, 200, 280)",
        "INSERT INTO t VALUES (295, 1)",
        "DELETE FROM t WHERE id = 250",
    )
    prepare(any_stage, "one", *changes)
    any_stage.run("INSERT INTO t VALUES (301, 1)")
    driver.batch()

    def act() -> None:  # the commit comes before what its keys were locked for
        any_stage.run("XA COMMIT 'one'")
        any_stage.run("UPDATE t SET v = v + 1 WHERE id IN (200, 295)")
        any_stage.run("INSERT INTO t VALUES (250, 7)")

    at(step, act)
    any_stage.snapshot(driver)
    any_stage.drain(driver)
    any_stage.same(driver)


# ---------------------------------------------------------------- batches and splits


@of_each_kind
def test_a_commit_in_another_split_than_its_rows(streaming: Streaming) -> None:
    """Cut at every transaction, and by a replay at files alone: the same rows."""
    stage, driver = streaming
    driver.options["splitBytes"] = "1"
    driver.restart()
    for file in range(2):
        for n in range(5):
            prepare(stage, f"{file}{n}", f"INSERT INTO t VALUES ({100 * file + n + 1}, 1), ({100 * file + n + 41}, 1)")
            if n:
                stage.run(f"XA COMMIT '{file}{n - 1}'")
        stage.run("FLUSH BINARY LOGS")
    stage.run("XA COMMIT '04'")
    stage.run("XA COMMIT '14'")
    assert driver.batch(between=lambda: stage.run("UPDATE t SET v = v + 1"))
    assert len(written(driver)) == 20
    stage.drain(driver)
    stage.same(driver)


@of_each_kind
def test_many_are_read_over_one_connection_and_leave_no_trace(
    streaming: Streaming, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, driver = streaming
    dumps: list[Position] = []

    def counted(connection: Any, start: Position, **more: Any) -> BinlogDump:
        dumps.append(start)
        return BinlogDump(connection, start, **more)

    monkeypatch.setattr(xa_groups, "BinlogDump", counted)
    for n in range(30):
        for sql in (f"XA START 'x{n}'", f"INSERT INTO t VALUES ({n + 100}, {n})", f"XA END 'x{n}'"):
            stage.run(sql)
        stage.run(f"XA COMMIT 'x{n}' ONE PHASE" if n % 3 == 0 else f"XA PREPARE 'x{n}'")
        if n % 3:
            stage.run(f"XA {'ROLLBACK' if n % 7 == 0 else 'COMMIT'} 'x{n}'")
        stage.run("UPDATE t SET v = v + 1 WHERE id = 10")
    assert driver.batch()
    assert len(dumps) == 1
    assert len(driver.offset.get("prepared", [])) <= 1  # the last: a restart must know that there was one
    stage.drain(driver)
    stage.same(driver)


def test_groups_that_lie_far_apart_are_not_neighbours() -> None:
    def commit(file: int, begin: int) -> Commit:
        at = Position(f"bin.{file:06d}", begin)
        return Commit("x", at, Position(at.file, begin + 100), Position("bin.000009", begin), "", 0)

    commits = [commit(1, 5_000_000), commit(2, 4), commit(1, 4), commit(1, 300), commit(1, 5_000_100)]
    assert [[(c.begin.number, c.begin.pos) for c in near] for near in neighbours(commits)] == [
        [(1, 4), (1, 300)], [(1, 5_000_000), (1, 5_000_100)], [(2, 4)],
    ]  # fmt: skip
    assert neighbours([]) == []


@of_each_kind
@pytest.mark.parametrize("limit", [ReadMaxRows(20), ReadMaxBytes(1)], ids=["rows", "bytes"])
def test_rows_count_in_the_batch_of_the_commit(streaming: Streaming, limit: Any) -> None:
    stage, driver = streaming
    prepare(stage, "one", *(f"INSERT INTO t VALUES ({100 + n}, 1)" for n in range(30)))
    after_prepare = stage.position()
    stage.run("XA COMMIT 'one'")
    commit = stage.position()
    stage.run("INSERT INTO t VALUES (1, 1)")
    driver.limit = limit
    if isinstance(limit, ReadMaxBytes):
        driver.options["maxBytesPerTrigger"] = "1"
        driver.restart()
        assert driver.batch()
        assert (driver.offset["file"], driver.offset["pos"]) == after_prepare
    assert driver.batch()
    assert (driver.offset["file"], driver.offset["pos"]) == commit
    assert len(written(driver)) == 30
    stage.drain(driver)
    stage.same(driver)


@of_each_kind
def test_a_group_of_many_buffers(any_stage: Stage) -> None:
    """16 MB of two tables in one: every row once, counted through."""
    stage = any_stage
    for table in ("t", "u"):
        stage.run(f"CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(4010) CHARACTER SET latin1)")
    driver = stage.driver()
    stage.snapshot(driver)
    rows = ", ".join(f"({i}, REPEAT('x', 4000))" for i in range(250))
    doubled = (f"INSERT INTO {{0}} SELECT id + {250 * 2**i}, v FROM {{0}}" for i in range(3))
    both = (f"INSERT INTO {{0}} VALUES {rows}", *doubled)
    prepare(stage, "big", *(sql.format(table) for sql in both for table in ("t", "u")))
    stage.run("XA COMMIT 'big'")
    stage.drain(driver)
    stage.same(driver, "t", "u")
    assert [unpack(c.seq).ordinal for c in written(driver)] == list(range(4000))


@remedy(codes.XA_PREPARE_MISSING)
@of_each_kind
@pytest.mark.parametrize("way_out", ["restored", "reset"])
def test_the_place_of_a_group_must_hold_it(streaming: Streaming, way_out: str) -> None:
    """Whatever has become of the log since the offset was made: rows of another are never taken for its own."""
    stage, driver = streaming
    prepare(stage, "one", "INSERT INTO t VALUES (1, 1)")
    stage.run("INSERT INTO t VALUES (2, 1)")
    stage.drain(driver)
    [group] = driver.offset["prepared"]
    kept, before = deepcopy(driver.offset), of(driver)
    stage.run("XA COMMIT 'one'")
    group[0] = group[0].replace("6f6e65", "74776f")
    driver.offset["prepared"] = [group]
    driver.restart()
    with pytest.raises(DefiniteError, match="was prepared before the stream began"):
        driver.plan()
    group[0] = group[0].replace("74776f", "6f6e65")
    group[2], group[3] = group[3], driver.offset["pos"]
    driver.restart()
    assert driver.plan()
    with pytest.raises(DefiniteError, match="does not hold the XA transaction") as caught:
        driver.read()
    assert caught.value.code is codes.XA_PREPARE_MISSING
    if way_out == "restored":
        assert "Restore the checkpoint" in caught.value.hint
        driver.offset = kept
        driver.restart()
    else:
        driver = reset(stage, driver, caught.value.hint, before)
    stage.drain(driver)
    stage.same(driver)


# ---------------------------------------------------------------- snapshots


@of_each_kind
def test_an_as_of_read_at_an_offset_knows_what_is_open_there(streaming: Streaming) -> None:
    stage, driver = streaming
    prepare(stage, "one", "UPDATE t SET v = 9 WHERE id = 10", "INSERT INTO t VALUES (1, 1)")
    prepare(stage, "two", "INSERT INTO t VALUES (2, 2)")
    stage.run("INSERT INTO t VALUES (3, 3)")
    stage.drain(driver)
    then = stage.images()
    stage.run("XA COMMIT 'one'")
    stage.run("XA ROLLBACK 'two'")
    source = MySqlCdcSource(stage.options(asOf=json.dumps(driver.offset)))
    reader = source.reader(COLUMNS)
    found = changes(batch for part in reader.partitions() for batch in reader.read(part))
    assert Counter(c.after for c in found) == then
    stage.drain(driver)
    stage.same(driver)


@of_each_kind
@pytest.mark.parametrize("when", ["before", "in the pass"])
def test_a_table_that_is_read_again(streaming: Streaming, at: Callable[..., None], when: str) -> None:
    stage, driver = streaming
    prepare(
        stage, "one", "UPDATE t SET v = 9 WHERE id = 10", "INSERT INTO t VALUES (1, 1)", "DELETE FROM t WHERE id = 0"
    )
    stage.drain(driver)
    Signals(str(stage.folder)).request(stage.name())
    stage.run("INSERT INTO t VALUES (2, 2)")
    if when == "before":
        stage.run("XA COMMIT 'one'")
    else:
        at(Step.AFTER_SELECT, lambda: stage.run("XA COMMIT 'one'"))
    driver.batch()
    stage.drain(driver)
    stage.same_rows(driver)
    assert sum(c.op is Op.END for c in driver.log) == 1


@of_each_kind
def test_a_table_that_is_captured_only_now(any_stage: Stage, at: Callable[..., None]) -> None:
    """Its rows in what is prepared were not counted when that was read."""
    stage = any_stage
    stage.create(rows=3)
    stage.create("u", rows=13)
    driver = stage.driver(tables=stage.name())
    stage.snapshot(driver)
    prepare(stage, "one", "UPDATE u SET v = 9 WHERE id > 50", "INSERT INTO u VALUES (1, 1)")
    stage.run("INSERT INTO t VALUES (1, 1)")
    stage.drain(driver)
    driver.options["tables"] = f"{stage.database}.*"
    driver.restart()
    stage.run("INSERT INTO t VALUES (2, 1)")
    driver.batch()
    at(Step.AFTER_SELECT, lambda: stage.run("XA COMMIT 'one'"))
    stage.snapshot(driver)
    stage.drain(driver)
    stage.same(driver, "t", "u")


@of_each_kind
def test_changes_alone(any_stage: Stage) -> None:
    """Without a snapshot what was prepared before the stream, and is committed in it, is a change like any other."""
    stage = any_stage
    stage.create(rows=3)
    prepare(stage, "one", "UPDATE t SET v = 9 WHERE id = 0")
    driver = stage.driver(snapshot="never")
    driver.batch()
    stage.run("XA COMMIT 'one'")
    stage.drain(driver)
    assert [(c.op, dict(c.after)["v"]) for c in written(driver)] == [(Op.UPDATE, 9)]


# ---------------------------------------------------------------- the first position


def test_the_first_start_knows_what_is_prepared_in_the_newest_file(any_stage: Stage) -> None:
    stage = any_stage
    stage.create(rows=13)
    stage.run("FLUSH BINARY LOGS")
    prepare(stage, "one", "UPDATE t SET v = 9 WHERE id IN (10, 20)", "INSERT INTO t VALUES (1, 1)")
    driver = stage.driver()
    driver.batch()
    stage.run("XA COMMIT 'one'")
    stage.snapshot(driver)
    stage.drain(driver)
    stage.same(driver)


def test_the_first_start_waits_for_what_is_prepared_in_older_files(
    any_stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, real, asked = any_stage, server.prepared_xids, []

    def counted(session: Session) -> set[str] | None:
        asked.append(session)
        return real(session)

    monkeypatch.setattr(server, "prepared_xids", counted)
    stage.create(rows=13)
    prepare(stage, "one", "UPDATE t SET v = 9 WHERE id IN (10, 20)", "INSERT INTO t VALUES (1, 1)")
    stage.run("FLUSH BINARY LOGS")
    prepare(stage, "two", "INSERT INTO t VALUES (2, 2)")
    driver = stage.driver()
    driver.options.update(as_root(stage))
    driver.restart()
    with ThreadPoolExecutor() as pool:
        started = pool.submit(driver.batch)
        while len(asked) < 5 and not started.done():
            time.sleep(0.01)
        assert not started.done()
        stage.run("XA COMMIT 'one'")
        assert started.result()
    stage.run("XA COMMIT 'two'")
    stage.snapshot(driver)
    stage.drain(driver)
    stage.same(driver)


def as_root(stage: Stage) -> dict[str, str]:
    """From MySQL 8.0 on, XA RECOVER takes a right of its own."""
    return {"url": stage.server.url, "password": ""}


def test_what_stays_prepared_is_an_error_in_the_end(any_stage: Stage) -> None:
    stage, now = any_stage, [0.0]
    stage.create()
    prepare(stage, "one", "INSERT INTO t VALUES (1, 1)")
    stage.run("FLUSH BINARY LOGS")
    options = SourceOptions.parse(stage.options(**as_root(stage)))
    origin = Position(stage.position()[0], FIRST_EVENT)

    def sleep(seconds: float) -> None:
        now[0] += 100

    with connect(options.connection) as session, Tail(options, origin, matches=lambda name: True) as tail:
        with pytest.raises(TransientError, match="1 XA transactions have been prepared for long"):
            when_all_is_known(session, tail, clock=lambda: now[0], sleep=sleep)
        stage.run("XA ROLLBACK 'one'")
        assert str(when_all_is_known(session, tail)) == "{}:{}".format(*stage.position())


@pytest.mark.parametrize("on_gap", ["fail", "resnapshot"])
@pytest.mark.parametrize("any_server", ["mysql-8.0"], indirect=True)
def test_the_commit_of_what_nobody_saw_prepared(any_stage: Stage, monkeypatch: pytest.MonkeyPatch, on_gap: str) -> None:
    """A user without the right starts while it is prepared: nothing is lost in silence."""
    monkeypatch.setattr(server, "prepared_xids", lambda session: None)
    stage = any_stage
    stage.create(rows=3)
    prepare(stage, "one", "INSERT INTO t VALUES (1, 1)")
    stage.run("FLUSH BINARY LOGS")
    driver = stage.driver(onGap=on_gap)
    stage.snapshot(driver)
    stage.run("XA COMMIT 'one'")
    if on_gap == "fail":
        with pytest.raises(DefiniteError, match="prepared before the stream began") as refused:
            driver.plan()
        assert "XA_RECOVER_ADMIN" in refused.value.hint
        return
    stage.drain(driver)
    stage.same(driver)
    assert driver.offset["epoch"] == 2


@pytest.mark.parametrize("xid", ["'a', 'b', 7", "X'00ff27', X'27', 2147483647", "'it''s', '', 1"])
def test_every_xid_has_one_name(streaming: Streaming, xid: str) -> None:
    """In XA RECOVER, where it is prepared and where it is committed."""
    stage, driver = streaming
    prepare(stage, xid, "INSERT INTO t VALUES (1, 1)")
    stage.drain(driver)
    with connect(ConnectionOptions.from_url(stage.server.url)) as root:
        assert server.prepared_xids(root) == {driver.offset["prepared"][0][0]}
    stage.run(f"XA COMMIT {xid}")
    stage.drain(driver)
    stage.same(driver)
    assert len(written(driver)) == 1


@pytest.mark.long
@pytest.mark.mysql
@pytest.mark.one_server
@pytest.mark.parametrize("seen", [True, False], ids=["read before the crash", "read after it"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_crash_of_the_server_between_prepare_and_commit(version: Version, seen: bool, tmp_path: Path) -> None:
    """What is prepared survives; it is decided on in another file, by another session."""
    with start_or_skip(version) as own:
        for stage in on_stage(own, "crashed", tmp_path):
            stage.create(rows=3)
            driver = stage.driver()
            stage.snapshot(driver)
            prepare(stage, "kept", "INSERT INTO t VALUES (1, 1)", "UPDATE t SET v = 9 WHERE id = 10")
            prepare(stage, "dropped", "DELETE FROM t WHERE id = 20")
            stage.run("INSERT INTO t VALUES (2, 2)")
            if seen:
                stage.drain(driver)
            driver.stop()
            own.kill()
            own.restart()
            stage.connection.connect()
            stage.connection.select_db(stage.database)
            driver.restart()
            assert len(stage.run("XA RECOVER")) == 2
            stage.drain(driver)
            stage.same(driver)
            stage.run("XA COMMIT 'kept'")
            stage.run("XA ROLLBACK 'dropped'")
            stage.run("UPDATE t SET v = v + 1")
            stage.drain(driver)
            stage.same(driver)
            assert [c.op for c in written(driver)].count(Op.INSERT) == 2
