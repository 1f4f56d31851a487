"""Comments of the source on silver's tables: from their first commit on, through changes of the schema, and when those
that are there get other ones.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.comments import column_comments, table_comment
from lakehouse_cdc.lake.commits import newest_version
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.lake.tables import alter, require_owner
from lakehouse_cdc.model.changelog import fold
from lakehouse_cdc.schema.comments import Comments
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.apply.rebuild import rebuild
from lakehouse_cdc.silver.definition.engine import DELTALAKE, ENGINE, SPARK
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.definition.transform import Transform
from lakehouse_cdc.silver.tables.comments import Described, describe
from lakehouse_cdc.silver.tables.known_schemas import schemas_of
from tests.support.bronze_writer import Lake
from tests.support.silver.changes import N, apply, begin, insert, table
from tests.support.silver.engines import here, writers
from tests.support.silver.histories import TEXT
from tests.support.silver.schema_changes import altered, held_rows, update

HIDDEN = replace(Column("secret", "int"), captured=False)
ONE = table("one", N, HIDDEN)
ODD = 'it\'s a \\ "quote", a\nline; Größe, 値'
SAID = Comments("What is sold", {"id": "its number", "n": ODD, "secret": "not captured"})
SHOWN = {"id": "its number", "n": ODD}
ENGINES = {"spark": Policy(comments=SAID), "deltalake": Policy(engine="auto", comments=SAID)}
either_engine = pytest.mark.parametrize(
    "policy", [pytest.param(ENGINES["spark"], marks=pytest.mark.long), ENGINES["deltalake"]], ids=ENGINES
)


def applier(lake: Lake, policy: Policy) -> Applier:
    return Applier(lake.spark, lake.layout, policy=lambda _: policy, run_tasks=here)


def begun(spark: SparkSession, folder: Path, policy: Policy) -> tuple[Lake, int]:
    lake = Lake(spark, folder, {ONE.name: ONE})
    return lake, apply(lake, applier(lake, policy), [begin(ONE), insert(ONE, 2, 1, n=1)], None)


def columns(lake: Lake) -> dict[str, str]:
    """The comments that the silver table's columns have, without those that have none."""
    there = column_comments(lake.spark, lake.layout.silver_table(ONE.name))
    return {name: text for name, text in there.items() if text}


def of_table(lake: Lake) -> str:
    return table_comment(lake.spark, lake.layout.silver_table(ONE.name))


def newest(lake: Lake) -> int:
    return newest_version(lake.spark, lake.layout.silver_table(ONE.name))


def described(lake: Lake, policy: Policy, remembered: dict[str, str] | None = None) -> Described:
    def schemas(name: str) -> list[TableSchema]:
        return schemas_of(SparkReader(lake.spark), lake.layout, name)

    return describe(lake.spark, lake.layout, ONE.name, policy, remembered or {}, schemas)


@either_engine
def test_a_table_is_made_with_them_and_gets_others_in_one_commit_each(
    spark: SparkSession, tmp_path: Path, policy: Policy
) -> None:
    lake, after = begun(spark, tmp_path, policy)
    assert columns(lake) == SHOWN
    assert of_table(lake).startswith("What is sold (shop.one as it is now; ")
    made = newest(lake)
    known = described(lake, policy)
    assert (known.columns, known.table, newest(lake)) == ({}, "", made)  # nothing is missing
    other = replace(policy, comments=Comments("Sales", {"id": "number", "n": "how many", "secret": "so"}))
    given = described(lake, other, dict(known.remembered))
    assert given.columns == {"id": "number", "n": "how many"}
    assert columns(lake) == given.columns
    assert of_table(lake) == given.table
    assert given.table.startswith("Sales (shop.one as it is now; ")
    assert newest(lake) == made + 2
    # the table is kept by who kept it, and takes rows as before
    keeper = SPARK if policy.engine == "spark" else DELTALAKE
    last = apply(lake, applier(lake, other), [update(ONE, 5, {"id": 1, "n": 1}, n=2), insert(ONE, 5, 2, n=2)], after)
    place = lake.layout.silver_table(ONE.name)
    assert require_owner(spark, place, "tests").get(ENGINE, SPARK) == keeper
    assert writers(place, newest(lake))[-1] == keeper
    apply(lake, applier(lake, other), [insert(ONE, 6, 3, n=3)], last)
    assert lake.silver(ONE.name) == fold(lake.written)
    assert columns(lake) == given.columns


def test_what_a_person_wrote_stays_until_the_source_says_something_else(spark: SparkSession, tmp_path: Path) -> None:
    policy = ENGINES["spark"]
    lake, _ = begun(spark, tmp_path, policy)
    known = dict(described(lake, policy).remembered)
    place = lake.layout.silver_table(ONE.name)
    alter(spark, place, f"ALTER TABLE {place.sql} ALTER COLUMN n COMMENT 'by hand', _seq COMMENT 'the order'")
    version = newest(lake)
    assert described(lake, policy, known) == Described(remembered=known)
    assert newest(lake) == version
    # the source's comment of n goes: silver's is left alone, and so is a column that the source has not
    without = replace(policy, comments=Comments("What is sold", {"id": "its number", "n": "", "secret": ""}))
    known = dict(described(lake, without, known).remembered)
    assert columns(lake) == {"id": "its number", "n": "by hand", "_seq": "the order"}
    said = {"id": "its number", "n": "by the server", "secret": ""}
    other = replace(policy, comments=Comments("What is sold", said))
    described(lake, other, known)
    assert columns(lake)["n"] == "by the server"


@either_engine
def test_they_stay_with_their_columns_through_changes_of_the_schema(
    spark: SparkSession, tmp_path: Path, policy: Policy
) -> None:
    lake, after = begun(spark, tmp_path, policy)
    more = table("one", N, HIDDEN, Column("t", "text", **TEXT))
    said = replace(policy, comments=replace(SAID, columns={**SAID.columns, "t": "a note"}))
    after = apply(lake, applier(lake, said), [altered(ONE, more, 4), insert(more, 5, 3, n=3, t="4")], after)
    assert columns(lake) == {**SHOWN, "t": "a note"}
    renamed = table("one", Column("m", "smallint"), Column("t", "text", **TEXT))
    after = apply(
        lake, applier(lake, said), [altered(more, renamed, 6, m="n"), insert(renamed, 7, 4, m=3, t="5")], after
    )
    assert columns(lake) == {"id": "its number", "m": ODD, "t": "a note"}
    number = table("one", Column("m", "smallint"), Column("t", "int"))
    apply(lake, applier(lake, said), [altered(renamed, number, 8), insert(number, 9, 5, m=3, t=6)], after)
    assert columns(lake) == {"id": "its number", "m": ODD, "t": "a note"}
    assert held_rows(lake, ONE.name, "id", "t")[1:] == [(3, 4), (4, 5), (5, 6)]


@pytest.mark.long
@either_engine
def test_a_table_that_is_built_again_has_them(spark: SparkSession, tmp_path: Path, policy: Policy) -> None:
    lake, after = begun(spark, tmp_path, policy)
    other = replace(policy, transform=Transform(rename={"n": "number"}))
    assert rebuild(spark, lake.layout, ONE.name, other, after) is None
    assert columns(lake) == {"id": "its number", "number": ODD}
    assert of_table(lake).startswith("What is sold (")


@pytest.mark.long
def test_a_frozen_column_has_that_of_the_column_that_it_follows(spark: SparkSession, tmp_path: Path) -> None:
    policy = replace(ENGINES["spark"], freezes=True)
    lake, after = begun(spark, tmp_path, policy)
    renamed = table("one", Column("m", "smallint"), Column("n", "int"), HIDDEN)
    apply(lake, applier(lake, policy), [altered(ONE, renamed, 4, m="n", n=""), insert(renamed, 5, 2, m=3, n=4)], after)
    said = {"id": "", "m": "what n was", "n": "something else", "secret": ""}
    now = replace(policy, comments=Comments("", said))
    assert described(lake, now).columns == {"n": "what n was"}


@pytest.mark.long
def test_those_of_other_columns_wait_until_silver_has_these(spark: SparkSession, tmp_path: Path) -> None:
    """The server is ahead of silver, and a name there is another column's: no text comes to a wrong column."""
    lake, after = begun(spark, tmp_path, Policy())
    ahead = {"id": "its number", "m": "", "secret": "", "n": "a new column"}
    policy = Policy(comments=Comments("Sales", ahead))
    assert described(lake, policy) == Described()
    assert columns(lake) == {}
    # a table that is made then has that of the table alone
    place = lake.layout.silver_table(ONE.name)
    assert rebuild(spark, lake.layout, ONE.name, policy, after) is None
    assert columns(lake) == {}
    assert table_comment(spark, place).startswith("Sales (")
    between = table("one", Column("m", "smallint"), HIDDEN)
    now = table("one", Column("m", "smallint"), HIDDEN, Column("n", "int"))
    changes = [altered(ONE, between, 4, m="n"), altered(between, now, 5), insert(now, 6, 2, m=3, n=4)]
    apply(lake, applier(lake, policy), changes, after)
    assert columns(lake) == {"n": "a new column"}
    assert described(lake, policy).columns == {"id": "its number"}


def test_a_new_column_beside_an_old_one_has_its_comment(spark: SparkSession, tmp_path: Path) -> None:
    policy = replace(ENGINES["spark"], beside=True)
    lake, after = begun(spark, tmp_path, policy)
    other = table("one", Column("n", "text", **TEXT), HIDDEN)
    apply(lake, applier(lake, policy), [altered(ONE, other, 4), insert(other, 5, 2, n="3")], after)
    assert columns(lake) == {**SHOWN, "n__smallint": ODD}


def test_a_table_that_several_go_into_has_none_of_them(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, {ONE.name: ONE})
    lake.layout = replace(lake.layout, into=(("shop.*", "all"),))
    policy = replace(ENGINES["spark"], freezes=True)
    apply(lake, applier(lake, policy), [begin(ONE), insert(ONE, 2, 1, n=1)], None)
    assert columns(lake) == {}
    assert of_table(lake).startswith("shop.one as it is now")
    assert described(lake, policy) == Described()


def test_nothing_is_asked_of_a_table_that_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    lake: Any = Lake(spark, tmp_path, {ONE.name: ONE})
    assert described(lake, ENGINES["spark"]) == Described()
