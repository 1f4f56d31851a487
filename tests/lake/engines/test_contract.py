"""The contract of `lake.engines.port.Engine`: tests that every engine passes, and a table that they write in turns."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.bronze.tables import SCHEMAS
from lakehouse_cdc.lake import delta_log
from lakehouse_cdc.lake.commits import history
from lakehouse_cdc.lake.engines.choice import engine_of
from lakehouse_cdc.lake.engines.direct import DirectEngine
from lakehouse_cdc.lake.engines.port import Engine
from lakehouse_cdc.lake.engines.spark import SparkEngine
from lakehouse_cdc.lake.failpoints import Door, Moment
from lakehouse_cdc.lake.table_state import Columns
from lakehouse_cdc.lake.tables import create, read
from lakehouse_cdc.model.table_layout import Layout, Table
from lakehouse_cdc.silver.tables.ledger_table import COLUMNS as LEDGER
from tests.support.commit_notes import note
from tests.support.crash_points import Crash, failing_at

ENGINES: dict[str, Callable[[SparkSession], Engine]] = {"direct": DirectEngine, "spark": SparkEngine}
DOORS = {"direct": Door.ADD, "spark": Door.WRITE}

BEGAN = datetime(2024, 2, 29, 23, 59, 59, 999_001, timezone.utc)
TEXTS = ("", "it's", "\u00fc\U0001f600\n" * 40, "x" * 300)


def value(random: Random, kind: str) -> Any:
    """One of a column of that kind; at times none."""
    made: dict[str, Any] = {
        "decimal(38,0)": Decimal(random.randrange(10**37)),
        "string": random.choice(TEXTS),
        "timestamp": BEGAN + timedelta(microseconds=random.randrange(10**12)),
        "bigint": random.randrange(-(2**63), 2**63),
        "map<string, bigint>": {name: random.randrange(9) for name in TEXTS[: random.randrange(3)]},
        "map<string, decimal(38,0)>": {name: Decimal(random.randrange(9)) for name in TEXTS[: random.randrange(3)]},
        "struct<epoch: int, server_uuid: string, file: string, pos: bigint>": {
            "epoch": random.randrange(9), "server_uuid": None, "file": random.choice(TEXTS), "pos": 2**40,
        },
        "struct<server_uuid: string, file: string, pos: bigint, gtid: string>": {
            "server_uuid": "u", "file": random.choice(TEXTS), "pos": 2**40, "gtid": None,
        },
        "array<struct<seq: decimal(38,0), after: timestamp, by: timestamp>>": [
            {"seq": Decimal(random.randrange(9)), "after": None, "by": BEGAN + timedelta(microseconds=at)}
            for at in range(random.randrange(3))
        ],
    }  # fmt: skip
    return random.choice((made[kind], made[kind], None))


def made(spark: SparkSession, folder: Path, columns: Columns) -> Table:
    table = Layout("tests", bronze="b", silver="s", path=str(folder)).ledger
    create(spark, table, columns, pipeline="tests", properties={}, comment="")
    return table


@pytest.mark.long
@pytest.mark.parametrize(
    "columns", [pytest.param(LEDGER, id="ledger"), pytest.param(SCHEMAS, id="schemas", marks=pytest.mark.long)]
)
def test_every_engine_makes_the_same_table(spark: SparkSession, tmp_path: Path, columns: Columns) -> None:
    """Promises 1, 2, 4 and 5, of every column, also NULL; with bounds that Delta leaves files out by."""
    random, tables = Random(7), {name: made(spark, tmp_path / name, columns) for name in (*ENGINES, "turns")}
    turns = [*ENGINES]
    for batch in range(4):
        rows = [{name: value(random, kind) for name, kind in columns} for _ in range(batch + 1)]
        for name, table in tables.items():
            for again in range(2):  # a batch that is repeated, in the end by another engine
                engine = ENGINES[turns[(batch + again) % len(turns)] if name == "turns" else name]
                engine(spark).append(table, columns, rows, note(batch), "step", ["seq"])
    names = [name for name, _ in columns]
    wanted = read(spark, tables["spark"]).collect()
    assert len(wanted) == 10
    commits = [(commit.version, commit.note, commit.rows) for commit in history(spark, tables["spark"])]
    for table in tables.values():
        assert sorted(map(str, read(spark, table).collect())) == sorted(map(str, wanted))
        assert [(commit.version, commit.note, commit.rows) for commit in history(spark, table)] == commits
        for which in (f"seq > {10**36 * 5}BD", "seq IS NULL", f"seq <= {10**36 * 5}BD"):
            assert read(spark, table).where(which).count() == read(spark, tables["spark"]).where(which).count()
        held = [sorted(map(repr, engine(spark).read(table, names))) for engine in ENGINES.values()]
        assert all(one == held[0] for one in held)
        [last] = read(spark, table).orderBy(F.desc("seq")).limit(1).collect()
        for engine in ENGINES.values():
            assert (row := engine(spark).greatest(table, "seq", names)) is not None
            assert repr(row) in held[0]
            assert row["seq"] == last["seq"]
    log = Path(str(tables["direct"].path), "_delta_log", f"{4:020}.json").read_text().splitlines()
    [added] = [json.loads(line)["add"] for line in log if line.startswith('{"add"')]
    assert json.loads(added["stats"])["numRecords"] == 4


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("moment", Moment)
def test_an_append_that_fails_adds_nothing_or_all(
    spark: SparkSession, tmp_path: Path, name: str, moment: Moment
) -> None:
    """Promises 2 and 3: a batch that is repeated after a crash is in the table once."""
    columns: Columns = (("a", "bigint"),)
    table, engine = made(spark, tmp_path, columns), ENGINES[name](spark)
    with failing_at(DOORS[name], moment, table.name, error=Crash), pytest.raises(Crash):
        engine.append(table, columns, [{"a": 1}], note(0), "step", ["a"])
    assert engine.read(table, ["a"]) == ([{"a": 1}] if moment is Moment.AFTER else [])
    engine.append(table, columns, [{"a": 1}], note(0), "step", ["a"])
    assert engine.read(table, ["a"]) == [{"a": 1}]


@pytest.mark.parametrize("name", ENGINES)
def test_no_row_is_the_greatest_of_none(spark: SparkSession, tmp_path: Path, name: str) -> None:
    columns: Columns = (("a", "bigint"), ("b", "string"))
    table, engine = made(spark, tmp_path, columns), ENGINES[name](spark)
    assert engine.greatest(table, "a", ["b"]) is None
    engine.append(table, columns, [{"a": None, "b": "none"}], note(0), "step", ["a"])
    assert engine.greatest(table, "a", ["b"]) is None
    engine.append(table, columns, [{"a": -3, "b": "one"}, {"a": None, "b": "none"}], note(1), "step", ["a"])
    engine.append(table, columns, [{"a": -5, "b": "two"}], note(2), "step", ["a"])
    assert engine.greatest(table, "a", ["b"]) == {"b": "one"}


def test_a_long_log_is_read_from_its_last_checkpoint_on(spark: SparkSession, tmp_path: Path) -> None:
    columns: Columns = (("a", "bigint"),)
    table, direct = made(spark, tmp_path, columns), DirectEngine(spark)
    log = Path(str(table.path), "_delta_log")
    for batch in range(23):
        direct.append(table, columns, [{"a": batch}], note(batch), "step", ["a"])
        if batch == 10:
            spark.sql(f"OPTIMIZE {table.sql}").collect()
    for old in sorted(log.glob("*.json"))[:15]:
        old.unlink()
    with patch.object(SparkEngine, "read", side_effect=AssertionError("Spark was asked")):
        assert sorted(row["a"] for row in direct.read(table, ["a"])) == [*range(23)]
    assert sorted(row["a"] for row in SparkEngine(spark).read(table, ["a"])) == [*range(23)]


def test_the_engine_of_a_table_is_the_first_that_can(spark: SparkSession, tmp_path: Path) -> None:
    columns: Columns = (("a", "bigint"),)
    table = made(spark, tmp_path, columns)
    assert isinstance(engine_of(spark, table), DirectEngine)
    with patch.object(delta_log, "state", lambda *_: None):  # Databricks, or a table of a catalog
        assert isinstance(engine_of(spark, table), SparkEngine)
    spark.sql(f"ALTER TABLE {table.sql} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    assert isinstance(engine_of(spark, table), SparkEngine)


def test_rows_are_read_as_they_are_now(spark: SparkSession, tmp_path: Path) -> None:
    """After files were put together, and rows deleted, which only Spark reads; and from a log that begins later."""
    columns: Columns = (("a", "bigint"), ("b", "string"))
    table, direct = made(spark, tmp_path, columns), DirectEngine(spark)
    for batch in range(3):
        direct.append(table, columns, [{"a": batch, "b": None}], note(batch), "step", ["a"])
    with patch.object(SparkEngine, "read", side_effect=AssertionError("Spark was asked")):
        assert direct.read(table, ["a"]) == [{"a": 0}, {"a": 1}, {"a": 2}]
        spark.sql(f"OPTIMIZE {table.sql}").collect()
        assert sorted(row["a"] for row in direct.read(table, ["b", "a"])) == [0, 1, 2]
    spark.sql(f"ALTER TABLE {table.sql} SET TBLPROPERTIES ('delta.enableDeletionVectors' = true)")
    spark.sql(f"DELETE FROM {table.sql} WHERE a = 1")
    assert sorted(row["a"] for row in direct.read(table, ["a"])) == [0, 2]
    spark.sql(f"ALTER TABLE {table.sql} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    engine_of(spark, table).append(table, columns, [{"a": 9, "b": "c"}], note(9), "step", ["a"])
    assert sorted(row["a"] for row in direct.read(table, ["a"])) == [0, 2, 9]


def test_few_rows_are_put_together_in_one_file(spark: SparkSession, tmp_path: Path) -> None:
    """Also those from before the table had a column; what is added since then comes beside."""
    columns: Columns = (("a", "bigint"), ("b", "string"))
    table, direct = made(spark, tmp_path, columns[:1]), DirectEngine(spark)
    direct.append(table, columns[:1], [{"a": 0}], note(0), "step", ["a"])
    assert not direct.put_together(table, ["a"])
    spark.sql(f"ALTER TABLE {table.sql} ADD COLUMNS (b STRING)")
    for batch in (1, 2):
        direct.append(table, columns, [{"a": batch, "b": "x"}], note(batch), "step", ["a"])
    assert direct.put_together(table, ["a"])
    assert not direct.put_together(table, ["a"])
    direct.append(table, columns, [{"a": 2, "b": "x"}], note(2), "step", ["a"])  # again
    assert len(read(spark, table).inputFiles()) == 1
    assert sorted(map(tuple, read(spark, table).collect())) == [(0, None), (1, "x"), (2, "x")]
    assert [row["a"] for row in read(spark, table).where("a > 1").collect()] == [2]


def test_a_log_that_begins_later_is_read_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    columns: Columns = (("a", "bigint"),)
    table, direct = made(spark, tmp_path, columns), DirectEngine(spark)
    for batch in range(12):
        direct.append(table, columns, [{"a": batch}], note(batch), "step", ["a"])
    Path(str(table.path), "_delta_log", f"{3:020}.json").unlink()
    assert delta_log.state(spark, table) is not None
    assert sorted(row["a"] for row in direct.read(table, ["a"])) == list(range(12))
