"""A deleted key stays deleted, also when its tombstone is pruned."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.commits import newest_version
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.model.seq import Rank
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.definition.engine import Configured
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.tables import tombstones
from lakehouse_cdc.silver.tables.guards import Guards
from tests.support.bronze_writer import Lake
from tests.support.silver.changes import apply, begin, delete, insert, seq, table
from tests.support.silver.engines import here, writers


@pytest.mark.parametrize("engine", [pytest.param("spark", marks=pytest.mark.long), "auto"])
def test_an_older_change_does_not_bring_a_deleted_key_back(
    spark: SparkSession, tmp_path: Path, engine: Configured
) -> None:
    one = table("one")
    lake = Lake(spark, tmp_path, {one.name: one})
    graves = lake.layout.tombstones(one.name)

    def new() -> Applier:
        return Applier(spark, lake.layout, policy=lambda _: Policy(engine=engine), run_tasks=here)

    apply(lake, new(), [begin(one), insert(one, 2, 1), insert(one, 2, 2)], None)
    late = lake.commit([Change(seq(5), Op.UPDATE, one.name, (1,), {"id": 1}, {"id": 1})]).version
    apply(lake, new(), [delete(one, 10, 1)], late)

    def arrive_late(query: str, applier: Applier) -> set[object]:
        versions = Versions(late - 1, late)
        applier.apply(versions, lake.note(versions, query=query))
        return {key for _, key in lake.silver(one.name)}

    assert arrive_late("late", new()) == {(2,)}
    assert [(r["op"], r["key"]["id"], int(r["seq"])) for r in read(spark, graves).collect()] == [("d", 1, seq(10))]

    # young tombstones stay; old ones become a horizon in one commit, and the key does not come back
    assert tombstones.prune(spark, graves, one, keep_days=1) == Guards()
    assert tombstones.prune(spark, graves, one, keep_days=-1) == Guards(horizon=seq(10))
    assert [(r["op"], r["key"], int(r["seq"])) for r in read(spark, graves).collect()] == [("h", None, seq(10))]
    assert arrive_late("later", new()) == {(2,)}

    # what is new is taken, and a truncation is remembered too
    last = apply(lake, new(), [insert(one, 11, 1), begin(one, 11)], late + 1)
    assert {key for _, key in lake.silver(one.name)} == {(1,), (2,)}
    apply(lake, new(), [Change(seq(12, Rank.SCHEMA), Op.TRUNCATE, one.name)], last)
    versions = Versions(last - 1, last)
    new().apply(versions, lake.note(versions, query="latest"))
    assert lake.silver(one.name) == {}
    place = lake.layout.silver_table(one.name)
    assert ("deltalake" in writers(place, newest_version(spark, place))) == (engine == "auto")
