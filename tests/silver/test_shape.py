"""Frozen tables: what each column follows whatever the source's columns do, and silver in that shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import DefiniteError, TransientError
from lakehouse_cdc.lake.commits import history
from lakehouse_cdc.lake.failpoints import Door, Moment
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.changelog import Change, Op, fold
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.definition.column_mapping import Shape
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.tables.properties import SilverQuarantine, own_properties
from tests.support.bronze_writer import Lake
from tests.support.crash_points import Crash, failing_at
from tests.support.silver.alterations import Alteration, add, drop, rename, replaced, show_or_hide, swap, take_the_name
from tests.support.silver.altered_histories import AlteredHistory
from tests.support.silver.changes import ID, N, apply, begin, delete, insert, seq, table
from tests.support.silver.crashes import split_up
from tests.support.silver.histories import TEXT
from tests.support.silver.schema_changes import altered, held_rows, update

NAMES = ("a", "A", "b", "B", "c", "d")
FROZEN = Policy(freezes=True)


def columns(rng: Random) -> dict[str, bool]:
    """Some names that MySQL would allow in one table, and whether images hold them."""
    chosen: dict[str, str] = {}
    for name in rng.sample(NAMES, rng.randint(0, len(NAMES))):
        chosen.setdefault(name.lower(), name)
    return {name: rng.random() < 0.8 for name in chosen.values()}


def schema(held: dict[str, bool], key: str) -> TableSchema:
    made = [Column(name, "int", captured=captured) for name, captured in held.items()]
    return TableSchema("shop", "t", (Column(key, "int", False), *made), (key,))


@given(seed=st.integers(0, 2**32), changes=st.integers(1, 6))
def test_a_column_follows_what_it_was_and_then_what_has_its_name(seed: int, changes: int) -> None:
    """Against columns that have an identity of their own."""
    rng = Random(seed)
    held, key = columns(rng), "id"
    shape = Shape.of(schema(held, key))
    identity, count = {name: n for n, name in enumerate(held)}, len(held)
    followed = {name: identity[name] for name, captured in held.items() if captured}
    frozen = dict(held)
    for _ in range(changes):
        new_held, new_key, origin = columns(rng), rng.choice([key, "id", "Id"]), dict[str, str]()
        sources = rng.sample([*held], len(held))
        for name in new_held:
            if sources and rng.random() < 0.7:
                origin[name] = name if name in sources and rng.random() < 0.4 else sources[-1]
                sources.remove(origin[name])
        fresh = [name for name in new_held if name not in origin]
        now = {name: identity[origin[name]] if name in origin else count + n for n, name in enumerate(new_held)}
        count += len(new_held)
        filled = {name: "7" for name in fresh if rng.random() < 0.5}
        found = shape.after(schema(new_held, new_key), {**origin, new_key: key}, filled, "here")
        seen = {now[name]: name for name, captured in new_held.items() if captured}
        unseen = {n for name, n in now.items() if name not in origin or not held[origin[name]]}
        retaken: dict[str, str | None] = {}
        for name in [n for n, captured in frozen.items() if captured]:
            if followed.get(name) not in seen:
                followed.pop(name, None)
                for which, other in seen.items():
                    if other.lower() == name.lower() and which in unseen:
                        followed[name], retaken[name] = which, filled.get(other)
        assert found.shape.sources == {"id": new_key, **{name: seen[which] for name, which in followed.items()}}
        assert found.retaken == retaken
        assert found.shape.schema == shape.schema
        assert set(found.shape.ignored) == {seen[which] for which in seen.keys() - set(followed.values())}
        shape, held, key, identity = found.shape, new_held, new_key, now


@pytest.mark.parametrize(
    ("new", "origin", "what"),
    [
        ((ID, N), {"id": "n", "n": "id"}, "the key of shop.one is (id) now, and its silver table is frozen"),
        ((ID, Column("n", "varbinary", length=9)), {"id": "id", "n": "n"}, "n of shop.one is binary now"),
    ],
)
def test_what_no_frozen_table_can_follow_is_refused(new: tuple[Column, ...], origin: dict[str, str], what: str) -> None:
    with pytest.raises(DefiniteError) as error:
        Shape.of(table("one", N)).after(TableSchema("shop", "one", new, ("id",)), origin, {}, "seq 7")
    assert what in str(error.value)
    assert "seq 7" in str(error.value)
    assert "let its schema_changes be evolve" in str(error.value)


def test_a_column_that_was_ignored_is_not_followed_for_the_name_that_it_gets() -> None:
    """The columns look as they did, and are not: what silver knows nothing of cannot be what its rows hold."""
    one, two = table("one", N), table("one", N, Column("x", "smallint"))
    shape = Shape.of(one).after(two, {"id": "id", "n": "n"}, {}, "").shape
    shape = shape.after(one, {"id": "id", "n": "x"}, {}, "").shape
    assert (shape.sources, shape.ignored, shape.frozen) == ({"id": "id"}, ("n",), True)


def frozen_lake(spark: SparkSession, folder: Path, *schemas: TableSchema) -> tuple[Lake, Applier]:
    lake = Lake(spark, folder, {s.name: s for s in schemas})
    return lake, Applier(spark, lake.layout, policy=lambda _: FROZEN)


@pytest.mark.long
def test_silver_stays_and_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """Renames (the key's too), additions, drops, a name that comes back, other types, a process that starts anew."""
    one = table("one", N, Column("t", "text", **TEXT))
    two = TableSchema(
        "shop",
        "one",
        (Column("m", "int"), Column("Id of `it`", "bigint", False), Column("extra", "date")),
        ("Id of `it`",),
    )
    three = replace(two, columns=(*two.columns, Column("T", "text", **TEXT)))
    lake, applier = frozen_lake(spark, tmp_path, one)
    rows = [begin(one), *(insert(one, 2, key, n=key, t="old") for key in (1, 2, 3))]
    first = apply(lake, applier, rows, None)
    moved = altered(one, two, 3, m="n", extra="", **{"Id of `it`": "id"})
    key = "Id of `it`"
    later = update(two, 4, {key: 1, "m": 1, "extra": None}, m=7)
    gone = replace(delete(one, 5, 2), key=(2,), before={key: 2, "m": 2, "extra": None})
    second = apply(lake, applier, [moved, later, gone], first)
    assert read(spark, lake.layout.silver_table(one.name)).columns == ["id", "n", "t", "_seq", "_commit_ts"]
    assert held_rows(lake, one.name, "id", "n", "t") == [(1, 7, None), (3, 3, "old")]
    state = own_properties(SparkReader(spark), lake.layout, one.name).frozen
    assert state is not None
    assert (state.schema_id, state.ignored) == (one.id, ("extra",))
    assert state.sources == {"id": "Id of `it`", "n": "m"}
    # a column named t comes, with a constant in all rows; the process dies before silver has said so
    back = altered(two, three, 6, T="")
    back = replace(back, after={**back.after, "filled": {"T": "it's"}})
    applier = Applier(spark, lake.layout, policy=lambda _: FROZEN)
    versions = Versions(
        second, lake.commit([back, update(three, 7, {key: 3, "m": 3, "extra": None, "T": ""}, T="x")]).version
    )
    with failing_at(Door.STATEMENT, Moment.AFTER, "one", error=Crash), pytest.raises(TransientError):
        Applier(spark, lake.layout, policy=lambda _: FROZEN).apply(versions, lake.note(versions))
    applier.apply(versions, lake.note(versions))
    assert held_rows(lake, one.name, "id", "n", "t") == [(1, 7, "it's"), (3, 3, "x")]
    # all of it again, as batches that Delta has not seen
    for again in (Versions(None, first), Versions(first, second), versions):
        Applier(spark, lake.layout, policy=lambda _: FROZEN).apply(again, lake.note(again, query="anew"))
    assert held_rows(lake, one.name, "id", "n", "t") == [(1, 7, "it's"), (3, 3, "x")]
    held = own_properties(SparkReader(spark), lake.layout, one.name)
    assert held.frozen == replace(state, sources={**state.sources, "t": "T"})


@pytest.mark.long
def test_what_does_not_fit_sets_the_table_aside_and_to_evolve_it_is_built_anew(
    spark: SparkSession, tmp_path: Path
) -> None:
    one, other = table("one", N), table("other")
    two = TableSchema("shop", "one", (ID, replace(N, type="int"), Column("extra", "int")), ("id",))
    lake, applier = frozen_lake(spark, tmp_path, one, other)
    rows = [begin(one), insert(one, 2, 1, n=5), altered(one, two, 3), insert(two, 4, 2, n=6, extra=9)]
    last = apply(lake, applier, rows, None)
    place = lake.layout.silver_table(one.name)
    assert held_rows(lake, one.name, *read(spark, place).columns[:2]) == [(1, 5), (2, 6)]
    before = history(spark, place)[0].version
    versions = Versions(last, lake.commit([insert(two, 9, 9, n=70_000, extra=None)]).version)
    applier.apply(versions, lake.note(versions))
    [said] = applier.quarantined.values()
    assert said.startswith("CDC-6007: a value of the source does not fit the frozen column shop.one.n; let its schema")
    held = own_properties(SparkReader(spark), lake.layout, one.name)
    assert held.quarantine == SilverQuarantine(said, last)
    assert history(spark, place)[0].version == before + 1  # it has said so
    # others go on, and it does when the row has gone; what came meanwhile is not lost
    more = [insert(two, 10, 3, n=7, extra=None), insert(other, 11, 1), begin(other)]
    versions = Versions(versions.last, lake.commit(more).version)
    applier.apply(versions, lake.note(versions))
    assert [key for _, key in lake.silver(other.name)] == [(1,)]
    assert held_rows(lake, one.name, "id", "n") == [(1, 5), (2, 6)]
    gone = Change(seq(12), Op.DELETE, one.name, (9,), {"id": 9, "n": 70_000, "extra": None})
    versions = Versions(versions.last, lake.commit([gone]).version)
    applier = Applier(spark, lake.layout, policy=lambda _: FROZEN)
    applier.apply(versions, lake.note(versions))
    assert applier.quarantined == {}
    assert own_properties(SparkReader(spark), lake.layout, one.name).quarantine is None
    assert held_rows(lake, one.name, "id", "n") == [(1, 5), (2, 6), (3, 7)]
    versions = Versions(versions.last, lake.commit([insert(two, 13, 4, n=8, extra=None)]).version)
    with pytest.raises(DefiniteError, match=r"was frozen while its source changed.*Hint: move it away"):
        Applier(spark, lake.layout).apply(versions, lake.note(versions))
    Path(place.path or "").rename(tmp_path / "away")
    Applier(spark, lake.layout).apply(versions, lake.note(versions))
    assert lake.silver(one.name) == {name: row for name, row in fold(lake.written).items() if name[0] == one.name}


def of_shape(lake: Lake, name: str, state: Shape) -> set[tuple[int, frozenset[tuple[str, Any]]]]:
    """What the fold says of the columns that silver follows."""
    names = {source: column for column, source in state.sources.items()}
    rows = fold(lake.written).values()
    return {(seq, frozenset((names[n], v) for n, v in dict(image).items() if n in names)) for seq, image in rows}


@pytest.mark.long
def test_a_frozen_table_is_the_fold_in_its_shape(spark: SparkSession, seed: int) -> None:
    rng = Random(seed)
    alike = [partial(add, kind="int"), partial(replaced, kind="int")]
    kinds: list[Callable[[Random, Alteration], None]] = [*alike, drop, rename, swap, take_the_name, show_or_hide]
    history = AlteredHistory(rng, "t", kinds=kinds, pool=["int"])
    history.grow(16)
    name = history.schema.name
    with TemporaryDirectory() as folder:
        lake, applier = frozen_lake(spark, Path(folder), history.first)
        shape, last = Shape.of(history.first), None
        for part in split_up(history.changes, 2, rng):
            last = apply(lake, applier, part, last)
            for change in sorted(part, key=lambda c: c.seq):
                if change.op is Op.SCHEMA and change.before is not None:
                    new = TableSchema.from_dict(change.after)
                    shape = shape.after(new, change.after["origin"], change.after["filled"], "").shape
        silver = read(spark, lake.layout.silver_table(name)).collect()
        assert {f.name for f in read(spark, lake.layout.silver_table(name)).schema} == {
            "_seq", "_commit_ts", *(c.name for c in history.first.captured)
        }  # fmt: skip
        found = {(int(row["_seq"]), frozenset((n, row[n]) for n in shape.sources)) for row in silver}
        assert found == of_shape(lake, name, shape)
