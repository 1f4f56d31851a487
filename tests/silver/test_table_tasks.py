"""Batches that tasks apply by deltalake: the fold of the changes, whoever has done what, and whatever crashed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.commits import newest_version
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.model.seq import Rank, Seq
from lakehouse_cdc.model.table_layout import Layout, Table
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.forms import HISTORY, SOFT_DELETES
from lakehouse_cdc.silver.table_tasks.job import in_job
from tests.silver.test_first_load import EVERY, ID, KEYED_BY, begin, plain, reads, rows_of
from tests.support.bronze_writer import Lake
from tests.support.row_images import EVERY_KIND, random_row
from tests.support.silver.crashes import applied, runs, seeds, shuffled, split_up
from tests.support.silver.engines import at_times, here, plain_names, require_true_bounds, writers
from tests.support.silver.folds import check, check_as_of
from tests.support.silver.histories import KINDS, generated

AUTO = Policy(engine="auto")
SOME = ("tiny", "moment", "text", "d", "price")
POLICIES = {
    "current": AUTO,
    "soft deletes": replace(AUTO, form=SOFT_DELETES),
    "history": replace(AUTO, form=HISTORY),
    "history of some": replace(AUTO, form=HISTORY, track=SOME),
    "history of none": replace(AUTO, form=HISTORY, track=()),
}
forms = pytest.mark.parametrize("policy", [*POLICIES.values()][:3], ids=[*POLICIES][:3])
forms_at_length = pytest.mark.parametrize(
    "policy",
    [pytest.param(policy, marks=[pytest.mark.long] * (n > 0)) for n, policy in enumerate([*POLICIES.values()][:3])],
    ids=[*POLICIES][:3],
)


@contextmanager
def lake_with(
    spark: SparkSession, rng: random.Random, tables: int, length: int, root: str = ""
) -> Iterator[tuple[Lake, list[Change]]]:
    """A lake for tables of some kinds that deltalake can keep, and all their changes; none is written yet."""
    kinds = rng.sample(range(KINDS), tables)
    drawn = [plain_names(*generated(rng, kind, length, f"shop{kind}")) for kind in kinds]
    with TemporaryDirectory() as folder:
        lake = Lake(spark, Path(folder), {schema.name: schema for schema, _ in drawn}, root=root)
        yield lake, [c for _, changes in drawn for c in changes]


def places_of(layout: Layout, name: str, policy: Policy) -> list[Table]:
    """The silver table, and that of its tombstones, if it has any."""
    return [layout.silver_table(name), *[layout.tombstones(name)] * policy.form.has_tombstones]


def in_order_with_crashes(spark: SparkSession, seed: int, policy: Policy, *, tables: int, parts: int) -> None:
    """After each batch silver is the fold of all up to it, though steps have failed, and engines taken turns."""
    rng = random.Random(seed)
    run = at_times(rng, rng.choice([0.0, 0.3]))
    with lake_with(spark, rng, tables, 40 * parts) as (lake, changes):

        def new_applier() -> Applier:
            return Applier(spark, lake.layout, policy=lambda _: policy, run_tasks=run)

        for _ in applied(lake, changes, parts, rng, new_applier):
            check(lake, lake.written, policy)
            check_as_of(lake, rng, policy.transform)
        places = [place for name in lake.schemas for place in places_of(lake.layout, name, policy)]
        assert any("deltalake" in writers(place, newest_version(spark, place)) for place in places)
        for place in places:
            require_true_bounds(place)


def out_of_order(spark: SparkSession, seed: int, policy: Policy, *, tables: int, parts: int) -> None:
    """Batches in any order, some of them twice, by either engine, end at the fold of all."""
    rng = random.Random(seed)
    run = at_times(rng, 0.3)

    def new_applier() -> Applier:
        return Applier(spark, lake.layout, policy=lambda _: policy, run_tasks=run)

    with lake_with(spark, rng, tables, 40 * parts) as (lake, changes):
        shuffled(lake, changes, parts, rng, new_applier)
        check(lake, changes, policy)


@pytest.mark.long
@forms_at_length
def test_every_batch_ends_at_the_fold_whatever_crashes(spark: SparkSession, seed: int, policy: Policy) -> None:
    in_order_with_crashes(spark, seed, policy, tables=2, parts=3)


@pytest.mark.long
@forms
def test_batches_in_any_order_end_at_the_fold(spark: SparkSession, seed: int, policy: Policy) -> None:
    out_of_order(spark, seed, policy, tables=2, parts=4)


@pytest.mark.long
@pytest.mark.timeout(0)
@runs(8)
@given(seed=seeds)
def test_every_batch_ends_at_the_fold_at_length(spark: SparkSession, seed: int) -> None:
    in_order_with_crashes(spark, seed, random.Random(seed).choice([*POLICIES.values()]), tables=KINDS, parts=6)


@pytest.mark.long
@pytest.mark.timeout(0)
@runs(8)
@given(seed=seeds)
def test_batches_in_any_order_end_at_the_fold_at_length(spark: SparkSession, seed: int) -> None:
    out_of_order(spark, seed, random.Random(seed).choice([*POLICIES.values()]), tables=KINDS, parts=8)


def test_one_job_does_the_tables_of_a_batch_and_no_merge_is_left_to_spark(spark: SparkSession, seed: int) -> None:
    """In Spark's own workers, tables of several forms; each has a commit of deltalake's, and the ledger's version."""
    rng = random.Random(seed)
    with lake_with(spark, rng, 4, 60) as (lake, changes):
        cut = split_up(changes, 3, rng)
        policies = dict(zip(lake.schemas, POLICIES.values(), strict=False))
        applier = Applier(spark, lake.layout, policy=policies.__getitem__, run_tasks=in_job)
        done = None
        for part in cut:
            versions = Versions(done, lake.commit(part).version)
            touched = applier.apply(versions, lake.note(versions))
            for name, policy in policies.items():
                check(lake, lake.written, policy, [name])
            if done is not None:
                assert applier.versions.keys() == set(touched)
                for name, version in applier.versions.items():
                    assert version == newest_version(spark, lake.layout.silver_table(name))
            done = versions.last
        for name in lake.schemas:
            table = lake.layout.silver_table(name)
            assert "deltalake" in writers(table, newest_version(spark, table)), name


@pytest.mark.long
@forms_at_length
def test_values_and_keys_of_every_kind_are_the_same_by_either_engine(
    spark: SparkSession, tmp_path: Path, seed: int, policy: Policy
) -> None:
    """First read, then updated, deleted and inserted; each value as Spark shows it."""
    rng, others = random.Random(seed), {c.name: c for c in EVERY_KIND}
    keyed = [TableSchema("shop", f"k{i}", (ID, others[name]), (name, "id")) for i, name in enumerate(KEYED_BY)]
    schemas = [plain_names(one, [])[0] for one in (EVERY, *keyed)]
    lake = Lake(spark, tmp_path, {schema.name: schema for schema in schemas}, batches=1)
    theirs = replace(lake.layout, silver="theirs")
    ours = Applier(spark, lake.layout, policy=lambda _: policy, run_tasks=here)
    by_spark = Applier(spark, theirs, policy=lambda _: replace(policy, engine="spark"))
    rows = {schema.name: rows_of(schema, rng, 40) for schema in schemas}
    first = [change for one in schemas for change in (begin(one), *reads(one, rows[one.name]))]
    then = [change for one in schemas for change in changed(rng, one, rows[one.name])]
    done = None
    for changes in (first, then):
        versions = Versions(done, lake.commit(changes).version)
        for applier in (ours, by_spark):
            applier.apply(versions, lake.note(versions))
        for schema in schemas:
            tables = [layout.silver_table(schema.name) for layout in (lake.layout, theirs)]
            found, wanted = (read(spark, table) for table in tables)
            assert found.schema == wanted.schema
            assert plain(found) == plain(wanted)
            for place in places_of(lake.layout, schema.name, policy):
                require_true_bounds(place)
        done = versions.last
    assert ours.versions.keys() == lake.schemas.keys()


def changed(rng: random.Random, schema: TableSchema, rows: list[dict[str, Any]]) -> Iterator[Change]:
    """An update, a delete, an insert or nothing for each of the rows, which have been read at position 2."""
    for i, row in enumerate(rows):
        at, key = Seq(1, 1, 5 + i, Rank.EVENT, 0).pack(), tuple(row[name] for name in schema.key)
        kept = {name: row[name] for name in schema.key}
        what = rng.choice(("update", "delete", "insert", ""))
        if what == "update":
            yield Change(at, Op.UPDATE, schema.name, key, row, random_row(rng, schema) | kept)
        elif what == "delete":
            yield Change(at, Op.DELETE, schema.name, key, row, None)
        elif what == "insert":
            new = random_row(rng, schema) | {"id": 1000 + i}
            yield Change(at, Op.INSERT, schema.name, tuple(new[name] for name in schema.key), None, new)
