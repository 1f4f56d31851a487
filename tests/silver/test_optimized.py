"""Files are put together between any two commits, by commits that say nothing of the source: everything stays as it is.

A stream over bronze counts commits, silver finds itself by the notes of its own, and the ledger names versions. None of
these may take an OPTIMIZE for a batch, or miss a batch because of one.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.bronze.sink import write_batch
from lakehouse_cdc.lake.commits import history
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.lake.tables import exists, read
from lakehouse_cdc.model.changelog import fold
from lakehouse_cdc.model.history import histories
from lakehouse_cdc.model.moment import Moment
from lakehouse_cdc.model.seq import Rank, Seq
from lakehouse_cdc.model.table_layout import Table
from lakehouse_cdc.ops.as_of import as_of
from lakehouse_cdc.silver.apply.stream import SilverBatch, start, version_at
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.forms import CURRENT, HISTORY, SOFT_DELETES
from lakehouse_cdc.silver.tables.progress import applied
from lakehouse_cdc.silver.tables.properties import held_by
from tests.support.bronze_writer import Lake, as_files, bronze_rows, images, in_spark
from tests.support.silver.crashes import split_up
from tests.support.silver.histories import KINDS, generated

FORMS = (CURRENT, SOFT_DELETES, HISTORY)


class World:
    """A table of each form, whose bronze and silver grow batch by batch while somebody puts files together."""

    def __init__(self, spark: SparkSession, folder: Path, seed: int, parts: int) -> None:
        self.spark, self.rng, self.folder = spark, random.Random(seed), folder
        drawn = [generated(self.rng, kind, 20 * parts) for kind in self.rng.sample(range(KINDS), len(FORMS))]
        self.lake = Lake(spark, folder, {schema.name: schema for schema, _ in drawn})
        self.forms = dict(zip(self.lake.schemas, FORMS, strict=True))
        changes = [c for _, changes in drawn for c in changes]
        self.parts = split_up(changes, parts, self.rng)
        while min(map(len, self.parts)) < len(changes) // (4 * parts):  # each has rows of several tables
            self.parts = split_up(changes, parts, self.rng)
        self.batches: list[SilverBatch] = []
        self.optimized = 0

    @property
    def tables(self) -> list[Table]:
        """All but bronze's change table."""
        layout, names = self.lake.layout, self.lake.schemas
        return [t for n in names for t in (layout.silver_table(n), layout.tombstones(n)) if exists(self.spark, t)]

    def commit(self) -> None:
        self.lake.commit(self.parts.pop(0), {})

    def optimize(self, *tables: Table) -> None:
        """Put files together; counts the commits that really did."""
        for table in tables:
            before = history(self.spark, table, 1)[0].version
            self.spark.sql(f"OPTIMIZE {table.sql}")
            made = history(self.spark, table, 1)[0]
            assert made.version in (before, before + 1)
            assert made.version == before or made.note is None
            self.optimized += made.version - before

    def run(self) -> None:
        """Silver's stream, over all that is there."""
        start(
            self.spark, self.lake.layout, str(self.folder / "silver checkpoint"), on_batch=self.batches.append,
            policy=lambda name: Policy(form=self.forms[name]),
        ).awaitTermination()  # fmt: skip

    def check(self) -> None:
        """Silver stands where bronze does, and holds what it holds: now, by its versions, by its ledger and as of."""
        layout, written = self.lake.layout, self.lake.written
        stands, last = (
            applied(SparkReader(self.spark), layout, str(self.folder / "silver checkpoint")),
            max(self.lake.ends),
        )
        assert stands is not None
        assert stands.bronze_version >= last
        assert (stands.bronze_batch, stands.source_point.pos) == (self.lake.batches - 1, self.lake.ends[last])
        rows = fold(written)
        for name, form in self.forms.items():
            mine = {key: row for key, row in rows.items() if key[0] == name}
            assert (
                self.lake.silver(name) == mine if form is CURRENT else sorted_rows(self.lake.rows(name)) == values(mine)
            )
            found = held_by(SparkReader(self.spark), layout, name)
            assert found is not None
            assert found.last is not None
            assert not found.building
            assert found.through >= max(c.seq for c in written if c.table == name)
            if form is HISTORY:
                wanted = histories(written, lambda image: [*image.values()])
                assert self.lake.history(name) == {key: past for key, past in wanted.items() if key[0] == name}
        self._check_past()

    def _check_past(self) -> None:
        """Each batch of silver's, by the versions of its tables and by the ledger."""
        layout = self.lake.layout
        ledger = {row["bronze_version"]: row for row in read(self.spark, layout.ledger).collect()}
        # `Lake` puts a batch without changes at position 0, where the ledger does not go back to
        assert sorted(ledger) == [batch.bronze_version for batch in self.batches if batch.source_point.pos]
        for version, row in ledger.items():
            pos = row["position"]["pos"]
            behind = Seq(1, 1, pos + 1, Rank.EVENT, 0).pack()
            rows = fold(c for c in self.lake.written if c.seq < behind)
            at_once = as_of(self.spark, layout, Moment(position=f"binlog.000001:{pos}"), None)
            for name, form in self.forms.items():
                wanted = values({key: one for key, one in rows.items() if key[0] == name})
                schema, place = self.lake.schemas[name], layout.silver_table(name)
                for known in (row["tables"][name], version_at(self.spark, place, version)):
                    frame = read(self.spark, place, version=known)
                    assert sorted_rows(images(frame.where(form.is_current(layout.own)), schema)) == wanted
                assert sorted_rows(images(at_once[name], schema)) == wanted


def values(rows: Mapping[Any, Any]) -> list[Any]:
    return sorted_rows([*rows.values()])


def sorted_rows(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: (row[0], sorted(map(str, row[1].items()))))


@pytest.mark.long
def test_nothing_changes_whenever_files_are_put_together(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    world = World(spark, tmp_path, seed, parts=5)
    lake, bronze = world.lake, world.lake.layout.changes
    # before silver's first look
    world.commit()
    world.optimize(bronze)
    world.run()
    # between two commits of one batch, and behind it
    world.commit()
    world.optimize(bronze)
    world.commit()
    world.optimize(bronze, *world.tables)
    world.run()
    # alone: there is nothing to do, and silver stands as it did
    world.optimize(bronze, *world.tables)
    batches = len(world.batches)
    world.run()
    assert len(world.batches) == batches
    # after each batch of bronze; one of them moves the position alone
    world.commit()
    world.optimize(bronze)
    world.run()
    lake.commit([])
    world.optimize(bronze, *world.tables)
    world.run()
    world.commit()
    world.optimize(bronze, *world.tables)
    world.run()
    world.check()
    assert world.optimized >= 6


@pytest.mark.long
def test_batches_that_come_again_find_what_they_wrote(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """After a crash bronze's sink and silver's stream do their last batch once more, with an OPTIMIZE in between."""
    world = World(spark, tmp_path, seed, parts=2)
    lake, layout = world.lake, world.lake.layout
    world.commit()
    world.run()
    part = world.parts[0]
    done = lake.commit(part, {})
    world.optimize(layout.changes)
    rows = bronze_rows(part, lake.schema_at)
    for again in (in_spark(spark, rows), as_files(spark, rows, str(layout.changes.path))):
        assert write_batch(spark, again, done.batch, layout, lake.checkpoint, lambda _: {}) == done
    world.run()
    world.check()
    versions = {table: history(spark, table, 1)[0].version for table in world.tables}
    for name in ("{}", ".{}.crc"):
        (tmp_path / "silver checkpoint" / "commits" / name.format(world.batches[-1].batch)).unlink()
    world.optimize(layout.changes, *world.tables)
    assert {t: v for t, v in versions.items() if history(spark, t, 1)[0].version > v}
    world.run()
    assert world.batches.pop() == world.batches[-1]
    world.check()
