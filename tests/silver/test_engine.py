"""Which engine keeps a silver table, and how a table goes from deltalake to Spark: whatever crashes, and for good."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import TransientError
from lakehouse_cdc.lake import delta_log
from lakehouse_cdc.lake.commits import newest_version
from lakehouse_cdc.lake.tables import alter, exists, require_owner
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.changelog import Change, fold
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.table_layout import Layout, Table
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.silver.apply import evolution_at_once
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.apply.rebuild import rebuild, rebuilds
from lakehouse_cdc.silver.definition.engine import DELTALAKE, ENGINE, SPARK, why_spark
from lakehouse_cdc.silver.definition.form import Form, form_named
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.definition.transform import Transform
from lakehouse_cdc.silver.forms import APPEND, CURRENT, HISTORY, MULTISET, SOFT_DELETES
from lakehouse_cdc.silver.table_tasks.current import Current
from lakehouse_cdc.silver.table_tasks.folded import Folded
from lakehouse_cdc.silver.tables.table_definition import hand_to_spark
from tests.support.bronze_writer import Lake
from tests.support.crash_points import Counted, hooked
from tests.support.silver.changes import N, apply, begin, delete, insert, table
from tests.support.silver.engines import here, writers
from tests.support.silver.folds import check
from tests.support.silver.histories import TEXT
from tests.support.silver.schema_changes import altered, held_rows, update

AUTO = Policy(engine="auto")
ONE = table("one", N)
HERE = Layout("tests", bronze="b", silver="s", path="/lake").silver_table(ONE.name)
PLACES = {
    "an escaped name": replace(HERE, name="a/b"),
    "a folder that looks like a pattern": replace(HERE, root="/lake[1]"),
    "a catalog": Table("s", "one", catalog="main"),
    "a name in a bucket that is encoded": Table("s", "o ne", root="s3a://lake"),
    "a part": replace(HERE, part=ONE.name),
}
POLICIES = {
    "by default": Policy(),
    "configured": Policy(engine="spark"),
    "versions of copies": replace(AUTO, form=form_named("multiset_history")),
    "copies with soft deletes": replace(AUTO, form=form_named("multiset_soft_deletes")),
    "renamed": replace(AUTO, transform=Transform(rename={"n": "m"})),
    "clustered": replace(AUTO, cluster_by=("n",)),
    "frozen": replace(AUTO, freezes=True),
    "a change data feed": replace(AUTO, properties={"delta.enableChangeDataFeed": "true"}),
}
COLUMNS = {
    "a space": Column("a b", "int"),
    "a comma": Column("a,b", "int"),
    "a bracket": Column("a(b)", "int"),
    "a quote": Column('a"b', "int"),
    "JSON": Column("j", "json"),
}


FORMS = {"current": CURRENT, "soft deletes": SOFT_DELETES, "history": HISTORY}
forms = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())


def test_a_plain_table_is_deltalakes_and_what_it_may_be_called_is_not_narrow() -> None:
    for form in (*FORMS.values(), APPEND):
        assert why_spark(replace(AUTO, form=form), HERE, ONE) == ""
    without_key = TableSchema("shop", "one", ONE.columns, ())
    assert why_spark(replace(AUTO, form=MULTISET), HERE, without_key) == ""
    floats = replace(without_key, columns=(*ONE.columns, Column("f", "float")))
    assert why_spark(replace(AUTO, form=MULTISET), HERE, floats)
    assert why_spark(AUTO, HERE, table("one", Column("f", "float"))) == ""
    names = ("n1", "Größe", "select", "1st", "a-b", "$")
    assert why_spark(AUTO, HERE, table("one", *(Column(name, "int") for name in names))) == ""
    assert why_spark(AUTO, replace(HERE, root="/home/jürgen o-1.2", name="Größe 2"), ONE) == ""
    assert why_spark(AUTO, Table("s", "one", root="s3a://lake/a-b/c_d.e=f"), ONE) == ""
    kept = replace(AUTO, properties={"delta.logRetentionDuration": "interval 9 days", "team": "sales"})
    assert why_spark(kept, HERE, ONE) == ""


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
def test_a_place_that_is_sparks(place: Table) -> None:
    assert why_spark(AUTO, place, ONE)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
def test_settings_that_are_sparks(policy: Policy) -> None:
    assert why_spark(policy, HERE, ONE)


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS.keys())
def test_columns_that_are_sparks(column: Column) -> None:
    assert why_spark(AUTO, HERE, table("one", column))
    hidden = replace(column, captured=False)
    assert why_spark(AUTO, HERE, table("one", hidden)) == ""
    keyed = TableSchema("shop", "one", (Column("f", "double", False),), ("f",))
    assert why_spark(AUTO, HERE, keyed)


def applier(lake: Lake, policy: Policy = AUTO) -> Applier:
    return Applier(lake.spark, lake.layout, policy=lambda _: policy, run_tasks=here)


def engine(lake: Lake) -> str:
    return require_owner(lake.spark, lake.layout.silver_table(ONE.name), "tests").get(ENGINE, SPARK)


def last_writer(lake: Lake) -> str:
    place = lake.layout.silver_table(ONE.name)
    return writers(place, newest_version(lake.spark, place))[-1]


def is_bare(lake: Lake) -> set[bool]:
    """Of the silver table, and of its tombstones, where there are any."""
    places = [one(ONE.name) for one in (lake.layout.silver_table, lake.layout.tombstones)]
    states = [delta_log.state(lake.spark, place) for place in places if exists(lake.spark, place)]
    return {state is not None and state.bare for state in states}


def gone(pos: int, key: int, n: int) -> Change:
    return replace(delete(ONE, pos, key), before={"id": key, "n": n})


def begun(spark: SparkSession, folder: Path, policy: Policy = AUTO) -> tuple[Lake, int]:
    """A table that deltalake keeps, after two batches; the last version of bronze that it holds."""
    lake = Lake(spark, folder, {ONE.name: ONE})
    first = apply(lake, applier(lake, policy), [begin(ONE), insert(ONE, 2, 1, n=1), insert(ONE, 2, 2, n=2)], None)
    second = apply(lake, applier(lake, policy), [update(ONE, 3, {"id": 1, "n": 1}, n=5), gone(3, 2, 2)], first)
    assert (engine(lake), last_writer(lake), is_bare(lake)) == (DELTALAKE, "deltalake", {True})
    return lake, second


def keys(lake: Lake) -> set[int]:
    """Those of the rows as they are now."""
    return {image["id"] for _, image in lake.rows(ONE.name)}


def apply_with_crashes(lake: Lake, policy: Policy, versions: Versions, note: CommitNote, attempts: int) -> None:
    """Up to so many attempts, each of which fails at a later commit, and one that does not."""
    for fails in range(attempts):
        with hooked(Counted(2 * fails + fails % 2)):
            try:
                applier(lake, policy).apply(versions, note)
            except TransientError:
                continue
            break
    applier(lake, policy).apply(versions, note)


RENAMED = table("one", Column("m", "smallint"))
WIDER = table("one", Column("n", "bigint"))
ODD = table("one", N, Column("a b", "int"))
WITH_JSON = table("one", N, Column("j", "json"))
HANDED_OVER: dict[str, tuple[TableSchema, dict[str, str], Policy]] = {
    "a rename": (RENAMED, {"m": "n"}, AUTO),
    "a column that is dropped": (table("one"), {}, replace(AUTO, drops=True)),
    "a wider type": (WIDER, {}, AUTO),
    "a name that needs mapping": (ODD, {}, AUTO),
    "a VARIANT": (WITH_JSON, {}, AUTO),
}


SHORT = [("a rename", HISTORY)]


@pytest.mark.parametrize(
    ("case", "form"),
    [*SHORT, *(pytest.param(n, f, marks=pytest.mark.long) for n in HANDED_OVER for f in FORMS.values()
               if (n, f) not in SHORT)],
)  # fmt: skip
def test_a_change_that_needs_a_feature_hands_the_table_to_spark_wherever_it_crashes(
    spark: SparkSession, tmp_path: Path, seed: int, case: str, form: Form, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each commit of the change fails once, before or after it is made, up to a number that is drawn.

    The table is larger than those whose rows are written again.
    """
    monkeypatch.setattr(evolution_at_once, "WRITTEN_AGAIN", 0)
    new, origin, policy = HANDED_OVER[case]
    policy = replace(policy, form=form)
    lake, after = begun(spark, tmp_path, policy)
    values = {c.name: 7 for c in new.captured[1:]}
    change = altered(ONE, new, 4, **origin)
    versions = Versions(after, lake.commit([change, insert(new, 5, 3, **values)]).version)
    note, attempts = lake.note(versions), random.Random(seed).randint(1, 6)
    apply_with_crashes(lake, policy, versions, note, attempts)
    assert (engine(lake), is_bare(lake)) == (SPARK, {False})
    last = apply(lake, applier(lake, policy), [delete(new, 6, 1), insert(new, 6, 4, **values)], versions.last)
    assert (engine(lake), last_writer(lake)) == (SPARK, "spark")
    assert keys(lake) == {3, 4}
    # an old batch once more, by an applier that knows nothing
    again = Versions(after, last)
    applier(lake, policy).apply(again, lake.note(again, query="older"))
    assert keys(lake) == {3, 4}


WRITTEN_AGAIN = {case: HANDED_OVER[case] for case in ("a rename", "a column that is dropped", "a wider type")}
SHORT_AGAIN = [("a rename", HISTORY, False), ("a wider type", CURRENT, True)]
_ALL_AGAIN = [(case, form, crashes) for case in WRITTEN_AGAIN for form in FORMS.values() for crashes in (False, True)]


@pytest.mark.parametrize(
    ("case", "form", "crashes"),
    [*SHORT_AGAIN, *(pytest.param(*one, marks=pytest.mark.long) for one in _ALL_AGAIN if one not in SHORT_AGAIN)],
)
def test_a_small_table_stays_deltalakes_through_a_change_that_is_one_commit_wherever_it_crashes(
    spark: SparkSession, tmp_path: Path, seed: int, case: str, form: Form, crashes: bool
) -> None:
    new, origin, policy = WRITTEN_AGAIN[case]
    policy = replace(policy, form=form)
    lake, after = begun(spark, tmp_path, policy)
    place = lake.layout.silver_table(ONE.name)
    before = newest_version(spark, place)
    values = {c.name: 7 for c in new.captured[1:]}
    changes = [update(ONE, 4, {"id": 1, "n": 5}, n=6), altered(ONE, new, 5, **origin), insert(new, 6, 3, **values)]
    versions = Versions(after, lake.commit(changes).version)
    note, attempts = lake.note(versions), random.Random(seed).randint(1, 5) if crashes else 0
    apply_with_crashes(lake, policy, versions, note, attempts)
    assert (engine(lake), is_bare(lake)) == (DELTALAKE, {True})
    made_by = writers(place, newest_version(spark, place))[before + 1 :]
    assert made_by.count("us") == 1
    assert crashes or made_by == ["deltalake", "us", "deltalake"]
    last = apply(lake, applier(lake, policy), [delete(new, 7, 1), insert(new, 7, 4, **values)], versions.last)
    assert last_writer(lake) == "deltalake"
    assert keys(lake) == {3, 4}
    again = Versions(after, last)
    applier(lake, policy).apply(again, lake.note(again, query="older"))
    assert keys(lake) == {3, 4}


@pytest.mark.long
def test_an_addition_and_a_column_that_is_kept_leave_the_table_to_deltalake(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake, after = begun(spark, tmp_path)
    more = table("one", N, Column("t", "text", **TEXT))
    added = apply(lake, applier(lake), [altered(ONE, more, 4), insert(more, 5, 3, n=3, t="x")], after)
    assert engine(lake) == DELTALAKE
    same = applier(lake)
    then = apply(lake, same, [update(more, 6, {"id": 1, "n": 5, "t": None}, t="y")], added)
    assert last_writer(lake) == "deltalake"
    fewer = table("one", N)
    dropped = apply(lake, same, [altered(more, fewer, 7)], then)
    apply(lake, same, [update(fewer, 8, {"id": 1, "n": 5}, n=6), insert(fewer, 8, 9, n=9)], dropped)
    assert (engine(lake), last_writer(lake)) == (DELTALAKE, "deltalake")
    assert held_rows(lake, ONE.name, "id", "n", "t") == [(1, 6, None), (3, 3, "x"), (9, 9, None)]


RENAMING = replace(AUTO, transform=Transform(rename={"n": "m"}))


@pytest.mark.long
@pytest.mark.parametrize("steps", [(RENAMING, AUTO)], ids=["there and back"])
def test_a_table_that_is_built_again_as_one_of_sparks_is_so_for_good(
    spark: SparkSession, tmp_path: Path, steps: tuple[Policy, ...]
) -> None:
    lake, after = begun(spark, tmp_path)
    for policy in steps:
        assert [one.source_table for one in rebuilds(spark, lake.layout, dict.fromkeys([ONE.name], policy).__getitem__)]
        assert rebuild(spark, lake.layout, ONE.name, policy, after) is None
        assert (engine(lake), is_bare(lake)) == (SPARK, {False})
    apply(lake, applier(lake), [insert(ONE, 5, 3, n=3)], after)
    assert last_writer(lake) == "spark"
    assert lake.silver(ONE.name) == fold(lake.written)


@pytest.mark.long
@pytest.mark.parametrize("form", [pytest.param(HISTORY, marks=pytest.mark.long), SOFT_DELETES])
def test_a_bare_table_that_is_built_again_in_another_form_stays_deltalakes(
    spark: SparkSession, tmp_path: Path, form: Form
) -> None:
    lake, after = begun(spark, tmp_path)
    for policy in (replace(AUTO, form=form), AUTO):
        assert rebuild(spark, lake.layout, ONE.name, policy, after) is None
        assert (engine(lake), is_bare(lake)) == (DELTALAKE, {True})
        rows = [update(ONE, after + 9, {"id": 1, "n": 5}, n=5), insert(ONE, after + 9, after + 9, n=3)]
        after = apply(lake, applier(lake, policy), rows, after)
        assert last_writer(lake) == "deltalake"
    assert lake.silver(ONE.name) == fold(lake.written)


@pytest.mark.long
def test_a_bare_table_that_is_built_again_stays_deltalakes(spark: SparkSession, tmp_path: Path) -> None:
    lake, after = begun(spark, tmp_path)
    assert rebuild(spark, lake.layout, ONE.name, AUTO, after) is None
    assert (engine(lake), is_bare(lake)) == (DELTALAKE, {True})
    apply(lake, applier(lake), [update(ONE, 5, {"id": 1, "n": 5}, n=8), insert(ONE, 5, 3, n=3)], after)
    assert last_writer(lake) == "deltalake"
    assert lake.silver(ONE.name) == fold(lake.written)


def in_between(lake: Lake, statement: Callable[[Table], str]) -> None:
    place = lake.layout.silver_table(ONE.name)
    alter(lake.spark, place, statement(place))


BESIDE: dict[str, Callable[[Table], str]] = {
    "OPTIMIZE": lambda place: f"OPTIMIZE {place.sql}",
    "an update of a user's": lambda place: f"UPDATE {place.sql} SET n = n",
    "a property": lambda place: f"ALTER TABLE {place.sql} SET TBLPROPERTIES ('team' = 'sales')",
    "deletion vectors": lambda place: (
        f"ALTER TABLE {place.sql} SET TBLPROPERTIES ('delta.enableDeletionVectors' = true)"
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("what", BESIDE)
def test_what_somebody_else_does_to_the_table_in_between(spark: SparkSession, tmp_path: Path, what: str) -> None:
    """Deltalake continues after it, or, where the table has a feature now that it lacks, Spark does."""
    lake, after = begun(spark, tmp_path)
    in_between(lake, BESIDE[what])
    rows: list[Any] = [update(ONE, 5, {"id": 1, "n": 5}, n=8), insert(ONE, 5, 3, n=3)]
    apply(lake, applier(lake), rows, after)
    assert last_writer(lake) == ("spark" if what == "deletion vectors" else "deltalake")
    assert lake.silver(ONE.name) == fold(lake.written)


@pytest.mark.long
@pytest.mark.parametrize("form", [CURRENT, SOFT_DELETES, HISTORY], ids=repr)
def test_a_table_that_has_grown_becomes_sparks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: Form
) -> None:
    policy = replace(AUTO, form=form)
    lake, after = begun(spark, tmp_path, policy)
    for kind in (Current, Folded):
        monkeypatch.setattr(kind, "most_bytes", 100)
    last = apply(lake, applier(lake, policy), [insert(ONE, 5, 3, n=3), gone(5, 1, 5)], after)
    assert (engine(lake), last_writer(lake), is_bare(lake)) == (SPARK, "spark", {False})
    apply(lake, applier(lake, policy), [insert(ONE, 6, 1, n=3)], last)
    check(lake, lake.written, policy)


@pytest.mark.long
def test_a_setting_that_is_taken_back_leaves_the_table_as_it_is_and_to_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake, after = begun(spark, tmp_path)
    last = apply(lake, applier(lake, Policy(form=CURRENT)), [insert(ONE, 5, 3, n=3), delete(ONE, 5, 1)], after)
    assert (engine(lake), last_writer(lake)) == (DELTALAKE, "spark")
    apply(lake, applier(lake), [insert(ONE, 6, 1, n=3)], last)
    assert last_writer(lake) == "deltalake"
    assert lake.silver(ONE.name) == fold(lake.written)


@pytest.mark.long
def test_what_is_looked_up_is_what_delta_says(spark: SparkSession, tmp_path: Path) -> None:
    """Of a bare table, also after commits by both; of others nothing is looked up."""
    lake, after = begun(spark, tmp_path)
    places = [lake.layout.silver_table(ONE.name), lake.layout.tombstones(ONE.name)]
    for _ in range(2):
        for place in places:
            wanted = delta_log.state(spark, place)
            assert wanted == delta_log.looked_up(str(place.path))
            with delta_log.asked_once():
                assert delta_log.is_known(place)
                assert delta_log.state(spark, place) == wanted
        apply(lake, applier(lake, Policy()), [insert(ONE, 5, 3, n=3), delete(ONE, 5, 1)], after)
    hand_to_spark(spark, places[0])
    missing = replace(places[0], name="missing")
    with delta_log.asked_once():
        assert (delta_log.looked_up(str(places[0].path)), delta_log.is_known(places[0])) == (None, False)
        assert (delta_log.looked_up(str(missing.path)), delta_log.is_known(missing)) == (None, False)
        assert delta_log.state(spark, places[0]) == delta_log.state(spark, places[0])
