"""The servers of the suite by version: skipped where this platform has no build, and for no other reason."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import pytest

from lakehouse_cdc.testing import MySqlServer, NoBuildError, Version

_numbers = count(1)


def start_or_skip(
    version: Version, directory: Path | None = None, options: Mapping[str, str | None] | None = None
) -> MySqlServer:
    """A server of that version; skips the test, with the reason, where there is none for this platform."""
    try:
        return MySqlServer.start(directory, version=version, options=options)
    except NoBuildError as error:
        pytest.skip(str(error))


@contextmanager
def new_database(server: MySqlServer) -> Iterator[str]:
    """The name of a new, empty database, dropped at the end of the block."""
    name = f"test_{next(_numbers)}"
    with closing(server.connect(autocommit=True)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    yield name
    with closing(server.connect(autocommit=True)) as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {name}")


def gone(pid: int) -> bool:
    """Whether no process has that id."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
