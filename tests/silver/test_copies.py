"""Versions and soft deletes of tables without a key: at every moment as many copies as the source had."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.model.own_columns import END_AT, START_AT
from lakehouse_cdc.model.seq import Rank
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.apply.rebuild import rebuilds
from lakehouse_cdc.silver.definition.form import Form
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.forms import HISTORY, SOFT_DELETES
from tests.support.bronze_writer import Lake
from tests.support.silver.changes import apply, begin, seq
from tests.support.silver.crashes import applied, runs, seeds
from tests.support.silver.multisets import (
    COLUMNS,
    LISTS,
    LOG,
    Writes,
    check_as_of,
    hashable,
    image_of,
    inserted,
    listed,
    wanted,
)
from tests.support.silver.schema_changes import altered

Version = tuple[int, int | None, Any]  # from, until, and the image


def rows(lake: Lake) -> list[Any]:
    return read(lake.spark, lake.layout.silver_table(LOG.name)).collect()


def current(lake: Lake, form: Form) -> list[Any]:
    of_now = form.for_schema(LOG).is_current(lake.layout.own)
    return read(lake.spark, lake.layout.silver_table(LOG.name)).where(of_now).collect()


def versions(lake: Lake) -> list[Version]:
    """Those of silver; the copies of one digest that are open have numbers of their own."""
    own, open_ones, found = lake.layout.own, set[tuple[str, int]](), list[Version]()
    for row in rows(lake):
        end = None if row[END_AT] is None else int(row[END_AT]["seq"])
        found.append((int(row[START_AT]["seq"]), end, image_of(row)))
        if end is None:
            assert (row[own.row_hash], row[own.row_copy]) not in open_ones
            open_ones.add((row[own.row_hash], row[own.row_copy]))
    return found


def check_versions(lake: Lake) -> None:
    """At each seq of bronze as many versions are open as there were copies; none is empty."""
    found = versions(lake)
    assert all(until is None or since < until for since, until, _ in found)
    for at in sorted({change.seq for change in lake.written if change.op is not Op.SCHEMA}):
        there = Counter(row for since, until, row in found if since <= at and (until is None or at < until))
        assert there == wanted([change for change in lake.written if change.seq <= at]), at


def check_marked(lake: Lake) -> None:
    """Rows that are not marked are those of now; of each row as many are kept as there were at once."""
    own, kept, current = lake.layout.own, Counter[Any](), Counter[Any]()
    for row in rows(lake):
        kept[image_of(row)] += 1
        current[image_of(row)] += row[own.deleted_at] is None
    assert +current == wanted(lake.written)
    for at in {change.seq for change in lake.written if change.op is not Op.SCHEMA}:
        assert wanted([change for change in lake.written if change.seq <= at]) <= kept


CHECKS = {HISTORY: check_versions, SOFT_DELETES: check_marked}


def every_batch(spark: SparkSession, seed: int, form: Form, *, length: int, parts: int) -> None:
    rng = random.Random(seed)
    writes = Writes(rng, rng.choice([0, 6]))
    for pos in range(3, 3 + length):
        writes.grow(pos)
    policy = Policy(form=form)
    with TemporaryDirectory() as folder, listed(*rng.choice(LISTS)):
        lake = Lake(spark, Path(folder), {LOG.name: LOG})

        def new_applier() -> Applier:
            return Applier(spark, lake.layout, policy=lambda _: policy)

        for applier, batch in applied(lake, writes.changes, parts, rng, new_applier):
            if rng.random() < 0.3:  # an older checkpoint of a stream that began elsewhere
                again = Versions(None, batch.last)
                new_applier().apply(again, lake.note(again, query="another"))
            assert not applier.quarantined
            CHECKS[form](lake)
        for change in rng.sample(lake.written, 3):
            check_as_of(lake, LOG.name, change.seq)


@pytest.mark.long
@pytest.mark.parametrize("form", CHECKS, ids=repr)
def test_every_batch_has_every_copy(spark: SparkSession, seed: int, form: Form) -> None:
    every_batch(spark, seed, form, length=30, parts=3)


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("form", CHECKS, ids=repr)
@runs(6)
@given(seed=seeds)
def test_every_batch_has_every_copy_at_length(spark: SparkSession, form: Form, seed: int) -> None:
    every_batch(spark, seed, form, length=120, parts=6)


def deleted(pos: int, n: int) -> Change:
    return Change(seq(pos), Op.DELETE, LOG.name, None, inserted(pos, n).after, None)


def read_again(pos: int, numbers: list[int]) -> list[Change]:
    rows = [Change(seq(pos, Rank.READ), Op.READ, LOG.name, None, None, inserted(pos, n).after) for n in numbers]
    return [*rows, Change(seq(pos, Rank.END), Op.END, LOG.name, after=seq(pos, Rank.READ))]


def test_the_copy_that_came_last_goes_first_and_what_is_read_again_continues(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, tmp_path, {LOG.name: LOG})

    def applier() -> Applier:
        return Applier(spark, lake.layout, policy=lambda _: Policy(form=HISTORY))

    begun = [begin(LOG), *(inserted(pos, 1) for pos in (2, 3, 4)), deleted(5, 1), inserted(6, 2)]
    first = apply(lake, applier(), begun, None)
    two = hashable(inserted(0, 2).after)
    one = hashable(inserted(0, 1).after)
    assert sorted(versions(lake), key=str) == sorted(
        [(seq(2), None, one), (seq(3), None, one), (seq(4), seq(5), one), (seq(6), None, two)], key=str
    )
    apply(lake, applier(), read_again(7, [1, 3]), first)
    at = seq(7, Rank.READ)
    three = hashable(inserted(0, 3).after)
    assert sorted(versions(lake), key=str) == sorted(
        [
            (seq(2), None, one), (seq(3), at, one), (seq(4), seq(5), one), (seq(6), at, two), (at, None, three),
        ],
        key=str,
    )  # fmt: skip
    check_versions(lake)


@pytest.mark.long
@pytest.mark.parametrize("form", CHECKS, ids=repr)
def test_a_column_that_goes_makes_rows_equal(spark: SparkSession, tmp_path: Path, form: Form) -> None:
    """Of the two that are equal then, one goes."""
    narrow = TableSchema("shop", "log", tuple(c for c in COLUMNS if c.name != "text"), ())
    lake = Lake(spark, tmp_path, {LOG.name: LOG})
    policy = Policy(form=form, drops=True)
    applier = Applier(spark, lake.layout, policy=lambda _: policy)
    gone_before = Change(seq(5), Op.DELETE, LOG.name, None, inserted(4, 1, "b").after, None)
    begun = [begin(LOG), inserted(2, 1, "a"), inserted(3, 1, "b"), inserted(4, 1, "b"), gone_before]
    first = apply(lake, applier, begun, None)
    left = {name: value for name, value in inserted(0, 1).after.items() if name != "text"}
    gone = Change(seq(9), Op.DELETE, LOG.name, None, left, None)
    second = apply(lake, applier, [altered(LOG, narrow, 8), gone], first)
    assert applier.quarantined == {}
    assert len(current(lake, form)) == 1
    apply(lake, applier, [Change(seq(10), Op.INSERT, LOG.name, None, None, left)], second)
    assert len(current(lake, form)) == 2


@pytest.mark.long
@pytest.mark.parametrize("form", CHECKS, ids=repr)
def test_more_rows_than_there_are_cannot_go(spark: SparkSession, tmp_path: Path, form: Form) -> None:
    """The table is quarantined as it is, and is right again after it was read again."""
    lake = Lake(spark, tmp_path, {LOG.name: LOG})
    applier = Applier(spark, lake.layout, policy=lambda _: Policy(form=form))
    first = apply(lake, applier, [begin(LOG), inserted(2, 1)], None)
    second = apply(lake, applier, [deleted(3, 2)], first)
    assert "a row of shop.log goes more often than it was there" in applier.quarantined[LOG.name]
    apply(lake, applier, read_again(4, [5, 5]), second)
    assert applier.quarantined == {}
    assert [row["n"] for row in current(lake, form)] == [5, 5]


@pytest.mark.long
@pytest.mark.parametrize("form", CHECKS, ids=repr)
def test_a_key_that_comes_has_the_table_built_again(spark: SparkSession, tmp_path: Path, form: Form) -> None:
    keyed = TableSchema("shop", "log", (Column("n", "int", False), *COLUMNS[1:]), ("n",))
    lake = Lake(spark, tmp_path, {LOG.name: LOG})
    policy = Policy(form=form)
    applier = Applier(spark, lake.layout, policy=lambda _: policy)
    first = apply(lake, applier, [begin(LOG), inserted(2, 1), inserted(3, 2)], None)
    found = [Change(seq(5, Rank.READ), Op.READ, LOG.name, (n,), None, inserted(2, n).after) for n in (1, 2)]
    end = Change(seq(5, Rank.END), Op.END, LOG.name, after=seq(5, Rank.READ))
    apply(lake, applier, [altered(LOG, keyed, 4), *found, end], first)
    assert applier.quarantined == {}
    assert {row["n"] for row in rows(lake)} == {1, 2}
    assert not rebuilds(spark, lake.layout, lambda _: policy)
