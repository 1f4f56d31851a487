"""What tasks write beside Spark is the table that Spark would have made of the same rows; else Spark makes it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from lakehouse_cdc.errors import TransientError, codes
from lakehouse_cdc.images.typed.columns import ImageColumns, NotOurs
from lakehouse_cdc.lake import delta_log
from lakehouse_cdc.lake.direct.file_listing import Listed, files_of
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.bronze_row import PARTITION
from lakehouse_cdc.model.changelog import Change, Op, fold
from lakehouse_cdc.model.seq import Rank, Seq
from lakehouse_cdc.model.table_layout import Layout, Table, literal, quoted
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.definition.form import Form
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.definition.transform import Transform
from lakehouse_cdc.silver.forms import CURRENT, HISTORY, SOFT_DELETES
from lakehouse_cdc.silver.forms.writers import current, incremental_writer
from lakehouse_cdc.silver.load import direct_load, direct_load_task
from tests.support import bronze_writer
from tests.support.bronze_writer import Lake
from tests.support.delta_library import delta_table
from tests.support.row_images import EVERY_KIND, random_row
from tests.support.row_images import image as row_image

pytestmark = pytest.mark.usefixtures("parts_both_ways")

ID = Column("id", "int", False)
EVERY = TableSchema("shop", "every", (ID, *EVERY_KIND), ("id",))
SMALL = TableSchema("shop", "small", (ID, Column("n", "smallint"), Column("note", "text", charset="utf8mb4")), ("id",))
KEYED_BY = ("a tiny", "u", "d8", "t", "day", "at", "ts", "bit")


def seq(pos: int, rank: Rank = Rank.READ) -> int:
    return Seq(1, 1, pos, rank, 0).pack()


def begin(schema: TableSchema) -> Change:
    return Change(seq(1, Rank.SCHEMA), Op.SCHEMA, schema.name, after=schema)


def reads(schema: TableSchema, rows: Sequence[Mapping[str, Any]], pos: int = 2) -> list[Change]:
    """A snapshot's rows, all at one position."""
    return [Change(seq(pos), Op.READ, schema.name, tuple(r[k] for k in schema.key), None, dict(r)) for r in rows]


def rows_of(schema: TableSchema, chosen: random.Random, n: int) -> list[dict[str, Any]]:
    """n rows with different keys, at random."""
    found = {}
    for i in range(n):
        row = random_row(chosen, schema) | ({"id": i} if "id" in schema.key else {})
        found[str([row[name] for name in schema.key])] = row
    return list(found.values())


@contextmanager
def watched() -> Iterator[list[bool]]:
    """Whether each first load was done beside Spark."""
    taken: list[bool] = []
    real = direct_load.load_files

    def load(*args: Any) -> bool:
        taken.append(real(*args))
        return taken[-1]

    with patch.object(current, "load_files", load), patch.object(incremental_writer, "load_files", load):
        yield taken


@contextmanager
def by_spark() -> Iterator[None]:
    """Every load through Spark."""
    with (
        patch.object(current, "load_files", return_value=False),
        patch.object(incremental_writer, "load_files", return_value=False),
    ):
        yield


def both(lake: Lake, versions: Versions, policy: Policy, loads: int = 1) -> tuple[Layout, Layout]:
    """The batch applied to two silver schemas: by whatever way is taken, and through Spark."""
    theirs = replace(lake.layout, silver="theirs")
    with watched() as taken:
        Applier(lake.spark, lake.layout, policy=lambda _: policy).apply(versions, lake.note(versions))
    assert taken == [True] * loads
    with by_spark():
        Applier(lake.spark, theirs, policy=lambda _: policy).apply(versions, lake.note(versions))
    return lake.layout, theirs


def plain(frame: DataFrame) -> list[str]:
    """Every row in full, as Spark shows it; Python has not all of its times."""
    shown = [
        f"hex({quoted(name)})" if kind == "binary" else f"CAST({quoted(name)} AS STRING)" for name, kind in frame.dtypes
    ]
    return sorted(str(tuple(row)) for row in frame.selectExpr(*shown).collect())


def require_same(spark: SparkSession, name: str, ours: Layout, theirs: Layout) -> tuple[DataFrame, DataFrame]:
    one, two = (layout.silver_table(name) for layout in (ours, theirs))
    found, wanted = read(spark, one), read(spark, two)
    assert found.schema == wanted.schema
    assert plain(found) == plain(wanted)
    said = [last_commit(spark, table) for table in (one, two)]
    assert said[0] == said[1]
    return found, wanted


def last_commit(spark: SparkSession, table: Table) -> dict[str, Any]:
    """What the newest commit says of itself, but for when and how many files and bytes."""
    row = delta_table(spark, table).history(1).collect()[0].asDict()
    metrics = {k: v for k, v in row["operationMetrics"].items() if k not in ("numOutputBytes", "numFiles")}
    kept = ("version", "operation", "operationParameters", "isolationLevel", "isBlindAppend", "userMetadata")
    return {name: row[name] for name in kept} | metrics | {"metrics": sorted(row["operationMetrics"])}


def statistics(spark: SparkSession, table: Table) -> list[dict[str, Any]]:
    """Delta's of each file, by the columns' names."""
    state = delta_log.state(spark, table)
    assert state is not None
    text = json.dumps([line["add"]["stats"] for line in log(table) if "add" in line])
    for field in state.fields:
        text = text.replace(field["metadata"]["delta.columnMapping.physicalName"], json.dumps(field["name"])[1:-1])
    return [json.loads(stats) for stats in json.loads(text)]


def files_there(table: Table) -> set[str]:
    return {str(path.relative_to(str(table.path))) for path in Path(str(table.path)).rglob("part-*.parquet")}


def log(table: Table) -> list[dict[str, Any]]:
    files = sorted(Path(str(table.path), "_delta_log").glob("*.json"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@pytest.mark.long
@pytest.mark.parametrize(
    "form", [HISTORY, *(pytest.param(form, marks=pytest.mark.long) for form in (CURRENT, SOFT_DELETES))]
)
def test_rows_of_every_kind(spark: SparkSession, tmp_path: Path, form: Form, seed: int) -> None:
    chosen = random.Random(seed)
    lake = Lake(spark, tmp_path, {EVERY.name: EVERY}, batches=1)  # one that is written as files
    rows = rows_of(EVERY, chosen, 120)
    versions = Versions(None, lake.commit([begin(EVERY), *reads(EVERY, rows)]).version)
    found, wanted = require_same(spark, EVERY.name, *both(lake, versions, Policy(form=form)))
    assert found.count() == len(rows)
    for column in found.columns:
        for test in ("IS NULL", "IS NOT NULL"):
            where = f"{quoted(column)} {test}"
            assert found.where(where).count() == wanted.where(where).count(), where


@pytest.mark.long
def test_filters_by_the_key_find_the_same(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Delta leaves files out by their statistics, which hold at least what Spark's would say."""
    chosen = random.Random(seed)
    others = {c.name: c for c in EVERY_KIND}
    schemas = [TableSchema("shop", f"k{i}", (ID, others[name]), (name, "id")) for i, name in enumerate(KEYED_BY)]
    lake = Lake(spark, tmp_path, {schema.name: schema for schema in schemas}, batches=1)
    rows = [change for s in schemas for change in (begin(s), *reads(s, rows_of(s, chosen, 30)))]
    versions = Versions(None, lake.commit(rows).version)
    ours, theirs = both(lake, versions, Policy(), loads=len(schemas))
    for schema in schemas:
        found, wanted = require_same(spark, schema.name, ours, theirs)
        require_wider(spark, *(layout.silver_table(schema.name) for layout in (ours, theirs)))
        (name, kind), column = found.dtypes[1], quoted(schema.key[0])
        values = [row[0] for row in wanted.selectExpr(f"CAST({column} AS STRING)").distinct().collect()]
        for value in (max(values), chosen.choice(values)):
            for test in ("=", ">="):
                where = f"{quoted(name)} {test} CAST({literal(value)} AS {kind})"
                assert found.where(where).count() == wanted.where(where).count(), where


def require_wider(spark: SparkSession, ours: Table, theirs: Table) -> None:
    """Our one file's statistics cover those of Spark's files, and are of the same columns."""
    [mine] = statistics(spark, ours)
    for said in statistics(spark, theirs):
        assert said["nullCount"].keys() == mine["nullCount"].keys()
        for bounds, better in (("minValues", min), ("maxValues", max)):
            assert said[bounds].keys() == mine[bounds].keys()
            assert all(better(value, mine[bounds][name]) == mine[bounds][name] for name, value in said[bounds].items())


@pytest.mark.long
def test_what_is_read_of_damaged_images_is_what_spark_reads(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Most of them are refused; what is not, is a value that the image holds now."""
    chosen = random.Random(seed)
    small = replace(EVERY, columns=tuple(c for c in EVERY.columns if c.captured))
    damaged: list[bytes] = []
    while len(damaged) < 300:
        odd = bytearray(row_image(small, random_row(chosen, small, 0.6) | {"id": len(damaged)}))
        body = chosen.choice((0, 5 * len(odd) // 6))
        odd[chosen.randrange(body, len(odd))] = chosen.randrange(256)
        with suppress(NotOurs):
            list(ImageColumns(small).read(pa.array([bytes(odd)], pa.binary()), np.zeros(1, np.int64)))
            damaged.append(bytes(odd))
    lake = Lake(spark, tmp_path, {small.name: small}, batches=1)
    rows = [random_row(chosen, small) | {"id": i} for i in range(len(damaged))]
    with patch.object(bronze_writer, "row_image", lambda _, row: damaged[row["id"]]):
        versions = Versions(None, lake.commit([begin(small), *reads(small, rows)]).version)
    ours, theirs = both(lake, versions, Policy())
    found, wanted = (read(spark, layout.silver_table(small.name)) for layout in (ours, theirs))
    assert plain(found) == plain(wanted)


@pytest.mark.long
def test_then_changes_come_and_the_schema_changes(spark: SparkSession, tmp_path: Path) -> None:
    """A MERGE updates, deletes and inserts; a replay of the load changes nothing; columns change."""
    lake = Lake(spark, tmp_path, {SMALL.name: SMALL})
    rows = [{"id": i, "n": i, "note": None if i % 3 else "x" * i} for i in range(50)]
    first = Versions(None, lake.commit([begin(SMALL), *reads(SMALL, rows)]).version)
    applier, table = Applier(spark, lake.layout), lake.layout.silver_table(SMALL.name)
    with watched() as taken:
        applier.apply(first, lake.note(first))
    assert taken == [True]
    assert lake.silver(SMALL.name) == fold(lake.written)
    before = len(log(table))
    Applier(spark, lake.layout).apply(first, lake.note(first))
    assert len(log(table)) == before
    at = seq(5, Rank.EVENT)
    changes = [
        Change(at, Op.UPDATE, SMALL.name, (1,), rows[1], rows[1] | {"n": -5}),
        Change(at + 1, Op.DELETE, SMALL.name, (2,), rows[2], None),
        Change(at + 2, Op.INSERT, SMALL.name, (99,), None, {"id": 99, "n": 9, "note": "new"}),
    ]
    then = Versions(first.last, lake.commit(changes).version)
    applier.apply(then, lake.note(then))
    assert lake.silver(SMALL.name) == fold(lake.written)
    spark.sql(f"ALTER TABLE {table.sql} RENAME COLUMN note TO other")
    spark.sql(f"ALTER TABLE {table.sql} ALTER COLUMN n TYPE bigint")
    spark.sql(f"ALTER TABLE {table.sql} ADD COLUMN note string")
    found = read(spark, table).where("id = 3").head()
    assert found is not None
    assert (found["n"], found["other"], found["note"]) == (3, "xxx", None)
    spark.sql(f"ALTER TABLE {table.sql} DROP COLUMN other")
    assert read(spark, table).count() == 50
    assert read(spark, table, version=1).count() == 50


@pytest.mark.long
def test_many_files_of_bronze_make_few_of_silver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of the key; none with more rows than a file may have; also of a later version, and put together."""
    monkeypatch.setattr(direct_load, "FILE_ROWS", 100)
    monkeypatch.setattr(direct_load, "_SMALL", 10)
    other = replace(SMALL, table="other")
    lake = Lake(spark, tmp_path, {SMALL.name: SMALL, other.name: other}, batches=1)
    first = lake.commit([begin(other), *reads(other, [{"id": 1, "n": 1, "note": ""}])]).version
    Applier(spark, lake.layout).apply(Versions(None, first), lake.note(Versions(None, first)))
    rows = [{"id": i, "n": i, "note": "y"} for i in range(500)]
    done = commit_in_files(lake, [begin(SMALL), *reads(SMALL, rows)], 25)
    for versions, silver in ((Versions(first, done), "s"), (Versions(None, done), "whole")):
        layout = replace(lake.layout, silver=silver)
        with watched() as taken:
            Applier(spark, layout).apply(versions, lake.note(versions))
        assert taken[-1]
        table = layout.silver_table(SMALL.name)
        assert sorted(row["id"] for row in read(spark, table).collect()) == list(range(500))
        ranges = sorted((s["minValues"]["id"], s["maxValues"]["id"], s["numRecords"]) for s in statistics(spark, table))
        assert len(ranges) >= 5
        assert all(n <= 100 for _, _, n in ranges)
        assert all(one[1] < two[0] for one, two in pairwise(ranges))


def commit_in_files(lake: Lake, changes: list[Change], of_each: int) -> int:
    """One commit of bronze in files of so many rows each; its version."""
    real = bronze_writer.as_files

    def in_pieces(spark: SparkSession, rows: pa.Table, folder: str) -> DataFrame:
        frames = [real(spark, rows.slice(i, of_each), folder) for i in range(0, rows.num_rows, of_each)]
        lines = [row for frame in frames for row in frame.collect()]
        return spark.createDataFrame(lines, frames[0].schema).coalesce(1)

    with patch.object(bronze_writer, "as_files", in_pieces):
        return lake.commit(changes).version


@pytest.mark.long
def test_files_are_those_that_spark_reads(spark: SparkSession, tmp_path: Path) -> None:
    """Of all versions, and of some; behind an OPTIMIZE; not where the log is not whole."""
    other = replace(SMALL, table="an other/table %20 ä")
    lake = Lake(spark, tmp_path, {SMALL.name: SMALL, other.name: other})
    changes, names = lake.layout.changes, (SMALL.name, other.name)
    for batch in range(5):
        rows = [{"id": i, "n": batch, "note": None} for i in range(batch + 1)]
        lake.commit([c for schema in (SMALL, other) for c in reads(schema, rows, batch + 2)])
    ranges = [Versions(None, 5), Versions(None, 3), Versions(2, 4), Versions(0, 5)]
    for versions in ranges:
        for name in names:
            require_listed(spark, changes, versions, name)
    spark.sql(f"OPTIMIZE {changes.sql}").collect()
    for versions in (*ranges, Versions(None, 6), Versions(3, 6)):
        for name in names:
            require_listed(spark, changes, versions, name)
    Path(str(changes.path), "_delta_log", f"{2:020}.json").unlink()
    assert files_of(changes, Versions(None, 5), {PARTITION: SMALL.name}) is None
    assert files_of(changes, Versions(3, 5), {PARTITION: SMALL.name})


def require_listed(spark: SparkSession, table: Table, versions: Versions, name: str) -> None:
    found = files_of(table, versions, {PARTITION: name})
    assert found
    wanted = versions.rows(spark, table).where(f"source_table = '{name}'")
    assert sum(file.rows for file in found) == wanted.count()
    there = [pq.read_table(f"{table.path}/{file.path}", columns=["seq"], partitioning=None) for file in found]
    assert sorted(str(v) for t in there for v in t["seq"].to_pylist()) == sorted(
        str(r[0]) for r in wanted.select("seq").collect()
    )


CONDITIONS: dict[str, tuple[Policy, TableSchema]] = {
    "renamed": (Policy(transform=Transform(rename={"n": "m"})), SMALL),
    "computed": (Policy(transform=Transform(computed={"m": "n + 1"})), SMALL),
    "filtered": (Policy(transform=Transform(filter="id > 3")), SMALL),
    "metadata": (Policy(transform=Transform(metadata={"m": "op_ts"})), SMALL),
    "clustered": (Policy(cluster_by=("n",)), SMALL),
    "a property": (Policy(properties={"delta.constraints.small": "n < 1000"}), SMALL),
    "json": (Policy(), replace(SMALL, columns=(*SMALL.columns, Column("j", "json")))),
}


@pytest.mark.long
@pytest.mark.parametrize("condition", CONDITIONS)
def test_all_else_goes_through_spark(spark: SparkSession, tmp_path: Path, condition: str) -> None:
    policy, schema = CONDITIONS[condition]
    lake = Lake(spark, tmp_path, {schema.name: schema})
    rows = [{"id": i, "n": i, "note": "a", **({"j": "[1]"} if condition == "json" else {})} for i in range(9)]
    versions = Versions(None, lake.commit([begin(schema), *reads(schema, rows)]).version)
    with watched() as taken:
        Applier(spark, lake.layout, policy=lambda _: policy).apply(versions, lake.note(versions))
    assert taken == [False]
    assert read(spark, lake.layout.silver_table(schema.name)).count() == (5 if condition == "filtered" else 9)


@pytest.mark.long
def test_rows_of_more_than_one_read_go_through_spark(spark: SparkSession, tmp_path: Path) -> None:
    """And those in front of a barrier, behind a change of the schema, and of a table that has rows."""
    rows = [{"id": i, "n": i, "note": "a"} for i in range(4)]
    late = Change(seq(9, Rank.EVENT), Op.INSERT, SMALL.name, (7,), None, {"id": 7, "n": 7, "note": None})
    gone = Change(seq(9, Rank.EVENT), Op.TRUNCATE, SMALL.name)
    for i, others in enumerate(([late], reads(SMALL, rows[:1], 3), [gone])):
        lake = Lake(spark, tmp_path / str(i), {SMALL.name: SMALL})
        versions = Versions(None, lake.commit([begin(SMALL), *reads(SMALL, rows), *others]).version)
        with watched() as taken:
            Applier(spark, lake.layout).apply(versions, lake.note(versions))
        assert not any(taken)
        assert lake.silver(SMALL.name) == fold(lake.written)


def test_an_image_of_another_form_goes_through_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing is left of what was written for it."""
    lake = Lake(spark, tmp_path, {SMALL.name: SMALL}, batches=1)
    rows: list[dict[str, Any]] = [{"id": i, "n": i, "note": "a"} for i in range(4)]
    del rows[3]["note"]
    versions = Versions(None, lake.commit([begin(SMALL), *reads(SMALL, rows)]).version)
    with watched() as taken:
        Applier(spark, lake.layout).apply(versions, lake.note(versions))
    assert taken == [False]
    table = lake.layout.silver_table(SMALL.name)
    assert sorted((r["id"], r["note"]) for r in read(spark, table).collect()) == [
        (0, "a"),
        (1, "a"),
        (2, "a"),
        (3, None),
    ]
    named = {line["add"]["path"] for line in log(table) if "add" in line}
    assert files_there(table) == named


@pytest.mark.long
def test_a_load_that_was_committed_is_skipped(spark: SparkSession, tmp_path: Path) -> None:
    """Also where the table has lost its rows since: the commit is known by its application and batch."""
    lake = Lake(spark, tmp_path, {SMALL.name: SMALL})
    rows = [{"id": i, "n": i, "note": "a"} for i in range(4)]
    versions = Versions(None, lake.commit([begin(SMALL), *reads(SMALL, rows)]).version)
    for _ in range(2):
        with watched() as taken:
            Applier(spark, lake.layout).apply(versions, lake.note(versions))
        table = lake.layout.silver_table(SMALL.name)
        spark.sql(f"DELETE FROM {table.sql}").collect()
    assert taken == [True]
    assert read(spark, table).isEmpty()
    added = {line["add"]["path"] for line in log(table) if "add" in line}
    assert files_there(table) == added


@pytest.mark.long
def test_a_load_that_was_not_committed_comes_again(spark: SparkSession, tmp_path: Path) -> None:
    """What it had written by then is in no commit; and the change data feed has each row once."""
    lake = Lake(spark, tmp_path, {SMALL.name: SMALL}, batches=1)
    policy = Policy(properties={"delta.enableChangeDataFeed": "true"})
    rows = [{"id": i, "n": i, "note": "a"} for i in range(4)]
    versions = Versions(None, lake.commit([begin(SMALL), *reads(SMALL, rows)]).version)
    failure = codes.CONNECTION_LOST.error("lost")
    with patch.object(direct_load, "add_files", side_effect=failure), pytest.raises(TransientError):
        Applier(spark, lake.layout, policy=lambda _: policy).apply(versions, lake.note(versions))
    table = lake.layout.silver_table(SMALL.name)
    assert read(spark, table).isEmpty()
    assert len(files_there(table)) == 1
    with watched() as taken:
        Applier(spark, lake.layout, policy=lambda _: policy).apply(versions, lake.note(versions))
    assert taken == [True]
    assert lake.silver(SMALL.name) == fold(lake.written)
    assert len(files_there(table)) == 2
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(table.path)
    assert sorted((row["id"], row["_change_type"]) for row in feed.collect()) == [(i, "insert") for i in range(4)]


def test_runs_of_files_are_even(seed: int) -> None:
    chosen = random.Random(seed)
    for _ in range(200):
        files = [Listed(str(i), chosen.choice((0, 1, 50_000, 50_001, 400_000))) for i in range(chosen.randrange(1, 90))]
        tasks = chosen.choice((1, 2, 8))
        runs = direct_load.spread(files, tasks)
        assert [path for run in runs for path in run] == [file.path for file in files]
        of = {file.path: file.rows for file in files}
        sizes = [sum(of[path] for path in run) for run in runs]
        assert all(runs)
        assert all(size <= direct_load_task.FILE_ROWS + len(run) for size, run in zip(sizes, runs, strict=True)) or len(
            runs
        ) == len(files)
    even = [Listed(str(i), 50_000 + (i == 0)) for i in range(40)]
    assert [len(run) for run in direct_load.spread(even, 2)] == [10, 10, 10, 10]
