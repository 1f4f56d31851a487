"""Data files that belong to no version of a table."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import SparkSession

from lakehouse_cdc.lake.direct.uncommitted_files import remove_uncommitted
from lakehouse_cdc.lake.tables import create, read
from lakehouse_cdc.model.table_layout import Layout


def test_only_files_that_are_newer_than_the_plan_and_in_no_commit_go(spark: SparkSession, tmp_path: Path) -> None:
    table = Layout("tests", bronze="b", path=str(tmp_path)).changes
    assert remove_uncommitted(table, since=0.0) == 0
    create(
        spark, table, [("p", "string"), ("a", "int")], pipeline="tests", properties={}, comment="", partition_by=["p"]
    )
    for value in (1, 2, 3):
        spark.sql(f"INSERT INTO {table.sql} VALUES ('x y/%', {value})")
    spark.sql(f"DELETE FROM {table.sql} WHERE a = 1")
    held = sorted(path for path in Path(str(table.path)).rglob("*.parquet"))
    assert len(held) == 3
    old, new = held[0].with_name("old.parquet"), held[0].with_name("new.parquet")
    for path, at in ((old, 1_000.0), (new, 3_000.0), (held[1], 3_000.0)):
        path.touch()
        os.utime(path, (at, at))
    assert remove_uncommitted(table, since=2_000.0) == 1
    assert sorted(Path(str(table.path)).rglob("*.parquet")) == sorted([*held, old])
    assert sorted(row.a for row in read(spark, table).collect()) == [2, 3]
