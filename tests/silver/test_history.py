"""Tables of type 2 by examples: what begins a version, what a schema does to those that have ended, what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.tables import exists, read
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.model.own_columns import END_AT, START_AT
from lakehouse_cdc.model.seq import Rank, unpack
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.forms import HISTORY
from tests.support.bronze_writer import Lake
from tests.support.silver.changes import N, apply, begin, delete, insert, seq, table
from tests.support.silver.histories import TEXT
from tests.support.silver.schema_changes import altered, update

M = Column("m", "int")


def history(spark: SparkSession, lake: Lake, **policy: Any) -> Applier:
    return Applier(spark, lake.layout, policy=lambda _: Policy(form=HISTORY, beside=True, **policy))


def held_versions(lake: Lake, name: str, *columns: str) -> list[tuple[Any, ...]]:
    """(position where it begins, where it ends or None, *columns), by key and time."""
    rows = read(lake.spark, lake.layout.silver_table(name)).orderBy("id", f"{START_AT}.seq").collect()

    def pos(moment: Any) -> int | None:
        return None if moment is None else unpack(int(moment.seq)).pos

    return [(pos(row[START_AT]), pos(row[END_AT]), *(row[c] for c in columns)) for row in rows]


@pytest.mark.long
def test_versions_of_what_is_tracked(spark: SparkSession, tmp_path: Path) -> None:
    one = table("one", N, M)
    lake = Lake(spark, tmp_path, {one.name: one})
    applier, place = history(spark, lake, track=("n",)), lake.layout.silver_table(one.name)
    row = {"id": 1, "n": 5, "m": 5}
    read_again = [
        Change(seq(8, Rank.READ), Op.READ, one.name, (1,), None, {"id": 1, "n": 6, "m": 7}),
        Change(seq(9, Rank.END), Op.END, one.name, after=seq(8)),
    ]
    first = apply(lake, applier, [begin(one), insert(one, 2, 1, n=5, m=5), insert(one, 2, 2, n=1, m=1)], None)
    later = [update(one, 3, row, m=6), update(one, 4, {**row, "m": 6}, n=6), delete(one, 5, 1)]
    second = apply(lake, applier, later, first)
    third = apply(lake, applier, [insert(one, 6, 1, n=6, m=6), update(one, 7, {**row, "n": 6, "m": 6}, m=7)], second)
    ended = [(2, 4, 1, 5, 6), (4, 5, 1, 6, 6)]
    assert held_versions(lake, one.name, "id", "n", "m") == [*ended, (6, None, 1, 6, 7), (2, None, 2, 1, 1)]
    assert dict(read(spark, place).dtypes)[START_AT] == "struct<seq:decimal(38,0),commit_ts:timestamp>"
    # read again, a row is as it was, and one is gone: that is seen there, whenever it was
    fourth = apply(lake, applier, read_again, third)
    assert held_versions(lake, one.name, "id", "n", "m") == [*ended, (6, None, 1, 6, 7), (2, 9, 2, 1, 1)]
    apply(lake, applier, [Change(seq(10, Rank.SCHEMA), Op.TRUNCATE, one.name)], fourth)
    ended += [(6, 10, 1, 6, 7), (2, 9, 2, 1, 1)]
    assert held_versions(lake, one.name, "id", "n", "m") == ended
    older = Versions(first, third)
    applier.apply(older, lake.note(older, query="of an older checkpoint"))
    assert held_versions(lake, one.name, "id", "n", "m") == ended
    assert not exists(spark, lake.layout.tombstones(one.name))


@pytest.mark.long
def test_what_has_ended_keeps_what_it_held_under_every_schema(spark: SparkSession, tmp_path: Path) -> None:
    text = Column("t", "text", **TEXT)
    one = table("one", N, text)
    two = TableSchema("shop", "one", (one.columns[0], replace(N, name="number"), M, Column("d", "int")), ("id",))
    three = replace(two, columns=(*two.columns[:2], replace(text, name="m"), Column("t", "bigint"), two.columns[3]))
    lake = Lake(spark, tmp_path, {one.name: one})
    row = {"id": 1, "n": 5, "t": "a"}
    rows = [begin(one), insert(one, 2, 1, n=5, t="a"), update(one, 3, row, t="b"), insert(one, 3, 2, n=1, t="c")]
    first = apply(lake, history(spark, lake), rows, None)
    # n is renamed, t goes, m comes with NULL and d with a constant
    change = altered(one, two, 4, number="n", m="", d="")
    change = replace(change, after={**change.after, "filled": {"d": "7"}})
    second = apply(
        lake, history(spark, lake), [change, update(two, 5, {"id": 1, "number": 5, "m": None, "d": 7}, m=1)], first
    )
    held = [(2, 3, 5, "a", None, None), (3, 5, 5, "b", None, 7), (5, None, 5, None, 1, 7), (3, None, 1, "c", None, 7)]
    assert held_versions(lake, one.name, "number", "t", "m", "d") == held
    # m gets another type; another t comes, so the old one gets out of its way
    change = altered(two, three, 6, t="")
    apply(
        lake,
        history(spark, lake),
        [change, update(three, 7, {"id": 2, "number": 1, "m": None, "t": None, "d": 7}, t=9)],
        second,
    )
    assert held_versions(lake, one.name, "number", "t__dropped", "m__int", "d", "m", "t") == [
        (2, 3, 5, "a", None, None, None, None),
        (3, 5, 5, "b", None, 7, None, None),
        (5, None, 5, None, 1, 7, "1", None),
        (3, 7, 1, "c", None, 7, None, None),
        (7, None, 1, None, None, 7, None, 9),
    ]


@pytest.mark.long
def test_rows_that_meet_under_a_new_key_end(spark: SparkSession, tmp_path: Path) -> None:
    other = Column("c", "int", False)
    by_id, by_c = table("one", other), TableSchema("shop", "one", (table("one").columns[0], other), ("c",))
    lake = Lake(spark, tmp_path, {by_id.name: by_id})
    rows = [begin(by_id), *(insert(by_id, 2, key, c=c) for key, c in ((1, 1), (2, 1), (3, 3)))]
    apply(lake, history(spark, lake), [*rows, altered(by_id, by_c, 3)], None)
    assert held_versions(lake, by_id.name, "c") == [(2, 3, 1), (2, 3, 1), (2, None, 3)]


@pytest.mark.long
def test_rows_that_have_no_key_yet_end_with_the_read_that_finds_it(spark: SparkSession, tmp_path: Path) -> None:
    """Two of them are alike, so nothing tells them apart but that they are two."""
    by_id, k = table("one", N), Column("k", "int", False)
    by_k = TableSchema("shop", "one", (k, N), ("k",))
    lake = Lake(spark, tmp_path, {by_id.name: by_id})
    applier = history(spark, lake)
    rows = [begin(by_id), *(insert(by_id, 2, key, n=5) for key in (1, 2))]
    first = apply(lake, applier, [*rows, altered(by_id, by_k, 3)], None)
    reading = [
        Change(seq(4, Rank.READ), Op.READ, by_k.name, (key,), None, {"k": key, "n": 5}) for key in (1, 2)
    ]  # fmt: skip
    reading.append(Change(seq(5, Rank.END), Op.END, by_k.name, after=seq(4)))
    second = apply(lake, applier, reading, first)
    held = [(4, None, 1, 5), (4, None, 2, 5), (2, 5, None, 5), (2, 5, None, 5)]
    assert sorted(held_versions(lake, by_id.name, "k", "n"), key=str) == sorted(held, key=str)
    older = Versions(first, second)
    applier.apply(older, lake.note(older, query="of an older checkpoint"))
    assert sorted(held_versions(lake, by_id.name, "k", "n"), key=str) == sorted(held, key=str)


def test_the_type_of_a_table_stays(spark: SparkSession, tmp_path: Path) -> None:
    one = table("one", N)
    lake = Lake(spark, tmp_path, {one.name: one})
    first = apply(lake, history(spark, lake), [begin(one), insert(one, 2, 1, n=5)], None)
    applier = Applier(spark, lake.layout)
    apply(lake, applier, [insert(one, 3, 2, n=6)], first)
    [reason] = applier.quarantined.values()
    assert "is of type 2, and is to be of type 1" in reason


@pytest.mark.long
def test_a_column_to_track_that_is_not_there_quarantines_its_table(spark: SparkSession, tmp_path: Path) -> None:
    one, two = table("one", N), table("two", N, M)
    lake = Lake(spark, tmp_path, {t.name: t for t in (one, two)})
    applier = history(spark, lake, track=("m",))
    rows = [begin(one), insert(one, 2, 1, n=5), begin(two), insert(two, 2, 1, n=5, m=5)]
    first = apply(lake, applier, rows, None)
    assert applier.quarantined.keys() == {"shop.one"}
    assert "has no column m, whose history is to be tracked" in applier.quarantined["shop.one"]
    assert held_versions(lake, two.name, "m") == [(2, None, 5)]
    # with another setting it takes up from there
    apply(lake, history(spark, lake, track=()), [update(one, 3, {"id": 1, "n": 5}, n=6)], first)
    assert held_versions(lake, one.name, "n") == [(2, None, 6)]
