"""What a change of the schema costs and keeps, and what is refused as one: by examples."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import DefiniteError, TransientError, codes
from lakehouse_cdc.lake.commits import history
from lakehouse_cdc.lake.failpoints import Door, Moment
from lakehouse_cdc.lake.tables import read, require_owner, set_properties
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.changelog import Change, Op, fold
from lakehouse_cdc.model.seq import Rank
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.silver.apply import schema_executor
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.apply.stream import version_at
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.tables.properties import CHANGING, LEFT, SCHEMA_ID, SCHEMA_SEQ
from lakehouse_cdc.silver.tables.table_definition import STATISTICS, WIDENING
from tests.support.bronze_writer import Lake
from tests.support.crash_points import Crash, failing_at
from tests.support.silver.changes import ID, N, apply, begin, delete, insert, seq, table
from tests.support.silver.histories import TEXT
from tests.support.silver.schema_changes import altered, held_rows, update

pytestmark = pytest.mark.usefixtures("parts_both_ways")


def actions(lake: Lake, name: str, after: int) -> list[dict[str, Any]]:
    """What the commits of a silver table behind that version did, one dict for each, by the names of Delta's log."""
    log = Path(lake.layout.silver_table(name).path or "") / "_delta_log"
    commits = sorted(p for p in log.glob("*.json") if int(p.stem) > after)
    return [{k: v for line in p.read_text().splitlines() for k, v in json.loads(line).items()} for p in commits]


@pytest.mark.long
def test_a_column_that_is_another_one_under_the_same_schema(spark: SparkSession, tmp_path: Path) -> None:
    """As after `DROP COLUMN n, ADD COLUMN n`, and after two columns have exchanged their names."""
    one = table("one", N, Column("m", "smallint"))
    lake = Lake(spark, tmp_path, {one.name: one})
    applier = Applier(spark, lake.layout)
    first = apply(lake, applier, [begin(one), insert(one, 2, 1, n=5, m=6)], None)
    second = apply(lake, applier, [altered(one, one, 3, n="m", m="n"), insert(one, 4, 2, n=7, m=8)], first)
    assert held_rows(lake, one.name, "id", "n", "m") == [(1, 6, 5), (2, 7, 8)]
    apply(lake, applier, [altered(one, one, 5, n=""), insert(one, 6, 3, n=9, m=9)], second)
    assert held_rows(lake, one.name, "id", "n", "m") == [(1, None, 5), (2, None, 8), (3, 9, 9)]


@pytest.mark.long
def test_a_rename_and_an_addition_move_no_data(spark: SparkSession, tmp_path: Path) -> None:
    one = table("one", N)
    two = TableSchema("shop", "one", (replace(ID, name="Id of `it`"), Column("m", "smallint"), N), ("Id of `it`",))
    lake = Lake(spark, tmp_path, {one.name: one})
    applier, place = Applier(spark, lake.layout), lake.layout.silver_table(one.name)
    first = apply(lake, applier, [begin(one), insert(one, 2, 1, n=5), insert(one, 2, 2, n=6)], None)
    before = history(spark, place)[0].version
    change = altered(one, two, 3, m="n", n="", **{"Id of `it`": "id"})
    second = apply(lake, applier, [change], first)
    commits = actions(lake, one.name, before)
    assert len(commits) == 6  # two phases begin, two renames, an addition, the end
    assert not any({"add", "remove"} & commit.keys() for commit in commits)
    assert [row for _, (_, row) in sorted(lake.silver(one.name).items())] == [
        {"Id of `it`": key, "m": value, "n": None} for key, value in ((1, 5), (2, 6))
    ]
    assert read(spark, place).columns[:3] == ["Id of `it`", "m", "n"]
    held = require_owner(spark, place, "tests")
    assert (held[SCHEMA_ID], held[SCHEMA_SEQ]) == (two.id, str(change.seq))
    assert held[STATISTICS] == "_seq,_commit_ts,`Id of ``it```"
    # each commit says what batch it is of: the table can be read as it stood before
    assert version_at(spark, place, first) == before
    assert version_at(spark, place, second) == before + 6
    # all of it again, as batches that Delta has not seen
    for again in (Versions(None, first), Versions(None, second)):
        Applier(spark, lake.layout).apply(again, lake.note(again, query="anew"))
    assert history(spark, place)[0].version == before + 6
    # DROP and ADD of one name, beside a key with a name that Delta quotes among its statistics
    anew = replace(two, columns=(*two.columns[:2], Column("n", "int")))
    apply(lake, applier, [altered(two, anew, 4, n=""), Change(seq(5, Rank.SCHEMA), Op.TRUNCATE, one.name)], second)
    assert dict(read(spark, place).dtypes)["n"] == "int"


@pytest.mark.long
def test_an_addition_to_a_million_rows_moves_none(spark: SparkSession, tmp_path: Path) -> None:
    one, two = table("one"), table("one", Column("m", "smallint"))
    lake = Lake(spark, tmp_path, {one.name: one})
    applier, place = Applier(spark, lake.layout), lake.layout.silver_table(one.name)
    first = apply(lake, applier, [begin(one), insert(one, 2, 1)], None)
    values = ["CAST(id AS INT) AS id", f"CAST({seq(2)}BD AS DECIMAL(38,0)) AS _seq", "now() AS _commit_ts"]
    rows = spark.range(2, 1_000_001).selectExpr(*values)
    rows.write.format("delta").mode("append").save(place.path)
    before = history(spark, place)[0].version
    apply(lake, applier, [altered(one, two, 3)], first)
    commits = actions(lake, one.name, before)
    assert commits
    assert not any({"add", "remove"} & commit.keys() for commit in commits)
    assert read(spark, place).where("m IS NULL").count() == 1_000_000


@pytest.mark.long
def test_a_new_column_is_filled_with_what_all_rows_hold(spark: SparkSession, tmp_path: Path) -> None:
    one = table("one", N)
    two = table("one", N, Column("d", "decimal", precision=5, scale=2), Column("t", "text", **TEXT), Column("x", "int"))
    lake = Lake(spark, tmp_path, {one.name: one})
    rows = [begin(one), insert(one, 2, 1, n=5), insert(one, 2, 2, n=None)]
    first = apply(lake, Applier(spark, lake.layout), rows, None)
    change = altered(one, two, 3)
    change = replace(change, after={**change.after, "filled": {"d": "1.50", "t": "it's"}})
    failure = codes.INVARIANT_BROKEN.error("not today")
    with patch.object(schema_executor, "_finish", side_effect=failure), pytest.raises(DefiniteError):
        apply(lake, Applier(spark, lake.layout), [change, insert(two, 4, 3, n=1, d=None, t=None, x=7)], first)
    held = [(1, 5, Decimal("1.50"), "it's", None), (2, None, Decimal("1.50"), "it's", None)]
    assert held_rows(lake, one.name, "id", "n", "d", "t", "x") == held
    versions = Versions(first, lake.batches)
    Applier(spark, lake.layout).apply(versions, lake.note(versions))
    assert held_rows(lake, one.name, "id", "n", "d", "t", "x") == [*held, (3, 1, None, None, 7)]
    assert lake.silver(one.name) == fold(lake.written)


@pytest.mark.long
def test_a_dropped_column_is_kept_and_ends_with_its_name(spark: SparkSession, tmp_path: Path) -> None:
    one, bare = table("one", N, Column("x", "text", **TEXT)), table("one", Column("x", "text", **TEXT))
    again = table("one", Column("x", "text", **TEXT), Column("N", "bigint"))
    lake = Lake(spark, tmp_path, {one.name: one})
    rows = [begin(one), *(insert(one, 2, key, n=key, x="a") for key in (1, 2, 3))]
    first = apply(lake, Applier(spark, lake.layout), rows, None)
    later = [altered(one, bare, 3), update(bare, 4, {"id": 1, "x": "a"}, x="b"), delete(bare, 4, 3)]
    second = apply(lake, Applier(spark, lake.layout), [*later, insert(bare, 5, 3, x="c")], first)
    kept = [(1, None, "b"), (2, 2, "a"), (3, None, "c")]
    assert held_rows(lake, one.name, "id", "n", "x") == kept
    # a process that starts anew takes the kept column for what it is, but no column of anybody else's
    third = apply(lake, Applier(spark, lake.layout), [insert(bare, 6, 4, x="d")], second)
    assert held_rows(lake, one.name, "id", "n", "x") == [*kept, (4, None, "d")]
    place = lake.layout.silver_table(one.name)
    spark.sql(f"ALTER TABLE {place.sql} ADD COLUMNS (mine INT)")
    with pytest.raises(DefiniteError, match="other columns than expected: mine int differs"):
        apply(lake, Applier(spark, lake.layout), [insert(bare, 7, 5, x="e")], third)
    spark.sql(f"ALTER TABLE {place.sql} DROP COLUMN mine")
    change = altered(bare, again, 8)
    versions = Versions(third, lake.commit([change, insert(again, 9, 6, x="f", N=9)]).version)
    Applier(spark, lake.layout).apply(versions, lake.note(versions))
    assert "n" not in read(spark, place).columns
    assert lake.silver(one.name) == fold(lake.written)


@pytest.mark.long
def test_dropped_columns_go_where_that_is_wished_without_a_file_moved(spark: SparkSession, tmp_path: Path) -> None:
    odd = TableSchema("shop", "one", (replace(ID, name="Id of `it`"), N, Column("m", "int")), ("Id of `it`",))
    less, least = replace(odd, columns=odd.columns[:2]), replace(odd, columns=odd.columns[:1])
    lake = Lake(spark, tmp_path, {odd.name: odd})
    place = lake.layout.silver_table(odd.name)
    row = {"Id of `it`": 1, "n": 5, "m": 6}
    begun = [begin(odd), Change(seq(2), Op.INSERT, odd.name, (1,), None, row)]
    first = apply(lake, Applier(spark, lake.layout), begun, None)
    second = apply(lake, Applier(spark, lake.layout), [altered(odd, less, 3)], first)  # kept as yet
    before = history(spark, place)[0].version
    change, drops = (
        altered(less, least, 4),
        Applier(spark, lake.layout, policy=lambda name: Policy(drops=name == odd.name)),
    )
    failure = codes.INVARIANT_BROKEN.error("not today")
    with patch.object(schema_executor, "_finish", side_effect=failure), pytest.raises(DefiniteError):
        apply(lake, drops, [change], second)
    versions = Versions(second, lake.batches)
    drops.apply(versions, lake.note(versions))
    assert read(spark, place).columns == ["Id of `it`", "_seq", "_commit_ts"]
    assert not any({"add", "remove"} & commit.keys() for commit in actions(lake, odd.name, before))
    assert lake.silver(odd.name) == fold(lake.written)


@pytest.mark.long
def test_a_column_of_another_type_may_stay_beside_the_new_one(spark: SparkSession, tmp_path: Path) -> None:
    one = table("one", Column("x", "text", **TEXT), Column("y", "int"))
    two = TableSchema("shop", "one", (ID, Column("x", "int"), Column("z", "bigint")), ("id",))
    lake = Lake(spark, tmp_path, {one.name: one})
    rows = [begin(one), *(insert(one, 2, key, x=x, y=key) for key, x in ((1, "5"), (2, "05"), (3, "?")))]
    first = apply(lake, Applier(spark, lake.layout), rows, None)
    change, place = altered(one, two, 3, z="y"), lake.layout.silver_table(one.name)
    beside = Applier(spark, lake.layout, policy=lambda _: Policy(beside=True))
    versions = Versions(first, lake.commit([change, update(two, 4, {"id": 1, "x": 5, "z": 1}, x=6)]).version)
    with failing_at(Door.STATEMENT, Moment.AFTER, "one", number=2, error=Crash), pytest.raises(TransientError):
        beside.apply(versions, lake.note(versions))
    assert {"x__string", "z"} - set(read(spark, place).columns)  # it had not come to the end
    beside.apply(versions, lake.note(versions))
    assert dict(read(spark, place).dtypes)["x__string"] == "string"
    assert dict(read(spark, place).dtypes)["x"] == "int"
    # wider, a column is the same one; of the others what both types say is carried over, the rest is read again
    assert held_rows(lake, one.name, "id", "x", "z", "x__string") == [
        (1, 6, 1, None), (2, None, 2, "05"), (3, None, 3, "?")
    ]  # fmt: skip
    versions = Versions(versions.last, lake.commit([insert(two, 5, 4, x=7, z=7)]).version)
    Applier(spark, lake.layout).apply(versions, lake.note(versions))
    assert held_rows(lake, one.name, "id", "x", "x__string")[-1] == (4, 7, None)


@pytest.mark.long
def test_a_table_built_anew_goes_on_after_a_crash_between_two_schemas(spark: SparkSession, tmp_path: Path) -> None:
    one, two = table("one", N), table("one", Column("m", "smallint"))
    lake = Lake(spark, tmp_path, {one.name: one})
    lake.commit([begin(one), insert(one, 2, 1, n=5), altered(one, two, 3, m="n"), insert(two, 4, 2, m=6)])
    last = lake.commit([insert(two, 5, 3, m=7)]).version
    versions = Versions(last - 1, last)
    failure = codes.INVARIANT_BROKEN.error("not today")
    with patch.object(schema_executor, "evolve", side_effect=failure), pytest.raises(DefiniteError):
        Applier(spark, lake.layout).apply(versions, lake.note(versions))
    assert held_rows(lake, one.name, "id", "n") == [(1, 5)]
    Applier(spark, lake.layout).apply(versions, lake.note(versions))
    assert lake.silver(one.name) == fold(lake.written)
    assert len(lake.silver(one.name)) == 3


@pytest.mark.long
def test_a_table_of_an_earlier_release_widens_and_is_rewritten(spark: SparkSession, tmp_path: Path) -> None:
    text = Column("t", "text", **TEXT)
    one = table("one", N, Column("m", "int"), text, Column("j", "json"), Column("b", "blob"), replace(text, name="z"))
    types = [Column("n", "bigint"), replace(text, name="m"), Column("t", "json"), replace(text, name="j")]
    two = table("one", *types, Column("b", "int"), Column("z", "int"))
    lake = Lake(spark, tmp_path, {one.name: one})
    values = {"n": 5, "m": 7, "t": '{"a": 1}', "j": '{"b": 2}', "b": b"7", "z": "05"}
    first = apply(lake, Applier(spark, lake.layout), [begin(one), insert(one, 2, 1, **values)], None)
    place = lake.layout.silver_table(one.name)
    spark.sql(f"ALTER TABLE {place.sql} SET TBLPROPERTIES ('{WIDENING}' = 'false')")
    spark.sql(f"ALTER TABLE {place.sql} UNSET TBLPROPERTIES ('{SCHEMA_ID}')")
    apply(lake, Applier(spark, lake.layout), [altered(one, two, 3)], first)
    (row,) = read(spark, place).collect()
    assert (row["id"], row["n"], row["m"], row["t"].toJson(), row["j"]) == (1, 5, "7", '{"a":1}', '{"b":2}')
    # what no cast takes there and back is not guessed
    assert (row["b"], row["z"], int(row["_seq"])) == (None, None, seq(2))
    kinds = [f.dataType.simpleString() for f in read(spark, place).schema]
    assert kinds == ["int", "bigint", "string", "variant", "string", "int", "int", "decimal(38,0)", "timestamp"]


@pytest.mark.long
def test_rows_that_meet_under_a_new_key_do_not_stay_two(spark: SparkSession, tmp_path: Path) -> None:
    """The key goes to another column and back before the table was read again."""
    other = Column("c", "int", False)
    by_id, by_c = table("one", other), TableSchema("shop", "one", (ID, other), ("c",))
    lake = Lake(spark, tmp_path, {by_id.name: by_id})
    name, applier = by_id.name, Applier(spark, lake.layout)
    start = [begin(by_id), insert(by_id, 2, 1, c=1), insert(by_id, 2, 2, c=2), delete(by_id, 3, 2)]
    first = apply(lake, applier, start, None)
    # what the statement did to c, silver cannot know: the row has c = 9 now, and comes as one that silver has not
    row = {"id": 1, "c": 9}
    moved = [altered(by_id, by_c, 4), Change(seq(5, Rank.READ), Op.READ, name, (9,), None, row)]
    second = apply(lake, applier, moved, first)
    assert held_rows(lake, name, "id", "c") == [(1, 1), (1, 9)]
    graves = read(spark, lake.layout.tombstones(name)).collect()
    assert [(r["op"], r["key"], int(r["seq"])) for r in graves] == [("h", None, seq(4, Rank.SCHEMA))]
    back = [altered(by_c, by_id, 6), update(by_id, 7, row, c=3)]
    end = Change(seq(8, Rank.END), Op.END, name, None, None, seq(7))
    apply(lake, applier, [*back, end], second)
    assert held_rows(lake, name, "id", "c") == [(1, 3)]


def gone(schema: TableSchema, pos: int) -> Change:
    after = {"statement": "DROP TABLE ...", "dropped": True}
    return Change(seq(pos, Rank.SCHEMA), Op.SCHEMA, schema.name, None, schema.to_dict(), after)


@pytest.mark.long
def test_a_table_that_was_dropped_is_kept_and_says_so_until_there_is_one_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    one, two = table("one", N), table("one", Column("x", "text", **TEXT))
    lake = Lake(spark, tmp_path, {one.name: one})
    place = lake.layout.silver_table(one.name)

    def marked() -> int:
        return int(require_owner(spark, place, "tests").get(LEFT, "0"))

    first = apply(lake, Applier(spark, lake.layout), [begin(one), insert(one, 2, 1, n=5)], None)
    applier = Applier(spark, lake.layout)
    second = apply(lake, applier, [insert(one, 3, 2, n=6), gone(one, 4)], first)
    assert (held_rows(lake, one.name, "id", "n"), marked()) == ([(1, 5), (2, 6)], seq(4, Rank.SCHEMA))
    row = Change(seq(6, Rank.READ), Op.READ, one.name, (2,), None, {"id": 2, "x": "a"})
    end = Change(seq(8, Rank.END), Op.END, one.name, None, None, seq(6))
    third = apply(lake, applier, [altered(one, two, 6), row, insert(two, 7, 3, x="b"), end], second)
    assert (held_rows(lake, one.name, "id", "x"), marked()) == ([(2, "a"), (3, "b")], 0)
    # the older batches again, in a process that knows nothing of them
    for again in (Versions(first, second), Versions(None, third)):
        Applier(spark, lake.layout).apply(again, lake.note(again, query="anew"))
        assert (held_rows(lake, one.name, "id", "x"), marked()) == ([(2, "a"), (3, "b")], 0)
    # gone, back under the same schema, and gone again, in one batch
    come_and_go = [gone(two, 9), altered(two, two, 10), insert(two, 11, 4, x="c"), gone(two, 12)]
    apply(lake, applier, come_and_go, third)
    assert (held_rows(lake, one.name, "id"), marked()) == ([(2,), (3,), (4,)], seq(12, Rank.SCHEMA))
    assert lake.silver(one.name) == fold(lake.written)
    schemas = read(spark, lake.layout.schemas).orderBy("seq").collect()
    assert [(r["schema_id"], r["schema"] is None) for r in schemas] == [
        (one.id, False), (one.id, True), (two.id, False), (two.id, True), (two.id, False), (two.id, True)
    ]  # fmt: skip


@pytest.mark.long
def test_what_is_no_change_of_this_table_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    one, two = table("one", N), table("one", Column("n", "bigint"))
    whole = altered(one, two, 3)
    lacking = replace(whole, after={k: v for k, v in whole.after.items() if k != "origin"})
    for change, why in [
        (lacking, "is not whole"),
        (altered(table("one", Column("n", "text", **TEXT)), two, 3), r"columns of shop\.one changed"),
        (altered(one, two, 3, n="nowhere"), "does not say where its columns come from"),
    ]:
        there = Lake(spark, tmp_path / why[:9], {one.name: one})
        last = apply(there, Applier(spark, there.layout), [begin(one), insert(one, 2, 1, n=5)], None)
        place = there.layout.silver_table(one.name)
        before = history(spark, place)[0].version
        with pytest.raises(DefiniteError, match=why):
            apply(there, Applier(spark, there.layout), [change], last)
        assert history(spark, place)[0].version == before


def test_a_change_that_has_begun_goes_on_before_anything_else(spark: SparkSession, tmp_path: Path) -> None:
    one, two = table("one", N), table("one", Column("m", "smallint"))
    lake = Lake(spark, tmp_path, {one.name: one})
    first = apply(lake, Applier(spark, lake.layout), [begin(one), insert(one, 2, 1, n=5)], None)
    place = lake.layout.silver_table(one.name)
    set_properties(spark, place, {CHANGING: f"{seq(3, Rank.SCHEMA)}:1"})
    # bronze was restored to before the change, and goes another way
    with pytest.raises(DefiniteError, match=r"in the middle of a change of its schema"):
        apply(lake, Applier(spark, lake.layout), [insert(one, 4, 2, n=6)], first)
    other = altered(one, two, 5, m="n")
    with pytest.raises(DefiniteError, match=r"in the middle of a change of its schema"):
        apply(lake, Applier(spark, lake.layout), [other], first + 1)
    assert held_rows(lake, one.name, "id", "n") == [(1, 5)]
