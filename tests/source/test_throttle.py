"""A snapshot gives way to a server that is loaded, comes to its end all the same, and changes are followed as ever."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from threading import Thread
from typing import Any

import pymysql
import pytest

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.mysql import server
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, connect
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.planning.throttle import Throttle
from lakehouse_cdc.testing import MySqlServer
from tests.support.servers import connected
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage

_SLEEPERS = 20


def running(stage: Stage) -> int:
    with closing(connect(ConnectionOptions.from_url(stage.server.url))) as session:
        return server.threads_running(session)


def limit(stage: Stage) -> str:
    """More threads than are in a command now, some of them of earlier tests, and fewer than when it is busy."""
    return str(running(stage) + _SLEEPERS // 2)


@contextmanager
def busy(stage: Stage) -> Iterator[None]:
    """So many threads more in a command."""
    before = running(stage)
    with ExitStack() as stack:
        for _ in range(_SLEEPERS):
            connection = stack.enter_context(closing(stage.server.connect()))
            thread: int = connection.thread_id()  # type: ignore[no-untyped-call]

            def work(run: Callable[[str], object] = connection.query) -> None:
                with suppress(pymysql.err.OperationalError):  # interrupted
                    run("SELECT SLEEP(600)")

            sleeper = Thread(target=work)
            sleeper.start()
            stack.callback(sleeper.join)
            stack.callback(stage.run, f"KILL QUERY {thread}")
        until = time.monotonic() + 10
        while running(stage) < before + _SLEEPERS * 3 // 4:
            assert time.monotonic() < until
        yield


def in_a_snapshot(stage: Stage, driver: Driver) -> int:
    """Batches of the snapshot; in each of them a change, which must not wait for it."""
    batches = 0
    while not batches or not all(state["done"] for state in driver.offset["tables"].values()):
        stage.run("UPDATE t SET v = v + 1 WHERE id = 0")
        at = stage.position()
        assert driver.batch()
        assert (driver.offset["file"], driver.offset["pos"]) == at
        batches += 1
        assert batches < 60
    return batches


@pytest.mark.one_server
def test_a_loaded_server_gives_one_chunk_at_a_time(any_stage: Stage) -> None:
    stage = any_stage
    stage.create(rows=23)  # five chunks
    limits: dict[str, Any] = {"chunksPerTrigger": "3", "maxThreadsRunning": limit(stage), "planSeconds": "0.1"}
    loaded = stage.driver(**limits)
    quiet = stage.driver(**limits, schemaFolder=f"{stage.folder}/2", serverIds="6000-6999")
    with busy(stage):
        assert in_a_snapshot(stage, loaded) == 5
    assert in_a_snapshot(stage, quiet) == 2
    for driver in (loaded, quiet):
        stage.drain(driver)
        stage.same(driver)


def test_it_waits_until_the_server_has_time(stage: Stage) -> None:
    options = SourceOptions.parse(stage.options(maxThreadsRunning=limit(stage), planSeconds="600"))
    now, load = [0.0], ExitStack()

    def sleep(seconds: float) -> None:
        now[0] += seconds
        if now[0] > 3:
            load.close()

    with connect(options.connection) as session, load:
        load.enter_context(busy(stage))
        assert Throttle(options, lambda: now[0], sleep).chunks(session, 7) == 7
        assert 3 < now[0] < 600
        waited = now[0]
        assert Throttle(options, lambda: now[0], sleep).chunks(session, 7) == 7
        assert now[0] == waited


def test_a_limit_for_the_lag_of_no_replica_is_refused(any_stage: Stage) -> None:
    any_stage.create(rows=3)
    with pytest.raises(DefiniteError, match="it is no replica"):
        any_stage.driver(maxReplicaLagSeconds="5").batch()


def test_a_replica_that_does_not_replicate_counts_as_loaded(any_stage: Stage) -> None:
    options = SourceOptions.parse(any_stage.options(maxReplicaLagSeconds="5", planSeconds="0.1"))
    new = any_stage.server.version in ("mysql-8.0", "mysql-9")
    said = "CHANGE REPLICATION SOURCE TO SOURCE_HOST" if new else "CHANGE MASTER TO MASTER_HOST"
    any_stage.run(f"{said} = '127.0.0.1'")
    try:
        with connect(ConnectionOptions.from_url(any_stage.server.url)) as session:
            assert server.replica_lags(session) == [None]
            assert Throttle(options, time.monotonic).chunks(session, 7) == 1
    finally:
        any_stage.run("RESET REPLICA ALL" if new else "RESET SLAVE ALL")


def test_the_lag_of_a_replica_is_what_it_says(stage: Stage) -> None:
    """A replica that is held back by a delay of an hour, and then by none."""
    stage.create()
    file, pos = stage.position()
    stage.run("INSERT INTO t VALUES (1, 1)")
    with (
        MySqlServer.start(version="mysql-8.0", options={"server_id": "2"}) as replica,
        closing(connected(replica)) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(f"CREATE DATABASE {stage.database}")
        cursor.execute(f"CREATE TABLE {stage.database}.t (id INT PRIMARY KEY, v INT)")
        cursor.execute(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {stage.server.port},"
            f" SOURCE_USER = 'root', SOURCE_LOG_FILE = '{file}', SOURCE_LOG_POS = {pos}, SOURCE_DELAY = 3600,"
            " GET_SOURCE_PUBLIC_KEY = 1"
        )
        cursor.execute("START REPLICA")
        options = SourceOptions.parse({**stage.options(maxReplicaLagSeconds="1", planSeconds="0.1")})
        with connect(ConnectionOptions.from_url(replica.url)) as session:
            until = time.monotonic() + 60
            while server.replica_lags(session)[0] in (None, 0, 1):
                assert time.monotonic() < until
                time.sleep(0.2)
            assert Throttle(options, time.monotonic).chunks(session, 7) == 1
            for sql in ("STOP REPLICA", "CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 0", "START REPLICA"):
                cursor.execute(sql)
            while server.replica_lags(session) != [0]:
                assert time.monotonic() < until
                time.sleep(0.2)
            assert Throttle(options, time.monotonic).chunks(session, 7) == 7
            cursor.execute("STOP REPLICA")
