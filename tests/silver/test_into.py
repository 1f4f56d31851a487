"""Several source tables in one silver table: what each may be, and that none touches another's rows.

That it holds for any history, in any batches, is shown by `test_fold`.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.model.seq import Rank
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.definition.form import Form, form_of_columns
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.forms import CURRENT, HISTORY, SOFT_DELETES
from lakehouse_cdc.silver.tables.properties import own_properties
from tests.support.bronze_writer import Lake
from tests.support.silver.changes import ID, N, apply, begin, delete, insert, seq
from tests.support.silver.crashes import applied
from tests.support.silver.histories import TEXT
from tests.support.silver.multisets import LOG, Writes, check_as_of, image_of, wanted
from tests.support.silver.schema_changes import altered, update

T = Column("t", "text", **TEXT)


def shard(number: int, *columns: Column, key: str = "id") -> TableSchema:
    return TableSchema(f"shop{number}", "orders", columns, (key,))


def lake_of(spark: SparkSession, folder: Path, *shards: TableSchema) -> Lake:
    lake = Lake(spark, folder, {s.name: s for s in shards})
    lake.layout = replace(lake.layout, into=(("shop*.orders", "orders"),))
    return lake


def held(lake: Lake, *columns: str) -> list[tuple[Any, ...]]:
    whole = replace(lake.layout.silver_table("shop1.orders"), part=None)
    return sorted(tuple(row[c] for c in ("_source_table", *columns)) for row in read(lake.spark, whole).collect())


@pytest.mark.long
@pytest.mark.parametrize(
    "form", [HISTORY, *(pytest.param(form, marks=pytest.mark.long) for form in (CURRENT, SOFT_DELETES))]
)
def test_each_keeps_to_its_rows(spark: SparkSession, tmp_path: Path, form: Form) -> None:
    one, two = shard(1, ID, N, T), shard(2, replace(T, name="T"), replace(N, type="int"), ID, Column("extra", "int"))
    lake = lake_of(spark, tmp_path, one, two)
    policy = Policy(freezes=True, form=form)
    applier = Applier(spark, lake.layout, policy=lambda _: policy)
    rows = [begin(one), insert(one, 2, 1, n=1, t="a"), begin(two), insert(two, 3, 1, n=2, T="b", extra=1)]
    first = apply(lake, applier, rows, None)
    assert held(lake, "id", "n", "t") == [("shop1.orders", 1, 1, "a"), ("shop2.orders", 1, 2, "b")]
    assert own_properties(SparkReader(spark), lake.layout, two.name).frozen.ignored == ("extra",)  # type: ignore[union-attr]
    # the one is emptied, and goes on under other names; the other changes a row and is read again
    three = shard(1, replace(ID, name="number"), replace(N, name="m"), T, key="number")
    truncated = Change(seq(4, Rank.SCHEMA), Op.TRUNCATE, one.name)
    back = Change(seq(6), Op.INSERT, one.name, (7,), None, {"number": 7, "m": 8, "t": "new"})
    changed = update(two, 5, {"id": 1, "n": 2, "T": "b", "extra": 1}, n=3)
    second = apply(lake, applier, [truncated, altered(one, three, 5, number="id", m="n"), back, changed], first)
    standing = [("shop1.orders", 7, 8, "new"), ("shop2.orders", 1, 3, "b")]
    assert sorted((name, *row) for name in (one.name, two.name) for row in rows_of(lake, name)) == standing
    assert [tuple(image.values()) for _, image in lake_at(lake, one, seq(3))] == [(1, 1, "a")]
    # an applier that starts anew knows both
    applier = Applier(spark, lake.layout, policy=lambda _: policy)
    apply(lake, applier, [delete(two, 8, 1)], second)
    assert [(name, *row) for name in (one.name, two.name) for row in rows_of(lake, name)] == standing[:1]
    assert len(held(lake, "id")) == {CURRENT: 1, SOFT_DELETES: 3, HISTORY: 4}[form]


@pytest.mark.long
@pytest.mark.parametrize("form", [CURRENT, HISTORY, SOFT_DELETES], ids=repr)
def test_copies_keep_to_their_rows(spark: SparkSession, tmp_path: Path, seed: int, form: Form) -> None:
    """Two random histories of tables without a key, whose rows are often equal, whatever crashes or comes again."""
    rng = random.Random(seed)
    logs = [replace(LOG, database=f"shop{number}", table="orders") for number in (1, 2)]
    lake, policy = lake_of(spark, tmp_path, *logs), Policy(freezes=True, form=form)
    histories = [Writes(rng, 4, log) for log in logs]
    for pos in range(3, 43):
        rng.choice(histories).grow(pos)
    changes = sorted((change for one in histories for change in one.changes), key=lambda change: change.seq)

    def new_applier() -> Applier:
        return Applier(spark, lake.layout, policy=lambda _: policy)

    for applier, _ in applied(lake, changes, 4, rng, new_applier):
        assert not applier.quarantined
        for log in logs:
            assert copies(lake, log) == wanted([change for change in lake.written if change.table == log.name])
    for change in rng.sample(lake.written, 2):
        for log in logs:
            check_as_of(lake, log.name, change.seq)


@pytest.mark.long
def test_a_copy_that_goes_is_one_of_its_own_table(spark: SparkSession, tmp_path: Path) -> None:
    """Of columns that the shared table lacks nothing is held, and rows that differ in these alone are copies."""
    one, two = (replace(shard(n, N, *more), key=()) for n, more in ((1, ()), (2, (Column("extra", "int"),))))
    keyed = shard(3, N, key="n")
    lake = lake_of(spark, tmp_path, one, two, keyed)
    applier = Applier(spark, lake.layout, policy=lambda _: Policy(freezes=True))
    images: list[dict[str, Any]] = [{"n": 1}, {"n": 1, "extra": 1}, {"n": 1, "extra": 2}]
    came = [
        Change(seq(2), Op.INSERT, table.name, None, None, image)
        for table, image in zip((one, two, two), images, strict=True)
    ]
    first = apply(lake, applier, [begin(one), begin(two), *came, begin(keyed)], None)
    assert held(lake, "n") == [("shop1.orders", 1), ("shop2.orders", 1), ("shop2.orders", 1)]
    gone = Change(seq(3), Op.DELETE, two.name, None, images[2], None)
    apply(lake, applier, [gone, Change(seq(4), Op.INSERT, one.name, None, None, images[0])], first)
    assert held(lake, "n") == [("shop1.orders", 1), ("shop1.orders", 1), ("shop2.orders", 1)]
    assert {name: why.split(",")[0] for name, why in applier.quarantined.items()} == {
        keyed.name: "CDC-6005: the key of shop3.orders is (n) now"
    }


def copies(lake: Lake, log: TableSchema) -> Counter[Any]:
    frame, own = read(lake.spark, lake.layout.silver_table(log.name)), lake.layout.own
    current = frame.where(form_of_columns(frame.columns, own).is_current(own)).collect()
    return Counter(map(image_of, current))


def rows_of(lake: Lake, name: str) -> list[tuple[Any, ...]]:
    frame, own = read(lake.spark, lake.layout.silver_table(name)), lake.layout.own
    current = form_of_columns(frame.columns, own).is_current(own)
    return [tuple(row) for row in frame.where(current).select("id", "n", "t").collect()]


def lake_at(lake: Lake, schema: TableSchema, at: int) -> list[tuple[int, dict[str, Any]]]:
    return lake.rows_at(schema.name, at)


@pytest.mark.long
def test_one_that_does_not_fit_is_left_out_and_the_others_go_on(spark: SparkSession, tmp_path: Path) -> None:
    one, other = shard(1, ID, N), shard(2, ID, N, key="n")
    late = shard(3, ID, Column("n", "varbinary", length=3))
    lake = lake_of(spark, tmp_path, one, other, late)
    applier = Applier(spark, lake.layout, policy=lambda _: Policy(freezes=True))
    first = apply(lake, applier, [begin(one), insert(one, 2, 1, n=1), begin(other), begin(late)], None)
    assert {name: why.split(",")[0] for name, why in applier.quarantined.items()} == {
        other.name: "CDC-6005: the key of shop2.orders is (n) now",
        late.name: "CDC-6006: column n of shop3.orders is binary now",
    }
    rekeyed = shard(1, ID, N, key="n")
    second = apply(lake, applier, [insert(one, 3, 2, n=2)], first)
    apply(lake, applier, [altered(one, rekeyed, 4)], second)
    assert one.name in applier.quarantined
    assert held(lake, "id", "n") == [("shop1.orders", 1, 1), ("shop1.orders", 2, 2)]
    assert own_properties(SparkReader(spark), lake.layout, other.name).quarantine is not None


def test_a_table_with_the_name_of_one_that_several_go_into() -> None:
    layout = Layout("p", "b", "s", path="/x", into=(("shop*.orders", "all"),))
    assert layout.sharing_names(["shop1.orders", "shop2.orders", "shop1.items"]) == {}
    group = ("shop.all", "shop1.orders")
    assert layout.sharing_names(["shop1.orders", "shop1.items", "shop.all"]) == dict.fromkeys(group, group)
