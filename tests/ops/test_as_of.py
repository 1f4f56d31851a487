"""When a table can be had: only where all of it had been read, and nothing of it was being read again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from shutil import rmtree

import pytest
from pyspark.sql import Row, SparkSession

from lakehouse_cdc.errors import ConfigError, DefiniteError
from lakehouse_cdc.lake.checkpoint import Checkpoint
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.changelog import Change, Op, fold
from lakehouse_cdc.model.commit_note import SourcePoint
from lakehouse_cdc.model.moment import Moment
from lakehouse_cdc.model.seq import Rank, Seq, unpack
from lakehouse_cdc.ops.as_of import _Around, as_of
from lakehouse_cdc.ops.reach import reaches
from lakehouse_cdc.ops.timeline import timeline
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.apply.stream import SilverSink
from lakehouse_cdc.silver.tables.known_schemas import SchemaInForce
from lakehouse_cdc.silver.tables.ledger import Ledger
from lakehouse_cdc.silver.tables.ledger_table import BOUNDS
from lakehouse_cdc.sinks.stream import committed_batch
from tests.support.bronze_writer import Lake, images

T = TableSchema("shop", "t", (Column("id", "int", False), Column("v", "int")), ("id",))
LATE = TableSchema("shop", "late", T.columns, ("id",))


def change(pos: int, op: Op, key: int | None = None, value: int = 0, rank: Rank = Rank.EVENT) -> Change:
    image = {"id": key, "v": value}
    before = image if op is Op.DELETE else None
    return Change(at(pos, rank), op, "shop.t", None if key is None else (key,), before, None if before else image)


def at(pos: int, rank: Rank = Rank.EVENT) -> int:
    return Seq(1, 1, pos, rank, 0).pack()


def first(pos: int, schema: TableSchema) -> Change:
    return Change(at(pos, Rank.SCHEMA), Op.SCHEMA, schema.name, None, None, schema)


# (what a batch holds, what is being read at its end)
BATCHES: list[tuple[list[Change], Mapping[str, int]]] = [
    ([first(10, T), change(10, Op.READ, 1, 1, Rank.READ)], {"shop.t": 0}),
    ([change(15, Op.UPDATE, 1, 2), change(20, Op.READ, 2, 1, Rank.READ)], {}),
    ([change(30, Op.INSERT, 3, 1), change(40, Op.DELETE, 1, 2)], {}),
    # DDL at 50 changed rows in a way that nobody knows
    ([change(45, Op.UPDATE, 3, 2), change(60, Op.UPDATE, 2, 5)], {"shop.t": at(50, Rank.READ)}),
    ([change(70, Op.READ, 2, 6, Rank.READ), change(75, Op.INSERT, 9, 9)], {"shop.t": at(50, Rank.READ)}),
    ([Change(at(80, Rank.END), Op.END, "shop.t", None, None, at(50, Rank.READ))], {}),
    ([first(90, LATE), change(95, Op.DELETE, 9, 9)], {"shop.late": 0}),
    ([change(110, Op.INSERT, 4, 4)], {}),
]
EXACT = [20, 25, 30, 35, 40, 45, 49, 80, 85, 90, 95, 100, 110]
NOT = {
    **dict.fromkeys([5], "not captured yet"),
    **dict.fromkeys([15, 19], "not been read wholly"),
    **dict.fromkeys([10, 50, 60, 75, 79], "being read"),
}


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """All batches, each in silver and in the ledger when it was in."""
    lake = Lake(spark, tmp_path_factory.mktemp("lake"), {T.name: T, LATE.name: LATE})
    applier, ledger = Applier(spark, lake.layout), Ledger(spark, lake.layout)
    done: int | None = None
    for changes, reading in BATCHES:
        versions = Versions(done, lake.commit(changes, reading).version)
        note = lake.note(versions)
        for _ in range(2):  # a batch that comes again adds nothing
            ledger.enter(note, reading, applier.apply(versions, note))
        done = versions.last
    return lake


def position(pos: int) -> Moment:
    return Moment(position=f"binlog.000001:{pos}")


@pytest.mark.long
@pytest.mark.parametrize("pos", EXACT)
def test_where_it_was_read_wholly_it_is_the_fold(spark: SparkSession, lake: Lake, pos: int) -> None:
    frame = as_of(spark, lake.layout, position(pos), "shop.t")["shop.t"]
    wanted = fold(c for c in lake.written if c.table == "shop.t" and c.seq < at(pos + 1))
    assert sorted(images(frame, T), key=str) == sorted(wanted.values(), key=str)


@pytest.mark.long
@pytest.mark.parametrize("pos", NOT)
def test_elsewhere_it_is_refused_with_the_reason(spark: SparkSession, lake: Lake, pos: int) -> None:
    with pytest.raises(DefiniteError, match=NOT[pos]) as refused:
        as_of(spark, lake.layout, position(pos), "shop.t")
    assert "it goes back to binlog.000001:20 " in str(refused.value)


@pytest.mark.long
def test_a_table_that_comes_later_is_left_out_and_while_it_is_read_nothing_is_guessed(
    spark: SparkSession, lake: Lake
) -> None:
    assert set(as_of(spark, lake.layout, position(85), None)) == {"shop.t"}
    with pytest.raises(DefiniteError, match=r"shop.late cannot be had .* being read"):
        as_of(spark, lake.layout, position(95), None)
    assert set(as_of(spark, lake.layout, position(110), None)) == {"shop.t", "shop.late"}
    with pytest.raises(ConfigError, match="knows no table"):
        as_of(spark, lake.layout, position(110), "shop.other")


@pytest.mark.long
def test_the_ledger_has_a_row_for_each_batch(spark: SparkSession, lake: Lake) -> None:
    rows = read(spark, lake.layout.ledger).orderBy("seq").collect()
    assert [row["position"]["pos"] for row in rows] == [max(c.seq // 10**11 % 10**13 for c in b) for b, _ in BATCHES]
    assert [{k: int(v) for k, v in row["reading"].items()} for row in rows] == [dict(r) for _, r in BATCHES]
    assert set(rows[-1]["tables"]) == {"shop.t", "shop.late"}
    assert (back := reaches(SparkReader(spark), lake.layout)["shop.t"]) is not None
    assert (back.pos, back.reason) == (20, "before that its first snapshot was not complete")


@pytest.mark.parametrize(("epoch", "unbroken", "exact"), [(2, 0, True), (1, 0, False), (1, 2, False), (1, 1, True)])
def test_before_a_log_began_anew_nothing_is_known_by_its_positions(epoch: int, unbroken: int, exact: bool) -> None:
    """What stands in front is the end of the log before it, and in between there was a gap; or another server."""
    before = Row(position=Row(epoch=epoch), tables={"shop.t": 3}, reading={})
    asked, begun = (Seq(2, 1, pos, Rank.EVENT, 0).pack() for pos in (100, 500))
    newest = SourcePoint(2, "server", "b.000001", 500, unbroken=unbroken)
    around = _Around(asked, before, (begun, {"shop.t": begun}), newest)
    assert (around.inexact("shop.t", [SchemaInForce(at(10), T)], {}) is None) == exact


@pytest.mark.long
def test_an_older_checkpoint_takes_nothing_from_the_ledger(spark: SparkSession, lake: Lake) -> None:
    before = read(spark, lake.layout.ledger).count()
    again = Versions(2, 3)
    note = lake.note(again, query="older", batch=0)
    Ledger(spark, lake.layout).enter(note, {}, Applier(spark, lake.layout).apply(again, note))
    assert read(spark, lake.layout.ledger).count() == before
    frame = as_of(spark, lake.layout, position(30), "shop.t")["shop.t"]
    assert sorted(image["id"] for _, image in images(frame, T)) == [1, 2, 3]


@pytest.mark.long
def test_the_ledger_of_another_bronze_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path / "one", {T.name: T})
    versions = Versions(None, lake.commit(BATCHES[0][0], {}).version)
    note = lake.note(versions)
    Ledger(spark, lake.layout).enter(note, {}, Applier(spark, lake.layout).apply(versions, note))
    rmtree(tmp_path / "one" / "lake" / "b")
    rmtree(tmp_path / "one" / "checkpoint")
    anew = Lake(spark, tmp_path / "one", {T.name: T})
    versions = Versions(None, anew.commit(BATCHES[0][0], {}).version)
    with pytest.raises(DefiniteError, match=r"ledger is of another bronze.* move the ledger away"):
        Ledger(spark, anew.layout).enter(anew.note(versions), {}, [])
    with pytest.raises(DefiniteError, match="ledger is of another bronze"):
        as_of(spark, anew.layout, position(10), "shop.t")


@pytest.mark.long
def test_the_ledger_keeps_the_bounds_of_each_commit_of_bronze(spark: SparkSession, tmp_path: Path) -> None:
    """Also one that an earlier release began; what it does not hold yet is in bronze's own commits."""
    lake, base = Lake(spark, tmp_path, {T.name: T}), 1_700_000_000_000_000
    applier, at_end = Applier(spark, lake.layout), {20: (base, base + 1), 40: (base + 2, base + 9)}
    first = lake.commit(BATCHES[0][0], {}).version
    note = lake.note(Versions(None, first), batch=0)
    Ledger(spark, lake.layout).enter(note, {}, applier.apply(Versions(None, first), note))
    spark.sql(f"ALTER TABLE {lake.layout.ledger.sql} SET TBLPROPERTIES (delta.appendOnly = false)")
    old = read(spark, lake.layout.ledger).drop(BOUNDS)
    old.write.format("delta").mode("overwrite").option("overwriteSchema", True).save(str(lake.layout.ledger))
    assert reaches(SparkReader(spark), lake.layout)["shop.t"] is not None
    last = [lake.commit(BATCHES[n][0], {}, at_end[pos]).version for n, pos in ((1, 20), (2, 40))][-1]

    def marks(time: int) -> list[tuple[int, int, int]]:
        found = timeline(spark, lake.layout, time, newest=at(10**9)).marks
        return [(unpack(mark.seq).pos, mark.bounds.after - base, mark.bounds.by - base) for mark in found]

    both = [(20, 0, 1), (40, 2, 9)]
    before = {time: marks(base + time) for time in (-1, 0, 1, 5, 20)}
    assert before == {-1: both, 0: both, 1: both, 5: both, 20: both[1:]}
    place = tmp_path / "silver"
    (place / "offsets").mkdir(parents=True)
    (place / "metadata").write_text(json.dumps({"id": "the-silver-query"}))
    for batch, version in enumerate((first, last)):
        end = {"reservoirVersion": version + 1, "index": -1, "isStartingVersion": False}
        (place / "offsets" / str(batch)).write_text("v1\n{}\n" + json.dumps(end))
    SilverSink(spark, lake.layout, applier).apply(committed_batch(spark, lake.layout, Checkpoint(str(place)), 1))
    rows = read(spark, lake.layout.ledger).orderBy("seq").collect()
    assert [row["bounds"] and len(row["bounds"]) for row in rows] == [None, 2]
    assert {time: marks(base + time) for time in before} == {-1: both[:1], 0: both, 1: both, 5: both[:], 20: both[1:]}
