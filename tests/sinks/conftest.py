"""A real broker for the tests of sinks, started once and only when a test asks for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.kafka_broker import Broker, running


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """Shared by all tests: write into topics of your own."""
    with running() as started:
        yield started
