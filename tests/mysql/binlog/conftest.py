"""The shared server's binlog, for a test to write to and to read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from lakehouse_cdc.testing import MySqlServer
from tests.support.binlog_log import Log


@pytest.fixture
def log(mysql: MySqlServer, database: str) -> Iterator[Log]:
    """The log of the server that all tests share; what is opened is closed before the test's database is dropped."""
    with ExitStack() as stack:
        yield Log(mysql, stack)


@pytest.fixture(scope="session")
def plain_server() -> Iterator[MySqlServer]:
    """A server as MySQL ships it: without GTIDs, where a transaction may write to InnoDB and MyISAM."""
    with MySqlServer.start(options={"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"}) as server:
        yield server


@pytest.fixture
def plain_log(plain_server: MySqlServer) -> Iterator[Log]:
    """Its log, with an empty database `d` in use."""
    with ExitStack() as stack:
        log = Log(plain_server, stack)
        log.run("DROP DATABASE IF EXISTS d", "CREATE DATABASE d", "USE d")
        yield log
