"""Tables begin at places of their own: from the file to bronze, and what `status` and `plan` say until then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.testing import MySqlServer
from tests.support.pipelines import bronze, pipeline
from tests.support.positions import binlog_end


def forget_batches(lake: Pipeline, first: int) -> None:
    """The checkpoint of bronze as it was before that batch."""
    for folder in (Path(lake.checkpoint("bronze")) / log for log in ("offsets", "commits")):
        for file in folder.iterdir():
            if int(file.name.strip(".").partition(".")[0]) >= first:
                file.unlink()


@pytest.mark.long
def test_each_from_its_own_start_on(
    spark: SparkSession,
    mysql: MySqlServer,
    mysql_client: pymysql.Connection[Any],
    run: Callable[..., None],
    database: str,
    tmp_path: Path,
) -> None:
    def place() -> dict[str, str]:
        file, pos = binlog_end(mysql_client)
        return {"position": f"{file}:{pos}"}

    for table in "tu":
        run(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {table} VALUES (1, 0)")
    begin = place()
    run("UPDATE t SET v = 1", "UPDATE u SET v = 1")
    later = place()
    run("UPDATE u SET v = 2")

    def configured(*patterns: str) -> Pipeline:
        source = {"snapshot": "never", "start": begin, "tables": [pattern.format(database) for pattern in patterns]}
        tables = {f"{database}.u": {"start": later}}
        return pipeline(spark, mysql, database, tmp_path, source=source, tables=tables, target={"silver": None})

    lake = configured("{}.*")
    lake.run(once=True)
    rows = bronze(spark, lake).where("op = 'u'").selectExpr("source_table", "after:v::int AS v").collect()
    assert sorted(map(tuple, rows)) == [(f"{database}.t", 1), (f"{database}.u", 2)]
    assert {table.snapshot for table in lake.status().tables.values()} == {"done"}
    forget_batches(lake, 1)
    tables = lake.status().tables
    assert {name: table.snapshot for name, table in tables.items()} == {
        f"{database}.t": "done",
        f"{database}.u": "waiting",
    }
    assert lake.plan() == []
    assert configured("{}.t").plan() == [f"{database}.u is not in source.tables any more: it does not begin"]
