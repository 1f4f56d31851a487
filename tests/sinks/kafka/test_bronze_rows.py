"""Rows of bronze are sent in one of two orders, which is one and the same however many tasks make it, and of what."""

from __future__ import annotations

import random
from collections.abc import Iterable
from json import loads
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.lake.direct import change_files
from lakehouse_cdc.lake.direct.file_listing import files_of
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.messages.change import Settings
from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.model.seq import Rank, Seq
from lakehouse_cdc.model.variant import decode
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.sinks.kafka import bronze_rows, file_rows
from lakehouse_cdc.sinks.kafka.bronze_rows import Records, Row, rows_by_files, rows_by_keys
from lakehouse_cdc.sinks.kafka.task_records import Plan
from tests.support.bronze_writer import Lake
from tests.support.row_images import UTF8
from tests.support.silver.changes import begin, seq

NAME = Column("name", "varchar", False, length=9, **UTF8)
ONE = TableSchema("shop", "one", (Column("id", "int", False), NAME, Column("n", "int")), ("id", "name"))
TWO = TableSchema("shop", "two", (NAME, Column("n", "int")), ("name",))
KEYLESS = TableSchema("shop", "keyless", (Column("n", "int"), NAME), ())
SCHEMAS = {schema.name: schema for schema in (ONE, TWO, KEYLESS)}
NAMES = ("", "a", "A", "é", "😀", '"', "\\", "\x01", "}", "10", "9", "\uffee")
_VALUES = {"id": (0, -1, 1, 9, 10, 100, -(2**31), 2**31 - 1), "n": (None, 0, 10, 9, -5), "name": NAMES}


def read_at(schema: TableSchema, pos: int, values: dict[str, Any]) -> Change:
    key = tuple(values[name] for name in schema.key) if schema.key else None
    return Change(seq(pos, Rank.READ), Op.READ, schema.name, key, None, values)


def snapshots(chosen: random.Random, pos: int) -> list[Change]:
    """Rows of all tables, all of one seq, in no order; those of the table without a key may be there twice."""
    changes: list[Change] = []
    for schema in SCHEMAS.values():
        rows: dict[Any, dict[str, Any]] = {}
        for i in range(60):
            row = {c.name: chosen.choice(_VALUES[c.name]) for c in schema.columns}
            rows[tuple(row[name] for name in schema.key) or i] = row
        changes += [read_at(schema, pos, row) for row in rows.values()]
    chosen.shuffle(changes)
    return changes


def transactions(chosen: random.Random, first: int) -> list[Change]:
    changes = []
    for pos in range(first, first + 25):
        for ordinal in range(chosen.choice((1, 1, 7))):
            row = {"id": chosen.randrange(50), "name": chosen.choice(NAMES), "n": pos}
            at = Seq(1, chosen.choice((1, 1, 12)), pos, Rank.EVENT, ordinal).pack()
            changes.append(Change(at, Op.INSERT, ONE.name, (row["id"], row["name"]), None, row))
    chosen.shuffle(changes)
    return changes


def planned(*schemas: TableSchema) -> Any:
    """A plan of those tables; what it is asked with is checked."""

    def plan(changes: Iterable[tuple[str, str]]) -> Plan:
        assert {*changes} == {(schema.name, schema.id) for schema in SCHEMAS.values()}
        return Plan("flat", {schema.id: (schema, Settings("shop", "t")) for schema in schemas})

    return plan


def numbered(pieces: Iterable[Row | Records]) -> tuple[list[tuple[int, str, Any]], int]:
    """Each row in order: seq, schema, and its key and values; and how many of them tasks wrote."""
    rows: list[tuple[int, str, Any]] = []
    by_tasks = 0
    for piece in pieces:
        if isinstance(piece, Row):
            if piece.op is Op.READ or piece.op is Op.INSERT:
                rows.append((piece.seq, piece.schema_id, piece.after))
            continue
        by_tasks += piece.end - piece.first
        for schema_id, value, at in zip(piece.schema_ids, piece.values, piece.seqs, strict=True):
            assert value is not None
            image = {name: one for name, one in loads(value).items() if not name.startswith("__")}
            rows.append((int(at), schema_id, image))
    return rows, by_tasks


def test_there_is_one_order_by_keys(
    spark: SparkSession, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By seq, table, JSON of the key and of the image: in one partition and in many, and also by Spark's own order."""
    chosen = random.Random(seed)
    lake = Lake(spark, tmp_path, dict(SCHEMAS))
    lake.commit([begin(schema) for schema in SCHEMAS.values()])
    lake.commit([*snapshots(chosen, 5), *transactions(chosen, 10)])
    versions = Versions(None, lake.commit([*snapshots(chosen, 50), *transactions(chosen, 60)]).version)
    ordered = versions.rows(spark, lake.layout.changes).where("op IN ('r', 'c')")
    ordered = ordered.orderBy("seq", "source_table", F.to_json("key"), F.to_json("after"), "op")
    wanted = [
        (int(row["seq"]), row["schema_id"], decode(bytes(row["after"].value), bytes(row["after"].metadata)))
        for row in ordered.select("seq", "schema_id", "after").collect()
    ]
    assert len(wanted) > 300
    # in one partition, in some that are cut here, and in some that Spark cuts
    for task_rows, many, schemas in ((10**6, 256, ()), (90, 256, (ONE, TWO, KEYLESS)), (90, 1, (ONE,))):
        monkeypatch.setattr(bronze_rows, "_TASK_ROWS", task_rows)
        monkeypatch.setattr(bronze_rows, "_MANY", many)
        rows, by_tasks = numbered(rows_by_keys(spark, lake.layout, versions, planned(*schemas)))
        assert rows == wanted, (task_rows, many)
        assert (by_tasks > 50) == bool(schemas)


@pytest.mark.parametrize("after", [None, pytest.param(0, marks=pytest.mark.long)])
def test_there_is_one_order_by_files(
    spark: SparkSession, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch, after: int | None
) -> None:
    """By seq, path and place in the file: of files of ours, some of several row groups, and of Spark's own."""
    monkeypatch.setattr(change_files, "_GROUP_BYTES", 20_000)
    monkeypatch.setattr(change_files, "_HELD_BYTES", 40_000)
    chosen = random.Random(seed)
    lake = Lake(spark, tmp_path, dict(SCHEMAS))
    lake.commit([begin(schema) for schema in SCHEMAS.values()])
    lake.commit([*snapshots(chosen, 5), *transactions(chosen, 10)])
    lake.commit([*snapshots(chosen, 50), *transactions(chosen, 40)])
    versions = Versions(after, lake.commit([*snapshots(chosen, 50), *transactions(chosen, 60)]).version)
    listed = files_of(lake.layout.changes, versions)
    assert listed is not None
    placed = []
    for file in listed:
        for place, row in enumerate(pq.read_table(Path(str(lake.layout.changes.path), file.path)).to_pylist()):
            if row["op"] in ("r", "c"):
                image = decode(row["after"]["value"], row["after"]["metadata"])
                placed.append((int(row["seq"]), file.path, place, row["schema_id"], image))
    wanted = [(row[0], *row[3:]) for row in sorted(placed, key=lambda row: row[:3])]
    assert len(wanted) > 400
    for task_rows, schemas in ((10**6, ()), (90, (ONE, TWO, KEYLESS)), (40, (ONE,))):
        monkeypatch.setattr(bronze_rows, "_TASK_ROWS", task_rows)
        pieces = rows_by_files(spark, lake.layout, versions, planned(*schemas))
        assert pieces is not None
        rows, by_tasks = numbered(pieces)
        assert rows == wanted, task_rows
        assert (by_tasks > 50) == bool(schemas)
    rows, _ = numbered(rows_by_keys(spark, lake.layout, versions, planned()))
    assert sorted(rows, key=repr) == sorted(wanted, key=repr)


def test_where_there_is_no_order_by_files(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that take others away, a log that says more than that rows were added, files that lie otherwise."""
    lake = Lake(spark, tmp_path, dict(SCHEMAS))
    lake.commit([begin(schema) for schema in SCHEMAS.values()])
    chosen = random.Random(1)
    versions = Versions(None, lake.commit([*snapshots(chosen, 5), *transactions(chosen, 10)]).version)

    def there_is(within: Versions = versions, *, begun: bool = False) -> bool:
        return rows_by_files(spark, lake.layout, within, lambda _: Plan("flat", {}), begun=begun) is not None

    assert there_is()
    monkeypatch.setattr(bronze_rows, "_GROUP_ROWS", 10)
    assert not there_is()
    assert there_is(begun=True)
    monkeypatch.setattr(bronze_rows, "_GROUP_ROWS", 10**6)
    monkeypatch.setattr(file_rows, "_TIMES", ())
    assert not there_is(begun=True)
    monkeypatch.undo()
    taken = lake.commit([Change(seq(90, Rank.SCHEMA), Op.TRUNCATE, ONE.name)]).version
    assert not there_is(Versions(None, taken))
    lake.commit(transactions(chosen, 100))
    path = lake.layout.changes.path
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES (delta.appendOnly = false)")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE op = 't'")
    changed = spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").collect()[0]["version"]
    assert not there_is(Versions(taken, changed))
    assert there_is(Versions(taken, changed - 1))
