"""Errors of tables and rows: made on real servers, and left by what their hints say; other tables notice nothing."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lakehouse_cdc.errors import Code, DefiniteError, TransientError, codes
from lakehouse_cdc.model.changelog import Op, fold
from lakehouse_cdc.model.multiset import remaining
from lakehouse_cdc.mysql.binlog.compression import columns
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.source import retry
from lakehouse_cdc.source.reading import views_of_rows
from lakehouse_cdc.source.requests.set_aside import SetAside
from lakehouse_cdc.source.settling import consistent_view, table_locks
from lakehouse_cdc.source.spark.stream import MySqlCdcSource
from lakehouse_cdc.source.state.planned_configuration import DIGEST
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.versions import MARIADB
from tests.remedies import remedy
from tests.support.servers import row_metadata, start_or_skip
from tests.support.source.binlog_relay import BinlogRelay, replacing
from tests.support.source.driver import COLUMNS, Driver, changes
from tests.support.source.stage import Stage, on_stage
from tests.support.source.ways_out import of, reset, signalled, stopped

pytestmark = pytest.mark.mysql

QUARANTINE = json.dumps({"*.*": "quarantine"})  # nothing is read again by itself


def drained(stage: Stage, driver: Driver) -> list[DefiniteError]:
    """Batches until the end of the log; what failed on the way, and was set aside as a run does it."""
    failures: list[DefiniteError] = []
    while (failure := failed(stage, driver)) is not None:
        assert SetAside(driver.options["schemaFolder"]).note(failure, "one"), failure
        failures.append(failure)
        assert len(failures) < 5, failures
        driver.restart()
    return failures


def failed(stage: Stage, driver: Driver) -> DefiniteError | None:
    """What ends the stream before the end of the log."""
    try:
        stage.drain(driver)
    except DefiniteError as error:
        return error
    return None


def reason(stage: Stage, driver: Driver, code: Code[Any], hint: str, table: str = "t") -> str:
    """Why the table is quarantined: the code and the hint are named."""
    why: str = driver.offset["tables"][stage.name(table)]["quarantined"]
    assert why.startswith(f"{code.label}: ")
    assert hint in why
    return why


def images(stage: Stage, driver: Driver) -> list[dict[str, Any]]:
    """The rows that t comes to."""
    return [dict(image) for (name, _), (_, image) in fold(driver.log).items() if name == stage.name()]


def taken_up(stage: Stage, driver: Driver, why: str, table: str = "t") -> None:
    """After the command in the reason the table is exact again; u was read once, and misses nothing."""
    stage.run("UPDATE u SET v = v + 1")
    signalled(driver, why)
    assert drained(stage, driver) == []
    assert "quarantined" not in driver.offset["tables"][stage.name(table)]
    stage.run("UPDATE u SET v = v + 1")
    stage.drain(driver)
    undisturbed(stage, driver)


def undisturbed(stage: Stage, driver: Driver) -> None:
    """The table u was read once, and misses nothing."""
    stage.same_rows(driver, "u")
    assert sum(c.op is Op.READ for c in driver.log if c.table == stage.name("u")) == 3


# ---------------------------------------------------------------- rows


ROWS = {
    codes.ZERO_DATE: (
        ["SET SESSION sql_mode = ''", "INSERT INTO t (id, d) VALUES (2, '0000-00-00')"],
        "give the row a real date or NULL",
        ["UPDATE t SET d = NULL WHERE id = 2"],
    ),
    codes.INVALID_DATE: (
        ["SET SESSION sql_mode = 'ALLOW_INVALID_DATES'", "INSERT INTO t (id, d) VALUES (2, '2026-02-31')"],
        "give the row a real date or NULL",
        ["UPDATE t SET d = '2026-02-28' WHERE id = 2"],
    ),
    codes.ROW_IMAGE_PARTIAL: (
        ["SET SESSION binlog_row_image = MINIMAL", "UPDATE t SET d = '2026-03-01' WHERE id = 1",
         "SET SESSION binlog_row_image = FULL"],
        "SET GLOBAL binlog_row_image = FULL, and in the sessions that write",
        ["UPDATE t SET d = '2026-03-02' WHERE id = 1"],
    ),
    codes.TABLE_CHANGED: (
        ["SET SESSION sql_log_bin = 0", "ALTER TABLE t ADD COLUMN n INT", "SET SESSION sql_log_bin = 1",
         "INSERT INTO t (id, n) VALUES (2, 2)"],
        "have it read again, as it is now",
        [],
    ),
}  # fmt: skip


@remedy(codes.ZERO_DATE, codes.INVALID_DATE, codes.ROW_IMAGE_PARTIAL, codes.TABLE_CHANGED)
@pytest.mark.parametrize("code", ROWS, ids=lambda code: code.name)
def test_a_row_that_cannot_be_read(any_stage: Stage, code: Code[Any]) -> None:
    stage, (wrong, hint, right) = any_stage, ROWS[code]
    stage.run("CREATE TABLE t (id INT PRIMARY KEY, d DATE, w VARCHAR(20))")
    stage.run("INSERT INTO t VALUES (1, '2026-01-01', 'one'), (3, NULL, 'three')")
    stage.create("u", rows=3)
    driver = stage.driver(onError=QUARANTINE)
    stage.drain(driver)
    for sql in ("UPDATE u SET v = 1", *wrong, "UPDATE u SET v = 2"):
        stage.run(sql)
    [error] = drained(stage, driver)
    assert error.code is code
    undisturbed(stage, driver)
    why = reason(stage, driver, code, hint)
    for sql in right:
        stage.run(sql)
    taken_up(stage, driver, why)
    stage.run("DELETE FROM t WHERE id = 3")
    stage.drain(driver)
    stage.same_rows(driver, "t", "u")


@remedy(codes.TYPE_UNSUPPORTED)
def test_a_type_that_is_not_supported(any_stage: Stage) -> None:
    stage = any_stage
    stage.create("u", rows=3)
    driver = stage.driver(onError=QUARANTINE)
    stage.drain(driver)
    stage.run("CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a') CHARACTER SET binary)")
    stage.run("INSERT INTO t VALUES (1, 'a')")
    assert drained(stage, driver) == []
    hint = f'leave the table out ("!{stage.name()}" under source.tables) or exclude the column'
    why = reason(stage, driver, codes.TYPE_UNSUPPORTED, hint)
    assert "enum('a') character set binary" in why
    driver.options["exclude"] = json.dumps({stage.name(): ["e"]})
    driver.restart()
    taken_up(stage, driver, why)
    assert images(stage, driver) == [{"id": 1}]


@remedy(codes.ZERO_DATE)
@pytest.mark.parametrize("options", [{"zeroDates": "null"}, {"zeroDates": "text"}, {"exclude": '{"*.t": ["d"]}'}])
def test_a_zero_date_that_stays(stage: Stage, options: dict[str, str]) -> None:
    stage.run("CREATE TABLE t (id INT PRIMARY KEY, d DATE)")
    stage.create("u", rows=3)
    driver = stage.driver(onError=QUARANTINE)
    stage.drain(driver)
    stage.run("SET SESSION sql_mode = ''")
    stage.run("INSERT INTO t VALUES (1, '0000-00-00')")
    [error] = drained(stage, driver)
    assert error.code is codes.ZERO_DATE
    why = reason(stage, driver, codes.ZERO_DATE, "or exclude the column; or set zero_dates to null or text")
    driver.options |= options
    driver.restart()
    taken_up(stage, driver, why)
    [held] = images(stage, driver)
    assert held == {"id": 1} | (
        {} if "exclude" in options else {"d": {"null": None}.get(options["zeroDates"], "0000-00-00")}
    )


DAMAGED = {  # a length that is too large, and digits of a decimal that are none
    codes.ROW_MALFORMED: replacing(b"\x06marker", b"\xf0marker"),
    codes.VALUE_MALFORMED: replacing((0x80000000 | 123_456_789).to_bytes(4, "big"), b"\xff\xff\xff\xff"),
}


@remedy(codes.ROW_MALFORMED, codes.VALUE_MALFORMED)
@pytest.mark.parametrize("code", DAMAGED, ids=lambda code: code.name)
def test_a_row_of_other_bytes(stage: Stage, code: Code[Any]) -> None:
    """In a log without checksums."""
    stage.run("CREATE TABLE t (id INT PRIMARY KEY, w VARCHAR(20), n DECIMAL(9, 0))")
    stage.create("u", rows=3)
    stage.run("SET GLOBAL binlog_checksum = NONE")
    try:
        with BinlogRelay(stage.server.port) as relay:
            driver = stage.driver(onError=QUARANTINE, url=f"mysql://cdc@127.0.0.1:{relay.port}")
            stage.drain(driver)
            relay.change = DAMAGED[code]
            stage.run("INSERT INTO t VALUES (1, 'marker', 123456789)")
            stage.run("UPDATE u SET v = 2")
            [error] = drained(stage, driver)
            assert error.code is code
            undisturbed(stage, driver)
            why = reason(stage, driver, code, "have the table read again, as it is now")
            relay.change = None
            taken_up(stage, driver, why)
            stage.same_rows(driver, "t", "u")
    finally:
        stage.run("SET GLOBAL binlog_checksum = CRC32")


# ---------------------------------------------------------------- tables


UNFIT = {
    codes.KEY_UNUSABLE: ("id ENUM('', 'a') PRIMARY KEY", "", "give it labels without the empty one"),
    codes.TABLE_UNSUPPORTED: ("id VARCHAR(9) PRIMARY KEY", "ENGINE = MRG_MYISAM", "ENGINE = InnoDB"),
}


@remedy(codes.KEY_UNUSABLE, codes.TABLE_UNSUPPORTED)
@pytest.mark.parametrize("born", ["before the stream", "in it"])
@pytest.mark.parametrize("code", UNFIT, ids=lambda code: code.name)
def test_a_table_that_cannot_be_captured(any_stage: Stage, code: Code[Any], born: str) -> None:
    stage, (key, more, hint) = any_stage, UNFIT[code]
    stage.create("u", rows=3)
    driver = stage.driver(tables=f"{stage.database}.*,{stage.name()}")
    if born == "in it":
        stage.create()
        stage.drain(driver)
        stage.run("DROP TABLE t")
    stage.run(f"CREATE TABLE t ({key}, v INT) {more}")
    stage.drain(driver)
    why = reason(stage, driver, code, hint)
    statement = re.search(r"ALTER TABLE \S+ ENGINE = InnoDB", why)
    stage.run("ALTER TABLE t MODIFY id ENUM('a', 'b')" if statement is None else statement[0])
    stage.run("INSERT INTO t VALUES ('a', 1)")
    taken_up(stage, driver, why)
    stage.run("UPDATE t SET v = 2")
    stage.drain(driver)
    stage.same_rows(driver, "t", "u")


@remedy(codes.KEY_UNUSABLE)
def test_a_key_that_is_excluded(stage: Stage) -> None:
    stage.create("u", rows=3)
    stage.create("t", rows=3)
    driver = stage.driver(exclude=json.dumps({stage.name(): ["id"]}))
    stage.drain(driver)
    why = reason(stage, driver, codes.KEY_UNUSABLE, "take it out of exclude")
    driver.options["exclude"] = "{}"
    driver.restart()
    taken_up(stage, driver, why)
    stage.same_rows(driver, "t", "u")


@remedy(codes.MASK_UNUSABLE)
@pytest.mark.parametrize("mask", [None, "hash", "excluded"])
def test_a_mask_that_its_column_cannot_have(stage: Stage, mask: str | None) -> None:
    stage.create("u", rows=3)
    stage.run("CREATE TABLE t (id INT PRIMARY KEY, secret VARBINARY(20))")
    stage.run("INSERT INTO t VALUES (1, 'clear')")
    driver = stage.driver(masks=json.dumps({stage.name(): {"secret": {"keep_last": 2}}}))
    stage.drain(driver)
    why = reason(stage, driver, codes.MASK_UNUSABLE, "mask it by null or hash, or exclude it")
    driver.options["masks"] = json.dumps({} if mask == "excluded" else {stage.name(): {"secret": mask}})
    driver.options["exclude"] = json.dumps({stage.name(): ["secret"]} if mask == "excluded" else {})
    driver.options["maskSecret"] = "a salt that nobody knows"
    driver.restart()
    taken_up(stage, driver, why)
    [held] = images(stage, driver)
    assert held["id"] == 1
    assert ("secret" in held, len(held.get("secret") or "")) == (mask != "excluded", 64 if mask == "hash" else 0)


@remedy(codes.LABEL_UNREADABLE)
@pytest.mark.parametrize("label", ["what?", "\N{GRINNING FACE}"])
def test_a_label_that_the_catalog_may_not_show(stage: Stage, label: str) -> None:
    stage.create("u", rows=3)
    stage.run(f"CREATE TABLE t (id INT PRIMARY KEY, e ENUM('{label}', 'b') CHARACTER SET utf8mb4)")
    stage.run(f"INSERT INTO t VALUES (1, '{label}'), (2, 'b')")
    with row_metadata(stage.server, "least"):
        driver = stage.driver(onError=QUARANTINE)
        stage.drain(driver)
        why = reason(stage, driver, codes.LABEL_UNREADABLE, "SET GLOBAL binlog_row_metadata = FULL")
        stage.run("SET GLOBAL binlog_row_metadata = FULL")
        taken_up(stage, driver, why)
        stage.run(f"INSERT INTO t VALUES (3, '{label}')")
        if label == "what?":
            stage.drain(driver)
            stage.same_rows(driver, "t", "u")
            return
        [error] = drained(stage, driver)
        assert error.code is codes.LABEL_UNREADABLE
        why = reason(stage, driver, codes.LABEL_UNREADABLE, "exclude the column")
        driver.options["exclude"] = json.dumps({stage.name(): ["e"]})
        driver.restart()
        taken_up(stage, driver, why)
        held = images(stage, driver)
        assert held == [{"id": 1}, {"id": 2}, {"id": 3}]


@remedy(codes.TABLE_GONE)
@pytest.mark.parametrize("way_out", ["left out", "made again"])
def test_a_table_that_went_in_no_log(stage: Stage, way_out: str) -> None:
    stage.create("u", rows=3)
    stage.create("t", rows=3)
    driver = stage.driver()
    stage.drain(driver)
    stage.run("ALTER TABLE t ADD COLUMN n TIMESTAMP")  # NULL or not: the catalog has to say it
    for sql in ("SET SESSION sql_log_bin = 0", "DROP TABLE t", "SET SESSION sql_log_bin = 1", "UPDATE u SET v = 2"):
        stage.run(sql)
    stage.drain(driver)
    undisturbed(stage, driver)
    why = reason(stage, driver, codes.TABLE_GONE, f'leave it out ("!{stage.name()}" under source.tables)')
    if way_out == "left out":
        driver.options["tables"] = json.dumps([f"{stage.database}.*", f"!{stage.name()}"])
        driver.restart()
        stage.run("UPDATE u SET v = 3")
        stage.drain(driver)
        undisturbed(stage, driver)
        return
    stage.create("t", rows=2, first=100)
    stage.drain(driver)
    taken_up(stage, driver, why)
    stage.same_rows(driver, "t", "u")


@remedy(codes.STATEMENT_NOT_FOLLOWED)
def test_a_masked_table_that_cannot_be_followed_in_a_backlog(stage: Stage) -> None:
    stage.create("u", rows=3)
    stage.run("CREATE TABLE t (id INT PRIMARY KEY, v INT, secret INT)")
    stage.run("INSERT INTO t VALUES (1, 1, 777)")
    driver = stage.driver(masks=json.dumps({stage.name(): {"secret": None}}))
    stage.drain(driver)
    for sql in ("ALTER TABLE t ADD COLUMN total TIMESTAMP", "ALTER TABLE t MODIFY v BIGINT, CHANGE secret hidden INT"):
        stage.run(sql)
    stage.run("UPDATE u SET v = 2")
    stage.drain(driver)
    undisturbed(stage, driver)
    why = reason(stage, driver, codes.STATEMENT_NOT_FOLLOWED, "mask its columns by the names that they have by now")
    driver.options["masks"] = json.dumps({stage.name(): {"hidden": None}})
    driver.restart()
    taken_up(stage, driver, why)
    assert "777" not in str(driver.log)
    [held] = images(stage, driver)
    assert (held["id"], held["v"], held["hidden"]) == (1, 1, None)


# ---------------------------------------------------------------- the whole stream


def exact(stage: Stage, driver: Driver) -> None:
    """The stream continues, and u was read once."""
    stage.run("UPDATE u SET v = v + 1")
    stage.drain(driver)
    undisturbed(stage, driver)
    stage.same_rows(driver, "t", "u")


@remedy(codes.STATEMENT_STOPS_STREAM)
@pytest.mark.parametrize("way_out", ["pass", "on_error", "left out"])
def test_a_statement_at_which_the_stream_stops(any_stage: Stage, way_out: str) -> None:
    stage = any_stage
    for table in "tu":
        stage.create(table, rows=3)
    driver = stage.driver(onError=json.dumps({"*.*": "stop"}))
    stage.drain(driver)
    stage.run("SET SESSION binlog_format = 'STATEMENT'")
    stage.run(f"UPDATE t SET v = 7 WHERE id {'<' if way_out == 'pass' else '>='} 0")
    stage.run("SET SESSION binlog_format = 'ROW'")
    error = stopped(driver, codes.STATEMENT_STOPS_STREAM)
    assert f"set tables.{stage.name()}.on_error to reread or quarantine" in error.hint
    if way_out == "pass":
        signalled(driver, error.hint)
    elif way_out == "on_error":
        driver.options["onError"] = json.dumps({"*.*": "stop", stage.name(): "reread"})
    else:
        driver.options["tables"] = json.dumps([f"{stage.database}.*", f"!{stage.name()}"])
    driver.restart()
    if way_out == "left out":
        stage.run("UPDATE u SET v = 9")
        stage.drain(driver)
        undisturbed(stage, driver)
        return
    exact(stage, driver)


@remedy(codes.SCHEMA_CHANGE_STOPPED)
def test_a_change_that_is_to_stop_the_stream(any_stage: Stage) -> None:
    stage = any_stage
    for table in "tu":
        stage.create(table, rows=3)
    driver = stage.driver(schemaChanges=json.dumps({stage.name(): "stop"}))
    stage.drain(driver)
    stage.run("ALTER TABLE t ADD COLUMN n INT DEFAULT 5")
    error = stopped(driver, codes.SCHEMA_CHANGE_STOPPED)
    assert f"tables.{stage.name()}.schema_changes is stop; make it evolve" in error.hint
    driver.options["schemaChanges"] = json.dumps({stage.name(): "evolve"})
    driver.restart()
    exact(stage, driver)


@remedy(codes.COLUMN_CHOICE_CHANGED)
def test_a_choice_that_is_another_one_than_an_earlier_release_had(stage: Stage) -> None:
    """Its offsets do not say how tables were configured."""
    for table in "tu":
        stage.create(table, rows=3)
    driver = stage.driver(exclude=json.dumps({stage.name(): ["v"]}))
    stage.drain(driver)
    driver.offset = {name: value for name, value in driver.offset.items() if name != DIGEST}
    stage.run("UPDATE t SET v = 7")
    old, driver.options["exclude"] = driver.options["exclude"], "{}"
    driver.restart()
    error = stopped(driver, codes.COLUMN_CHOICE_CHANGED)
    assert "back as they were for one run" in error.hint
    driver.options["exclude"] = old
    driver.restart()
    stage.drain(driver)
    driver.options["exclude"] = "{}"
    driver.restart()
    stage.run("UPDATE t SET v = 8 WHERE id = 10")
    exact(stage, driver)


@remedy(codes.MASK_SALT_CHANGED)
@pytest.mark.parametrize("way_out", ["set back", "the new one"])
def test_another_salt(stage: Stage, way_out: str) -> None:
    for table in "tu":
        stage.create(table, rows=3)
    salt = "a salt that nobody knows"
    driver = stage.driver(masks=json.dumps({stage.name(): {"v": "hash"}}), maskSecret=salt)
    stage.drain(driver)
    before = of(driver)
    old = hashes(stage, driver)
    stage.run("UPDATE u SET v = 7")
    driver.options["maskSecret"] = f"{salt}!"
    driver.restart()
    error = stopped(driver, codes.MASK_SALT_CHANGED)
    assert "Set source.mask_salt back" in error.hint
    if way_out == "set back":
        driver.options["maskSecret"] = salt
        driver.restart()
        stage.drain(driver)
        undisturbed(stage, driver)
        assert hashes(stage, driver) == old
        return
    driver = reset(stage, driver, error.hint, before)
    stage.drain(driver)
    stage.same_rows(driver, "u")
    assert len(hashes(stage, driver)) == 1
    assert not hashes(stage, driver) & old


def hashes(stage: Stage, driver: Driver) -> set[str]:
    """What bronze has of the masked column now."""
    return {image["v"] for image in images(stage, driver)}


@remedy(codes.MASKED_COLUMN_LOST)
def test_a_masked_column_of_a_table_that_was_copied(stage: Stage) -> None:
    stage.create("u", rows=3)
    stage.run("CREATE TABLE t (id INT PRIMARY KEY, secret INT)")
    driver = stage.driver(masks=json.dumps({stage.name(): {"secret": None}}))
    stage.drain(driver)
    stage.run("CREATE TABLE _t_new (id INT PRIMARY KEY, hidden INT)")
    stage.run("INSERT INTO _t_new VALUES (1, 777)")
    stage.run("RENAME TABLE t TO _t_old, _t_new TO t")
    stage.drain(driver)
    undisturbed(stage, driver)
    why = reason(stage, driver, codes.MASKED_COLUMN_LOST, "mask or exclude hidden")
    driver.options["masks"] = json.dumps({stage.name(): {"hidden": None}})
    driver.restart()
    taken_up(stage, driver, why)
    [held] = images(stage, driver)
    assert held == {"id": 1, "hidden": None}


@remedy(codes.ROWS_MISSING)
def test_rows_that_a_later_statement_changed(any_stage: Stage) -> None:
    """Of an as-of read at where the stream is."""
    stage = any_stage
    for table in "tu":
        stage.create(table, rows=3)
    driver = stage.driver()
    stage.drain(driver)

    def read() -> Counter[Any]:
        reader = MySqlCdcSource({**driver.options, "asOf": json.dumps(driver.offset)}).reader(COLUMNS)
        rows = changes(batch for part in reader.partitions() for batch in reader.read(part))
        return Counter(c.after for c in rows if c.table == stage.name() and c.op is Op.READ)

    stage.run("TRUNCATE TABLE t")
    stage.run("INSERT INTO t VALUES (5, 5)")
    with pytest.raises(DefiniteError) as caught:
        read()
    assert caught.value.code is codes.ROWS_MISSING
    assert "when the pipeline has passed that statement" in caught.value.hint
    exact(stage, driver)
    assert read() == stage.images()


@remedy(codes.ROWS_DELAYED)
@pytest.mark.parametrize("any_server", MARIADB, indirect=True)
def test_a_table_that_is_written_by_delayed_inserts(any_stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread is there all the time; and patience is short."""
    stage = any_stage
    monkeypatch.setattr(table_locks, "_PATIENCE", 0.3)
    stage.create("u", rows=3)
    stage.run("CREATE TABLE t (id INT PRIMARY KEY, v INT) ENGINE = MyISAM")
    stage.run("INSERT DELAYED INTO t VALUES (1, 1)")
    driver = stage.driver()
    assert {failure.code for failure in drained(stage, driver)} == {codes.ROWS_DELAYED}
    why = reason(stage, driver, codes.ROWS_DELAYED, "FLUSH TABLES ends the thread")
    [(limit,)] = stage.run("SELECT @@GLOBAL.max_delayed_threads")
    stage.run("SET GLOBAL max_delayed_threads = 0")
    try:
        stage.run("FLUSH TABLES")
        taken_up(stage, driver, why)
        stage.run("INSERT DELAYED INTO t VALUES (2, 2)")
        stage.drain(driver)
        stage.same_rows(driver, "t", "u")
    finally:
        stage.run(f"SET GLOBAL max_delayed_threads = {limit}")


@remedy(codes.TABLE_DAMAGED)
@pytest.mark.parametrize("key", ["PRIMARY KEY (id)", "KEY (id)"])
def test_a_table_of_which_the_file_is_damaged(any_server: MySqlServer, tmp_path: Path, key: str) -> None:
    with start_or_skip(any_server.version, tmp_path / "server") as server:
        for stage in on_stage(server, "own", tmp_path):
            stage.create("u", rows=3)
            stage.run(f"CREATE TABLE t (id INT NOT NULL, v INT, {key}) ENGINE = MyISAM")
            stage.run(f"INSERT INTO t VALUES {', '.join(f'({n}, 0)' for n in range(200))}")
            stage.run("FLUSH TABLES t")
            file = server.directory / "data" / "own" / "t.MYD"
            file.write_bytes(file.read_bytes()[:1000])
            driver = stage.driver(chunkRows="1000")
            assert {failure.code for failure in drained(stage, driver)} == {codes.TABLE_DAMAGED}
            why = reason(stage, driver, codes.TABLE_DAMAGED, "REPAIR TABLE")
            stage.run("REPAIR TABLE t")
            taken_up(stage, driver, why)
            stage.run("INSERT INTO t VALUES (1000, 1)")
            stage.drain(driver)
            mine = [change for change in driver.log if change.table == stage.name()]
            left = Counter(image for _, image in fold(mine).values()) if "PRIMARY" in key else remaining(mine)
            assert left == stage.images()


@remedy(codes.KEYLESS_TABLE_BUSY)
@pytest.mark.parametrize("way_out", ["a pause", "a primary key"])
def test_a_table_without_a_key_that_is_written_all_the_time(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, way_out: str
) -> None:
    """Whenever a view of it is made; and patience is short."""
    monkeypatch.setattr(views_of_rows, "_PATIENCE", 0.3)
    monkeypatch.setattr(retry, "_WAITS", ())
    stage.create("u", rows=3)
    stage.run("CREATE TABLE t (a INT NOT NULL)")
    busy = True

    def place(schema: TableSchema) -> str:
        if busy:
            stage.run("INSERT INTO t VALUES (1)")
        return f"`{schema.database}`.`{schema.table}`"

    monkeypatch.setattr(consistent_view, "place", place)
    driver = stage.driver(settleSeconds="0.1")
    for _ in range(2):
        with pytest.raises(TransientError) as caught:
            driver.batches(5)
        assert caught.value.code is codes.KEYLESS_TABLE_BUSY
        driver.restart()
    assert "let its writers rest for a moment, give it a primary key" in caught.value.hint
    if way_out == "a pause":
        busy = False
    else:
        stage.run("ALTER TABLE t ADD COLUMN id INT AUTO_INCREMENT PRIMARY KEY")
    stage.drain(driver)
    stage.run("UPDATE u SET v = 9")
    stage.run("DELETE FROM t LIMIT 1")
    stage.drain(driver)
    undisturbed(stage, driver)
    if way_out == "a pause":
        assert remaining(c for c in driver.log if c.table == stage.name()) == stage.images()
    else:
        stage.same_rows(driver, "t")


@remedy(codes.BINLOG_TOO_LARGE)
@pytest.mark.parametrize("any_server", ["mariadb-11"], indirect=True)
def test_compressed_columns_that_are_too_large_together(any_stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a limit of 1 MiB, in place of what memory holds."""
    monkeypatch.setattr(columns, "LARGEST", 1 << 20)
    stage = any_stage
    stage.create("u", rows=3)
    stage.run("CREATE TABLE t (id INT PRIMARY KEY, w LONGTEXT COMPRESSED)")
    driver = stage.driver()
    stage.drain(driver)
    stage.run("INSERT INTO t VALUES (1, REPEAT('x', 3000000))")
    error = stopped(driver, codes.BINLOG_TOO_LARGE)
    assert "Exclude the large columns (tables.NAME.exclude)" in error.hint
    driver.options["exclude"] = json.dumps({stage.name(): ["w"]})
    driver.restart()
    stage.run("UPDATE u SET v = 9")
    stage.drain(driver)
    undisturbed(stage, driver)
    assert fold(driver.log)[stage.name(), (("id", 1),)][1] == (("id", 1),)
