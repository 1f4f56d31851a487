"""A database of its own for each test, streams over it, and the comparison of what they emitted with the source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakehouse_cdc.source import test_hooks
from lakehouse_cdc.source.test_hooks import Step
from lakehouse_cdc.testing import MySqlServer
from tests.support.source.stage import Stage, on_stage


@pytest.fixture
def stage(mysql: MySqlServer, database: str, tmp_path: Path) -> Iterator[Stage]:
    """A stage on the shared server."""
    yield from on_stage(mysql, database, tmp_path)


@pytest.fixture
def any_stage(any_server: MySqlServer, any_database: str, tmp_path: Path) -> Iterator[Stage]:
    """A stage on each server in turn."""
    yield from on_stage(any_server, any_database, tmp_path)


@pytest.fixture
def at() -> Iterator[Callable[..., None]]:
    """`at(step, act)`: call `act()` when the algorithm first comes to that step; `times` for more often."""
    pending: dict[Step, tuple[Callable[[], Any], int]] = {}

    def hook(step: Step, table: str) -> None:
        act, left = pending.get(step, (None, 0))
        if act is not None and left:
            pending[step] = (act, left - 1)
            act()

    def add(step: Step, act: Callable[[], Any], times: int = 1) -> None:
        pending[step] = (act, times)
        test_hooks.install(hook)

    yield add
    test_hooks.install(None)
