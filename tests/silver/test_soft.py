"""Tables with soft deletes by examples: what a deleted row keeps, how it returns, what a schema does to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.lake.tables import exists, read
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.model.seq import Rank
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.forms import SOFT_DELETES
from tests.support.bronze_writer import Lake, commit_time, gone_at
from tests.support.silver.changes import N, apply, begin, insert, seq, table
from tests.support.silver.schema_changes import altered, update


def soft(spark: SparkSession, lake: Lake) -> Applier:
    return Applier(spark, lake.layout, policy=lambda _: Policy(form=SOFT_DELETES))


def delete(schema: TableSchema, pos: int, row: dict[str, Any]) -> Change:
    return Change(seq(pos), Op.DELETE, schema.name, tuple(row[name] for name in schema.key), row, None)


def held_rows(lake: Lake, name: str, *columns: str) -> list[tuple[Any, ...]]:
    """(position since which it is gone or None, *columns) of each row, by the first of the columns."""
    rows = read(lake.spark, lake.layout.silver_table(name)).collect()
    times = {commit_time(seq(pos)): pos for pos in range(1, 30)}
    found = [(None if (at := gone_at(row)) is None else times[at], *(row[c] for c in columns)) for row in rows]
    return sorted(found, key=lambda row: str(row[1:]))


@pytest.mark.long
def test_what_is_gone_stays_and_says_since_when(spark: SparkSession, tmp_path: Path) -> None:
    one = table("one", N)
    lake = Lake(spark, tmp_path, {one.name: one})
    applier = soft(spark, lake)
    rows = [begin(one), *(insert(one, 2, key, n=key) for key in (1, 2, 3, 4)), delete(one, 3, {"id": 4, "n": 4})]
    first = apply(lake, applier, rows, None)
    assert held_rows(lake, one.name, "id", "n") == [(None, 1, 1), (None, 2, 2), (None, 3, 3), (3, 4, 4)]
    # a row is changed and deleted in one batch, another comes and goes in it, and one returns
    row = {"id": 1, "n": 1}
    changes = [update(one, 4, row, n=7), delete(one, 5, {**row, "n": 7}), insert(one, 4, 5, n=5)]
    changes += [delete(one, 6, {"id": 5, "n": 5}), insert(one, 6, 4, n=40)]
    second = apply(lake, applier, changes, first)
    after = [(5, 1, 7), (None, 2, 2), (None, 3, 3), (None, 4, 40), (6, 5, 5)]
    assert held_rows(lake, one.name, "id", "n") == after
    # a repeated read finds one of three; then all go
    found = Change(seq(8, Rank.READ), Op.READ, one.name, (2,), None, {"id": 2, "n": 2})
    third = apply(lake, applier, [found, Change(seq(9, Rank.END), Op.END, one.name, after=seq(8))], second)
    after = [(5, 1, 7), (None, 2, 2), (9, 3, 3), (9, 4, 40), (6, 5, 5)]
    assert held_rows(lake, one.name, "id", "n") == after
    apply(lake, applier, [Change(seq(10, Rank.SCHEMA), Op.TRUNCATE, one.name)], third)
    after[1] = (10, 2, 2)
    assert held_rows(lake, one.name, "id", "n") == after
    assert lake.silver(one.name) == {}
    for versions in (Versions(None, first), Versions(first, third)):
        applier.apply(versions, lake.note(versions, query="of an older checkpoint"))
        assert held_rows(lake, one.name, "id", "n") == after
    assert not exists(spark, lake.layout.tombstones(one.name))


@pytest.mark.long
def test_a_key_that_was_missed_is_gone_since_and_keeps_what_it_held(spark: SparkSession, tmp_path: Path) -> None:
    one = table("one", N)
    lake = Lake(spark, tmp_path, {one.name: one})
    applier = soft(spark, lake)

    def missed(pos: int, key: int) -> Change:
        return Change(seq(pos, Rank.READ), Op.DELETE, one.name, (key,))

    rows = [begin(one), *(insert(one, 2, key, n=key) for key in (1, 2, 3, 4)), missed(3, 4), missed(3, 9)]
    first = apply(lake, applier, rows, None)
    assert held_rows(lake, one.name, "id", "n") == [(None, 1, 1), (None, 2, 2), (None, 3, 3), (3, 4, 4)]
    # gone already: by a delete, by a truncation, or missed before; one is changed, missed, and comes again
    changes = [delete(one, 4, {"id": 1, "n": 1}), missed(5, 1), missed(5, 4), missed(5, 9), missed(5, 2), missed(6, 2)]
    changes += [update(one, 4, {"id": 3, "n": 3}, n=30), missed(5, 3), insert(one, 6, 3, n=31)]
    second = apply(lake, applier, changes, first)
    after = [(4, 1, 1), (5, 2, 2), (None, 3, 31), (3, 4, 4)]
    assert held_rows(lake, one.name, "id", "n") == after
    third = apply(lake, applier, [Change(seq(7, Rank.SCHEMA), Op.TRUNCATE, one.name), missed(8, 3)], second)
    after[2] = (7, 3, 31)
    assert held_rows(lake, one.name, "id", "n") == after
    assert {row["_seq"] for row in read(spark, lake.layout.silver_table(one.name)).where("id = 3").collect()} == {
        seq(6)
    }
    for versions in (Versions(None, first), Versions(first, third)):
        applier.apply(versions, lake.note(versions, query="of an older checkpoint"))
        assert held_rows(lake, one.name, "id", "n") == after


@pytest.mark.long
def test_a_key_that_was_missed_has_its_row_since_before_another_schema(spark: SparkSession, tmp_path: Path) -> None:
    one = table("one", N)
    two = replace(one, columns=(*one.columns, Column("d", "int")))
    lake = Lake(spark, tmp_path, {one.name: one})
    applier = soft(spark, lake)
    rows = [begin(one), insert(one, 2, 1, n=1), insert(one, 2, 2, n=2), altered(one, two, 4, id="id", n="n", d="")]
    first = apply(lake, applier, rows, None)
    second = apply(lake, applier, [Change(seq(5, Rank.READ), Op.DELETE, two.name, (1,))], first)
    after = [(5, 1, 1, None), (None, 2, 2, None)]
    assert held_rows(lake, one.name, "id", "n", "d") == after
    versions = Versions(first, second)
    soft(spark, lake).apply(versions, lake.note(versions, query="of an older checkpoint"))
    assert held_rows(lake, one.name, "id", "n", "d") == after


@pytest.mark.long
def test_a_schema_changes_what_stands_and_leaves_what_is_gone(spark: SparkSession, tmp_path: Path) -> None:
    one = table("one", N)
    two = replace(one, columns=(one.columns[0], replace(N, name="number"), Column("d", "int")))
    lake = Lake(spark, tmp_path, {one.name: one})
    rows = [begin(one), insert(one, 2, 1, n=1), insert(one, 2, 2, n=2), delete(one, 3, {"id": 1, "n": 1})]
    change = altered(one, two, 4, number="n", d="")
    change = replace(change, after={**change.after, "filled": {"d": "7"}})
    apply(lake, soft(spark, lake), [*rows, change], None)
    assert held_rows(lake, one.name, "id", "number", "d") == [(3, 1, 1, None), (None, 2, 2, 7)]


@pytest.mark.long
def test_a_row_that_is_gone_gives_way_to_one_that_stands_under_a_new_key(spark: SparkSession, tmp_path: Path) -> None:
    other = Column("c", "int", False)
    by_id, by_c = table("one", other), TableSchema("shop", "one", (table("one").columns[0], other), ("c",))
    lake = Lake(spark, tmp_path, {by_id.name: by_id})
    keys = ((1, 1), (2, 1), (3, 3), (4, 4), (5, 4), (6, 6), (7, 6))
    rows = [begin(by_id), *(insert(by_id, 2, key, c=c) for key, c in keys)]
    rows += [delete(by_id, 3, {"id": key, "c": c}) for key, c in keys if key in (1, 3, 4, 5)]
    first = apply(lake, soft(spark, lake), [*rows, altered(by_id, by_c, 4)], None)
    assert held_rows(lake, by_id.name, "c", "id") == [(None, 1, 2), (3, 3, 3)]
    # the read that follows brings those back that meet no more
    read_again = Change(seq(5, Rank.READ), Op.READ, by_c.name, (6,), None, {"id": 7, "c": 6})
    apply(lake, soft(spark, lake), [read_again], first)
    assert held_rows(lake, by_id.name, "c", "id") == [(None, 1, 2), (3, 3, 3), (None, 6, 7)]


@pytest.mark.long
def test_a_table_keeps_deletes_as_it_was_made_to(spark: SparkSession, tmp_path: Path) -> None:
    one = table("one", N)
    lake = Lake(spark, tmp_path, {one.name: one})
    first = apply(lake, soft(spark, lake), [begin(one), insert(one, 2, 1, n=5)], None)
    with pytest.raises(DefiniteError, match="is of type 1 with soft deletes, and is to be of type 1"):
        apply(lake, Applier(spark, lake.layout), [insert(one, 3, 2, n=6)], first)
