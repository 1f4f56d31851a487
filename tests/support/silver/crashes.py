"""Batches cut at random, applied through crashes, and how many examples of them a test has."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import pairwise

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from lakehouse_cdc.errors import TransientError
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.changelog import Change
from lakehouse_cdc.model.seq import POS
from lakehouse_cdc.silver.apply.applier import Applier
from tests.support.bronze_writer import Lake
from tests.support.crash_points import failing_at_random


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


def applied(
    lake: Lake, changes: list[Change], parts: int, rng: random.Random, new_applier: Callable[[], Applier]
) -> Iterator[tuple[Applier, Versions]]:
    """The changes in so many batches, each of which may crash and then comes again: who applied it, and what it was."""
    applier, done = new_applier(), None
    for part in split_up(changes, parts, rng):
        versions = Versions(done, lake.commit(part).version)
        with failing_at_random(rng, 0.15):
            try:
                applier.apply(versions, lake.note(versions))
            except TransientError:
                applier = rng.choice([applier, new_applier()])
        applier.apply(versions, lake.note(versions))  # a crash may have left some tables as they were
        yield applier, versions
        done = versions.last


def shuffled(
    lake: Lake, changes: list[Change], parts: int, rng: random.Random, new_applier: Callable[[], Applier]
) -> int:
    """Apply the first of so many batches, then the others in any order, one of them twice; bronze's last version."""
    cut = split_up(changes, parts, rng)
    first = Versions(None, lake.commit(cut[0]).version)
    applier = new_applier()
    applier.apply(first, lake.note(first))
    later = [lake.commit(part).version for part in cut[1:]]
    order = [*later, rng.choice(later)]
    rng.shuffle(order)
    for n, version in enumerate(order):  # each as a batch that Delta has never seen
        one = Versions(version - 1, version)
        applier.apply(one, lake.note(one, query="shuffled", batch=n))
        if rng.random() < 0.3:
            applier = new_applier()
    return later[-1]
