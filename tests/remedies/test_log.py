"""Errors of the log and of the checkpoint: made on real servers, and left by what their hints say."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from lakehouse_cdc.errors import Code, TransientError, codes
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.source.planning import first_offset
from lakehouse_cdc.source.settling import settled_position
from tests.remedies import remedy
from tests.support.servers import connected, start_or_skip
from tests.support.source.binlog_relay import BinlogRelay, replacing
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage, on_stage
from tests.support.source.ways_out import of, reset, stopped

pytestmark = pytest.mark.mysql

MARK = 0x1EE7C0DE  # a value whose bytes are nowhere else in the log


def streaming(stage: Stage, url: str = "") -> Driver:
    """A stream after the snapshots of t and u."""
    for table in "tu":
        stage.create(table, rows=3)
    driver = stage.driver(url=url or stage.options()["url"])
    stage.drain(driver)
    return driver


@contextmanager
def relayed(stage: Stage) -> Iterator[tuple[BinlogRelay, Driver]]:
    """Such a stream, whose connections go through a relay."""
    with BinlogRelay(stage.server.port) as relay:
        yield relay, streaming(stage, url=f"mysql://cdc@127.0.0.1:{relay.port}")


def continues(stage: Stage, driver: Driver) -> None:
    """The stream is exact again, and was not begun again: no row was read twice."""
    stage.run("UPDATE u SET v = v + 1")
    stage.drain(driver)
    stage.same(driver, "t", "u")
    assert sum(c.op is Op.READ for c in driver.log) == 6


def begins_anew(stage: Stage, driver: Driver) -> None:
    """All tables are read again, in a new epoch, and bronze is exact."""
    stage.run("UPDATE u SET v = v + 1")
    stage.drain(driver)
    stage.same(driver, "t", "u")
    assert driver.offset["epoch"] == 2


# ---------------------------------------------------------------- XA transactions


def prepared_before(stage: Stage) -> None:
    """An XA transaction whose rows lie in an older file than the newest."""
    with closing(connected(stage.server, database=stage.database)) as other, other.cursor() as cursor:
        for sql in ("XA START 'x'", "INSERT INTO t VALUES (1, 1)", "XA END 'x'", "XA PREPARE 'x'"):
            cursor.execute(sql)
    stage.run("FLUSH BINARY LOGS")


@remedy(codes.XA_PREPARED_EARLIER)
def test_an_xa_transaction_from_before_the_stream(stage: Stage) -> None:
    for table in "tu":
        stage.create(table, rows=3)
    prepared_before(stage)
    driver = stage.driver()  # its user has no right to list what is prepared
    stage.snapshot(driver)
    stage.run("XA COMMIT 'x'")
    error = stopped(driver, codes.XA_PREPARED_EARLIER)
    assert "GRANT XA_RECOVER_ADMIN ON *.* TO the user of the source, and set source.on_gap: resnapshot" in error.hint
    [(host,)] = stage.run("SELECT host FROM mysql.user WHERE user = 'cdc'")
    stage.run(f"GRANT XA_RECOVER_ADMIN ON *.* TO cdc@'{host}'")
    try:
        driver.options["onGap"] = "resnapshot"
        driver.restart()
        begins_anew(stage, driver)
    finally:
        stage.run(f"REVOKE XA_RECOVER_ADMIN ON *.* FROM cdc@'{host}'")


@remedy(codes.XA_PENDING)
def test_an_xa_transaction_that_nobody_decides_on(any_stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = any_stage
    monkeypatch.setattr(first_offset, "_PATIENCE", 0.3)
    for table in "tu":
        stage.create(table, rows=3)
    prepared_before(stage)
    driver = stage.driver(url=stage.server.url, password="")
    with pytest.raises(TransientError) as caught:
        planned(driver)
    assert caught.value.code is codes.XA_PENDING
    assert "XA COMMIT or XA ROLLBACK them (XA RECOVER lists them)" in caught.value.hint
    assert "x" in str(stage.run("XA RECOVER"))
    stage.run("XA COMMIT 'x'")
    driver.restart()
    stage.drain(driver)
    stage.same(driver, "t", "u")


def planned(driver: Driver) -> None:
    """Plan a batch, without the pauses after which what may pass by itself is tried again."""
    start = of(driver) if driver.offset else None
    driver.reader.planner.latest(start, max_rows=None, max_bytes=None)


# ---------------------------------------------------------------- bytes that are wrong


END = slice(18, 22)  # of a packet with an event: where that ends in the file, as its header says


def misplaced(packet: bytes) -> bytes:
    """The marked event with another end in its header."""
    if MARK.to_bytes(4, "little") not in packet:
        return packet
    end = int.from_bytes(packet[END], "little") + 7
    return packet[: END.start] + end.to_bytes(4, "little") + packet[END.stop :]


DAMAGE = {
    codes.BINLOG_DAMAGED: misplaced,
    codes.BINLOG_CHECKSUM_WRONG: replacing(MARK.to_bytes(4, "little"), b"1337"),
}


@remedy(codes.BINLOG_DAMAGED, codes.BINLOG_CHECKSUM_WRONG)
@pytest.mark.parametrize("code", DAMAGE, ids=lambda code: code.name)
@pytest.mark.parametrize("where", ["on the way", "in the file"])
def test_damaged_bytes(stage: Stage, code: Code[Any], where: str) -> None:
    with relayed(stage) as (relay, driver):
        before = of(driver)
        relay.change = DAMAGE[code]
        stage.run(f"UPDATE t SET v = {MARK} WHERE id = 10")
        error = stopped(driver, code)
        assert "Run again" in error.hint
        assert "FLUSH BINARY LOGS on the source; then: lakehouse-cdc reset --keep-tables" in error.hint
        if where == "on the way":
            relay.change = None
            continues(stage, driver)
        else:
            stage.run("FLUSH BINARY LOGS")
            begins_anew(stage, reset(stage, driver, error.hint, before))


@remedy(codes.DUMP_OUT_OF_STEP)
def test_packets_out_of_order(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    with relayed(stage) as (relay, driver):

        def change(packet: bytes) -> bytes:
            if MARK.to_bytes(4, "little") not in packet:
                return packet
            relay.change = None
            return packet[:3] + bytes([packet[3] ^ 1]) + packet[4:]

        relay.change = change
        stage.run(f"UPDATE t SET v = {MARK} WHERE id = 10")
        with caplog.at_level(logging.WARNING):
            continues(stage, driver)
        assert relay.change is None
    assert passing(caplog) == {codes.DUMP_OUT_OF_STEP}


@remedy(codes.DUMP_ENDED)
@pytest.mark.parametrize("way_out", ["by itself", "another server_id"])
def test_a_dump_that_the_server_ends(stage: Stage, caplog: pytest.LogCaptureFixture, way_out: str) -> None:
    """By the packet that a server which shuts down sends."""
    with relayed(stage) as (relay, driver):

        def change(packet: bytes) -> bytes:
            if MARK.to_bytes(4, "little") not in packet:
                return packet
            relay.change = None
            return b"\x05\x00\x00" + packet[3:4] + b"\xfe\x00\x00\x00\x00"

        relay.change = change
        stage.run(f"UPDATE t SET v = {MARK} WHERE id = 10")
        if way_out == "another server_id":
            with pytest.raises(TransientError) as caught:
                planned(driver)
            assert caught.value.code is codes.DUMP_ENDED
            assert "give each reader its own server_id (source.server_ids)" in caught.value.hint
            driver.options["serverIds"] = "7001-7020"
            driver.restart()
        with caplog.at_level(logging.WARNING):
            continues(stage, driver)
    assert passing(caplog) == ({codes.DUMP_ENDED} if way_out == "by itself" else set())


@remedy(codes.DUMP_SILENT)
@pytest.mark.long
def test_a_server_that_says_nothing(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """For half a minute, in which it should have sent heartbeats."""
    with relayed(stage) as (relay, driver):
        held = 0

        def change(packet: bytes) -> bytes:
            nonlocal held
            if MARK.to_bytes(4, "little") not in packet and not held:
                return packet
            held += 1
            time.sleep(35)
            relay.change = None
            return packet

        relay.change = change
        stage.run(f"UPDATE t SET v = {MARK} WHERE id = 10")
        with caplog.at_level(logging.WARNING):
            continues(stage, driver)
        assert held
    assert passing(caplog) == {codes.DUMP_SILENT}


def passing(caplog: pytest.LogCaptureFixture) -> set[Code[Any]]:
    """The codes of what passed by itself when it was tried again."""
    errors = [argument for record in caplog.records for argument in record.args or ()]
    return {error.code for error in errors if isinstance(error, TransientError)}


# ---------------------------------------------------------------- positions, and the checkpoint


def inside_a_transaction(stage: Stage, driver: Driver) -> None:
    file, pos = driver.offset["file"], driver.offset["pos"]
    stage.transaction("UPDATE t SET v = 7", "UPDATE u SET v = 7")
    listed = stage.run(f"SHOW BINLOG EVENTS IN '{file}' FROM {pos}")
    [*maps] = [event[4] for event in listed if event[2] == "Table_map"]
    driver.offset["pos"] = maps[0]


def no_position(stage: Stage, driver: Driver) -> None:
    driver.offset["pos"] = 2
    driver.offset["floor"] = [driver.offset["file"], 2]


def another_version(stage: Stage, driver: Driver) -> None:
    driver.offset["version"] = 99


def no_state(stage: Stage, driver: Driver) -> None:
    driver.offset["tables"][stage.name()]["mode"] = "sideways"


def another_key(stage: Stage, driver: Driver) -> None:
    """As if a table with another key were half read."""
    driver.offset["tables"][stage.name()].update(cursor=["x", 1], done=False)


CHANGED = {
    codes.BINLOG_EVENT_MISPLACED: inside_a_transaction,
    codes.POSITION_INVALID: no_position,
    codes.OFFSET_UNREADABLE: another_version,
    codes.TABLE_STATE_UNREADABLE: no_state,
    codes.CURSOR_UNFIT: another_key,
}


@remedy(
    codes.BINLOG_EVENT_MISPLACED, codes.POSITION_INVALID, codes.OFFSET_UNREADABLE, codes.TABLE_STATE_UNREADABLE,
    codes.CURSOR_UNFIT,
)  # fmt: skip
@pytest.mark.parametrize("code", CHANGED, ids=lambda code: code.name)
@pytest.mark.parametrize("way_out", ["restored", "reset"])
def test_a_checkpoint_that_was_changed(stage: Stage, code: Code[Any], way_out: str) -> None:
    driver = streaming(stage)
    before, kept = of(driver), deepcopy(driver.offset)
    CHANGED[code](stage, driver)
    error = stopped(driver, code)
    if way_out == "restored":
        assert "checkpoint" in error.hint
        driver.offset = kept
        driver.restart()
        continues(stage, driver)
    else:
        begins_anew(stage, reset(stage, driver, error.hint, before))


@remedy(codes.CHECKPOINT_DAMAGED)
def test_a_folder_of_schemas_that_lacks_a_file(stage: Stage, tmp_path: Path) -> None:
    driver = streaming(stage)
    schema = Path(driver.options["schemaFolder"]) / f"{driver.offset['tables'][stage.name()]['schema']}.json"
    kept = schema.rename(tmp_path / "kept")
    stage.run("UPDATE t SET v = 7")
    driver.restart()
    error = stopped(driver, codes.CHECKPOINT_DAMAGED)
    assert "restore it" in error.hint
    kept.rename(schema)
    continues(stage, driver)


# ---------------------------------------------------------------- logs that do not hold all


def restarted(stage: Stage) -> None:
    """After the server was restarted: the connection is another one."""
    stage.connection.connect()
    stage.connection.select_db(stage.database)


@pytest.mark.long
@remedy(codes.BINLOG_DISCONTINUED)
@pytest.mark.parametrize("way_out", ["put back", "lost"])
def test_a_file_in_the_middle_that_is_gone(own: Stage, tmp_path: Path, way_out: str) -> None:
    stage, driver = own, streaming(own)
    before = of(driver)
    stage.run("FLUSH BINARY LOGS")
    lost = stage.position()[0]
    stage.run("UPDATE t SET v = 7")
    for _ in range(2):
        stage.run("FLUSH BINARY LOGS")
    stage.run("UPDATE t SET v = 8 WHERE id = 10")
    driver.stop()
    stage.server.kill()
    [file] = stage.server.directory.rglob(lost)
    [index] = stage.server.directory.rglob("mysql-bin.index")
    listed = index.read_text()
    index.write_text("".join(line for line in listed.splitlines(True) if lost not in line))
    kept = file.rename(tmp_path / lost)
    stage.server.restart()
    restarted(stage)
    driver.restart()
    error = stopped(driver, codes.BINLOG_DISCONTINUED)
    driver.stop()
    if way_out == "lost":
        begins_anew(stage, reset(stage, driver, error.hint, before))
        return
    assert "Put the missing file" in error.hint
    stage.server.kill()
    kept.rename(file)
    now = index.read_text().splitlines(True)
    index.write_text(listed + "".join(line for line in now if line not in listed.splitlines(True)))
    stage.server.restart()
    restarted(stage)
    driver.restart()
    continues(stage, driver)


@pytest.mark.long
@remedy(codes.TRANSACTIONS_MISSING)
@pytest.mark.parametrize("way_out", ["put back", "lost"])
def test_the_end_of_a_file_that_is_gone(own: Stage, way_out: str) -> None:
    stage, driver = own, streaming(own)
    before = of(driver)
    name, end = stage.position()
    stage.run("UPDATE t SET v = 7")
    stage.run("FLUSH BINARY LOGS")
    stage.run("UPDATE t SET v = 8 WHERE id = 10")
    driver.restart()
    [file] = stage.server.directory.rglob(name)
    kept = file.read_bytes()
    file.write_bytes(kept[:end])
    error = stopped(driver, codes.TRANSACTIONS_MISSING)
    if way_out == "lost":
        begins_anew(stage, reset(stage, driver, error.hint, before))
        return
    assert "Put the end of the file before back" in error.hint
    driver.stop()
    file.write_bytes(kept)
    driver.restart()
    continues(stage, driver)


@remedy(codes.ROLLBACK_AFTER_ROWS)
@pytest.mark.parametrize("any_server", ["mariadb-11"], indirect=True)
def test_rows_that_the_log_takes_back(any_stage: Stage) -> None:
    """A server logs them where it cannot take back what a table without transactions was given."""
    stage, driver = any_stage, streaming(any_stage)
    before = of(driver)
    stage.run("CREATE DATABASE elsewhere")
    try:
        stage.run("CREATE TABLE elsewhere.m (id INT) ENGINE = MyISAM")
        stage.run("SET SESSION binlog_format = 'MIXED'")
        stage.transaction(
            "INSERT INTO t VALUES (1, UUID_SHORT() % 7)", "SAVEPOINT s", "UPDATE t SET v = UUID_SHORT() % 7",
            "INSERT INTO elsewhere.m SELECT id FROM t", "ROLLBACK TO s",
        )  # fmt: skip
        stage.run("SET SESSION binlog_format = 'ROW'")
        error = stopped(driver, codes.ROLLBACK_AFTER_ROWS)
        assert "FLUSH BINARY LOGS on the source" in error.hint
        stage.run("FLUSH BINARY LOGS")
        begins_anew(stage, reset(stage, driver, error.hint, before))
    finally:
        stage.run("DROP DATABASE elsewhere")


@pytest.mark.long
@remedy(codes.POSITION_PURGED)
def test_a_log_with_another_base_name(own: Stage) -> None:
    stage, driver = own, streaming(own)
    driver.stop()
    stage.server.restart({"log_bin": "renamed"})
    try:
        restarted(stage)
        stage.run("UPDATE t SET v = 7")
        driver.restart()
        error = stopped(driver, codes.POSITION_PURGED)
        assert "set source.on_gap: resnapshot" in error.hint
        driver.options["onGap"] = "resnapshot"
        driver.restart()
        begins_anew(stage, driver)
    finally:
        driver.stop()
        stage.server.restart({})


# ---------------------------------------------------------------- a commit that waits


@pytest.mark.long
@remedy(codes.POSITION_UNSETTLED)
def test_a_transaction_that_stays_in_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for a replica that never comes."""
    monkeypatch.setattr(settled_position, "_PATIENCE", 0.5)
    with start_or_skip("mysql-9", options={"plugin_load_add": "semisync_source.so"}) as server:
        for stage in on_stage(server, "waiting", tmp_path):
            for table in "tu":
                stage.create(table, rows=3)
            with closing(connected(server, database=stage.database)) as other, ThreadPoolExecutor() as pool:
                stage.run("SET GLOBAL rpl_semi_sync_source_timeout = 1000000")
                stage.run("SET GLOBAL rpl_semi_sync_source_enabled = ON")
                written = pool.submit(other.cursor().execute, "UPDATE t SET v = 7")
                driver = stage.driver(settleSeconds="0.1")
                try:
                    while not (waits := [row for row in stage.run("SHOW PROCESSLIST") if "semi-sync" in str(row[6])]):
                        time.sleep(0.01)
                    with pytest.raises(TransientError) as caught:
                        planned(driver)
                    assert caught.value.code is codes.POSITION_UNSETTLED
                    assert "wait for a commit or a semi-sync replica (SHOW PROCESSLIST)" in caught.value.hint
                    assert waits[0][7] == "UPDATE t SET v = 7"
                finally:
                    stage.run("SET GLOBAL rpl_semi_sync_source_enabled = OFF")
                written.result()
            driver.restart()
            stage.drain(driver)
            stage.same(driver, "t", "u")
