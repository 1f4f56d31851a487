"""Silver of tables without a key: after every batch as many copies of each row as the source has."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.commits import history, newest_version
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.model.seq import Rank
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.apply.rebuild import rebuilds
from lakehouse_cdc.silver.definition.engine import Configured
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.forms import MULTISET
from lakehouse_cdc.silver.table_tasks.counted import Counted
from lakehouse_cdc.silver.table_tasks.job import Runner
from tests.support.bronze_writer import Lake
from tests.support.silver.changes import apply, begin, seq
from tests.support.silver.crashes import applied, runs, seeds, split_up
from tests.support.silver.engines import at_times, here, writers
from tests.support.silver.histories import TEXT
from tests.support.silver.multisets import (
    COLUMNS,
    EXACT,
    LISTS,
    LOG,
    Writes,
    check_as_of,
    image_of,
    inserted,
    listed,
    wanted,
)
from tests.support.silver.schema_changes import altered

engines = pytest.mark.parametrize("engine", ["spark", "auto"])


def held(lake: Lake) -> Counter[Any]:
    """What silver holds; its copies are numbered without a gap, later ones above, and a digest is that of one row."""
    own = lake.layout.own
    copies: dict[str, list[tuple[int, int, Any]]] = {}
    for row in read(lake.spark, lake.layout.silver_table(LOG.name)).collect():
        copies.setdefault(row[own.row_hash], []).append((row[own.row_copy], int(row[own.seq]), image_of(row)))
    for same in copies.values():
        numbers, seqs, images = zip(*sorted(same), strict=True)
        assert numbers == tuple(range(1, len(same) + 1))
        assert list(seqs) == sorted(seqs)
        assert len({*images}) == 1
    counts = Counter(image for same in copies.values() for _, _, image in same)
    assert len(counts) == len(copies)
    return counts


def keeping(lake: Lake, engine: Configured, run_tasks: Runner = here) -> Applier:
    return Applier(lake.spark, lake.layout, policy=lambda _: Policy(form=MULTISET, engine=engine), run_tasks=run_tasks)


def every_batch(spark: SparkSession, seed: int, engine: Configured, *, length: int, parts: int, as_of: bool) -> None:
    rng = random.Random(seed)
    schema = EXACT if engine == "auto" else LOG
    writes = Writes(rng, rng.choice([0, 6]), schema)
    for pos in range(3, 3 + length):
        writes.grow(pos)
    with TemporaryDirectory() as folder, listed(*rng.choice(LISTS)):
        lake = Lake(spark, Path(folder), {schema.name: schema})
        past: list[Versions] = []
        by_chance = at_times(rng, rng.choice([0.0, 0.4]))
        for _, versions in applied(lake, writes.changes, parts, rng, lambda: keeping(lake, engine, by_chance)):
            past.append(versions)
            if rng.random() < 0.3:  # an older checkpoint of a stream that began elsewhere
                again = Versions(rng.choice([None, *(one.after for one in past)]), versions.last)
                keeping(lake, engine).apply(again, lake.note(again, query="another"))
            assert held(lake) == wanted(lake.written)
        if as_of:
            for change in rng.sample(lake.written, 3):
                check_as_of(lake, LOG.name, change.seq)


@pytest.mark.long
@engines
def test_every_batch_ends_at_the_multiset_whatever_crashes(spark: SparkSession, seed: int, engine: Configured) -> None:
    every_batch(spark, seed, engine, length=30, parts=3, as_of=True)


@pytest.mark.long
@pytest.mark.timeout(0)
@engines
@runs(10)
@given(seed=seeds)
def test_every_batch_ends_at_the_multiset_at_length(spark: SparkSession, engine: Configured, seed: int) -> None:
    every_batch(spark, seed, engine, length=150, parts=8, as_of=True)


@pytest.mark.long
def test_deltalake_counts_copies_as_spark_does(spark: SparkSession, tmp_path: Path) -> None:
    """Batch by batch, some of them by Spark: the same copies with the same numbers and seqs, and the same digests."""
    rng = random.Random(5)
    writes = Writes(rng, 4, EXACT)
    for pos in range(3, 27):
        writes.grow(pos)
    both = [Lake(spark, tmp_path / name, {EXACT.name: EXACT}) for name in ("spark", "auto")]
    parts, after = split_up(writes.changes, 4, rng), None
    by_chance = at_times(rng, 0.2)
    for part in parts:
        states = []
        for lake, applier in zip(both, (keeping(both[0], "spark"), keeping(both[1], "auto", by_chance)), strict=True):
            versions = Versions(after, lake.commit(part).version)
            applier.apply(versions, lake.note(versions))
            states.append(copies(lake))
        assert states[0] == states[1]
        after = versions.last
    table = both[1].layout.silver_table(EXACT.name)
    assert writers(table, newest_version(spark, table)).count("deltalake") > 1


@pytest.mark.long
def test_a_table_that_has_grown_becomes_sparks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(spark, tmp_path, {EXACT.name: EXACT})
    row = Writes(random.Random(1), 1, EXACT).changes[-1].after
    first = apply(
        lake, keeping(lake, "auto"), [begin(EXACT), Change(seq(2), Op.INSERT, EXACT.name, None, None, row)], None
    )
    monkeypatch.setattr(Counted, "most_bytes", 1)
    second = apply(lake, keeping(lake, "auto"), [Change(seq(3), Op.DELETE, EXACT.name, None, row, None)], first)
    apply(lake, keeping(lake, "auto"), [Change(seq(4), Op.INSERT, EXACT.name, None, None, row)], second)
    assert held(lake) == wanted(lake.written)
    table = lake.layout.silver_table(EXACT.name)
    assert writers(table, newest_version(spark, table))[-3:] == ["spark"] * 3  # it is handed over, and two batches


def copies(lake: Lake) -> set[tuple[Any, ...]]:
    own = lake.layout.own
    rows = read(lake.spark, lake.layout.silver_table(LOG.name)).collect()
    return {(row[own.row_hash], row[own.row_copy], int(row[own.seq]), image_of(row)) for row in rows}


def test_a_copy_that_goes_in_the_batch_that_it_came_with_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, {LOG.name: LOG})
    row = inserted(2, 1).after
    changes = [(Op.INSERT, None, row), (Op.DELETE, row, None), (Op.INSERT, None, row), (Op.UPDATE, row, row)]
    rows = [Change(seq(pos), op, LOG.name, None, *images) for pos, (op, *images) in enumerate(changes, start=3)]
    apply(lake, Applier(spark, lake.layout), [begin(LOG), inserted(2, 1), *rows], None)
    assert sorted(at for at, _ in lake.rows(LOG.name)) == [seq(2), seq(6)]
    assert held(lake) == wanted(lake.written)


def test_copies_go_from_a_table_however_many_rows_a_batch_has(spark: SparkSession, tmp_path: Path) -> None:
    """The rows that go are looked for by a list of digests, by one of parts of them, or by none."""
    lake = Lake(spark, tmp_path, {LOG.name: LOG})
    applier = Applier(spark, lake.layout)
    first = [begin(LOG), *(inserted(pos, 1, text) for pos, text in enumerate("aaab", start=2))]
    last = apply(lake, applier, first, None)
    for pos, limits in zip((10, 20, 30), LISTS, strict=True):
        with listed(*limits):
            gone = Change(seq(pos), Op.DELETE, LOG.name, None, inserted(2, 1, "a").after, None)
            last = apply(lake, applier, [gone, inserted(pos + 1, 1, "b"), inserted(pos + 2, 1, f"{pos}")], last)
            assert held(lake) == wanted(lake.written)


@pytest.mark.long
def test_rows_that_become_equal_are_counted_again(spark: SparkSession, tmp_path: Path) -> None:
    """By a column that is dropped; and a delete afterwards takes one of them."""
    narrow = TableSchema("shop", "log", (Column("n", "int"), Column("text", "text", **TEXT)), ())
    lake = Lake(spark, tmp_path, {LOG.name: LOG})
    rows = [begin(LOG), *(inserted(pos, 1, text) for pos, text in enumerate("aab", start=2))]
    applier = Applier(spark, lake.layout, policy=lambda _: Policy(drops=True))
    first = apply(lake, applier, rows, None)
    alone = TableSchema("shop", "log", (Column("n", "int"),), ())
    gone = Change(seq(9), Op.DELETE, LOG.name, None, {"n": 1}, None)
    apply(lake, applier, [altered(LOG, narrow, 7), altered(narrow, alone, 8), gone], first)
    table = read(spark, lake.layout.silver_table(LOG.name))
    own = lake.layout.own
    assert sorted((row["n"], row[own.row_copy]) for row in table.collect()) == [(1, 1), (1, 2)]
    assert table.select(own.row_hash).distinct().count() == 1


@pytest.mark.long
def test_more_rows_than_there_are_cannot_go(spark: SparkSession, tmp_path: Path) -> None:
    """The table is quarantined as it is, and is right again after it was read again."""
    lake = Lake(spark, tmp_path, {LOG.name: LOG})
    applier = Applier(spark, lake.layout)
    first = apply(lake, applier, [begin(LOG), inserted(2, 1)], None)
    missing = Change(seq(3), Op.DELETE, LOG.name, None, {**inserted(2, 2).after}, None)
    second = apply(lake, applier, [missing], first)
    assert "a row of shop.log goes more often than it was there" in applier.quarantined[LOG.name]
    again = [Change(seq(4, Rank.READ), Op.READ, LOG.name, None, None, inserted(2, n).after) for n in (5, 5)]
    end = Change(seq(4, Rank.END), Op.END, LOG.name, after=seq(4, Rank.READ))
    apply(lake, applier, [*again, end], second)
    assert applier.quarantined == {}
    assert [*held(lake).values()] == [2]


def test_a_batch_that_comes_again_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    """By an older checkpoint of a query that Delta does not know, with the next one or without it."""
    lake = Lake(spark, tmp_path, {LOG.name: LOG})
    applier = Applier(spark, lake.layout)
    first = apply(lake, applier, [begin(LOG), inserted(2, 1), inserted(3, 1)], None)
    second = apply(lake, applier, [inserted(4, 1), inserted(5, 2)], first)
    made = len(history(spark, lake.layout.silver_table(LOG.name)))
    for versions in (Versions(None, first), Versions(first, second), Versions(None, second)):
        Applier(spark, lake.layout).apply(versions, lake.note(versions, query="another"))
    assert held(lake) == wanted(lake.written)
    assert len(history(spark, lake.layout.silver_table(LOG.name))) == made


@pytest.mark.long
def test_a_key_that_comes_and_goes_has_the_table_built_again(spark: SparkSession, tmp_path: Path) -> None:
    keyed = TableSchema("shop", "log", (Column("n", "int", False), *COLUMNS[1:]), ("n",))
    lake = Lake(spark, tmp_path, {LOG.name: LOG})
    first = apply(lake, Applier(spark, lake.layout), [begin(LOG), inserted(2, 1), inserted(3, 2)], None)
    rows = [Change(seq(5, Rank.READ), Op.READ, LOG.name, (n,), None, inserted(2, n).after) for n in (1, 2)]
    end = Change(seq(5, Rank.END), Op.END, LOG.name, after=seq(5, Rank.READ))
    applier = Applier(spark, lake.layout)
    second = apply(lake, applier, [altered(LOG, keyed, 4), *rows, end], first)
    assert {key for _, key in lake.silver(LOG.name)} == {(1,), (2,)}
    again = [Change(seq(7, Rank.READ), Op.READ, LOG.name, None, None, inserted(2, 1).after) for _ in range(3)]
    end = Change(seq(7, Rank.END), Op.END, LOG.name, after=seq(7, Rank.READ))
    third = apply(lake, applier, [altered(keyed, LOG, 6), *again, end], second)
    assert [*held(lake).values()] == [3]
    apply(lake, applier, [inserted(8, 1)], third)
    assert [*held(lake).values()] == [4]
    assert applier.quarantined == {}
    assert not rebuilds(spark, lake.layout, lambda _: Policy())
