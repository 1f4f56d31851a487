"""Source tables whose silver tables would have one name: whose rows came first has it, in any order of any batches."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import CdcError
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.apply.table_applier import TableApplier
from lakehouse_cdc.silver.batch.contents import TableBatch
from lakehouse_cdc.silver.tables.names import SilverNames, own_table
from tests.support.bronze_writer import Lake
from tests.support.silver.changes import ID, N, apply, begin, insert

NAMES = ("a.t", "a.T", "b.t", "b.t__tombstones", "b.ledger", "b.u")


def schema(name: str) -> TableSchema:
    database, table = name.split(".")
    return TableSchema(database, table, (ID, N), ("id",))


def in_silver(lake: Lake) -> dict[str, list[int]]:
    """The ids that silver has of each source table, of those that have a silver table."""
    tables = {name: own_table(SparkReader(lake.spark), lake.layout, name) for name in NAMES}
    return {
        name: sorted(row.id for row in read(lake.spark, table).collect())
        for name, table in tables.items()
        if table is not None
    }


@pytest.mark.long
def test_whose_rows_came_first_has_the_name(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    lake = Lake(spark, tmp_path, {name: schema(name) for name in NAMES})
    order, ids, last = rng.sample(NAMES, len(NAMES)), dict[str, list[int]](), None
    wanted: list[str] = []
    applier = Applier(spark, lake.layout)
    at = 1
    while order:
        come = sorted(order.pop() for _ in range(min(len(order), rng.randint(1, 3))))
        rows = []
        for name in come:
            names = lake.layout.silver_names_of(name)
            if name != "b.ledger" and not any(names & lake.layout.silver_names_of(other) for other in wanted):
                wanted.append(name)
            rows.append(begin(schema(name), at))
            ids[name] = []
        for name in ids:
            rows.append(insert(schema(name), at := at + 1, at, n=0))
            ids[name].append(at)
        last = apply(lake, applier, rows, last)
        at += 1
        assert in_silver(lake) == {name: ids[name] for name in wanted}
        all_of_them = SilverNames(lake.layout, ids)
        missing = {name for name in ids if own_table(SparkReader(spark), lake.layout, name) is None}
        without = {name for name in missing if all_of_them.without(SparkReader(spark), [schema(name)])}
        assert without == set(applier.quarantined) == set(ids) - set(wanted)
        if rng.random() < 0.5:
            applier = Applier(spark, lake.layout)  # another process
    # each of the others is given a name of its own, and has all its rows
    alone = set(ids) - set(wanted)
    apart = tuple((name, f"own_{i}") for i, name in enumerate(sorted(alone)))
    lake.layout = replace(lake.layout, silver_names=apart)
    apply(lake, Applier(spark, lake.layout), [insert(schema(name), at + 1, 0, n=0) for name in sorted(ids)], last)
    assert in_silver(lake) == {name: [0, *them] for name, them in ids.items()}


def test_a_batch_that_fails_and_comes_again_gives_the_name_to_the_same(spark: SparkSession, tmp_path: Path) -> None:
    first, second = schema("a.t"), schema("b.t")
    lake = Lake(spark, tmp_path, {s.name: s for s in (first, second)})
    applier, apply_one = Applier(spark, lake.layout), TableApplier.apply

    def failing(self: TableApplier, session: SparkSession, part: TableBatch, *rest: object) -> None:
        if part.table == first.name:
            raise OSError("the disk is away")
        apply_one(self, session, part, *rest)  # type: ignore[arg-type]

    rows = [begin(first), insert(first, 2, 1, n=1), begin(second), insert(second, 3, 1, n=2)]
    with patch.object(TableApplier, "apply", failing), pytest.raises(CdcError, match=r"a\.t"):
        apply(lake, applier, rows, None)
    assert in_silver(lake) == {}
    apply(lake, applier, [insert(second, 4, 2, n=2)], None)
    assert in_silver(lake) == {"a.t": [1]}
    assert list(applier.quarantined) == ["b.t"]
