"""Passes over a table."""

from __future__ import annotations

from lakehouse_cdc.model.changelog import Op
from tests.support.source.driver import Driver


def passes(driver: Driver) -> list[int]:
    """The seqs at which repeated snapshots ended."""
    return [change.seq for change in driver.log if change.op is Op.END]
