"""A few rows written and read without Spark's jobs are those that Spark would have written and read."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.bronze.tables import SCHEMAS
from lakehouse_cdc.lake import delta_log
from lakehouse_cdc.lake.commits import history
from lakehouse_cdc.lake.direct import small_tables
from lakehouse_cdc.lake.direct.small_tables import append_small, read_small
from lakehouse_cdc.lake.tables import Columns, create, read
from lakehouse_cdc.model.table_layout import Layout, Table
from lakehouse_cdc.silver.tables.ledger import COLUMNS as LEDGER
from tests.support.commit_notes import note

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


@pytest.mark.parametrize("columns", [LEDGER, SCHEMAS], ids=["ledger", "schemas"])
def test_rows_are_those_that_spark_would_write(spark: SparkSession, tmp_path: Path, columns: Columns) -> None:
    """Of every column, also NULL; each batch once; with bounds that Delta leaves files out by."""
    random, tables = Random(7), [made(spark, tmp_path / name, columns) for name in ("files", "spark")]
    for batch in range(4):
        rows = [{name: value(random, kind) for name, kind in columns} for _ in range(batch + 1)]
        for _ in range(2):
            with patch.object(spark, "createDataFrame", side_effect=AssertionError("Spark was asked")):
                append_small(spark, tables[0], columns, rows, note(batch), "step", [("seq",)])
        with patch.object(delta_log, "state", lambda *_: None):
            append_small(spark, tables[1], columns, rows, note(batch), "step", [("seq",)])
    found, wanted = (read(spark, table).collect() for table in tables)
    assert len(wanted) == 10
    assert sorted(map(str, found)) == sorted(map(str, wanted))
    assert [(commit.version, commit.note, commit.rows) for commit in history(spark, tables[0])] == [
        (commit.version, commit.note, commit.rows) for commit in history(spark, tables[1])
    ]
    for which in (f"seq > {10**36 * 5}BD", "seq IS NULL", f"seq <= {10**36 * 5}BD"):
        assert read(spark, tables[0]).where(which).count() == read(spark, tables[1]).where(which).count()
    log = Path(str(tables[0].path), "_delta_log", f"{4:020}.json").read_text().splitlines()
    [added] = [json.loads(line)["add"] for line in log if line.startswith('{"add"')]
    assert json.loads(added["stats"])["numRecords"] == 4


def test_rows_are_read_as_they_are_now(spark: SparkSession, tmp_path: Path) -> None:
    """Behind files put together, and rows deleted, which only Spark reads; and from a log that begins later."""
    columns: Columns = (("a", "bigint"), ("b", "string"))
    table = made(spark, tmp_path, columns)
    for batch in range(3):
        append_small(spark, table, columns, [{"a": batch, "b": None}], note(batch), "step", [("a",)])
    with patch.object(small_tables, "read", side_effect=AssertionError("Spark was asked")):
        assert read_small(spark, table, ["a"]) == [{"a": 0}, {"a": 1}, {"a": 2}]
        spark.sql(f"OPTIMIZE {table.sql}").collect()
        assert sorted(row["a"] for row in read_small(spark, table, ["b", "a"])) == [0, 1, 2]
    spark.sql(f"ALTER TABLE {table.sql} SET TBLPROPERTIES ('delta.enableDeletionVectors' = true)")
    spark.sql(f"DELETE FROM {table.sql} WHERE a = 1")
    assert sorted(row["a"] for row in read_small(spark, table, ["a"])) == [0, 2]
    spark.sql(f"ALTER TABLE {table.sql} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    append_small(spark, table, columns, [{"a": 9, "b": "c"}], note(9), "step", [("a",)])
    assert sorted(row["a"] for row in read_small(spark, table, ["a"])) == [0, 2, 9]


def test_a_log_that_begins_later_is_read_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    columns: Columns = (("a", "bigint"),)
    table = made(spark, tmp_path, columns)
    for batch in range(12):
        append_small(spark, table, columns, [{"a": batch}], note(batch), "step", [("a",)])
    Path(str(table.path), "_delta_log", f"{3:020}.json").unlink()
    assert delta_log.state(spark, table) is not None
    assert sorted(row["a"] for row in read_small(spark, table, ["a"])) == list(range(12))
