"""The stages of the tests of the source; and servers whose logs may be purged, reset and damaged."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from lakehouse_cdc.testing import MySqlServer
from tests.source.conftest import any_stage, at, stage
from tests.support.source.stage import Stage, on_stage

__all__ = ["any_stage", "at", "stage"]

_numbers = count(1)


@pytest.fixture(scope="module")
def own_server() -> Iterator[MySqlServer]:
    """A server of these tests alone."""
    with MySqlServer.start() as server:
        yield server


@pytest.fixture
def own(own_server: MySqlServer, tmp_path: Path) -> Iterator[Stage]:
    """A stage on it."""
    yield from on_stage(own_server, f"remedies_{next(_numbers)}", tmp_path)
