"""Silver tables clustered by columns: as they are made, through changes of the schema, and in maintenance."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.ops.maintain import maintain
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.definition.form import Form
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.forms import CURRENT, HISTORY
from tests.support.bronze_writer import Lake
from tests.support.silver.changes import ID, N, apply, begin, insert, table
from tests.support.silver.schema_changes import altered, update

DAY, FLAG = Column("the `day`", "date"), Column("flag", "tinyint", length=1)


def clusters(lake: Lake, name: str) -> list[str]:
    place = lake.layout.silver_table(name).sql
    [row] = lake.spark.sql(f"DESCRIBE DETAIL {place}").select("clusteringColumns").collect()
    return [column[1:-1].replace("``", "`") if column.startswith("`") else column for column in row[0]]


@pytest.mark.long
@pytest.mark.parametrize("form", [CURRENT, HISTORY])
def test_a_table_stays_clustered_as_its_columns_change(spark: SparkSession, tmp_path: Path, form: Form) -> None:
    """By those of the columns that it has: one is dropped, one gets another type, another comes back."""
    one = table("one", N, DAY)
    lake = Lake(spark, tmp_path, {one.name: one})
    policy = Policy(form=form, drops=True, cluster_by=("n", "the `day`", "_commit_ts"))
    applier = Applier(spark, lake.layout, policy=lambda _: policy)
    last = apply(lake, applier, [begin(one), insert(one, 2, 1, n=5), insert(one, 2, 2, n=6)], None)
    assert clusters(lake, one.name) == ["n", "the `day`", "_commit_ts"]
    row = {"id": 1, "n": 5, "the `day`": None}
    last = apply(lake, applier, [update(one, 3, row, n=7), insert(one, 3, 3, n=1)], last)
    wider = replace(one, columns=(ID, replace(N, type="varchar", length=20, charset="utf8mb4"), FLAG))
    last = apply(lake, applier, [altered(one, wider, 4), insert(wider, 5, 4, n="x", flag=1)], last)
    assert clusters(lake, one.name) == ["n", "_commit_ts"]
    again = TableSchema("shop", "one", (ID, DAY, N), ("id",))
    last = apply(lake, applier, [altered(wider, again, 6), insert(again, 7, 5, n=9)], last)
    assert clusters(lake, one.name) == ["n", "the `day`", "_commit_ts"]
    if form is CURRENT:
        assert {row["id"]: row["n"] for _, row in lake.silver(one.name).values()} == {1: 7, 2: 6, 3: 1, 4: None, 5: 9}


@pytest.mark.long
def test_maintenance_leaves_the_order_to_delta(spark: SparkSession, tmp_path: Path) -> None:
    """OPTIMIZE without an order of ours, which Delta would refuse."""
    one = table("one", N)
    lake = Lake(spark, tmp_path, {one.name: one})
    applier = Applier(spark, lake.layout, policy=lambda _: Policy(cluster_by=("n",)))
    last: int | None = None
    for at in range(2, 14):
        rows = [insert(one, at, at * 10 + i, n=i) for i in range(3)]
        last = apply(lake, applier, [*([begin(one)] if at == 2 else []), *rows], last)
    silver = tmp_path / "silver"
    place = lake.layout.silver_table(one.name)
    found = {each.table: each for each in maintain(spark, lake.layout, str(silver))}[str(place)]
    assert not found.left
    history = spark.sql(f"DESCRIBE HISTORY {place.sql}").where("operation = 'OPTIMIZE'").collect()
    assert {row["operationParameters"].get("clusterBy") for row in history} == {'["n"]'}
    assert len(lake.silver(one.name)) == 36


@pytest.mark.parametrize("column", ["nothing", pytest.param("raw", marks=pytest.mark.long)])
def test_what_cannot_be_clustered_by_is_said(spark: SparkSession, tmp_path: Path, column: str) -> None:
    """The table is set aside with the reason; the others go on."""
    one, two = table("one", Column("raw", "varbinary", length=5)), table("two", N)
    lake = Lake(spark, tmp_path, {one.name: one, two.name: two})
    policies = {one.name: Policy(cluster_by=(column,)), two.name: Policy()}
    applier = Applier(spark, lake.layout, policy=policies.__getitem__)
    apply(lake, applier, [begin(one), insert(two, 2, 1, n=1), begin(two)], None)
    why = "it is binary" if column == "raw" else "it has no such column"
    assert list(applier.quarantined) == [one.name]
    assert f"cannot be clustered by {column}: {why}" in applier.quarantined[one.name]
    assert len(lake.silver(two.name)) == 1
