"""Real servers for the whole suite, started once and only when a test asks for one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pymysql
import pytest
from hypothesis import HealthCheck, settings
from pyspark.sql import SparkSession

from lakehouse_cdc.runtime.session import BRIEF, local_session
from lakehouse_cdc.testing import VERSIONS, MySqlServer, Version
from lakehouse_cdc.workers.launcher import programs
from tests.servers import new_database, start_or_skip

# how long an example takes is the machine's affair
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture(scope="session")
def mysql() -> Iterator[MySqlServer]:
    """A running MySQL server with GTIDs on, shared by all tests: write into a database of your own (`database`)."""
    with MySqlServer.start() as server:
        yield server


@pytest.fixture
def mysql_client(mysql: MySqlServer) -> Iterator[pymysql.Connection[Any]]:
    """A root connection to the shared server, in autocommit, closed after the test."""
    with closing(mysql.connect(autocommit=True)) as connection:
        yield connection


@pytest.fixture
def database(mysql: MySqlServer) -> Iterator[str]:
    """The name of a new, empty database on the shared server, dropped after the test."""
    with new_database(mysql) as name:
        yield name


@pytest.fixture(scope="session")
def other_servers() -> Iterator[dict[Version, MySqlServer]]:
    """The shared servers besides `mysql` that some test has asked for by `any_server` so far."""
    started: dict[Version, MySqlServer] = {}
    yield started
    for server in started.values():
        server.stop()


@pytest.fixture(params=VERSIONS)
def any_server(request: pytest.FixtureRequest, other_servers: dict[Version, MySqlServer]) -> MySqlServer:
    """Each server in turn, started once and shared by all tests (8.0 is `mysql`): write into `any_database`."""
    version: Version = request.param
    if version == "mysql-8.0":
        mysql: MySqlServer = request.getfixturevalue("mysql")
        return mysql
    if version not in other_servers:
        other_servers[version] = start_or_skip(version)
    return other_servers[version]


@pytest.fixture
def any_database(any_server: MySqlServer) -> Iterator[str]:
    """The name of a new, empty database on `any_server`, dropped after the test."""
    with new_database(any_server) as name:
        yield name


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local Spark session with Delta, two tasks at once, shared by all tests."""
    session = local_session("tests", cores=2, conf=BRIEF, python=programs())
    yield session
    session.stop()


@pytest.fixture
def seed() -> int:
    """One at random: a whole history is made from it. Pytest shows it where the test fails."""
    drawn = random.SystemRandom().getrandbits(32)
    print(f"seed {drawn}")
    return drawn
