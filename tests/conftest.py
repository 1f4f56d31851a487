"""Real servers for the whole suite, started once and only when a test asks for one."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable, Generator, Iterable, Iterator, Set
from contextlib import ExitStack, closing
from functools import cache
from typing import Any
from unittest.mock import patch

import pymysql
import pytest
from hypothesis import HealthCheck, settings
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lakehouse_cdc.model.place import Kind
from lakehouse_cdc.runtime.object_store import session_jars, session_settings
from lakehouse_cdc.runtime.session import BRIEF, local_session
from lakehouse_cdc.testing import VERSIONS, MySqlServer, Version
from lakehouse_cdc.workers.launcher import programs
from tests.support.servers import connected, new_database, start_or_skip
from tests.support.store_emulators import EMULATORS, Emulator, installed

# how long an example takes is the machine's affair. `--hypothesis-profile thorough` takes twenty times as many examples
for name, examples in (("brief", 100), ("thorough", 2_000)):
    settings.register_profile(name, max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("brief")


@pytest.fixture(scope="session")
def mysql() -> Iterator[MySqlServer]:
    """A running MySQL server with GTIDs on, shared by all tests: write into a database of your own (`database`)."""
    with MySqlServer.start() as server:
        yield server


@pytest.fixture
def mysql_client(mysql: MySqlServer) -> Iterator[pymysql.Connection[Any]]:
    """A root connection to the shared server, in autocommit, closed after the test."""
    with closing(connected(mysql)) as connection:
        yield connection


@pytest.fixture
def database(mysql: MySqlServer) -> Iterator[str]:
    """The name of a new, empty database on the shared server, dropped after the test."""
    with new_database(mysql) as name:
        yield name


@pytest.fixture
def run(mysql_client: pymysql.Connection[Any], database: str) -> Callable[..., None]:
    """`run(*statements)` in the test's own database."""

    def execute(*statements: str) -> None:
        with mysql_client.cursor() as cursor:
            cursor.execute(f"USE {database}")
            for sql in statements:
                cursor.execute(sql)

    return execute


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


# a test's queries read a few rows: to generate code for each, and to plan again between stages, takes a third of the
# time and finds nothing about this package. Commands that tests start as processes, and `--production-spark`, do both
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A local Spark session with Delta, two tasks at once, shared by all tests; it could reach S3, too.

    And stores of other kinds, where there are emulators of them.
    """
    conf = BRIEF if request.config.getoption("--production-spark") else BRIEF | INTERPRETED
    kinds: list[Kind] = ["s3", *(one.kind for one in installed())]
    for kind in kinds:
        conf = {**conf, **session_settings(kind)}
    jars = [jar for kind in kinds for jar in session_jars(kind)]
    session = local_session("tests", cores=2, conf=conf, python=programs(), jars=jars)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def emulators() -> Iterator[Callable[[str], Emulator]]:
    """That of a name, started once, where it is installed: each test has a bucket of its own."""
    with ExitStack() as stack:

        @cache
        def started(name: str) -> Emulator:
            made = EMULATORS[name]
            if not made.path():
                pytest.skip(made.lacking())
            return stack.enter_context(made())

        yield started


@pytest.fixture(params=EMULATORS)
def emulator(request: pytest.FixtureRequest, emulators: Callable[[str], Emulator]) -> Emulator:
    """Each emulator of a store in turn."""
    return emulators(request.param)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--seed N`: the random history of a test that failed, once more. `--production-spark`: as users start Spark."""
    parser.addoption("--seed", type=int, default=None, help="the seed of every random history, as a failure printed it")
    parser.addoption("--production-spark", action="store_true", help="generated code and adaptive plans, as in a run")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """How many processes test at once: unit tests take a core each, the others often wait for servers and Spark."""
    return os.cpu_count() or 1 if config.getoption("markexpr") == "unit" else 3


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A random number from which a whole history is made; a failing test prints it, and `--seed` sets it."""
    given: int | None = request.config.getoption("--seed")
    drawn = random.SystemRandom().getrandbits(32) if given is None else given
    print(f"seed {drawn}")
    return drawn


# the default suite tests what depends on the server on all of them (`every_server`), and the rest on one of each kind
MAIN_VERSIONS = ("mysql-8.0", "mariadb-11")


def versions_of(item: pytest.Item) -> set[str]:
    """The servers that a test's parameters name."""
    callspec = getattr(item, "callspec", None)
    return set() if callspec is None else {v for v in callspec.params.values() if isinstance(v, str)} & set(VERSIONS)


def versions_by_default(item: pytest.Item) -> Set[str]:
    """The servers that the default suite runs a test on."""
    if item.get_closest_marker("one_server"):
        return {"mysql-8.0"}
    return {*(VERSIONS if item.get_closest_marker("every_server") else MAIN_VERSIONS)}


def beyond_one_server(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """What the default suite leaves out of tests with other parameters than the server.

    Their sets of parameters take turns on the main servers, first, second, second, first, so that neither server gets
    all sets with one value: each such test is done on both, each set on one.
    """
    tests: dict[str, dict[str, dict[str, pytest.Item]]] = {}
    for item in items:
        match [*versions_of(item)]:
            case [version] if version in MAIN_VERSIONS and versions_by_default(item) == {*MAIN_VERSIONS}:
                sets = tests.setdefault(item.nodeid.partition("[")[0], {})
                sets.setdefault(item.name.replace(version, ""), {})[version] = item
    for sets in tests.values():
        for n, on in enumerate(sets.values() if len(sets) > 1 else ()):
            if len(on) > 1:
                yield from (item for version, item in on.items() if version != MAIN_VERSIONS[(n + n // 2) % 2])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test by what it needs (`spark`, `mysql`, or `unit`, which needs no other process), and what is `long`.

    A fixture that does not exist ends every run, not only that of the long suite which needs it.
    """
    for item in beyond_one_server([item for item in items if item.get_closest_marker("long") is None]):
        item.add_marker("long")
    for item in items:
        if isinstance(item, pytest.Function):
            missing = set(item.fixturenames) - item._fixtureinfo.name2fixturedefs.keys() - {"request"}
            if missing:
                raise pytest.UsageError(f"{item.nodeid} asks for what is no fixture: {', '.join(sorted(missing))}")
        if not versions_of(item) <= versions_by_default(item):
            item.add_marker("long")
        fixtures = getattr(item, "fixturenames", ())
        if "spark" in fixtures:
            item.add_marker("spark")
        if not {"mysql", "other_servers"}.isdisjoint(fixtures):
            item.add_marker("mysql")
        if not {"broker", "connect"}.isdisjoint(fixtures):
            item.add_marker("process")
        if not any(map(item.get_closest_marker, ("spark", "mysql", "process", "long"))):
            item.add_marker("unit")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A unit test, and every fixture that it asks for, starts no other process: what does is to be marked."""
    if item.get_closest_marker("unit") is None:
        return (yield)
    with (
        patch.object(MySqlServer, "start", _refused),
        patch.object(SparkContext, "__init__", _refused),
        patch.object(subprocess.Popen, "__init__", _refused),
    ):
        return (yield)


def _refused(*_: object, **__: object) -> None:
    raise AssertionError("this test starts another process: mark it `process`, `mysql` or `spark`")
