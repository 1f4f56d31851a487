"""Silver against its specification: whatever the batches, their order, repetition and crashes, it equals the fold."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.silver.apply.applier import Applier
from tests.support.silver.crashes import applied, runs, seeds, shuffled
from tests.support.silver.folds import check, check_as_of, lake_with, policies
from tests.support.silver.histories import KINDS

pytestmark = pytest.mark.usefixtures("parts_both_ways")


def in_order_with_crashes(spark: SparkSession, seed: int, *, tables: int, parts: int) -> None:
    """After each batch silver is the fold of all up to it, though steps of the batch have failed and come again."""
    rng = random.Random(seed)
    policy = policies(rng)
    with lake_with(spark, rng, tables, 40 * parts, policy) as (lake, changes):

        def new_applier() -> Applier:
            return Applier(spark, lake.layout, policy=lambda _: policy)

        for _ in applied(lake, changes, parts, rng, new_applier):
            check(lake, lake.written, policy)
            check_as_of(lake, rng, policy.transform)


def out_of_order(spark: SparkSession, seed: int, *, tables: int, parts: int) -> None:
    """Batches in any order, some of them twice, end at the fold of all."""
    rng = random.Random(seed)
    policy = policies(rng)
    with lake_with(spark, rng, tables, 40 * parts, policy) as (lake, changes):
        last = shuffled(lake, changes, parts, rng, lambda: Applier(spark, lake.layout, policy=lambda _: policy))
        check(lake, changes, policy)
        everything, applier = Versions(None, last), Applier(spark, lake.layout, policy=lambda _: policy)
        applier.apply(everything, lake.note(everything, query="anew", batch=0))
        check(lake, changes, policy)


@pytest.mark.long
def test_every_batch_ends_at_the_fold_whatever_crashes(spark: SparkSession, seed: int) -> None:
    in_order_with_crashes(spark, seed, tables=2, parts=2)


@pytest.mark.long
def test_batches_in_any_order_and_any_number_of_times_end_at_the_fold(spark: SparkSession, seed: int) -> None:
    out_of_order(spark, seed, tables=2, parts=4)


@pytest.mark.long
@pytest.mark.timeout(0)
@runs(4)
@given(seed=seeds)
def test_every_batch_ends_at_the_fold_at_length(spark: SparkSession, seed: int) -> None:
    in_order_with_crashes(spark, seed, tables=KINDS, parts=6)


@pytest.mark.long
@pytest.mark.timeout(0)
@runs(4)
@given(seed=seeds)
def test_batches_in_any_order_end_at_the_fold_at_length(spark: SparkSession, seed: int) -> None:
    out_of_order(spark, seed, tables=KINDS, parts=8)
