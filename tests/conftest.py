"""Real servers for the whole suite, started once and only when a test asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import count
from typing import Any

import pymysql
import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.runtime.session import local_session
from lakehouse_cdc.testing import MySqlServer

_numbers = count(1)


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
    name = f"test_{next(_numbers)}"
    with closing(mysql.connect(autocommit=True)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    yield name
    with closing(mysql.connect(autocommit=True)) as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {name}")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local Spark session with Delta, two tasks at once, shared by all tests."""
    # many short jobs: the optimising compiler would cost more than it gains (78 s of CPU against 34 s for six MERGEs)
    session = local_session("tests", cores=2, conf={"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1"})
    yield session
    session.stop()
