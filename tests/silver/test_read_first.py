"""A new table whose rows were written while they were read: the read comes first, then the rest, whatever crashes."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import DefiniteError, TransientError
from lakehouse_cdc.lake.commits import newest_first
from lakehouse_cdc.lake.failpoints import Door, Moment
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.apply import table_applier
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.batch.contents import Barrier, Group, assembled
from lakehouse_cdc.silver.definition.form import Form
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.forms import CURRENT, HISTORY, SOFT_DELETES
from tests.support.bronze_writer import Lake
from tests.support.crash_points import Counted, failing_at, failing_at_random, hooked
from tests.support.silver.crashes import split_up
from tests.support.silver.folds import check
from tests.support.silver.histories import KINDS, generated
from tests.support.silver.multisets import LOG, Writes, image_of, wanted

READ_FIRST = (Op.SCHEMA, Op.READ)
CHANGES = (Op.INSERT, Op.UPDATE, Op.DELETE, Op.TRUNCATE)
EVENTS = CHANGES[:3]


@pytest.fixture(autouse=True)
def however_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are divided, however few rows were read."""
    monkeypatch.setattr(table_applier, "_MOST_AT_FIRST", 0)


def in_three(changes: list[Change]) -> tuple[list[Change], list[Change], list[Change]]:
    """The first read, the changes after it, and all from the next read on."""
    first = [*takewhile(lambda change: change.op in READ_FIRST, changes)]
    after = [*takewhile(lambda change: change.op in CHANGES, changes[len(first) :])]
    return first, after, changes[len(first) + len(after) :]


def keyed(rng: random.Random) -> tuple[TableSchema, list[Change]]:
    """A table with a key, of which rows are read and then changed."""
    while True:
        schema, changes = generated(rng, rng.randrange(KINDS), 60)
        first, after, later = in_three(changes)
        if len(first) > 2 and any(change.op in EVENTS for change in after) and later:
            return schema, changes


def unkeyed(rng: random.Random) -> tuple[TableSchema, list[Change]]:
    """The same without a key."""
    while True:
        writes = Writes(rng, 6)
        for pos in range(3, 40):
            writes.grow(pos)
        if any(change.op in EVENTS for change in in_three(writes.changes)[1]):
            return LOG, writes.changes


def applied_at_last(
    lake: Lake, rng: random.Random, changes: tuple[list[Change], ...], policy: Policy
) -> tuple[Applier, Versions]:
    """Two commits of bronze that come to silver as one batch, which may crash twice before it comes through."""
    first, after, _ = changes
    lake.commit(first)
    versions = Versions(None, lake.commit(after).version)
    for probability in (0.2, 0.1, 0):
        applier = Applier(lake.spark, lake.layout, policy=lambda _: policy)
        with suppress(TransientError), failing_at_random(rng, probability):
            applier.apply(versions, lake.note(versions))
    return applier, versions


def divided(lake: Lake, name: str, first: list[Change]) -> bool:
    """Whether one commit of the silver table says that it holds the read, and no more."""
    commits = newest_first(lake.spark, lake.layout.silver_table(name))
    return first[-1].seq in [one.note.through for one in commits if one.note is not None]


@pytest.mark.parametrize("form", [HISTORY, *(pytest.param(f, marks=pytest.mark.long) for f in (CURRENT, SOFT_DELETES))])
def test_every_row_is_there_once_whatever_crashes(spark: SparkSession, tmp_path: Path, seed: int, form: Form) -> None:
    rng, policy = random.Random(seed), Policy(form=form)
    schema, changes = keyed(rng)
    lake, (first, after, later) = Lake(spark, tmp_path, {schema.name: schema}), in_three(changes)
    applier, versions = applied_at_last(lake, rng, (first, after, later), policy)
    assert divided(lake, schema.name, first)
    check(lake, lake.written, policy)
    for part in split_up(later, 2, rng) if len({change.seq for change in later}) > 2 else [later]:
        versions = Versions(versions.last, lake.commit(part).version)
        applier.apply(versions, lake.note(versions))
    check(lake, lake.written, policy)


@pytest.mark.parametrize("form", [CURRENT, *(pytest.param(f, marks=pytest.mark.long) for f in (HISTORY, SOFT_DELETES))])
def test_every_copy_is_there_once_whatever_crashes(spark: SparkSession, tmp_path: Path, seed: int, form: Form) -> None:
    rng, policy = random.Random(seed), Policy(form=form)
    schema, changes = unkeyed(rng)
    lake, parts = Lake(spark, tmp_path, {schema.name: schema}), in_three(changes)
    applied_at_last(lake, rng, parts, policy)
    assert divided(lake, schema.name, parts[0])
    is_current = form.for_schema(LOG).is_current(lake.layout.own)
    rows = read(spark, lake.layout.silver_table(LOG.name)).where(is_current).collect()
    assert Counter(map(image_of, rows)) == wanted(lake.written)


def doors(lake: Lake, name: str, versions: Versions) -> list[Door]:
    """Those of a silver table's commits, as a batch is applied."""
    counted, table = Counted(), lake.layout.silver_table(name).name
    with hooked(counted):
        Applier(lake.spark, lake.layout).apply(versions, lake.note(versions))
    return [door for door, moment, of in counted.reached if moment is Moment.AFTER and of == table]


def test_the_read_is_loaded_and_the_rest_is_merged(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Spark writes it where some of its rows are in one file with changes."""
    schema, changes = keyed(random.Random(seed))
    first, after, _ = in_three(changes)
    for mixed, by in ((0, Door.ADD), (1, Door.WRITE)):
        lake = Lake(spark, tmp_path / str(mixed), {schema.name: schema}, batches=1)
        alone = first[: len(first) - mixed]
        lake.commit(alone)
        versions = Versions(None, lake.commit([*first[len(alone) :], *after]).version)
        assert doors(lake, schema.name, versions) == [Door.CREATE, by, Door.MERGE, Door.STATEMENT]
        check(lake, lake.written, Policy())


def test_a_crash_after_the_read_leaves_nothing_out(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Of a table that is made of what earlier batches brought, too."""
    schema, changes = keyed(random.Random(seed))
    lake, (first, after, _) = Lake(spark, tmp_path, {schema.name: schema}, batches=1), in_three(changes)
    lake.commit(first)
    before = lake.commit(after[:-1]).version
    versions, table = Versions(before, lake.commit(after[-1:]).version), lake.layout.silver_table(schema.name).name
    with failing_at(Door.ADD, Moment.AFTER, table), pytest.raises(DefiniteError):
        Applier(spark, lake.layout).apply(versions, lake.note(versions))
    assert doors(lake, schema.name, versions)[-1] is Door.STATEMENT
    check(lake, lake.written, Policy())


@pytest.mark.unit
def test_only_a_read_that_is_older_than_all_else_comes_first(seed: int) -> None:
    rng, taken = random.Random(seed), 0
    for _ in range(2_000):
        groups = []
        for op in rng.sample("rcud", rng.randint(1, 4)):
            bounds = sorted(rng.choices(range(6), k=2) if op != "r" or rng.random() < 0.2 else [rng.randrange(3)] * 2)
            groups.append(Group("t", op, "schema", *bounds))
        marks = [Barrier(rng.randrange(6), 0, 0) for _ in range(rng.choice([0, 0, 1]))]
        ends = [Group("t", "x" if rng.random() < 0.1 else "t", "schema", mark.seq, mark.seq) for mark in marks]
        part = assembled([*groups, *ends], {"t": marks}, {}, {})["t"]
        reads = [group for group in groups if group.op == "r"]
        others = [group for group in groups if group.op != "r"]
        one = bool(reads and others) and reads[0].least == reads[0].greatest and "x" not in part.ops
        if one and all(group.least > reads[0].least for group in [*others, *ends]):
            assert part.in_two is not None
            taken += 1
            assert part.in_two == (
                assembled(reads, {}, {}, {})["t"],
                assembled([*others, *ends], {"t": marks}, {}, {})["t"],
            )
        else:
            assert part.in_two is None
    assert taken > 100
