"""Silver's tables in S3, kept by deltalake in tasks: the fold of the changes, whatever crashes, fails, or is lost."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.table_tasks.job import in_job
from tests.silver.test_table_tasks import AUTO, POLICIES, lake_with
from tests.support.s3_server import Request, S3Server
from tests.support.silver.crashes import applied, split_up
from tests.support.silver.engines import at_times
from tests.support.silver.folds import check, check_as_of

forms = pytest.mark.parametrize(
    "policy",
    [AUTO, *(pytest.param(policy, marks=pytest.mark.long) for policy in [*POLICIES.values()][1:])],
    ids=POLICIES,
)


@forms
def test_every_batch_ends_at_the_fold_whatever_crashes(
    spark: SparkSession, bucket: str, seed: int, policy: Policy
) -> None:
    rng = random.Random(seed)
    run = at_times(rng, 0.2)
    with lake_with(spark, rng, 1, 60, f"s3a://{bucket}/lake") as (lake, changes):

        def new_applier() -> Applier:
            return Applier(spark, lake.layout, policy=lambda _: policy, run_tasks=run)

        for _ in applied(lake, changes, 2, rng, new_applier):
            check(lake, lake.written, policy)
            check_as_of(lake, rng, policy.transform)


@pytest.mark.long
@forms
def test_answers_that_are_lost_change_nothing(
    spark: SparkSession, s3: S3Server, bucket: str, seed: int, policy: Policy
) -> None:
    """In Spark's own workers. Who put a version does not know it then, and whoever asks again is refused."""
    rng = random.Random(seed)
    asked = set[str]()

    def lost(request: Request) -> bool:
        is_first = request.path not in asked
        asked.add(request.path)
        return request.method == "PUT" and is_first and rng.random() < 0.3

    s3.lost = lost
    with lake_with(spark, rng, 2, 80, f"s3a://{bucket}/lake") as (lake, changes):
        done = None
        for part in split_up(changes, 4, rng):
            versions = Versions(done, lake.commit(part).version)
            Applier(spark, lake.layout, policy=lambda _: policy, run_tasks=in_job).apply(versions, lake.note(versions))
            check(lake, lake.written, policy)
            done = versions.last
    assert {one.condition for one in s3.commits(bucket)} == {"*"}
