"""The stream is exact under every option that changes what a server writes to its binlog, and how."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakehouse_cdc.testing.versions import Version
from tests.support.servers import start_or_skip
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage, on_stage

pytestmark = pytest.mark.every_server

_MARIADB: tuple[Version, ...] = ("mariadb-10.11", "mariadb-11")
_MYSQL: tuple[Version, ...] = ("mysql-5.7", "mysql-8.0", "mysql-9")
# what a running server may be set to, by server: global variables
_SETTINGS: dict[str, tuple[tuple[Version, ...], dict[str, str]]] = {
    "rows query": (_MYSQL, {"binlog_rows_query_log_events": "ON"}),
    "compressed": (("mysql-8.0", "mysql-9"), {"binlog_transaction_compression": "ON"}),
    "partial": (("mysql-8.0", "mysql-9"), {"binlog_row_value_options": "PARTIAL_JSON"}),
    "no checksum": ((*_MYSQL, *_MARIADB), {"binlog_checksum": "NONE"}),
    "write sets": (("mysql-8.0",), {"binlog_transaction_dependency_tracking": "WRITESET"}),
    "events compressed": (_MARIADB, {"log_bin_compress": "ON", "log_bin_compress_min_len": "10"}),
    "not annotated": (_MARIADB, {"binlog_annotate_row_events": "OFF"}),
    "two-phase ALTER": (_MARIADB, {"binlog_alter_two_phase": "ON"}),
    "small cache": ((*_MYSQL, *_MARIADB), {"binlog_cache_size": "4096"}),
    "large commits": (("mariadb-11",), {"binlog_cache_size": "4096", "binlog_large_commit_threshold": "10485760"}),
}
_CASES = [(name, version) for name, (versions, _) in _SETTINGS.items() for version in versions]


def workload(stage: Stage, rng: random.Random, driver: Driver, *, live: bool) -> None:
    """Transactions of several statements, large ones, key updates, rollbacks, DDL, and statements about tables."""
    document = "JSON_OBJECT('k', n)" if stage.server.version not in _MARIADB else "CONCAT('{\"k\": ', n, '}')"
    for step in range(4):
        stage.transaction(
            f"INSERT INTO t (id, n, doc) SELECT id + {1000 * (step + 1)}, n + 1, {document} FROM t WHERE id < 1000",
            f"UPDATE t SET n = n + 1, doc = {document} WHERE id % {rng.randrange(2, 5)} = 0",
            "SAVEPOINT s", "DELETE FROM t", "ROLLBACK TO s",
            f"UPDATE t SET id = id + 100000 WHERE id % 7 = {step}",
        )  # fmt: skip
        stage.transaction(f"INSERT INTO t (id, n) VALUES ({500_000 + step}, 1)")
        stage.run("INSERT INTO t (id, n, more) SELECT id + 1000000, n, REPEAT('x', 3000) FROM t WHERE id < 2000")
        stage.run("UPDATE t SET more = REPEAT('y', 4000) WHERE more IS NOT NULL")
        stage.run("DELETE FROM t WHERE id >= 1000000")
        stage.run(f"ALTER TABLE t ADD COLUMN c{step} INT DEFAULT {step}")
        stage.run("REPAIR TABLE t")
        stage.run("ANALYZE TABLE t")
        stage.run("FLUSH BINARY LOGS")
        if live:
            stage.drain(driver)


def exact(stage: Stage, seed: int) -> None:
    """Live and as a backlog."""
    kind = "LONGTEXT" if stage.server.version in _MARIADB else "JSON"
    for live in (True, False):
        stage.run("DROP TABLE IF EXISTS t")
        stage.run(f"CREATE TABLE t (id INT PRIMARY KEY, n INT, doc {kind}, more TEXT)")
        stage.run(f"INSERT INTO t (id, n) VALUES {', '.join(f'({i}, {i})' for i in range(60))}")
        driver = stage.driver(chunkRows="1000", schemaFolder=str(stage.folder / str(live)))
        stage.snapshot(driver)
        workload(stage, random.Random(seed), driver, live=live)
        stage.drain(driver)
        stage.same(driver)


@contextmanager
def settings(stage: Stage, wanted: dict[str, str]) -> Iterator[None]:
    """A server with these, for sessions that begin from then on and for the stage's own."""
    before = {name: stage.run(f"SELECT @@GLOBAL.{name}")[0][0] for name in wanted}
    try:
        for name, value in wanted.items():
            stage.run(f"SET GLOBAL {name} = {value!r}" if not value.isdigit() else f"SET GLOBAL {name} = {value}")
        stage.connection.connect()
        stage.connection.select_db(stage.database)
        yield
    finally:
        for name, value in before.items():
            stage.run(f"SET GLOBAL {name} = {value if isinstance(value, int) else repr(value)}")


@pytest.mark.long
@pytest.mark.parametrize(("name", "any_server"), _CASES, indirect=["any_server"])
def test_every_setting(any_stage: Stage, name: str, seed: int) -> None:
    with settings(any_stage, _SETTINGS[name][1]):
        exact(any_stage, seed)


_AT_START: tuple[tuple[tuple[Version, ...], dict[str, str]], ...] = (
    (("mysql-5.7", "mysql-8.0"), {"log_bin_use_v1_row_events": "ON"}),
    (_MYSQL, {"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"}),
    (_MYSQL, {"binlog_order_commits": "OFF"}),
    ((*_MYSQL, *_MARIADB), {"binlog_row_event_max_size": "256"}),
    (_MARIADB, {"binlog_checksum": "NONE", "binlog_row_metadata": "MINIMAL"}),
)
_STARTED = [(version, options) for versions, options in _AT_START for version in versions]


@pytest.mark.long
@pytest.mark.parametrize(("version", "options"), _STARTED, ids=str)
def test_every_option_of_a_start(version: Version, options: dict[str, str], tmp_path: Path, seed: int) -> None:
    server = start_or_skip(version, options=options)
    try:
        for stage in on_stage(server, "options", tmp_path):
            exact(stage, seed)
    finally:
        server.stop()


@pytest.mark.long
@pytest.mark.parametrize("any_server", ["mysql-9"], indirect=True)
def test_tagged_gtids(any_stage: Stage, seed: int) -> None:
    any_stage.run("SET SESSION gtid_next = 'AUTOMATIC:tag_a'")
    exact(any_stage, seed)
    any_stage.run("SET SESSION gtid_next = 'AUTOMATIC'")


@pytest.mark.parametrize("live", [True, False])
def test_statements_about_tables_change_nothing(any_stage: Stage, live: bool) -> None:
    stage = any_stage
    stage.create(rows=3)
    driver = stage.driver()
    stage.snapshot(driver)
    for statement in ("REPAIR TABLE t", "OPTIMIZE TABLE t", "CHECK TABLE t", "ANALYZE TABLE t", "REPAIR TABLE t QUICK"):
        stage.run("UPDATE t SET v = v + 1")
        stage.run(statement)
        if live:
            stage.drain(driver)
    stage.drain(driver)
    stage.same(driver)
    assert not any(change.op.value == "r" for change in driver.log[4:])
