"""Silver tables that are met for the first time, made and filled by the tasks of one job, whatever crashes."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import TransientError
from lakehouse_cdc.lake.commits import newest_version
from lakehouse_cdc.lake.tables import require_owner
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.model.seq import Rank
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.silver.apply import table_applier
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.definition.engine import DELTALAKE, ENGINE
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.forms import APPEND, CURRENT, HISTORY, MULTISET, SOFT_DELETES
from tests.support.bronze_writer import Lake
from tests.support.crash_points import Counted, hooked
from tests.support.silver.changes import N, apply, begin, delete, insert, seq, table
from tests.support.silver.engines import here, writers
from tests.support.silver.folds import check
from tests.support.silver.schema_changes import update

FORMS = {"current": CURRENT, "marked": SOFT_DELETES, "versions": HISTORY, "bare": CURRENT, "log": APPEND,
         "copies": MULTISET}  # fmt: skip
SCHEMAS = {name: table(name, N) for name in FORMS}
SCHEMAS |= {name: TableSchema("shop", name, (Column("n", "smallint"),), ()) for name in ("log", "copies")}
POLICIES = {SCHEMAS[name].name: Policy(form=form, engine="auto") for name, form in FORMS.items()}


def first_changes(name: str) -> Iterator[Change]:
    """What a first batch may hold: nothing but the schema, rows that are read, and what happens to them then."""
    schema = SCHEMAS[name]
    yield begin(schema)
    if name in ("log", "copies"):
        yield from (Change(seq(2, Rank.READ), Op.READ, schema.name, None, None, {"n": n}) for n in (1, 1, 2))
        yield Change(seq(3), Op.INSERT, schema.name, None, None, {"n": 2})
    elif name != "bare":
        yield from (Change(seq(2, Rank.READ), Op.READ, schema.name, (n,), None, {"id": n, "n": n}) for n in (1, 2, 3))
        yield update(schema, 3, {"id": 1, "n": 1}, n=7)
        yield replace(delete(schema, 4, 2), before={"id": 2, "n": 2})
        yield insert(schema, 5, 4, n=4)


COMMITS = len(FORMS) * 2 + 2 + 1  # a table and its rows, two tables of tombstones, one that gets any
FIRST = [change for name in FORMS for change in first_changes(name)]


def lake_of(spark: SparkSession, folder: Path) -> Lake:
    return Lake(spark, folder, {schema.name: schema for schema in SCHEMAS.values()})


def applier(lake: Lake) -> Applier:
    return Applier(lake.spark, lake.layout, policy=POLICIES.__getitem__, run_tasks=here)


def require_right(lake: Lake) -> None:
    """All tables are those of the fold."""
    for name, policy in POLICIES.items():
        if policy.form not in (APPEND, MULTISET):
            check(lake, lake.written, policy, [name])
            continue
        found = sorted(image["n"] for _, image in lake.rows(name))
        rows = [change.after for change in lake.written if change.table == name and isinstance(change.after, dict)]
        assert found == sorted(row["n"] for row in rows)


def of_all(lake: Lake, names: Sequence[str] = tuple(FORMS)) -> set[str]:
    """Who made the commits of those silver tables, and of their tombstones."""
    places = [lake.layout.silver_table(f"shop.{name}") for name in names]
    places += [lake.layout.tombstones(f"shop.{name}") for name in names if FORMS[name].has_tombstones]
    return {writer for place in places for writer in writers(place, newest_version(lake.spark, place))}


@pytest.mark.long
def test_tables_of_every_form_are_made_and_filled_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(spark, tmp_path)
    ours = applier(lake)
    first = apply(lake, ours, FIRST, None)
    require_right(lake)
    assert of_all(lake) == {"us", "deltalake"}
    assert ours.versions.keys() == POLICIES.keys()
    bare, current = SCHEMAS["bare"], SCHEMAS["current"]
    later = [
        insert(bare, 7, 1, n=1),
        insert(current, 7, 2, n=5),
        update(SCHEMAS["versions"], 7, {"id": 3, "n": 3}, n=9),
    ]
    second = apply(lake, applier(lake), later, first)
    require_right(lake)
    assert of_all(lake) == {"us", "deltalake"}
    again = Versions(None, second)
    applier(lake).apply(again, lake.note(again, query="of another checkpoint"))
    require_right(lake)


def crashed(lake: Lake, versions: Versions, fails: int) -> bool:
    """Another silver schema gets the first batch, with a crash at that failpoint, and again; whether there is one."""
    lake.layout = replace(lake.layout, silver=f"s{fails}")
    note, ours, counted = lake.note(versions), applier(lake), Counted(fails)
    with hooked(counted), suppress(TransientError):
        ours.apply(versions, note)
    ours = applier(lake) if fails % 3 else ours
    ours.apply(versions, note)
    require_right(lake)
    return len(counted.reached) > fails


@pytest.mark.long
def test_a_crash_anywhere_leaves_what_the_next_attempt_takes_up(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Before or after some commits of the first batch; what follows is done by a new process, or the same."""
    lake = lake_of(spark, tmp_path)
    versions = Versions(None, lake.commit(FIRST).version)
    for fails in random.Random(seed).sample(range(COMMITS * 2), 4):
        assert crashed(lake, versions, fails), fails


@pytest.mark.long
def test_a_crash_at_each_commit_of_the_first_batch(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(spark, tmp_path)
    versions = Versions(None, lake.commit(FIRST).version)
    assert next(fails for fails in count() if not crashed(lake, versions, fails)) == COMMITS * 2


@pytest.mark.long
def test_a_table_that_comes_later_is_made_by_a_task_as_well(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(spark, tmp_path)
    early = [change for name in ("bare", "log", "marked") for change in first_changes(name)]
    ours = applier(lake)
    first = apply(lake, ours, early, None)
    apply(lake, ours, [change for name in ("current", "versions", "copies") for change in first_changes(name)], first)
    require_right(lake)
    assert of_all(lake) == {"us", "deltalake"}


def test_a_table_that_was_moved_away_is_built_from_all_that_bronze_has(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(spark, tmp_path)
    first = apply(lake, applier(lake), FIRST, None)
    for name in ("current", "versions"):
        shutil.move(str(lake.layout.silver_table(f"shop.{name}").path), tmp_path / name)
    apply(lake, applier(lake), [insert(SCHEMAS[name], 7, 2, n=9) for name in ("current", "versions")], first)
    require_right(lake)


@pytest.mark.long
def test_one_of_many_rows_is_loaded_by_several_tasks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_applier, "_MOST_AT_FIRST", 5)
    lake = lake_of(spark, tmp_path)
    first = apply(lake, applier(lake), FIRST, None)
    require_right(lake)
    assert of_all(lake, ["current"]) == {"us", "spark"}
    assert of_all(lake, ["log", "bare"]) == {"us", "deltalake"}
    held = require_owner(spark, lake.layout.silver_table("shop.current"), "tests")
    assert held[ENGINE] == DELTALAKE
    apply(lake, applier(lake), [insert(SCHEMAS["current"], 7, 2, n=9)], first)
    assert of_all(lake, ["current"]) == {"us", "spark", "deltalake"}
    require_right(lake)


def test_a_name_that_another_table_has_is_not_taken(spark: SparkSession, tmp_path: Path) -> None:
    """The second of two source tables, which would go into a silver table of one name, is quarantined."""
    one, two = (TableSchema(database, "t", SCHEMAS["current"].columns, ("id",)) for database in ("a", "b"))
    lake = Lake(spark, tmp_path, {one.name: one, two.name: two})
    lake.layout = replace(lake.layout, silver_names=(("*.*", "t"),))
    ours = Applier(spark, lake.layout, policy=lambda _: Policy(engine="auto"), run_tasks=here)
    first = apply(lake, ours, [begin(one), insert(one, 2, 1, n=1)], None)
    apply(lake, ours, [begin(two, 3), insert(two, 4, 2, n=2)], first)
    assert [*ours.quarantined] == [two.name]
    assert [image for _, image in lake.rows(one.name)] == [{"id": 1, "n": 1}]


@pytest.mark.long
def test_where_files_cannot_be_linked_tables_are_sparks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def refused(source: str, target: str) -> None:
        if str(lake.layout.changes.path) not in target:
            raise OSError(errno.EPERM, "Operation not permitted", source, None, target)
        link(source, target)  # bronze is written as ever

    lake = lake_of(spark, tmp_path)
    monkeypatch.setattr(os, "link", refused)
    first = apply(lake, applier(lake), FIRST, None)
    apply(lake, applier(lake), [insert(SCHEMAS["current"], 7, 2, n=9)], first)
    require_right(lake)
    assert of_all(lake) == {"spark"}
