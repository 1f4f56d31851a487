"""Batches cut at random, and how many examples of them a test has."""

from __future__ import annotations

import random
from itertools import pairwise

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from lakehouse_cdc.model.changelog import Change
from lakehouse_cdc.model.seq import POS


def runs(examples: int) -> settings:
    """An example costs a hundred Spark jobs: each holds whole histories of several tables, and none is shrunk."""
    checks = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return settings(max_examples=examples, deadline=None, phases=(Phase.generate,), suppress_health_check=checks)


seeds = st.integers(0, 2**32)


def split_up(changes: list[Change], parts: int, rng: random.Random) -> list[list[Change]]:
    """Cut at positions, as the source does: all changes of one position stay together. In a part they are mixed."""
    ends = sorted({c.seq // POS + 1 for c in changes})
    bounds = [0, *sorted(rng.sample(ends[:-1], parts - 1)), ends[-1]]
    cut = [[c for c in changes if low <= c.seq // POS < high] for low, high in pairwise(bounds)]
    return [rng.sample(part, len(part)) for part in cut]
