"""One server of Spark Connect for all tests here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.connect_server import ConnectServer


@pytest.fixture(scope="session")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its URL."""
    with ConnectServer(tmp_path_factory.mktemp("connect")) as server:
        yield server.url
