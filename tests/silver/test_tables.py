"""What a silver table may be: ours, of the right columns; whatever else lies there is left as it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.lake.commits import history
from lakehouse_cdc.lake.tables import exists, read
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.changelog import Change, Op, fold
from lakehouse_cdc.model.seq import Rank
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.silver.apply.applier import Applier
from tests.support.bronze_writer import Lake
from tests.support.silver.changes import ID, N, apply, begin, delete, insert, seq, table
from tests.support.silver.histories import TEXT


@pytest.mark.long
def test_one_bad_table_fails_the_batch_but_not_the_others(spark: SparkSession, tmp_path: Path) -> None:
    good, taken, foreign = table("good 1/2"), table("taken"), table("foreign")
    lake = Lake(spark, tmp_path, {s.name: s for s in (good, taken, foreign)})
    theirs = lake.layout.silver_table(taken.name)
    spark.sql(f"CREATE TABLE {theirs.sql} USING delta AS SELECT 1 AS id")
    folder = Path(lake.layout.silver_table(foreign.name).path or "")
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    changes = [c for s in (good, taken, foreign) for c in (begin(s), insert(s, 2, 1))]
    with pytest.raises(DefiniteError, match=r"\(2 tables failed\)"):
        apply(lake, Applier(spark, lake.layout), changes, None)
    assert lake.silver(good.name) == {(good.name, (1,)): (seq(2), {"id": 1})}
    assert len(history(spark, theirs)) == 1
    assert not exists(spark, lake.layout.tombstones(taken.name))
    assert [p.name for p in folder.iterdir()] == ["notes.txt"]
    # once they are out of the way the same batch comes again, and is whole
    Path(theirs.path or "").rename(tmp_path / "theirs")
    (folder / "notes.txt").unlink()
    again = Versions(None, 1)
    Applier(spark, lake.layout).apply(again, lake.note(again))
    assert all(lake.silver(s.name) == {(s.name, (1,)): (seq(2), {"id": 1})} for s in (good, taken, foreign))


@pytest.mark.long
def test_a_table_of_many_json_columns(spark: SparkSession, tmp_path: Path) -> None:
    """What Spark makes of a row grows with their number, and does not double with each."""
    names = [f"j{n}" for n in range(30)]
    one = table("one", *(Column(name, "json") for name in names))
    lake = Lake(spark, tmp_path, {one.name: one})
    rows = {key: dict.fromkeys(names, f'{{"a": {key}}}') for key in (1, 2)}
    done = apply(lake, Applier(spark, lake.layout), [begin(one), insert(one, 2, 1, **rows[1])], None)
    apply(lake, Applier(spark, lake.layout), [insert(one, 3, 2, **rows[2]), delete(one, 4, 1)], done)
    held = read(spark, lake.layout.silver_table(one.name))
    [row] = held.selectExpr("id", *(f"to_json({name}) AS {name}" for name in names)).collect()
    assert row.asDict() == {"id": 2, **dict.fromkeys(names, '{"a":2}')}


@pytest.mark.long
def test_a_table_moved_away_is_built_anew_from_all_of_bronze(spark: SparkSession, tmp_path: Path) -> None:
    one = table("one")
    lake = Lake(spark, tmp_path, {one.name: one})
    first = apply(lake, Applier(spark, lake.layout), [begin(one), insert(one, 2, 1), insert(one, 2, 2)], None)
    moved = lake.layout.silver_table(one.name).path or ""
    Path(moved).rename(tmp_path / "elsewhere")
    versions = Versions(first, lake.commit([delete(one, 3, 1), insert(one, 4, 3)]).version)
    with pytest.raises(DefiniteError, match="silver table"):  # a crash as soon as the table is there, but empty
        _crash_after_creation(lake, versions)
    Applier(spark, lake.layout).apply(versions, lake.note(versions))
    assert set(lake.silver(one.name)) == {(one.name, (2,)), (one.name, (3,))}


def _crash_after_creation(lake: Lake, versions: Versions) -> None:
    from unittest.mock import patch

    from lakehouse_cdc.silver.forms.writers import current

    with patch.object(current, "load", side_effect=codes.INVARIANT_BROKEN.error("no silver table today")):
        Applier(lake.spark, lake.layout).apply(versions, lake.note(versions))


def test_columns_that_changed_stop_silver_before_it_writes(spark: SparkSession, tmp_path: Path) -> None:
    one = table("one", N)
    lake = Lake(spark, tmp_path, {one.name: one})
    first = apply(lake, Applier(spark, lake.layout), [begin(one), insert(one, 2, 1, n=5)], None)
    wider = table("one", Column("n", "int"))
    lake.schemas[one.name] = wider
    with pytest.raises(DefiniteError, match=r"n int differs|columns of shop.one changed"):
        apply(lake, Applier(spark, lake.layout), [begin(wider, 3), insert(wider, 4, 2, n=70_000)], first)
    assert len(read(spark, lake.layout.silver_table(one.name)).collect()) == 1


def test_a_value_that_does_not_fit_is_an_error_not_a_null(spark: SparkSession, tmp_path: Path) -> None:
    one = table("one", N)
    lake = Lake(spark, tmp_path, {one.name: one})
    applier = Applier(spark, lake.layout)
    last = apply(lake, applier, [begin(one), insert(one, 2, 1, n=70_000), insert(one, 3, 2, n=5)], None)
    assert "does not fit its column" in applier.quarantined[one.name]
    assert lake.silver(one.name) == {}
    # it is read again: what the source holds is what it holds
    again = [Change(seq(5, Rank.READ), Op.READ, one.name, (1,), None, {"id": 1, "n": 7}), insert(one, 6, 3, n=6)]
    end = Change(seq(7, Rank.END), Op.END, one.name, after=seq(4))
    apply(lake, applier, [*again, end], last)
    assert applier.quarantined == {}
    assert lake.silver(one.name) == fold(lake.written)
    assert len(lake.silver(one.name)) == 2


def test_lost_tombstones_are_missed(spark: SparkSession, tmp_path: Path) -> None:
    one = table("one")
    lake = Lake(spark, tmp_path, {one.name: one})
    first = apply(lake, Applier(spark, lake.layout), [begin(one), insert(one, 2, 1)], None)
    Path(lake.layout.tombstones(one.name).path or "").rename(tmp_path / "lost")
    with pytest.raises(DefiniteError, match=r"tombstones of shop\.one are gone"):
        apply(lake, Applier(spark, lake.layout), [insert(one, 3, 2)], first)


@pytest.mark.long
def test_rows_of_all_kinds_and_schemas_may_lie_in_one_file(spark: SparkSession, tmp_path: Path) -> None:
    """Bronze may be compacted, by us or by the platform; a scan that casts what it reads must not meet the others."""
    one, text = table("one", N), Column("n", "text", **TEXT)
    two = TableSchema("shop", "one", (replace(ID, type="text", **TEXT), text), ("id",))
    origin = {"statement": "ALTER ...", "origin": {"id": "id", "n": "n"}}
    lake = Lake(spark, tmp_path, {one.name: one})
    changes = [
        begin(one),
        *(Change(seq(2, Rank.READ), Op.READ, one.name, (n,), None, {"id": n, "n": n}) for n in (1, 2)),
        Change(seq(3, Rank.SCHEMA), Op.SCHEMA, one.name, None, one.to_dict(), {**two.to_dict(), **origin}),
        *(Change(seq(4, Rank.READ), Op.READ, two.name, (n,), None, {"id": n, "n": f"is {n}"}) for n in ("a", "b")),
        Change(seq(5, Rank.END), Op.END, one.name, None, None, seq(3)),
    ]
    lake.commit(changes)
    versions = Versions(None, lake.batches)
    Applier(spark, lake.layout).apply(versions, lake.note(versions))
    held = read(spark, lake.layout.silver_table(one.name)).collect()
    assert sorted((row.id, row.n) for row in held) == [("a", "is a"), ("b", "is b")]
