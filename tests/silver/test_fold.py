"""Silver against its specification: whatever the batches, their order, repetition and crashes, it equals the fold."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import TransientError
from lakehouse_cdc.lake.changes import Versions
from lakehouse_cdc.model.changes import Change, fold
from lakehouse_cdc.model.seq import POS
from lakehouse_cdc.silver import tombstones, writer
from lakehouse_cdc.silver.apply import Applier
from lakehouse_cdc.silver.merge import load, merge
from tests.bronze_writer import Lake
from tests.silver.histories import KINDS, history


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


@contextmanager
def lake_with(spark: SparkSession, rng: random.Random, tables: int, length: int) -> Iterator[tuple[Lake, list[Change]]]:
    """A lake for some kinds of tables, and all their changes; none is written yet."""
    drawn = [history(rng, kind, length) for kind in rng.sample(range(KINDS), tables)]
    with TemporaryDirectory() as folder:
        schemas = {schema.name: schema for schema, _ in drawn}
        yield Lake(spark, Path(folder), schemas), [c for _, changes in drawn for c in changes]


def check(lake: Lake, changes: list[Change]) -> None:
    """Silver is the fold of those changes."""
    wanted = fold(changes)
    for table in lake.schemas:
        assert lake.silver(table) == {name: row for name, row in wanted.items() if name[0] == table}


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


def in_order_with_crashes(spark: SparkSession, seed: int, *, tables: int, parts: int) -> None:
    """After each batch silver is the fold of all up to it, though steps of the batch have failed and come again."""
    rng = random.Random(seed)
    with lake_with(spark, rng, tables, length=40 * parts) as (lake, changes):
        applier, done = Applier(spark, lake.layout), None
        for part in split_up(changes, parts, rng):
            versions = Versions(done, lake.commit(part).version)
            with (
                patch.object(tombstones, "bury", crashing(tombstones.bury, rng, after=True)),
                patch.object(writer, "merge", crashing(merge, rng, after=True)),
                patch.object(writer, "load", crashing(load, rng, after=False)),
            ):
                try:
                    applier.apply(versions, lake.note(versions))
                except TransientError:
                    applier = rng.choice([applier, Applier(spark, lake.layout)])
            # the crash has left some tables behind; the batch comes again
            applier.apply(versions, lake.note(versions))
            check(lake, lake.written)
            done = versions.last


def out_of_order(spark: SparkSession, seed: int, *, tables: int, parts: int) -> None:
    """Batches in any order, some of them twice, end at the fold of all."""
    rng = random.Random(seed)
    with lake_with(spark, rng, tables, length=40 * parts) as (lake, changes):
        cut = split_up(changes, parts, rng)
        first = Versions(None, lake.commit(cut[0]).version)
        applier = Applier(spark, lake.layout)
        applier.apply(first, lake.note(first))
        later = [lake.commit(part).version for part in cut[1:]]
        order = [*later, rng.choice(later)]
        rng.shuffle(order)
        for n, version in enumerate(order):  # each as a batch that Delta has never seen
            one = Versions(version - 1, version)
            applier.apply(one, lake.note(one, query="shuffled", batch=n))
        check(lake, changes)
        everything = Versions(None, later[-1])
        Applier(spark, lake.layout).apply(everything, lake.note(everything, query="anew", batch=0))
        check(lake, changes)


def test_every_batch_ends_at_the_fold_whatever_crashes(spark: SparkSession, seed: int) -> None:
    in_order_with_crashes(spark, seed, tables=2, parts=3)


def test_batches_in_any_order_and_any_number_of_times_end_at_the_fold(spark: SparkSession, seed: int) -> None:
    out_of_order(spark, seed, tables=2, parts=4)


@pytest.mark.long
@pytest.mark.timeout(0)
@runs(10)
@given(seed=seeds)
def test_every_batch_ends_at_the_fold_at_length(spark: SparkSession, seed: int) -> None:
    in_order_with_crashes(spark, seed, tables=KINDS, parts=6)


@pytest.mark.long
@pytest.mark.timeout(0)
@runs(10)
@given(seed=seeds)
def test_batches_in_any_order_end_at_the_fold_at_length(spark: SparkSession, seed: int) -> None:
    out_of_order(spark, seed, tables=KINDS, parts=8)
