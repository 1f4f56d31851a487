"""What the tests of whole pipelines share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pymysql
import pytest


@pytest.fixture
def run(mysql_client: pymysql.Connection[Any], database: str) -> Callable[..., None]:
    """`run(*statements)` in the test's own database."""

    def execute(*statements: str) -> None:
        with mysql_client.cursor() as cursor:
            cursor.execute(f"USE {database}")
            for sql in statements:
                cursor.execute(sql)

    return execute
