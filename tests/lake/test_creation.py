"""A bare table that is made without Spark is the one that Spark would have made, or none, and never another's."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakehouse_cdc.lake import delta_log
from lakehouse_cdc.lake.direct.creation import create_bare, linkable
from lakehouse_cdc.lake.direct.rust_table import Once, RustTable
from lakehouse_cdc.lake.failpoints import Door, Moment
from lakehouse_cdc.lake.tables import create, exists, held_columns, plain, read, require_owner
from lakehouse_cdc.model.table_layout import Layout, Table
from tests.support.crash_points import Crash, failing_at, hooked
from tests.support.delta_library import delta_table

COLUMNS = [
    ("id", "bigint"), ("größe", "decimal(38,6)"), ("at", "timestamp_ntz"), ("ts", "timestamp"), ("v", "array<float>"),
    ("day", "date"), ("bin", "binary"), ("b", "boolean"), ("m", "struct<seq: decimal(38,0), commit_ts: timestamp>"),
]  # fmt: skip
PROPERTIES = {"delta.checkpointInterval": "10", "delta.dataSkippingStatsColumns": "`id`", "team": 'it\'s "ours"'}


def place(folder: Path, name: str = "one") -> Table:
    return Layout("tests", bronze="b", silver="s", path=str(folder)).silver_table(f"shop.{name}")


def make(table: Table) -> None:
    session: Any = None  # of a table in a folder it is not asked
    create_bare(session, table, COLUMNS, pipeline="tests", comment="what it's for", properties=PROPERTIES)


def test_it_is_what_spark_makes(spark: SparkSession, tmp_path: Path) -> None:
    ours, theirs = place(tmp_path, "ours"), place(tmp_path, "theirs")
    make(ours)
    properties = {**PROPERTIES, "delta.feature.timestampNtz": "supported"}
    create(spark, theirs, COLUMNS, pipeline="tests", comment="what it's for", properties=properties)
    states = [delta_log.state(spark, table) for table in (ours, theirs)]
    assert states[0] is not None
    assert states[1] is not None
    assert replace(states[0], id=states[1].id) == states[1]
    told = (
        "description",
        "properties",
        "minReaderVersion",
        "minWriterVersion",
        "partitionColumns",
        "clusteringColumns",
    )
    details = [delta_table(spark, table).detail().select(*told).collect() for table in (ours, theirs)]
    assert details[0] == details[1]
    assert read(spark, ours).schema == read(spark, theirs).schema
    assert require_owner(spark, ours, "tests")["team"] == PROPERTIES["team"]


def test_either_engine_writes_it(spark: SparkSession, tmp_path: Path) -> None:
    table = place(tmp_path)
    make(table)
    rust = RustTable(str(table.path), table.name)
    rust.append(rust.schema.empty_table(), Once("a", 0, "note"))
    spark.sql(f"INSERT INTO {table.sql} (id) VALUES (1)")
    spark.sql(f"ALTER TABLE {table.sql} ADD COLUMNS (`more` TIMESTAMP_NTZ)")
    spark.sql(
        f"MERGE INTO {table.sql} t USING (SELECT 1L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET b = true"
    )
    assert RustTable(str(table.path), table.name).rows(["id", "b"]).to_pylist() == [{"id": 1, "b": True}]
    assert RustTable(str(table.path), table.name).bare


@pytest.mark.parametrize("moment", Moment)
def test_a_crash_leaves_a_table_or_none(spark: SparkSession, tmp_path: Path, moment: Moment) -> None:
    table = place(tmp_path)
    with failing_at(Door.CREATE, moment, table.name, error=Crash), pytest.raises(Crash):
        make(table)
    assert exists(spark, table) == (moment is Moment.AFTER)
    log = Path(str(table.path)) / "_delta_log"
    (log / ".making-by-one-who-was-killed").write_text("{")
    make(table)
    assert exists(spark, table)
    assert held_columns(spark, table) == plain(COLUMNS)


def test_one_that_is_there_stays(spark: SparkSession, tmp_path: Path) -> None:
    table = place(tmp_path)
    make(table)
    log = Path(str(table.path)) / "_delta_log"
    first = (log / f"{0:020}.json").read_text()
    make(table)
    assert (log / f"{0:020}.json").read_text() == first
    os.rename(log / f"{0:020}.json", log / f"{7:020}.json")  # of a table whose log was cleaned up
    make(table)
    assert [path.name for path in log.iterdir()] == [f"{7:020}.json"]


def test_some_file_systems_have_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = place(tmp_path / "new")
    assert linkable(table)

    def refused(source: str, target: str) -> None:
        raise OSError(errno.EPERM, "Operation not permitted", source, None, target)

    monkeypatch.setattr(os, "link", refused)
    assert not linkable(table)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_one_that_somebody_else_makes_at_the_same_time_stays(spark: SparkSession, tmp_path: Path) -> None:
    """It is there when ours is about to be committed."""
    table = place(tmp_path)
    log = Path(str(table.path)) / "_delta_log"
    theirs = pa.schema([("theirs", pa.int64())])

    def between(door: Door, moment: Moment, name: str) -> None:
        if moment is Moment.BEFORE:
            DeltaTable.create(str(table.path), theirs)

    with hooked(between):
        make(table)
    assert [path.name for path in log.iterdir()] == [f"{0:020}.json"]
    assert RustTable(str(table.path), table.name).schema == theirs
