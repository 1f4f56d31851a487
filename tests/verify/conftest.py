"""Streams over a database of their own, as the tests of the source have them."""

from __future__ import annotations

from tests.source.conftest import stage

__all__ = ["stage"]
