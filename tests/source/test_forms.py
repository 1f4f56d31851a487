"""The forms that a transaction may have in the binlog of each server: all are read, or refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pymysql
import pytest
from numpy.typing import NDArray

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.mysql.binlog.dump import BinlogDump
from lakehouse_cdc.source.reading import log_reader
from lakehouse_cdc.testing import MySqlServer
from tests.remedies import remedy
from tests.support.servers import connected
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage, on_stage
from tests.support.source.ways_out import of, reset

Streaming = tuple[Stage, Driver]


@pytest.fixture
def streaming(any_server: MySqlServer, any_database: str, tmp_path: Path) -> Iterator[Streaming]:
    """A stream behind its snapshot of `t` (id, v), which holds the ids 0, 10 and 20."""
    for stage in on_stage(any_server, any_database, tmp_path):
        stage.create(rows=3)
        driver = stage.driver()
        stage.snapshot(driver)
        yield stage, driver


def test_events_without_checksums(streaming: Streaming) -> None:
    stage, driver = streaming
    stage.run("INSERT INTO t VALUES (1, 1)")
    stage.run("SET GLOBAL binlog_checksum = NONE")
    try:
        stage.run("INSERT INTO t VALUES (2, 2)")
        stage.drain(driver)
        stage.run("UPDATE t SET v = 5")
    finally:
        stage.run("SET GLOBAL binlog_checksum = CRC32")
    stage.run("DELETE FROM t WHERE id = 10")
    stage.drain(driver)
    stage.same(driver)


def test_a_damaged_value_is_refused(streaming: Streaming, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the checksum tells that a number is another."""
    stage, driver = streaming
    written = (0x1EE7C0DE).to_bytes(4, "little")

    class Damaged(BinlogDump):
        def read(self, timeout: float | None = None) -> NDArray[np.uint8]:
            return np.frombuffer(bytearray(super().read(timeout).tobytes().replace(written, b"1337")), np.uint8)

    stage.run(f"UPDATE t SET v = {0x1EE7C0DE} WHERE id = 10")
    assert driver.plan()
    with monkeypatch.context() as patch:
        patch.setattr(log_reader, "BinlogDump", Damaged)
        with pytest.raises(DefiniteError, match="checksum of a binlog event is wrong"):
            driver.read()
    stage.drain(driver)
    stage.same(driver)


def test_savepoints(streaming: Streaming) -> None:
    stage, driver = streaming
    stage.transaction(
        "INSERT INTO t VALUES (1, 1)", "SAVEPOINT a", "UPDATE t SET v = 2", "SAVEPOINT `b c`", "DELETE FROM t",
        "ROLLBACK TO `b c`", "INSERT INTO t VALUES (2, 2)", "ROLLBACK TO a", "RELEASE SAVEPOINT a",
        "INSERT INTO t VALUES (3, 3)",
    )  # fmt: skip
    stage.drain(driver)
    stage.same(driver)
    assert [c.op for c in driver.log[-2:]] == [Op.INSERT] * 2


def xa(stage: Stage, *statements: str, end: str) -> None:
    for sql in ("XA START 'x'", *statements, "XA END 'x'", end):
        stage.run(sql)


def test_xa_in_one_phase(streaming: Streaming) -> None:
    stage, driver = streaming
    xa(stage, "INSERT INTO t VALUES (1, 1)", "UPDATE t SET v = 7 WHERE id = 10", end="XA COMMIT 'x' ONE PHASE")
    stage.drain(driver)
    stage.same(driver)


def test_xa_in_two_phases_passes_where_no_captured_table_is_in_it(streaming: Streaming) -> None:
    stage, driver = streaming
    stage.run("CREATE DATABASE elsewhere")
    try:
        stage.run("CREATE TABLE elsewhere.u (id INT PRIMARY KEY)")
        xa(stage, "INSERT INTO elsewhere.u VALUES (1)", end="XA PREPARE 'x'")
        stage.run("XA COMMIT 'x'")
        stage.run("INSERT INTO t VALUES (1, 1)")
        stage.drain(driver)
        stage.same(driver)
    finally:
        stage.run("DROP DATABASE elsewhere")


def test_a_table_that_a_statement_logged_as_text_changes_is_read_again(streaming: Streaming) -> None:
    stage, driver = streaming
    stage.run("INSERT INTO t VALUES (5, 5)")
    stage.drain_twice(driver)  # no chunk of it is in doubt any more
    with closing(connected(stage.server, database=stage.database)) as other, other.cursor() as cursor:
        cursor.execute("SET SESSION binlog_format = STATEMENT")
        cursor.execute("INSERT INTO t VALUES (1, 1)")
    stage.drain_twice(driver)
    stage.same_rows(driver)


@remedy(codes.BINLOG_INCIDENT)
def test_an_incident_stops_the_stream(streaming: Streaming) -> None:
    """A server logs one where it has no room to log what it cannot take back: rows of a table without transactions."""
    stage, driver = streaming
    caches = ("binlog_stmt_cache_size", "max_binlog_stmt_cache_size")
    before = [stage.run(f"SELECT @@GLOBAL.{name}")[0][0] for name in caches]
    stage.run("CREATE DATABASE elsewhere")
    stage.run("CREATE TABLE elsewhere.m (id INT, v VARCHAR(4000)) ENGINE = MyISAM")
    stage.run("INSERT INTO t VALUES (1, 1)")
    stage.drain(driver)
    place = driver.offset["file"], driver.offset["pos"]
    try:
        for name in caches:
            stage.run(f"SET GLOBAL {name} = 4096")
        with closing(connected(stage.server)) as other, other.cursor() as cursor:
            rows = ", ".join(["(1, REPEAT('x', 3000))"] * 20)
            with pytest.raises(pymysql.err.MySQLError, match="max_binlog_stmt_cache_size"):
                cursor.execute(f"INSERT INTO elsewhere.m VALUES {rows}")
    finally:
        for name, value in zip(reversed(caches), reversed(before), strict=True):
            stage.run(f"SET GLOBAL {name} = {value}")
        stage.run("DROP DATABASE elsewhere")
    stage.run("INSERT INTO t VALUES (2, 2)")
    with pytest.raises(DefiniteError, match="INCIDENT: changes may be missing") as refused:
        stage.drain(driver)
    assert refused.value.where.startswith(f"{place[0]}:")
    assert (driver.offset["file"], driver.offset["pos"]) == place
    assert refused.value.code is codes.BINLOG_INCIDENT
    assert "FLUSH BINARY LOGS on the source; then: lakehouse-cdc reset --keep-tables" in refused.value.hint
    stage.run("FLUSH BINARY LOGS")
    anew = reset(stage, driver, refused.value.hint, of(driver))
    stage.run("INSERT INTO t VALUES (3, 3)")
    stage.drain(anew)
    stage.same(anew)


@pytest.fixture
def large_packets(any_server: MySqlServer) -> Iterator[None]:
    with closing(connected(any_server)) as root, root.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.max_allowed_packet")
        [(before,)] = cursor.fetchall()
        cursor.execute("SET GLOBAL max_allowed_packet = 1 << 26")
        yield
        cursor.execute(f"SET GLOBAL max_allowed_packet = {before}")


@pytest.mark.usefixtures("large_packets")
def test_events_of_more_than_16_mb(any_server: MySqlServer, any_database: str, tmp_path: Path) -> None:
    """Two images of 10 MB make an event that travels in two packets."""
    for stage in on_stage(any_server, any_database, tmp_path):
        stage.run("CREATE TABLE t (id INT PRIMARY KEY, v LONGBLOB)")
        driver = stage.driver()
        stage.snapshot(driver)
        stage.run("INSERT INTO t VALUES (1, REPEAT('a', 10000000)), (2, 'small')")
        stage.run("UPDATE t SET v = REPEAT('b', 10000001) WHERE id = 1")
        stage.drain(driver)
        stage.same(driver)
        assert max(len(dict(c.after)["v"]) for c in driver.log if c.op is Op.UPDATE) == 10_000_001


def test_a_transaction_of_many_buffers(any_server: MySqlServer, any_database: str, tmp_path: Path) -> None:
    """16 MB in one transaction of two tables: several times what a reader holds at once."""
    for stage in on_stage(any_server, any_database, tmp_path):
        for table in ("t", "u"):
            stage.run(f"CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(4010) CHARACTER SET latin1)")
        driver = stage.driver()
        stage.snapshot(driver)
        rows = ", ".join(f"({i}, REPEAT('x', 4000))" for i in range(250))
        doubled = (f"INSERT INTO {{0}} SELECT id + {250 * 2**i}, v FROM {{0}}" for i in range(2))
        both = (f"INSERT INTO {{0}} VALUES {rows}", *doubled, "UPDATE {0} SET v = CONCAT(id, v) WHERE id % 2")
        stage.transaction(*(sql.format(table) for sql in both for table in ("t", "u")))
        stage.drain(driver)
        stage.same(driver, "t", "u")
