"""A deleted key stays deleted, also when its tombstone is pruned."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.model.seq import Rank
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.tables import tombstones
from lakehouse_cdc.silver.tables.guards import Guards
from tests.support.bronze_writer import Lake
from tests.support.silver.changes import apply, begin, delete, insert, seq, table


def test_an_older_change_does_not_bring_a_deleted_key_back(spark: SparkSession, tmp_path: Path) -> None:
    one = table("one")
    lake = Lake(spark, tmp_path, {one.name: one})
    graves = lake.layout.tombstones(one.name)
    apply(lake, Applier(spark, lake.layout), [begin(one), insert(one, 2, 1), insert(one, 2, 2)], None)
    late = lake.commit([Change(seq(5), Op.UPDATE, one.name, (1,), {"id": 1}, {"id": 1})]).version
    apply(lake, Applier(spark, lake.layout), [delete(one, 10, 1)], late)

    def arrive_late(query: str, applier: Applier) -> set[object]:
        versions = Versions(late - 1, late)
        applier.apply(versions, lake.note(versions, query=query))
        return {key for _, key in lake.silver(one.name)}

    assert arrive_late("late", Applier(spark, lake.layout)) == {(2,)}
    assert [(r["op"], r["key"]["id"], int(r["seq"])) for r in read(spark, graves).collect()] == [("d", 1, seq(10))]

    # young tombstones stay; old ones become a horizon in one commit, and the key does not come back
    assert tombstones.prune(spark, graves, one, keep_days=1) == Guards()
    assert tombstones.prune(spark, graves, one, keep_days=-1) == Guards(horizon=seq(10))
    assert [(r["op"], r["key"], int(r["seq"])) for r in read(spark, graves).collect()] == [("h", None, seq(10))]
    assert arrive_late("later", Applier(spark, lake.layout)) == {(2,)}

    # what is new is taken, and a truncation is remembered too
    last = apply(lake, Applier(spark, lake.layout), [insert(one, 11, 1), begin(one, 11)], late + 1)
    assert {key for _, key in lake.silver(one.name)} == {(1,), (2,)}
    apply(lake, Applier(spark, lake.layout), [Change(seq(12, Rank.SCHEMA), Op.TRUNCATE, one.name)], last)
    versions = Versions(last - 1, last)
    Applier(spark, lake.layout).apply(versions, lake.note(versions, query="latest"))
    assert lake.silver(one.name) == {}
