"""A session as the source configures it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pymysql
import pytest

from lakehouse_cdc.testing import MySqlServer
from tests.support.images.tables import SESSION
from tests.support.servers import connected


@pytest.fixture
def session(mysql: MySqlServer) -> Iterator[pymysql.Connection[Any]]:
    """Root, autocommit, UTC, results in each column's own character set."""
    with closing(connected(mysql)) as connection:
        with connection.cursor() as cursor:
            cursor.execute(SESSION)
        yield connection
