"""MariaDB's COMPRESSED columns through the source: however sessions compress them, whatever the log says of them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from string import ascii_letters

import pytest

from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.mysql.binlog.compression import columns
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.versions import MARIADB
from tests.support.source.stage import Stage, on_stage

pytestmark = pytest.mark.parametrize("any_server", MARIADB, indirect=True)

SESSIONS = (
    "column_compression_threshold = 100",
    "column_compression_zlib_wrap = 1",
    "column_compression_zlib_wrap = 0, SESSION column_compression_zlib_level = 1",
    "column_compression_threshold = 0, SESSION column_compression_zlib_strategy = HUFFMAN_ONLY",
    "column_compression_zlib_level = 0",
)


@pytest.fixture
def stage(any_server: MySqlServer, any_database: str, tmp_path: Path) -> Iterator[Stage]:
    for stage in on_stage(any_server, any_database, tmp_path):
        yield stage
        stage.run("SET GLOBAL binlog_row_metadata = FULL, log_bin_compress = OFF, log_bin_compress_min_len = DEFAULT")


@pytest.fixture
def heads(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """How the values were stored that have been inflated: empty, as they are, in zlib's frame, raw."""
    found: set[int] = set()
    plain = columns._inflated

    def noted(value: memoryview, most: int) -> bytes | memoryview | None:
        found.add(value[0] & 0xF8 if value else -1)
        return plain(value, most)

    monkeypatch.setattr(columns, "_inflated", noted)
    return found


@pytest.mark.parametrize("metadata", ["NO_LOG", "MINIMAL", "FULL"])
def test_bronze_is_the_source(stage: Stage, metadata: str, heads: set[int]) -> None:
    """A snapshot among the writes, then the binlog, half of it in compressed events."""
    stage.run(
        "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(300) COMPRESSED CHARACTER SET latin1, n INT UNSIGNED,"
        " b MEDIUMBLOB COMPRESSED, p TEXT, c VARCHAR(300) COMPRESSED CHARACTER SET utf16, e ENUM('x', 'y'))"
    )
    stage.run(f"SET GLOBAL binlog_row_metadata = {metadata}")
    for i in range(12):
        stage.run("INSERT INTO t VALUES (%s, REPEAT('ab', %s), 1, NULL, 'p', REPEAT('é😀', %s), 'y')", (i, i * 12, i))
    driver = stage.driver()
    assert driver.batch()
    for i, session in enumerate(SESSIONS):
        stage.run(f"SET SESSION {session}")
        stage.run(f"SET GLOBAL log_bin_compress = {i % 2}, log_bin_compress_min_len = 10")
        stage.run("UPDATE t SET b = REPEAT(UNHEX(SHA1(id + n)), 20 * id), n = n + 1 WHERE id < 100")
        stage.run(f"UPDATE t SET a = CONCAT('é', REPEAT('x', 20 * id)), c = NULL WHERE id < 100 AND id % 3 = {i % 3}")
        stage.transaction(
            f"UPDATE t SET id = id + 100, c = RPAD(a, 150, 'é') WHERE id = {i}",
            f"INSERT INTO t VALUES ({200 + i}, '', 7, '', '', '', 'x'), ({300 + i}, NULL, 7, NULL, '', NULL, NULL)",
            f"DELETE FROM t WHERE id = {300 + i}",
        )
        assert driver.batch(between=lambda: None)
    stage.snapshot(driver)
    stage.run("UPDATE t SET a = REPEAT('é', 300), b = REPEAT('z', 70000), c = REPEAT('😀', 100)")
    stage.drain(driver)
    stage.same(driver)
    assert len(stage.images()) == 12 + len(SESSIONS)
    assert heads == {-1, 0, 0x80, 0x88}


@pytest.mark.parametrize("change", ["MODIFY n BIGINT", "FORCE, ALGORITHM = COPY"])
def test_values_that_the_server_cuts_as_it_copies_the_table(stage: Stage, change: str) -> None:
    """Without strict mode it cuts those that do not become smaller, whatever the statement is about."""
    stage.run("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(300) COMPRESSED CHARACTER SET utf8mb4, n INT)")
    text = "".join(random.Random(1).choices(ascii_letters, k=300))
    stage.run("INSERT INTO t VALUES (1, %s, 1), (2, 'short', 2)", (text,))
    driver = stage.driver()
    stage.snapshot(driver)
    stage.run("SET SESSION sql_mode = ''")
    stage.run(f"ALTER TABLE t {change}")
    stage.run("UPDATE t SET n = 3 WHERE id = 2")
    stage.drain(driver)
    stage.same(driver)


def test_columns_may_be_excluded(stage: Stage) -> None:
    stage.run("CREATE TABLE t (id INT PRIMARY KEY, c VARCHAR(99) COMPRESSED, b BLOB COMPRESSED, v VARCHAR(9))")
    name = f"{stage.database}.*"
    drivers = {left_out: stage.driver(exclude=json.dumps({name: list(left_out)})) for left_out in ("c", "cb")}
    values = "REPEAT('x', 99), REPEAT('x', 9999)"
    stage.run(f"INSERT INTO t VALUES (1, {values}, 'read')")
    for driver in drivers.values():
        stage.snapshot(driver)
    stage.run(f"INSERT INTO t VALUES (2, {values}, 'logged')")
    for left_out, driver in drivers.items():
        stage.drain(driver)
        found = [dict(change.after) for change in driver.log if change.op in (Op.READ, Op.INSERT)]
        assert [image["v"] for image in found] == ["read", "logged"]
        assert [image.get("b") for image in found] == [None if "b" in left_out else b"x" * 9999] * 2
        assert not {*left_out} & found[0].keys()


def test_each_table_map_says_how_its_rows_are_stored(stage: Stage) -> None:
    """A column that becomes COMPRESSED, or plain again, behind the log's back has the values that it had."""
    stage.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(255) CHARACTER SET latin1)")
    driver = stage.driver()
    stage.snapshot(driver)
    for i, declared in enumerate(("COMPRESSED", "", "COMPRESSED")):
        stage.run(f"INSERT INTO t VALUES ({i}, REPEAT('x', 255))")
        stage.run("SET SESSION sql_log_bin = 0")
        stage.run(f"ALTER TABLE t MODIFY v VARCHAR(255) {declared} CHARACTER SET latin1")
        stage.run("SET SESSION sql_log_bin = 1")
        stage.run(f"UPDATE t SET v = REPEAT('y', 255 - {i})")
    stage.drain(driver)
    stage.same(driver)
