"""The model of failover and quarantine holds in random runs, and does not without any one of its guards."""

from __future__ import annotations

from typing import get_args

import pytest

from lakehouse_cdc.spec.failover import Guard, run

RUNS = 1500


def test_no_run_has_a_breach() -> None:
    assert [breach for seed in range(RUNS) if (breach := run(seed))] == []


@pytest.mark.parametrize("guard", get_args(Guard))
def test_each_guard_is_needed(guard: Guard) -> None:
    assert any(run(seed, without=guard) for seed in range(2 * RUNS))
