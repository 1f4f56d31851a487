"""A real broker for the tests of topics, started once and only when a test asks for one."""

from __future__ import annotations

from tests.sinks.conftest import broker

__all__ = ["broker"]
