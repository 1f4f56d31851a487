"""Prints the page of what is captured, by asking each server."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from lakehouse_cdc.testing import VERSIONS, MySqlServer, Version
from tests.census.outcome import outcomes
from tests.census.page import page
from tests.census.tables import Row
from tests.support.servers import new_database


def _column(version: Version) -> dict[Row, str]:
    with MySqlServer.start(version=version) as server, new_database(server) as name, TemporaryDirectory() as folder:
        return outcomes(server, name, Path(folder))


print(page({version: _column(version) for version in VERSIONS}), end="")
