"""A table gets other columns and other files in one commit: for every reader, beside other writers, after a crash."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import CdcError
from lakehouse_cdc.lake.checksum import state_by_checksum, state_by_log
from lakehouse_cdc.lake.direct.creation import create_bare
from lakehouse_cdc.lake.direct.newest_version import NewestVersion
from lakehouse_cdc.lake.direct.redefinition import Definition, Whole, redefine
from lakehouse_cdc.lake.direct.rust_table import Once, RustTable
from lakehouse_cdc.lake.failpoints import Door, Moment, install
from lakehouse_cdc.lake.log_actions import name_of
from lakehouse_cdc.lake.tables import alter, read
from lakehouse_cdc.model.table_layout import Table
from tests.support.crash_points import Counted, Crash, hooked

COLUMNS = (("id", "bigint"), ("n", "int"), ("at", "timestamp"))


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Table:
    """Rows by both writers, in files of which one lacks a column and one has a time as Spark writes it."""
    made = Table("silver", "t", root=str(tmp_path))
    create_bare(spark, made, COLUMNS, pipeline="shop", comment="", properties={"team": "sales"})
    append(made, 1)
    alter(spark, made, f"INSERT INTO {made.sql} VALUES (2, 2, TIMESTAMP'9999-12-31 23:59:59.999999')")
    return made


def append(table: Table, key: int) -> None:
    rows = pa.table({"id": pa.array([key], pa.int64()), "n": pa.array([key], pa.int32())})
    rust = RustTable(str(table.path), table.name)
    at = pa.array([None], pa.timestamp("us", "UTC"))
    more = [name for name in rust.schema.names if name not in ("id", "n", "at")]
    rows = rows.append_column("at", at)
    for name in more:
        rows = rows.append_column(name, pa.nulls(1, rust.schema.field(name).type))
    rust.append(rows.select(rust.schema.names), Once("test", key, f"append {key}"))


def doubled(newest: NewestVersion, _: Whole) -> Definition:
    """The column n as a wider one, twice as much, and a property; at goes."""
    fields = [{**newest.state.fields[0]}, {**newest.state.fields[1], "type": "long"}]

    def rows(held: pa.Table) -> pa.Table:
        return pa.table({"id": held.column("id"), "n": pc.multiply(held.column("n").cast(pa.int64()), 2)})

    return Definition(fields, {"lakehouse_cdc.schema_id": "x"}, rows, [("id",)])


def added(newest: NewestVersion, _: Whole) -> Definition:
    more = {"name": "more", "type": "string", "nullable": True, "metadata": {"comment": "of more"}}
    return Definition([*newest.state.fields, more], {}, None, [])


def held(spark: SparkSession, table: Table) -> list[tuple[Any, ...]]:
    """By Spark; deltalake has the same numbers."""
    rows = sorted((tuple(row) for row in read(spark, table).collect()), key=str)
    rust = RustTable(str(table.path), table.name)
    by_rust = sorted((tuple(row.values()) for row in rust.rows(["id", "n"]).to_pylist()), key=str)
    assert by_rust == [row[:2] for row in rows]
    return rows


def test_rows_and_columns_change_together(spark: SparkSession, table: Table) -> None:
    version = redefine(table, doubled, "a note")
    assert version == 3
    assert held(spark, table) == [(1, 2), (2, 4)]
    state = state_by_checksum(str(table.path))
    assert state == state_by_log(str(table.path))
    assert state is not None
    assert state.columns == [("id", "bigint"), ("n", "bigint")]
    assert state.bare
    assert (state.properties["team"], state.properties["lakehouse_cdc.schema_id"]) == ("sales", "x")
    [commit] = spark.sql(f"DESCRIBE HISTORY {table.sql} LIMIT 1").select("userMetadata", "operation").collect()
    assert tuple(commit) == ("a note", "REPLACE COLUMNS")
    before = spark.read.format("delta").option("versionAsOf", 2).load(str(table.path))
    assert (before.columns, before.count()) == (["id", "n", "at"], 2)
    append(table, 3)
    assert held(spark, table) == [(1, 2), (2, 4), (3, 3)]


def test_an_added_column_leaves_the_files(spark: SparkSession, table: Table) -> None:
    files = sorted(path.name for path in Path(str(table.path)).glob("*.parquet"))
    assert redefine(table, added, "") == 3
    assert sorted(path.name for path in Path(str(table.path)).glob("*.parquet")) == files
    append(table, 3)
    assert redefine(table, kept, "") == 5
    rows = [(row["id"], row["at"] is not None, row["more"]) for row in read(spark, table).orderBy("id").collect()]
    assert rows == [(1, False, None), (2, True, None), (3, False, None)]
    [comment] = [f.metadata.get("comment") for f in read(spark, table).schema.fields if f.name == "more"]
    assert comment == "of more"


def kept(newest: NewestVersion, _: Whole) -> Definition:
    """All rows again, as they are."""
    return Definition(newest.state.fields, {}, lambda rows: rows, [("id",)])


def test_a_table_without_rows_has_no_file_afterwards(spark: SparkSession, tmp_path: Path) -> None:
    made = Table("silver", "empty", root=str(tmp_path))
    create_bare(spark, made, COLUMNS, pipeline="shop", comment="", properties={})
    assert redefine(made, doubled, "") == 1
    assert held(spark, made) == []
    assert not [*Path(str(made.path)).glob("*.parquet")]


@contextmanager
def before_each_commit(act: Any, times: int) -> Iterator[None]:
    """Somebody else commits in between, so many times."""
    left = times

    def hook(door: Door, moment: Moment, name: str) -> None:
        nonlocal left
        if door is Door.STATEMENT and moment is Moment.BEFORE and left:
            left -= 1
            act(times - left)

    install(hook)
    try:
        yield
    finally:
        install(None)


@pytest.mark.parametrize("times", [1, 3])
def test_what_others_commit_meanwhile_is_in_it(spark: SparkSession, table: Table, times: int) -> None:
    with before_each_commit(lambda n: append(table, 10 + n), times):
        redefine(table, doubled, "")
    wanted = [(1, 2), (2, 4), *((10 + n, 20 + 2 * n) for n in range(1, times + 1))]
    assert held(spark, table) == sorted(wanted, key=str)
    listed = {path.name for path in Path(str(table.path)).glob("*.parquet")}
    log = "".join(path.read_text() for path in Path(str(table.path), "_delta_log").glob("*.json"))
    assert all(name in log for name in listed), "a file is left that no commit names"


def test_somebody_who_commits_all_the_time_is_an_error(spark: SparkSession, table: Table) -> None:
    with before_each_commit(lambda n: append(table, 100 + n), 1000), pytest.raises(CdcError, match="in between"):
        redefine(table, doubled, "")
    assert [row[:2] for row in held(spark, table)][:2] == [(1, 1), (101, 101)]


@pytest.mark.parametrize("at", [0, 1])
def test_a_crash_leaves_the_one_or_the_other(spark: SparkSession, table: Table, at: int) -> None:
    with hooked(Counted(at)), pytest.raises(Crash):
        redefine(table, doubled, "")
    assert [row[:2] for row in held(spark, table)] == ([(1, 1), (2, 2)], [(1, 2), (2, 4)])[at]


def test_what_is_not_there_is_not_touched(spark: SparkSession, table: Table) -> None:
    assert redefine(table, lambda *_: None, "") is None
    assert not Path(str(table.path), "_delta_log", name_of(3, "json")).exists()
