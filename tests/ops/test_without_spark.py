"""What `status`, `as-of`, `report` and `reset` say of tables in folders is the same with Spark and without it.

The tables are those that an earlier release left, of all forms, and what this one makes of them: wider types, deleted
rows, renamed columns, tables that deltalake keeps, logs of which the beginning is gone. Spark answers twice: as for
tables in folders, and by its SQL alone, as for those of a catalog.
"""

from __future__ import annotations

import json
import tarfile
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake import delta_log
from lakehouse_cdc.lake.old_versions import forget_versions
from lakehouse_cdc.lake.readers.choice import ReaderOnDemand
from lakehouse_cdc.lake.readers.port import TableReader
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.lake.tables import held_columns, set_properties
from lakehouse_cdc.model.table_layout import Layout, Table, quoted
from lakehouse_cdc.ops.reach import reaches
from lakehouse_cdc.ops.run_history import gathered
from lakehouse_cdc.ops.status import status
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.pipeline.start.reset import Reset
from lakehouse_cdc.schema.column_choice import Choice
from lakehouse_cdc.silver.tables.properties import FROZEN, QUARANTINED_BECAUSE, SCHEMA_SEQ, SilverQuarantine
from tests.compatibility.test_earlier_releases import KEPT
from tests.compatibility.write import ENVIRONMENT
from tests.support.delta_library import forget


def no_spark() -> SparkSession:
    raise AssertionError("Spark was started")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    with tarfile.open(KEPT[0]) as archive:
        archive.extractall(tmp_path, filter="data")
    for name in ("SHOP_PASSWORD", "SHOP_SALT"):
        monkeypatch.setenv(name, ENVIRONMENT[name])
    return Pipeline.from_yaml(tmp_path / "home" / "pipeline.yml")


def said(lake: Pipeline, reader: TableReader) -> dict[str, Any]:
    """All that the commands say, but for what the source says."""
    layout, places = lake.layout, (lake.checkpoint("bronze"), lake.checkpoint("silver"), lake.schemas)
    hides = Choice(masks={"shop.dropped": {"id": "hash"}})
    history = gathered(layout, reader, lake.state, lake.schemas, lake.checkpoint("bronze"), "db", days=100_000)
    plan = Reset(no_spark, reader, layout, lake.folders, keep_tables=False)
    return {
        "status": status(reader, layout, *places, None, Choice(), lake.config.policy, noted=lake.state).to_json(),
        "hidden": status(reader, layout, *places, None, hides, lake.config.policy).to_json(),
        "names": status(reader, renamed(layout), *places, None, Choice()).to_json(),
        "reach": reaches(reader, layout),
        "history": replace(history, since=0.0, until=0.0),
        "reset": [(one.where, one.rows, one.size) for one in plan.deletions],
    }


def renamed(layout: Layout) -> Layout:
    """All source tables have one silver table's name, which is that of one of them."""
    return replace(layout, silver_name="plain")


KEYS = {"late": "id", "marked": "id", "versions": "id", "plain": "id", "people": "id", "twokeys": "b"}


@dataclass(frozen=True)
class Changes:
    """What is done to the tables, by us or by others, at random."""

    spark: SparkSession
    layout: Layout
    rng: Random

    def some(self) -> None:
        steps = (
            self.deleted, self.updated, self.emptied, self.put_together, self.wider, self.renamed, self.added,
            self.set_aside, self.frozen, self.forgotten, self.of_bronze,
        )  # fmt: skip
        for step in (self.deleted, *(self.rng.choice(steps) for _ in range(14)), self.forgotten):
            name = self.rng.choice([*KEYS])
            print(step.__name__, name)
            step(self.layout.silver_table(f"shop.{name}"), KEYS[name])

    def deleted(self, table: Table, key: str) -> None:
        self.spark.sql(f"DELETE FROM {table.sql} WHERE {key} % {self.rng.choice((2, 3, 5))} = 1")

    def updated(self, table: Table, key: str) -> None:
        self.spark.sql(f"UPDATE {table.sql} SET _seq = _seq + 1 WHERE {key} % {self.rng.choice((2, 3))} = 0")

    def emptied(self, table: Table, _: str) -> None:
        self.spark.sql(f"DELETE FROM {table.sql}")

    def put_together(self, table: Table, _: str) -> None:
        self.spark.sql(f"OPTIMIZE {table.sql}")

    def wider(self, table: Table, key: str) -> None:
        self.spark.sql(f"ALTER TABLE {table.sql} ALTER COLUMN {key} TYPE BIGINT")

    def renamed(self, table: Table, _: str) -> None:
        names = [name for name, _ in held_columns(self.spark, table) if name in ("v", "w", "email") or "," in name]
        if names:
            self.spark.sql(f"ALTER TABLE {table.sql} RENAME COLUMN {quoted(names[0])} TO {quoted(names[0] + ',')}")

    def added(self, table: Table, _: str) -> None:
        self.spark.sql(f"ALTER TABLE {table.sql} ADD COLUMNS (c{len(held_columns(self.spark, table))} INT)")

    def set_aside(self, table: Table, _: str) -> None:
        set_properties(self.spark, table, {QUARANTINED_BECAUSE: SilverQuarantine("it's odd", None).text()})

    def frozen(self, table: Table, _: str) -> None:
        frozen = {"seq": 0, "shape": "x", "sources": {}, "ignored": ["one", "two"]}
        set_properties(self.spark, table, {FROZEN: json.dumps(frozen), SCHEMA_SEQ: "0"})

    def forgotten(self, table: Table, _: str) -> None:
        """The log has a checkpoint, and no more than its last commits."""
        forget_versions(self.spark, table, _newest(table))
        forget(self.spark)

    def of_bronze(self, *_: Table | str) -> None:
        for table in (self.layout.changes, self.layout.schemas):
            self.spark.sql(f"OPTIMIZE {table.sql}")
        forget_versions(self.spark, self.layout.ledger, _newest(self.layout.ledger))


def _newest(table: Table) -> int:
    return max(int(path.stem) for path in Path(str(table.path), "_delta_log").glob("*.json"))


@pytest.mark.long
@pytest.mark.parametrize("changed", [False, True], ids=["as they were left", "whatever is done to them"])
def test_spark_says_the_same_of_tables_in_a_folder_and_in_a_catalog(
    spark: SparkSession, seed: int, lake: Pipeline, changed: bool
) -> None:
    if changed:
        Changes(spark, lake.layout, Random(seed)).some()
    without = said(lake, ReaderOnDemand(no_spark))
    assert without == said(lake, SparkReader(spark))
    with patch.object(delta_log, "in_folder", lambda *_: False):
        assert without == said(lake, SparkReader(spark))
    assert len(without["status"]["tables"]) == 8
    assert without["hidden"]["tables"]["shop.dropped"]["clear"] == ("id",)
    assert {one["bronze_rows"] for one in without["status"]["tables"].values()} >= {169, 1}
