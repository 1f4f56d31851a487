"""What silver makes of the source's columns, by examples: what is refused, and what becomes of it as a schema changes.

That it holds for any history, in any batches, is shown by `test_fold` and `test_alterations`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import ConfigError
from lakehouse_cdc.lake.tables import exists, read
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.definition.transform import NOTHING, Transform
from tests.support.bronze_writer import Lake
from tests.support.silver.changes import N, apply, begin, delete, insert, table
from tests.support.silver.histories import TEXT
from tests.support.silver.schema_changes import altered, held_rows, update

T, J = Column("t", "text", **TEXT), Column("j", "json")


def of(spark: SparkSession, lake: Lake, transform: Transform = NOTHING, **policy: Any) -> Applier:
    return Applier(spark, lake.layout, policy=lambda _: Policy(transform=transform, **policy))


def test_a_transform_survives_its_property() -> None:
    one = Transform({"Id": "ü `x`"}, {"c": "n || 'it''s'"}, "n > 1", {"db": "database_name", "at": "op_ts"})
    assert Transform.of(one.text()) == one
    assert Transform.of(None) == NOTHING


@pytest.mark.long
@pytest.mark.parametrize(
    ("transform", "what"),
    [
        (Transform(computed={"c": "nn + 1"}), "computed column c cannot be computed"),
        (Transform(computed={"c": "n +"}), "computed column c cannot be computed"),
        (Transform(computed={"c": "1 AS d"}), "computed column c cannot be computed"),
        (Transform(computed={"c": "n -- a comment"}), "computed column c cannot be computed"),
        (Transform(computed={"c": "rand()"}), "computed column c depends on chance"),
        (Transform(computed={"c": "uuid()"}), "computed column c depends on chance"),
        (Transform(computed={"c": "current_timestamp()"}), "computed column c depends on the time or the user"),
        (Transform(computed={"c": "datediff(now(), t)"}), "computed column c depends on the time or the user"),
        (Transform(computed={"c": "current_user()"}), "computed column c depends on the time or the user"),
        (Transform(computed={"c": "max(n)"}), "computed column c depends on other rows"),
        (Transform(computed={"c": "max(n) OVER ()"}), "computed column c depends on other rows"),
        (Transform(computed={"c": "(SELECT 1)"}), "computed column c depends on other rows"),
        (Transform(computed={"c": "explode(array(1))"}), "computed column c depends on more than one row"),
        (Transform(computed={"c": "j"}), "of type variant, which cannot be compared"),
        (Transform(computed={"c": "NULL"}), "of type void, which cannot be compared"),
        (Transform(computed={"N": "1"}), "two columns of the silver table would be called N"),
        (Transform(computed={"_SEQ": "1"}), "two columns of the silver table would be called _seq"),
        (Transform(rename={"t": "n"}), "two columns of the silver table would be called n"),
        (Transform(metadata={"j": "op_ts"}), "two columns of the silver table would be called j"),
        (Transform(filter="n"), "the filter is of type smallint, not boolean"),
        (Transform(filter="rand() > 0.5"), "filter depends on chance"),
    ],
)
def test_what_is_not_a_function_of_the_row_is_refused_before_anything_is_made(
    spark: SparkSession, tmp_path: Path, transform: Transform, what: str
) -> None:
    one = table("one", N, T, J)
    lake = Lake(spark, tmp_path, {one.name: one})
    with pytest.raises(ConfigError) as error:
        apply(lake, of(spark, lake, transform), [begin(one), insert(one, 2, 1, n=1, t="", j="{}")], None)
    assert what in str(error.value)
    assert not exists(spark, lake.layout.silver_table(one.name))


@pytest.mark.long
def test_columns_by_other_names_computed_filtered_and_where_they_come_from(spark: SparkSession, tmp_path: Path) -> None:
    one = table("one", N, T)
    lake = Lake(spark, tmp_path, {one.name: one})
    transform = Transform(
        {"ID": "number", "t": "Text"},
        {"loud": "upper(Text)", "next": "number + 1"},
        "n > 0",
        {"at": "op_ts", "db": "database_name", "from": "table_name"},
    )
    rows = [begin(one), insert(one, 2, 1, n=1, t="a"), insert(one, 3, 2, n=0, t="b"), insert(one, 4, 3, n=None, t="c")]
    last = apply(lake, of(spark, lake, transform), rows, None)
    silver = read(spark, lake.layout.silver_table(one.name))
    wanted = ["number", "n", "Text", "loud", "next", "at", "db", "from", "_seq", "_commit_ts"]
    assert silver.columns == wanted
    assert [row[:5] for row in silver.collect()] == [(1, 1, "a", "A", 2)]
    # one leaves, one comes, one is not seen at all
    row = {"id": 1, "n": 1, "t": "a"}
    changes = [update(one, 5, row, n=-1), update(one, 6, {"id": 2, "n": 0, "t": "b"}, n=7), delete(one, 7, 3)]
    last = apply(lake, of(spark, lake, transform), changes, last)
    [held] = read(spark, lake.layout.silver_table(one.name)).collect()
    assert held[:5] == (2, 7, "b", "B", 3)
    assert (held["db"], held["from"], held["at"]) == ("shop", "one", held[lake.layout.own.commit_ts])
    versions = Versions(last, lake.commit([insert(one, 8, 8, n=8, t="x")]).version)
    applier = of(spark, lake, replace(transform, filter=None))
    applier.apply(versions, lake.note(versions))
    [reason] = applier.quarantined.values()
    assert "was made with another rename, computed, filter or metadata" in reason


@pytest.mark.long
def test_computed_columns_follow_what_a_change_does_to_values(spark: SparkSession, tmp_path: Path) -> None:
    one = table("one", N, T)
    two = replace(one, columns=(*one.columns[:1], replace(N, type="decimal", precision=12, scale=2), T))
    lake = Lake(spark, tmp_path, {one.name: one})
    transform = Transform(computed={"shown": "CAST(n AS STRING)", "less": "n - 1S"})
    first = apply(lake, of(spark, lake, transform), [begin(one), insert(one, 2, 1, n=5, t="a")], None)
    assert held_rows(lake, one.name, "shown", "less") == [("5", 4)]
    later = [altered(one, two, 3), insert(two, 4, 2, n=6, t="b")]
    second = apply(lake, of(spark, lake, transform), later, first)
    assert [tuple(map(str, row)) for row in held_rows(lake, one.name, "shown", "less")] == [
        ("5.00", "4.00"),
        ("6.00", "5.00"),
    ]
    three = replace(two, columns=(*two.columns[:1], Column("n", "text", **TEXT), T))
    applier = of(spark, lake, transform)
    versions = Versions(second, lake.commit([altered(two, three, 5)]).version)
    applier.apply(versions, lake.note(versions))
    [said] = applier.quarantined.values()
    assert "column less" in said
    assert "and would be bigint from here on; cast it in its expression" in said


@pytest.mark.long
def test_a_column_that_an_expression_needs_may_not_go(spark: SparkSession, tmp_path: Path) -> None:
    """Only the table waits; what came is in bronze, and is taken up when the column is there again, or another name."""
    one, other = table("one", N, T), table("other", N)
    two = TableSchema("shop", "one", (*one.columns[:2], replace(T, name="text")), ("id",))
    lake = Lake(spark, tmp_path, {one.name: one, other.name: other})
    transform = Transform(filter="t <> ''")
    by_name = {one.name: Policy(transform=transform), other.name: Policy()}
    rows = [begin(one), insert(one, 2, 1, n=5, t="a"), begin(other)]
    first = apply(lake, Applier(spark, lake.layout, policy=by_name.__getitem__), rows, None)
    applier = Applier(spark, lake.layout, policy=by_name.__getitem__)
    versions = Versions(first, lake.commit([altered(one, two, 3, text="t"), insert(other, 4, 1, n=1)]).version)
    applier.apply(versions, lake.note(versions))
    assert {name: "the filter cannot be computed" in why for name, why in applier.quarantined.items()} == {
        one.name: True
    }
    assert held_rows(lake, other.name, "id") == [(1,)]
    assert held_rows(lake, one.name, "id", "t") == [(1, "a")]
    # under the old name it is the same column: a table made so goes through the change
    Path(lake.layout.silver_table(one.name).path or "").rename(tmp_path / "away")
    by_name[one.name] = Policy(transform=replace(transform, rename={"text": "t"}))
    later = Versions(
        versions.last, lake.commit([insert(two, 5, 2, n=1, text=""), insert(two, 6, 3, n=1, text="b")]).version
    )
    Applier(spark, lake.layout, policy=by_name.__getitem__).apply(later, lake.note(later))
    assert held_rows(lake, one.name, "id", "t") == [(1, "a"), (3, "b")]
    assert read(spark, lake.layout.silver_table(one.name)).columns[:3] == ["id", "n", "t"]
