"""`status` of a run that begins at a position: how far the source's log is ahead, and how long the server keeps it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.cli.show import Screen
from lakehouse_cdc.testing import MySqlServer
from tests.support.pipelines import pipeline
from tests.support.positions import binlog_end


def test_status_of_a_run_that_begins_at_a_position(
    spark: SparkSession, mysql: MySqlServer, mysql_client: pymysql.Connection[Any], database: str, tmp_path: Path,
    run: Callable[..., None], capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    file, pos = binlog_end(mysql_client)
    run(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
        "INSERT INTO t VALUES (1, 1), (2, 2)",
        "DELETE FROM t WHERE id = 1",
    )
    source = {"snapshot": "never", "start": {"position": f"{file}:{pos}"}}
    lake = pipeline(spark, mysql, database, tmp_path, source=source, target={"silver": None, "metrics": True})
    lake.run(once=True)
    status = lake.status()
    table = status.tables[f"{database}.t"]
    assert table.bronze_rows == 3
    assert status.lag is not None
    assert status.lag.bytes is not None
    assert status.retention is not None
    assert status.retention.seconds is not None
    assert status.retention.seconds > 86_400
    data = json.loads(json.dumps(status.to_json()))
    assert data["lag"].keys() == {"bytes", "seconds", "caught_up_seconds"}
    assert data["retention"]["by"] == "binlog_expire_logs_seconds"
    Screen().status(status)
    shown = capsys.readouterr().out
    assert "the server keeps the binlog that is still needed for" in shown
    layers = {row.layer for row in spark.read.format("delta").load(str(lake.layout.metrics)).collect()}
    assert "bronze" in layers
