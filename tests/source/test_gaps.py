"""A log that cannot be continued: another server, a reset, a purge. Named where it must stop, healed where it may."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import count
from pathlib import Path

import pymysql
import pytest

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.model.changelog import Op, fold
from lakehouse_cdc.testing import MySqlServer
from tests.remedies import remedy
from tests.support.servers import connected
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage, on_stage

pytestmark = pytest.mark.mysql

_numbers = count(1)


@pytest.fixture(scope="module")
def own() -> Iterator[MySqlServer]:
    """A server whose log may be purged and reset."""
    with MySqlServer.start() as server:
        yield server


@pytest.fixture
def stage(own: MySqlServer, tmp_path: Path) -> Iterator[Stage]:
    yield from on_stage(own, f"gaps_{next(_numbers)}", tmp_path)


def reset(stage: Stage) -> None:
    """The log begins anew under its old names; not in the second in which its first file was made."""
    time.sleep(1.1)
    stage.run("RESET MASTER")


def write_beyond(stage: Stage, position: tuple[str, int], files: int) -> None:
    """Until the log, begun anew, has the old position again; then begin some more files."""
    while stage.position()[0] < position[0]:
        stage.run("FLUSH BINARY LOGS")
    while stage.position() <= position:
        stage.run("CREATE TABLE IF NOT EXISTS elsewhere.t (x LONGTEXT)")
        stage.run(f"INSERT INTO elsewhere.t VALUES ('{'x' * 10_000}')")
    for _ in range(files):
        stage.run("UPDATE t SET v = v + 1")
        stage.run("FLUSH BINARY LOGS")


def running(stage: Stage, **options: str) -> Driver:
    """A stream that is done with the snapshot of `t` and has read some of the binlog."""
    stage.run("CREATE DATABASE IF NOT EXISTS elsewhere")
    stage.run("FLUSH BINARY LOGS")
    stage.create(rows=20)
    driver = stage.driver()
    driver.options.update(options)
    driver.restart()
    stage.snapshot(driver)
    stage.run("UPDATE t SET v = 1 WHERE id < 50")
    stage.drain(driver)
    return driver


# ---------------------------------------------------------------- definite errors


def resnapshot(driver: Driver, error: DefiniteError) -> None:
    """What the hint says, in the next run."""
    assert "set source.on_gap: resnapshot" in error.hint
    driver.options["onGap"] = "resnapshot"
    driver.restart()


@remedy(codes.SERVER_REPLACED)
@pytest.mark.parametrize("way_out", ["the old server", "resnapshot"])
def test_another_server_is_refused(stage: Stage, mysql: MySqlServer, way_out: str) -> None:
    driver = running(stage)
    old = driver.options["url"]
    driver.options["url"] = f"mysql://cdc@127.0.0.1:{mysql.port}"
    driver.restart()
    with pytest.raises(DefiniteError, match="the server is another one") as refused:
        driver.plan()
    assert refused.value.code is codes.SERVER_REPLACED
    if way_out == "the old server":
        assert "point source.url at the old server" in refused.value.hint
        driver.options["url"] = old
        driver.restart()
        stage.run("UPDATE t SET v = 9 WHERE id = 10")
        stage.drain(driver)
        stage.same(driver)
        return
    with closing(connected(mysql)) as other, other.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {stage.database}")
        try:
            cursor.execute(f"CREATE TABLE {stage.name()} (id INT PRIMARY KEY, v INT)")
            cursor.execute(f"INSERT INTO {stage.name()} VALUES (0, 1), (7, 7)")
            resnapshot(driver, refused.value)
            while driver.batch():
                pass
            driver.stop()
        finally:
            cursor.execute(f"DROP DATABASE {stage.database}")
    assert {key: image for (_, key), (_, image) in fold(driver.log).items()} == {
        (("id", n),): (("id", n), ("v", v)) for n, v in ((0, 1), (7, 7))
    }


def test_a_planned_batch_is_refused_by_another_server(stage: Stage, mysql: MySqlServer) -> None:
    driver = running(stage)
    stage.run("UPDATE t SET v = 2")
    assert driver.plan()
    driver.options["url"] = f"mysql://cdc@127.0.0.1:{mysql.port}"
    with pytest.raises(DefiniteError, match="the batch was planned on"):
        driver.read()  # its tasks alone reach the other server
    driver.restart()
    with pytest.raises(DefiniteError, match="the server is another one"):
        driver.read()


@remedy(codes.POSITION_PURGED)
def test_a_purged_file_is_named_with_the_way_out(stage: Stage) -> None:
    driver = running(stage)
    file = stage.purge()
    driver.restart()
    with pytest.raises(DefiniteError, match=f"{file} was purged") as refused:
        driver.plan()
    assert refused.value.code is codes.POSITION_PURGED
    assert "binlog_expire_logs_seconds" in refused.value.hint
    resnapshot(driver, refused.value)
    healed(stage, driver, epoch=2)


@remedy(codes.BINLOG_RESET)
@pytest.mark.parametrize("files", [None, 0, 2], ids=["shorter", "longer", "more files"])
@pytest.mark.parametrize("restarted", [True, False], ids=["restarted", "running"])
def test_a_log_that_was_reset_is_known_by_more_than_its_name(stage: Stage, files: int | None, restarted: bool) -> None:
    driver = running(stage)
    old = (driver.offset["file"], driver.offset["pos"])
    reset(stage)
    if files is not None:
        write_beyond(stage, old, files)
    stage.run("UPDATE t SET v = 3")
    if restarted:
        driver.restart()
    with pytest.raises(DefiniteError) as refused:
        driver.batch()
    # a log that is shorter than the old one shows no more than that the position is gone
    assert refused.value.code is (codes.POSITION_PURGED if files is None else codes.BINLOG_RESET)
    resnapshot(driver, refused.value)
    healed(stage, driver, epoch=2)


def test_a_new_log_with_the_old_names_sizes_and_gtids(stage: Stage) -> None:
    """The offset's position is a transaction boundary of the new log, too: the file's creation time alone tells."""
    stage.create(rows=20)
    stage.run("CREATE TABLE elsewhere (id INT)")

    def begin_anew() -> tuple[str, int]:
        reset(stage)
        for n in range(5):
            stage.run(f"INSERT INTO elsewhere VALUES ({n})")
        return stage.position()

    end = begin_anew()
    driver = stage.driver(tables=stage.name())
    stage.snapshot(driver)
    assert (driver.offset["file"], driver.offset["pos"]) == end
    stage.run("UPDATE t SET v = 1")  # nobody will see this in the log
    assert begin_anew() == end
    stage.run("UPDATE t SET v = 2 WHERE id = 0")
    driver.restart()
    with pytest.raises(DefiniteError, match="the binlog was reset"):
        driver.plan()


def prepare_and_purge(stage: Stage, driver: Driver) -> str:
    """An XA transaction whose rows lie in a purged file, and a stream that stands behind it; the file's name."""
    with closing(connected(stage.server, database=stage.database)) as other, other.cursor() as cursor:
        for sql in ("XA START 'x'", "UPDATE t SET v = 7 WHERE id = 30", "XA END 'x'", "XA PREPARE 'x'"):
            cursor.execute(sql)
        file = stage.position()[0]
        stage.run("FLUSH BINARY LOGS")
        stage.run("UPDATE t SET v = 2 WHERE id = 0")
        stage.drain(driver)
        driver.reader.stop()  # else the file is still being sent to us
        stage.run(f"PURGE BINARY LOGS TO '{stage.position()[0]}'")
        driver.restart()
        return file


@pytest.mark.parametrize("verb", ["COMMIT", "ROLLBACK"])
def test_a_purged_file_with_rows_of_a_prepared_transaction(stage: Stage, verb: str) -> None:
    """It harms nobody until the transaction is committed."""
    driver = running(stage)
    file = prepare_and_purge(stage, driver)
    stage.run("UPDATE t SET v = 3 WHERE id = 0")
    stage.drain(driver)
    stage.same(driver)
    while True:
        with suppress(pymysql.err.OperationalError):  # not there yet, while its session ends
            stage.run(f"XA {verb} 'x'")
            break
    if verb == "ROLLBACK":
        stage.drain(driver)
        stage.same(driver)
        return
    for _ in range(2):
        with pytest.raises(DefiniteError, match=f"{file} was purged") as refused:
            driver.plan()
        assert "on_gap: resnapshot" in refused.value.hint
        driver.restart()


def commit_what_an_older_file_has(stage: Stage, driver: Driver) -> None:
    """An XA transaction that was prepared in a file before the one that is read."""
    with closing(connected(stage.server, database=stage.database)) as other, other.cursor() as cursor:
        for sql in ("XA START 'x'", "UPDATE t SET v = 7 WHERE id = 30", "XA END 'x'", "XA PREPARE 'x'"):
            cursor.execute(sql)
        stage.run("FLUSH BINARY LOGS")
        stage.run("UPDATE t SET v = 2 WHERE id = 0")
        stage.drain(driver)
        cursor.execute("XA COMMIT 'x'")


def purge_what_is_planned(stage: Stage, driver: Driver) -> None:
    """Before it is read, which then has nothing to give; the stream is at its end."""
    driver.reader.stop()
    stage.run(f"PURGE BINARY LOGS TO '{stage.position()[0]}'")
    driver.restart()
    assert driver.read() == []
    assert driver.planned is not None
    driver.offset = driver.planned[1]


@pytest.mark.parametrize("planned", [True, False], ids=["planned before the purge", "planned after it"])
def test_a_purged_file_with_rows_of_a_prepared_transaction_is_a_gap(stage: Stage, planned: bool) -> None:
    driver = running(stage, onGap="resnapshot")
    if planned:
        commit_what_an_older_file_has(stage, driver)
        assert driver.plan()
        purge_what_is_planned(stage, driver)
    else:
        prepare_and_purge(stage, driver)
        while True:
            with suppress(pymysql.err.OperationalError):
                stage.run("XA COMMIT 'x'")
                break
    assert driver.batch()
    healed(stage, driver, epoch=2)


def test_a_purged_file_with_rows_of_a_prepared_transaction_is_a_gap_in_any_stretch_of_a_batch(stage: Stage) -> None:
    """It is committed before a statement that the batch passes, so the batch's end knows nothing of it any more."""
    stage.create("u", rows=3)
    driver = running(stage, onGap="resnapshot")
    commit_what_an_older_file_has(stage, driver)
    stage.run("ALTER TABLE u ADD COLUMN w INT")
    stage.run("UPDATE t SET v = 3 WHERE id = 0")
    assert driver.plan()
    assert driver.planned is not None
    assert "between" in driver.planned[1]
    purge_what_is_planned(stage, driver)
    assert driver.batch()
    stage.drain(driver)
    stage.same(driver, "t", "u")
    assert driver.offset["epoch"] == 2


# ---------------------------------------------------------------- resnapshot


def gap_writes(stage: Stage) -> None:
    """What nobody will ever read from the log: a row gone, one new, one changed, one key moved."""
    for sql in ("DELETE FROM t WHERE id = 30", "INSERT INTO t VALUES (31, 31)", "UPDATE t SET v = 77 WHERE id = 40"):
        stage.run(sql)
    stage.run("UPDATE t SET id = 51 WHERE id = 50")


def healed(stage: Stage, driver: Driver, epoch: int) -> None:
    """The rows of the gap are there, or gone, and the pass ended with an x that carries its begin."""
    stage.run("UPDATE t SET v = v + 1 WHERE id < 20")
    stage.drain(driver)
    stage.same(driver)
    assert driver.offset["epoch"] == epoch
    ends = [c for c in driver.log if c.op is Op.END]
    assert len(ends) == epoch - 1
    again = [c for c in driver.log if c.op is Op.READ and c.seq // 10**34 == epoch]
    assert len(again) >= 20
    assert int(ends[-1].after) <= min(c.seq for c in again)
    assert max(c.seq for c in driver.log if c.seq // 10**34 < epoch) < int(ends[-1].after) < ends[-1].seq


@pytest.mark.parametrize("how", ["purged", "reset", "reset and longer", "reset and more files"])
@pytest.mark.parametrize("restarted", [True, False], ids=["restarted", "running"])
def test_after_a_gap_a_new_epoch_reads_all_again(stage: Stage, how: str, restarted: bool) -> None:
    driver = running(stage, onGap="resnapshot")
    old = (driver.offset["file"], driver.offset["pos"])
    if how == "purged":
        driver.reader.stop()  # else the file is still being sent to us
        driver.restart()
    gap_writes(stage)
    if how == "purged":
        stage.purge()
    else:
        reset(stage)
        if how != "reset":
            write_beyond(stage, old, 2 if "files" in how else 0)
    if restarted:
        driver.restart()
    assert driver.batch()
    state = driver.offset["tables"][stage.name()]
    assert (driver.offset["epoch"], state["mode"]) == (2, "again")
    healed(stage, driver, epoch=2)


@pytest.mark.parametrize("spans", [False, True], ids=["in the purged file", "into a file that is left"])
@pytest.mark.parametrize("restarts", [1, 3])
def test_a_batch_that_was_planned_when_the_purge_came_yields_nothing(stage: Stage, restarts: int, spans: bool) -> None:
    """And the next offset begins the epoch, also where the process dies between any two of these steps."""
    driver = running(stage, onGap="resnapshot")
    stage.run("UPDATE t SET v = 2")
    if spans:
        stage.run("FLUSH BINARY LOGS")
        stage.run("UPDATE t SET v = 3 WHERE id = 0")
    assert driver.plan()
    driver.reader.stop()
    gap_writes(stage)
    if spans:  # the planned end can be read from, the rows before it cannot
        stage.run(f"PURGE BINARY LOGS TO '{stage.position()[0]}'")
    else:
        stage.purge()
    for _ in range(restarts):
        driver.restart()
        assert driver.read() == []
    assert driver.planned is not None
    driver.offset = driver.planned[1]
    if restarts > 1:
        driver.restart()
    assert driver.batch()
    assert driver.offset["epoch"] == 2
    healed(stage, driver, epoch=2)


@remedy(codes.MASKED_COLUMN_LOST)
def test_a_masked_column_that_got_another_name_in_the_gap_stops_the_stream(stage: Stage) -> None:
    """No statement that was read says that the new column is the masked one."""
    stage.create("other", rows=1)
    masks = {"v": None}
    driver = running(stage, onGap="resnapshot", masks=json.dumps({f"{stage.database}.*": masks}))
    driver.reader.stop()
    stage.run("ALTER TABLE t CHANGE v w INT")
    stage.purge()
    driver.restart()
    with pytest.raises(DefiniteError, match=r"the masked column v of .* is gone, .* w is another one") as caught:
        driver.batch()
    assert caught.value.code is codes.MASKED_COLUMN_LOST
    assert "mask or exclude w" in caught.value.hint
    driver.options["masks"] = json.dumps({f"{stage.database}.*": {**masks, "w": None}})
    driver.restart()
    driver.batch()
    assert driver.offset["epoch"] == 2
    stage.run("UPDATE t SET w = 7 WHERE id = 10")
    stage.drain(driver)
    assert {image for (name, _), (_, image) in fold(driver.log).items() if name == stage.name()} == {
        (("id", n), ("w", None)) for n in range(0, 200, 10)
    }


def test_a_table_that_was_altered_in_the_gap(stage: Stage) -> None:
    """Bronze says so, where it has rows of the old schema: nobody has read the statement."""
    stage.create("other", rows=5)
    driver = running(stage, onGap="resnapshot")
    driver.reader.stop()
    gap_writes(stage)
    stage.run("ALTER TABLE t CHANGE v w BIGINT, ADD COLUMN n INT DEFAULT 3")
    stage.purge()
    driver.restart()
    stage.drain(driver)
    stage.same(driver, "t", "other")
    [change] = [c for c in driver.log if c.op is Op.SCHEMA and c.before is not None]
    said = dict(change.after)
    assert (change.table, said["statement"], said["kept"], dict(said["origin"])) == (
        stage.name(), None, False, {"id": "id"},
    )  # fmt: skip


@pytest.mark.parametrize("again", ["", "before", "after"])
def test_a_table_that_was_dropped_in_the_gap(stage: Stage, again: str) -> None:
    """Its rows stand, and go when there is a table under the name again, in the gap or behind it."""
    driver = running(stage, onGap="resnapshot")
    stage.create("other", rows=5)
    stage.drain(driver)
    driver.reader.stop()
    born = ["CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (10, 5), (11, 5)"]
    for sql in ["UPDATE t SET v = 3", "DROP TABLE t", *(born if again == "before" else [])]:
        stage.run(sql)
    stage.purge()
    driver.restart()
    stage.drain(driver)
    for sql in born if again == "after" else []:
        stage.run(sql)
    stage.drain(driver)
    stage.same_rows(driver, *(["t", "other"] if again else ["other"]))
    said = [dict(c.after) for c in driver.log if c.op is Op.SCHEMA and c.table == stage.name()][1:]
    assert ["dropped" in one for one in said] == {"": [True], "before": [False], "after": [True, False]}[again]
    if not again:
        assert sum(name == stage.name() for name, _ in fold(driver.log)) == 20


def test_a_gap_in_the_middle_of_the_snapshot(stage: Stage) -> None:
    stage.create(rows=40)
    driver = stage.driver(onGap="resnapshot")
    driver.batch()
    driver.reader.stop()
    gap_writes(stage)
    stage.purge()
    driver.restart()
    stage.snapshot(driver)
    healed(stage, driver, epoch=2)


def test_another_gap_in_the_pass_after_a_gap(stage: Stage) -> None:
    driver = running(stage, onGap="resnapshot")
    driver.reader.stop()
    gap_writes(stage)
    stage.purge()
    driver.restart()
    assert driver.batch()
    driver.reader.stop()
    stage.run("DELETE FROM t WHERE id = 0")
    stage.purge()
    driver.restart()
    assert driver.batch()
    assert driver.offset["epoch"] == 3
    stage.drain(driver)
    stage.same(driver)


def test_the_same_gap_without_resnapshot_stops_a_planned_batch_by_name(stage: Stage) -> None:
    driver = running(stage)
    stage.run("UPDATE t SET v = 2")
    assert driver.plan()
    driver.reader.stop()
    file = stage.purge()
    driver.restart()
    with pytest.raises(DefiniteError, match=f"{file} was purged"):
        driver.read()


@pytest.mark.long
def test_the_first_offset_after_a_resnapshot_is_not_read_from_another_epochs_log(stage: Stage) -> None:
    """The first batch of an epoch is a function of its end: replayed, it has the same bytes and no binlog range."""
    driver = running(stage, onGap="resnapshot")
    gap_writes(stage)
    reset(stage)
    driver.restart()
    with closing(connected(stage.server, database=stage.database)) as other:
        assert driver.batch(between=lambda: other.cursor().execute("UPDATE t SET v = v + 1"))
    healed(stage, driver, epoch=2)
