"""A replica that takes the source's place: a stream that reaches it names what the replica lacks."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lakehouse_cdc.errors import codes
from lakehouse_cdc.testing.versions import Version
from tests.support.servers import connected, start_or_skip
from tests.support.source.stage import on_stage
from tests.support.source.ways_out import stopped

pytestmark = pytest.mark.mysql


def follow(version: Version, port: int, execute: Callable[..., Any]) -> None:
    """Make a replica, by GTID."""
    if version.startswith("mariadb"):
        execute(
            f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, MASTER_USER = 'root',"
            " MASTER_USE_GTID = slave_pos"
        )
    else:
        execute(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {port}, SOURCE_USER = 'root',"
            " SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1"
        )


@pytest.mark.parametrize(
    "version",
    ["mysql-8.0", *(pytest.param(one, marks=pytest.mark.long) for one in ("mysql-9", "mariadb-10.11", "mariadb-11"))],
)
def test_a_replica_that_was_promoted(version: Version, tmp_path: Path) -> None:
    mariadb = version.startswith("mariadb")
    options = {"log_slave_updates": "ON"} if mariadb else {"gtid_mode": "ON", "enforce_gtid_consistency": "ON"}
    with (
        start_or_skip(version, options=options) as source,
        start_or_skip(version, options={**options, "server_id": "2"}) as replica,
        closing(connected(replica)) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("RESET MASTER" if version != "mysql-9" else "RESET BINARY LOGS AND GTIDS")
        word = "SLAVE" if mariadb else "REPLICA"
        for stage in on_stage(source, "moved", tmp_path):
            stage.create(rows=3)
            driver = stage.driver()
            stage.snapshot(driver)
            follow(version, source.port, cursor.execute)
            cursor.execute(f"START {word}")
            until = time.monotonic() + 60
            while not has_rows(cursor, 3):
                assert time.monotonic() < until
                time.sleep(0.2)
            cursor.execute(f"STOP {word}")
            stage.run("INSERT INTO t VALUES (1, 1)")
            stage.run("INSERT INTO t VALUES (2, 2)")
            stage.drain(driver)
            driver.options["url"] = replica.url.replace("root", "cdc")
            driver.options["password"] = "cdc-secret"
            driver.restart()
            error = stopped(driver, codes.SERVER_REPLACED)
            assert "which bronze holds" in error.what
            last = driver.offset["last_gtid"]
            assert (last if mariadb else last.rpartition(":")[2]) in error.what
            cursor.execute(f"START {word}")
            while not has_rows(cursor, 5):
                assert time.monotonic() < until
                time.sleep(0.2)
            error = stopped(driver, codes.SERVER_REPLACED)
            assert "it has executed all that bronze holds" in error.what
            cursor.execute(f"STOP {word}")


def has_rows(cursor: Any, count: int) -> bool:
    """Whether the replica has so many rows."""
    try:
        cursor.execute("SELECT COUNT(*) FROM moved.t")
    except Exception:
        return False
    return bool(cursor.fetchone()[0] >= count)
