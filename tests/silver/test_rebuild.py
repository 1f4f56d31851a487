"""Silver tables whose settings change between batches: built again, they are what they would be if made so."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import TransientError
from lakehouse_cdc.lake.failpoints import Door, Moment
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.changelog import Change, Op, fold
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.apply.rebuild import rebuild, rebuilds
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.definition.transform import Transform
from lakehouse_cdc.silver.forms import APPEND
from lakehouse_cdc.silver.tables.known_schemas import schemas_in_force
from lakehouse_cdc.silver.tables.properties import own_properties
from lakehouse_cdc.silver.time_travel import rows_at
from tests.support.bronze_writer import Lake, images
from tests.support.crash_points import Crash, failing_at, failing_at_random
from tests.support.silver.changes import N, begin, delete, insert, seq, table
from tests.support.silver.crashes import runs, seeds, split_up
from tests.support.silver.folds import TRACKED, check, lake_with, policies, seen, tracking, view


def follow(spark: SparkSession, lake: Lake, policy: Policy, done: int | None) -> None:
    """What a run does before silver's stream begins."""
    for one in rebuilds(spark, lake.layout, lambda _: policy):
        assert rebuild(spark, lake.layout, one.source_table, policy, done) is None


def any_policy(rng: random.Random, tracked: tuple[str, ...] | None) -> Policy:
    """`tracked` stays: another `track` is for later versions, and nothing is built again for it."""
    return tracking(replace(policies(rng), freezes=False), tracked)


def with_changed_policies(spark: SparkSession, seed: int, *, tables: int, parts: int, length: int) -> None:
    """After each batch silver is the fold of all up to it, as configured now, whatever failed on the way."""
    rng = random.Random(seed)
    tracked = rng.choice(TRACKED)
    policy = any_policy(rng, tracked)
    with lake_with(spark, rng, tables, length * parts, policy) as (lake, changes):
        done: int | None = None
        transforms: list[Transform] = []
        for part in split_up(changes, parts, rng):
            versions = Versions(done, lake.commit(part).version)
            with failing_at_random(rng, 0.15):
                try:
                    Applier(spark, lake.layout, policy=partial(_same, policy)).apply(versions, lake.note(versions))
                    done = versions.last
                except TransientError:
                    pass  # some tables hold the batch, or a part of it
            before, policy = policy, any_policy(rng, tracked)
            with failing_at_random(rng, 0.1):
                try:
                    follow(spark, lake, policy, done)
                except Crash:
                    policy = rng.choice([before, policy, any_policy(rng, tracked)])  # the user changes it once more
            lake.seen = partial(view, policy.transform)
            follow(spark, lake, policy, done)
            assert not rebuilds(spark, lake.layout, partial(_same, policy))
            applier = Applier(spark, lake.layout, policy=partial(_same, policy))
            for _ in range(rng.choice([1, 1, 2])):
                applier.apply(versions, lake.note(versions))
            check(lake, lake.written, policy)
            transforms = [*transforms, before.transform, policy.transform]
            check_as_of_under(lake, rng, transforms)
            done = versions.last
            assert not [path for path in (lake.folder / "lake" / "s").iterdir() if "__rebuilt" in path.name]


def check_as_of_under(lake: Lake, rng: random.Random, transforms: Sequence[Transform]) -> None:
    """As of any seq each table is the fold up to there, under one transform that it has had."""
    for change in rng.sample(lake.written, 2):
        written = [c for c in lake.written if c.table == change.table]
        at = max(change.seq - rng.randint(0, 1), min(c.seq for c in written))
        schemas = schemas_in_force(SparkReader(lake.spark), lake.layout, [change.table])[change.table]
        frame, schema = rows_at(lake.spark, lake.layout, change.table, at, schemas), lake.schemas[change.table]
        possible = []
        for transform in transforms:
            columns = view(transform, schema)
            if {c.name for c in columns.captured} | {"_seq", "_commit_ts"} == {*frame.columns}:
                held = {tuple(image[k] for k in columns.key): (seq, image) for seq, image in images(frame, columns)}
                wanted = fold(seen(transform, [c for c in written if c.seq <= at]))
                possible.append(held == {key: row for (_, key), row in wanted.items()})
        assert any(possible), (change.table, at, frame.columns)


def _same(policy: Policy, _: str) -> Policy:
    return policy


@pytest.mark.long
def test_a_table_is_the_fold_under_the_settings_of_now(spark: SparkSession, seed: int) -> None:
    with_changed_policies(spark, seed, tables=1, parts=2, length=25)


@pytest.mark.long
@pytest.mark.timeout(0)
@runs(8)
@given(seed=seeds)
def test_tables_are_the_fold_under_the_settings_of_now_at_length(spark: SparkSession, seed: int) -> None:
    with_changed_policies(spark, seed, tables=3, parts=5, length=40)


@pytest.mark.long
def test_what_cannot_be_built_stays_as_it_is_and_the_next_run_tries_again(spark: SparkSession, tmp_path: Path) -> None:
    one, other = table("one", N), table("other", N)
    lake = Lake(spark, tmp_path, {t.name: t for t in (one, other)})

    def policy(computed: str) -> Callable[[str], Policy]:
        return lambda name: Policy(transform=Transform(computed={"c": computed}) if name == one.name else Transform())

    rows = [begin(one), begin(other), insert(one, 2, 1, n=5), insert(other, 3, 1, n=5)]
    versions = Versions(None, lake.commit(rows).version)
    Applier(spark, lake.layout).apply(versions, lake.note(versions))
    refused = rebuild(spark, lake.layout, one.name, policy("nothing + 1")(one.name), versions.last)
    assert refused is not None
    held = own_properties(SparkReader(spark), lake.layout, one.name)
    assert held.quarantine is not None
    assert held.quarantine.after == versions.last
    # the others continue, and nothing is lost for it
    more = Versions(versions.last, lake.commit([insert(one, 4, 2, n=6), insert(other, 5, 2, n=6)]).version)
    applier = Applier(spark, lake.layout, policy=policy("nothing + 1"))
    applier.apply(more, lake.note(more))
    assert [*applier.quarantined] == [one.name]
    assert {key for _, key in lake.silver(other.name)} == {(1,), (2,)}
    [again] = rebuilds(spark, lake.layout, policy("n + 1"))
    assert again.source_table == one.name
    assert rebuild(spark, lake.layout, one.name, policy("n + 1")(one.name), more.last) is None
    rows_now = spark.read.format("delta").load(lake.layout.silver_table(one.name).path or "").select("id", "n", "c")
    assert sorted(map(tuple, rows_now.collect())) == [(1, 5, 6), (2, 6, 7)]
    Applier(spark, lake.layout, policy=policy("n + 1")).apply(more, lake.note(more))
    assert rows_now.count() == 2


@pytest.mark.long
def test_what_a_table_was_built_from_is_not_added_to_it_again(spark: SparkSession, tmp_path: Path) -> None:
    """Also of rows without a key, which are not told apart."""
    one = TableSchema("shop", "one", (N,), ())
    lake = Lake(spark, tmp_path, {one.name: one})

    def policy(computed: str) -> Policy:
        return Policy(form=APPEND, transform=Transform(computed={"c": computed}))

    def added(pos: int) -> Change:
        return Change(seq(pos), Op.INSERT, one.name, (), None, {"n": pos})

    first = Versions(None, lake.commit([begin(one), added(2)]).version)
    Applier(spark, lake.layout, policy=lambda _: policy("n")).apply(first, lake.note(first))
    second = Versions(first.last, lake.commit([added(3), added(4)]).version)
    Applier(spark, lake.layout, policy=lambda _: policy("n")).apply(second, lake.note(second))
    # silver's checkpoint does not have the second batch yet
    assert rebuild(spark, lake.layout, one.name, policy("n + 1"), first.last) is None
    applier = Applier(spark, lake.layout, policy=lambda _: policy("n + 1"))
    applier.apply(second, lake.note(second, query="another"))
    third = Versions(second.last, lake.commit([added(5)]).version)
    applier.apply(third, lake.note(third, query="another"))
    rows = read(spark, lake.layout.silver_table(one.name)).select("n", "c").collect()
    assert sorted(map(tuple, rows)) == [(n, n + 1) for n in (2, 3, 4, 5)]


def test_a_table_that_was_about_to_be_replaced_is_built_again_whatever_is_configured(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its tombstones are those of the new table, with the key by its new name."""
    one = table("one", N)
    lake = Lake(spark, tmp_path, {one.name: one})
    first = Versions(None, lake.commit([begin(one), insert(one, 2, 1, n=5), insert(one, 3, 2, n=6)]).version)
    Applier(spark, lake.layout).apply(first, lake.note(first))
    renamed = Policy(transform=Transform(rename={"id": "the id"}))
    name = lake.layout.silver_table(one.name).name
    with failing_at(Door.STATEMENT, Moment.BEFORE, name, number=2, error=Crash), pytest.raises(Crash):
        rebuild(spark, lake.layout, one.name, renamed, first.last)
    [again] = rebuilds(spark, lake.layout, partial(_same, Policy()))
    assert again.why == "an attempt that was interrupted"
    assert rebuild(spark, lake.layout, one.name, Policy(), first.last) is None
    added = insert(one, 4, 3, n=7)
    second = Versions(first.last, lake.commit([added, delete(one, 5, 1)]).version)
    Applier(spark, lake.layout).apply(second, lake.note(second))
    check(lake, lake.written, Policy())
    assert rebuild(spark, lake.layout, one.name, renamed, second.last) is None
    assert {image["id"] for _, image in lake.rows_at(one.name, added.seq)} == {1, 2, 3}, "by the names of that time"
