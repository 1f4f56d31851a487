"""MariaDB's system-versioned tables: bronze holds the current rows, whatever becomes of those that have ended."""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pymysql
import pytest

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, connect
from lakehouse_cdc.mysql.uncaptured import uncaptured
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.versions import MARIADB
from tests.support.servers import connected, row_metadata
from tests.support.source.driver import Driver
from tests.support.source.play import images_of, play
from tests.support.source.stage import Stage
from tests.support.source.world import KEYLESS, PERIOD, UNIQUE, VERSIONED

pytestmark = pytest.mark.parametrize("any_server", MARIADB, indirect=True)
either = pytest.mark.parametrize("backlog", [False, True], ids=["live", "backlog"])

SESSION = ", time_zone = '+00:00', system_versioning_alter_history = KEEP"
KINDS = [(VERSIONED, "int"), (PERIOD, "few", "general_ci"), (VERSIONED, UNIQUE, "bin"), (PERIOD, KEYLESS, "few")]


@pytest.mark.every_server
@pytest.mark.parametrize("metadata", ["FULL", "least"])
def test_every_offset_is_exact(any_server: MySqlServer, tmp_path: Path, seed: int, metadata: str) -> None:
    """With random writes during each phase of the snapshot, DELETE HISTORY among them."""
    with row_metadata(any_server, metadata):
        play(any_server, tmp_path, KINDS, seed, session=SESSION)


@pytest.mark.parametrize("metadata", ["FULL", "least"])
def test_tables_that_are_altered(any_server: MySqlServer, tmp_path: Path, seed: int, metadata: str) -> None:
    """Versioning comes and goes, too, and so do partitions of what has ended."""
    kinds: list[tuple[str, ...]] = [(VERSIONED, "int"), ("few",), (PERIOD, "bin")]
    with row_metadata(any_server, metadata):
        play(any_server, tmp_path, kinds, seed, {"alter": 0.1, "versioning": 0.1}, session=SESSION)


def test_tables_that_are_replaced_and_created(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    often = {"replace": 0.05, "create": 0.05, "versioning": 0.05}
    play(any_server, tmp_path, [(VERSIONED, "int"), (PERIOD, "few", "general_ci")], seed, often, session=SESSION)


def test_tables_whose_key_changes(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    kinds = [(VERSIONED, UNIQUE, "int"), (PERIOD, UNIQUE, "few", "general_ci")]
    play(any_server, tmp_path, kinds, seed, {"key": 0.1, "versioning": 0.05}, session=SESSION)


def test_xa_transactions(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    play(any_server, tmp_path, [(VERSIONED, "int"), (PERIOD, "few", "general_ci")], seed, session=SESSION, xa=True)


def begun(stage: Stage, *statements: str) -> Driver:
    """A stream over what the statements make, which it has read."""
    stage.run("SET time_zone = '+00:00', system_versioning_alter_history = KEEP")
    for statement in statements:
        stage.run(statement)
    driver = stage.driver()
    stage.drain(driver)
    return driver


def same(stage: Stage, driver: Driver, table: str = "t") -> None:
    """After `drain`: bronze holds the rows of the source, whose times the session shows in UTC."""

    def in_utc(value: Any) -> Any:
        return value.replace(tzinfo=timezone.utc) if isinstance(value, datetime) else value

    wanted: Counter[Any] = Counter()
    for image, n in stage.images(table).items():
        wanted[tuple((name, in_utc(value)) for name, value in image)] += n
    assert Counter(images_of(stage.name(table), driver.log)) == wanted


def ops(driver: Driver, table: str) -> Counter[str]:
    return Counter(change.op.value for change in driver.log if change.table == table)


def events(driver: Driver, since: int) -> list[tuple[str, Any, Any]]:
    """(op, before, after) of the changes of rows from a place in the log on, images as dicts."""
    found = sorted((c for c in driver.log[since:] if c.op is not Op.SCHEMA), key=lambda change: change.seq)

    def named(image: Any) -> Any:
        return None if image is None else dict(image)

    return [(change.op.value, named(change.before), named(change.after)) for change in found]


@pytest.mark.every_server
def test_each_statement_is_what_it_does_to_current_rows(any_stage: Stage) -> None:
    """UPDATE logs the version before it, too; DELETE is logged as an update; DELETE HISTORY deletes no row."""
    stage = any_stage
    driver = begun(
        stage,
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT WITHOUT SYSTEM VERSIONING) WITH SYSTEM VERSIONING",
        "INSERT INTO t VALUES (1, 1, 1), (2, 1, 1)",
        "UPDATE t SET v = 2 WHERE id = 2",
        "DELETE FROM t WHERE id = 1",
    )
    assert ops(driver, stage.name()) == {"s": 1, "r": 1}

    def row(number: int, v: int, w: int = 1) -> dict[str, int]:
        return {"id": number, "v": v, "w": w}

    steps: list[tuple[str, list[tuple[str, Any, Any]]]] = [
        ("INSERT INTO t VALUES (3, 1, 1)", [("c", None, row(3, 1))]),
        ("UPDATE t SET v = 3 WHERE id = 2", [("u", row(2, 2), row(2, 3))]),
        ("UPDATE t SET w = 9 WHERE id = 2", [("u", row(2, 3), row(2, 3, 9))]),  # in place, without history
        ("REPLACE INTO t VALUES (3, 5, 1)", [("u", row(3, 1), row(3, 5))]),
        ("INSERT INTO t VALUES (3, 0, 0) ON DUPLICATE KEY UPDATE v = 6", [("u", row(3, 5), row(3, 6))]),
        ("UPDATE t SET id = 4 WHERE id = 3", [("d", row(3, 6), None), ("c", None, row(4, 6))]),
        ("DELETE FROM t WHERE id = 4", [("d", row(4, 6), None)]),
        ("DELETE HISTORY FROM t", []),
        ("INSERT INTO t VALUES (4, 1, 1)", [("c", None, row(4, 1))]),
    ]
    for statement, wanted in steps:
        since = len(driver.log)
        stage.run(statement)
        stage.drain(driver)
        assert events(driver, since) == wanted, statement
    with pytest.raises(pymysql.Error, match="do not support TRUNCATE"):
        stage.run("TRUNCATE TABLE t")
    stage.same(driver)


@either
def test_rows_of_the_past_that_a_dump_restores(any_stage: Stage, backlog: bool) -> None:
    """As mariadb-dump --dump-history writes them: each with its own period."""
    stage = any_stage
    driver = begun(stage, "CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING")
    if backlog:
        driver.restart()
    [(greatest,)] = stage.run("SELECT COALESCE(FROM_UNIXTIME(4294967295.999999), FROM_UNIXTIME(2147483647.999999))")
    stage.run("SET system_versioning_insert_history = ON")
    stage.run(
        "INSERT INTO t (id, v, row_start, row_end) VALUES (1, 1, '2020-01-01', '2021-01-01'), (1, 2, '2021-01-01', %s),"
        " (2, 1, '2020-01-01', '2022-01-01')",
        [greatest],
    )
    stage.drain_twice(driver)
    assert ops(driver, stage.name()) == {"s": 1, "c": 1}
    stage.same(driver)


ALTERS = {
    "ADD SYSTEM VERSIONING": "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
    "ADD COLUMN x INT DEFAULT 4, ADD SYSTEM VERSIONING": "CREATE TABLE t (id INT NOT NULL, v INT, UNIQUE (id))",
    "DROP SYSTEM VERSIONING": "CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING",
    "DROP SYSTEM VERSIONING, DROP COLUMN v": "CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING",
    "ADD COLUMN x INT FIRST": "CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING",
    "PARTITION BY SYSTEM_TIME LIMIT 9 (PARTITION p HISTORY, PARTITION c CURRENT)": "CREATE TABLE t (id INT PRIMARY KEY,"
    " v INT) WITH SYSTEM VERSIONING",
    "MODIFY v BIGINT": "CREATE TABLE t (id INT PRIMARY KEY, v INT,"
    " s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, e TIMESTAMP(6) GENERATED ALWAYS AS ROW END,"
    " PERIOD FOR SYSTEM_TIME (s, e)) WITH SYSTEM VERSIONING",
}


@either
@pytest.mark.parametrize("metadata", ["FULL", pytest.param("least", marks=pytest.mark.long)])
@pytest.mark.parametrize("alter", ALTERS)
def test_an_alter_that_is_followed(any_stage: Stage, alter: str, metadata: str, backlog: bool) -> None:
    """No row is read again: the current rows stay what they are. In a backlog the table is altered again after it."""
    stage = any_stage
    with row_metadata(stage.server, metadata):
        driver = begun(stage, ALTERS[alter], *(f"INSERT INTO t (id, v) VALUES ({n}, 0)" for n in range(3)))
        stage.run("UPDATE t SET v = 1 WHERE id = 1")
        stage.drain(driver)  # no chunk may have met what comes
        stage.run(f"ALTER TABLE t {alter}")
        if backlog:
            stage.run("INSERT INTO t (id) VALUES (7)")
            stage.run("UPDATE t SET id = id + 100 WHERE id = 2")
            stage.run("ALTER TABLE t ADD COLUMN later INT")
        else:
            stage.drain_twice(driver)
        stage.run("INSERT INTO t (id) VALUES (8)")
        stage.run("UPDATE t SET id = 9 WHERE id = 8")
        stage.run("DELETE FROM t WHERE id = 0")
        stage.drain_twice(driver)
    assert ops(driver, stage.name())["r"] == 3
    same(stage, driver)


@either
def test_declared_columns_of_a_period_come_and_go(any_stage: Stage, backlog: bool) -> None:
    """They are columns of the table, and shown as others are."""
    stage = any_stage
    driver = begun(stage, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 1)")
    period = "TIMESTAMP(6) GENERATED ALWAYS AS ROW"
    for sql in (
        f"ALTER TABLE t ADD s {period} START, ADD e {period} END, ADD PERIOD FOR SYSTEM_TIME (s, e),"
        " ADD SYSTEM VERSIONING",
        "UPDATE t SET v = 2 WHERE id = 1",
        "ALTER TABLE t RENAME COLUMN e TO till",
        "DELETE FROM t WHERE id = 2",
        "INSERT INTO t (id, v) VALUES (3, 3)",
        "ALTER TABLE t DROP COLUMN s, DROP COLUMN till, DROP PERIOD FOR SYSTEM_TIME, DROP SYSTEM VERSIONING",
        "UPDATE t SET v = 5",
    ):
        stage.run(sql)
        if not backlog:
            stage.drain_twice(driver)
            same(stage, driver)
    stage.drain_twice(driver)
    same(stage, driver)


def test_the_end_of_a_period_may_be_excluded(any_stage: Stage) -> None:
    stage = any_stage
    stage.run(
        "CREATE TABLE t (id INT PRIMARY KEY, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START,"
        " e TIMESTAMP(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (s, e), v INT) WITH SYSTEM VERSIONING"
    )
    stage.run("INSERT INTO t (id, v) VALUES (1, 1), (2, 1)")
    driver = stage.driver(exclude=json.dumps({stage.name(): ["s", "e"]}))
    stage.snapshot(driver)
    stage.run("UPDATE t SET v = 2 WHERE id = 1")
    stage.run("DELETE FROM t WHERE id = 2")
    stage.drain_twice(driver)
    assert images_of(stage.name(), driver.log) == [(("id", 1), ("v", 2))]


def test_the_times_of_versions_are_not_in_the_order_of_the_log(any_stage: Stage) -> None:
    """They are when statements began: so versions from before the capture have no place among those since."""
    stage = any_stage
    driver = begun(
        stage,
        "CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING",
        "INSERT INTO t VALUES (1, 1), (2, 1)",
    )
    with closing(connected(stage.server, database=stage.database)) as other:
        cursor = other.cursor()
        cursor.execute("BEGIN")
        cursor.execute("UPDATE t SET v = 2 WHERE id = 1")
        stage.run("UPDATE t SET v = 2 WHERE id = 2")
        other.commit()
    stage.drain_twice(driver)
    logged = [dict(c.after)["id"] for c in sorted(driver.log, key=lambda c: c.seq) if c.op is Op.UPDATE]
    assert logged == [2, 1]
    assert [row[0] for row in stage.run("SELECT id FROM t ORDER BY row_start")] == [1, 2]


def test_partitions_of_the_past(any_stage: Stage) -> None:
    """That the server adds by itself, and that are dropped with what has ended."""
    stage = any_stage
    driver = begun(
        stage,
        "CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING"
        " PARTITION BY SYSTEM_TIME INTERVAL 1 SECOND AUTO PARTITIONS 3",
        "INSERT INTO t VALUES (1, 1), (2, 1)",
    )
    for _ in range(2):
        time.sleep(1.1)
        stage.run("UPDATE t SET v = v + 1")
        stage.drain_twice(driver)
    names = stage.run(
        "SELECT PARTITION_NAME FROM INFORMATION_SCHEMA.PARTITIONS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = 't'"
        " ORDER BY PARTITION_ORDINAL_POSITION", [stage.database],
    )  # fmt: skip
    stage.run(f"ALTER TABLE t DROP PARTITION {names[0][0]}")
    stage.run("DELETE FROM t WHERE id = 1")
    stage.drain_twice(driver)
    same(stage, driver)


def test_a_server_whose_queries_show_the_past(any_stage: Stage) -> None:
    """What is read are current rows, whatever a session would show by default."""
    stage = any_stage
    stage.run("CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING")
    stage.run("CREATE TABLE k (v INT) WITH SYSTEM VERSIONING")
    stage.run("INSERT INTO t VALUES (1, 1)")
    stage.run("INSERT INTO k VALUES (1), (1)")
    stage.run("SET GLOBAL system_versioning_asof = '2001-01-01'")
    try:
        with closing(connected(stage.server, database=stage.database)) as other, other.cursor() as cursor:
            assert cursor.execute("SELECT * FROM t") == 0
        driver = begun(stage)
    finally:
        stage.run("SET GLOBAL system_versioning_asof = DEFAULT")
    same(stage, driver)
    same(stage, driver, "k")


def test_a_table_versioned_by_transactions_is_left_out(any_stage: Stage) -> None:
    """Its changes are logged as text, whatever binlog_format is; other tables are not concerned."""
    stage = any_stage
    columns = ", ".join(f"{name} BIGINT UNSIGNED GENERATED ALWAYS AS ROW {name}" for name in ("start", "end"))
    by_transactions = f"(id INT PRIMARY KEY, {columns}, PERIOD FOR SYSTEM_TIME (start, end)) WITH SYSTEM VERSIONING"
    driver = begun(
        stage,
        f"CREATE TABLE g {by_transactions}",
        "CREATE TABLE t (id INT PRIMARY KEY) WITH SYSTEM VERSIONING",
        "INSERT INTO g (id) VALUES (1)",
        "INSERT INTO t VALUES (1)",
    )
    with connect(ConnectionOptions.from_url(stage.server.url)) as session:
        left_out = uncaptured(session, Selection([f"{stage.database}.*"])).all
    assert "is versioned by transactions" in left_out[stage.name("g")]
    assert driver.offset["tables"].keys() == {stage.name("t")}
    spelled = stage.driver(tables=f"{stage.name('g')},{stage.name('t')}", schemaFolder=f"{stage.folder}-spelled")
    spelled.batch()
    assert "is versioned by transactions" in spelled.offset["tables"][stage.name("g")]["quarantined"]
    spelled.stop()
    begin = stage.position()
    stage.transaction("INSERT INTO g (id) VALUES (2)", "INSERT INTO t VALUES (2)", "UPDATE g SET id = 3 WHERE id = 2")
    stage.run("DELETE FROM g")
    stage.run("DELETE FROM t WHERE id = 1")
    stage.drain_twice(driver)
    same(stage, driver)
    assert not images_of(stage.name("g"), driver.log)
    logged = stage.run(f"SHOW BINLOG EVENTS IN '{begin[0]}' FROM {begin[1]}")
    assert {f"INSERT INTO g (id) VALUES ({n})" for n in (2,)} <= {row[5].partition("; ")[2] for row in logged}


@either
def test_periods_of_an_application_are_columns_like_others(any_stage: Stage, backlog: bool) -> None:
    """FOR PORTION OF changes rows and inserts others: events like any."""
    stage = any_stage
    driver = begun(
        stage,
        "CREATE TABLE t (id INT, v INT, b DATE, e DATE, PERIOD FOR p (b, e), PRIMARY KEY (id, p WITHOUT OVERLAPS))",
        "CREATE TABLE u (v INT, b DATE, e DATE, PERIOD FOR p (b, e)) WITH SYSTEM VERSIONING",
        *(f"INSERT INTO t VALUES ({n}, 0, '2020-01-01', '2021-01-01')" for n in range(4)),
        *(f"INSERT INTO u VALUES ({n}, '2020-01-01', '2021-01-01')" for n in range(4)),
    )
    for table in "tu":
        for sql in (
            "UPDATE {} FOR PORTION OF p FROM '2020-03-01' TO '2020-04-01' SET v = 7 WHERE v < 3",
            "DELETE FROM {} FOR PORTION OF p FROM '2019-03-01' TO '2020-03-15'",
            "DELETE FROM {} FOR PORTION OF p FROM '2020-06-01' TO '2020-07-01' WHERE v = 0",
        ):
            stage.run(sql.format(table))
            if not backlog:
                stage.drain_twice(driver)
    stage.drain_twice(driver)
    same(stage, driver)
    same(stage, driver, "u")
    assert len(stage.images("u")) > 4


def test_images_that_are_not_whole_are_refused(any_stage: Stage) -> None:
    """An image without the end of its period could be anything."""
    stage = any_stage
    driver = begun(
        stage, "CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING", "INSERT INTO t VALUES (1, 1)"
    )
    stage.run("SET SESSION binlog_row_image = MINIMAL")
    stage.run("UPDATE t SET v = 2")
    with pytest.raises(DefiniteError) as caught:
        stage.drain(driver)
    assert caught.value.code is codes.ROW_IMAGE_PARTIAL


@pytest.mark.long
@pytest.mark.parametrize("seed", range(500, 520))
def test_everything_many_times(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    play(any_server, tmp_path, KINDS, seed, session=SESSION)
    kinds = [(VERSIONED, "int"), ("few", "general_ci"), (PERIOD, "bin"), (VERSIONED, UNIQUE, "int")]
    often = {"alter": 0.1, "versioning": 0.1, "replace": 0.03, "create": 0.03}
    play(any_server, tmp_path / "altered", kinds, seed, often, session=SESSION)
