"""Batches cut at random, executed with crashes, in any order."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

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


class Crash(Exception):
    """What a test throws into a batch."""


def crashing(step: Callable[..., Any], rng: random.Random, *, after: bool) -> Callable[..., Any]:
    """`step`, but it fails now and then, before or after it has done its work."""

    def run(*args: Any, **kwargs: Any) -> None:
        if not after and rng.random() < 0.4:
            raise Crash("before a step")
        step(*args, **kwargs)
        if after and rng.random() < 0.4:
            raise Crash("after a step")

    return run
