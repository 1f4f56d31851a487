"""One table that cannot be read costs that table alone, whichever it is and whenever it happens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.ops.last_error import read
from lakehouse_cdc.testing import MySqlServer
from tests.support.pipelines import pipeline

MADE = (
    "SET SESSION sql_mode = ''",
    "CREATE TABLE t (id INT PRIMARY KEY, d DATE)",
    "CREATE TABLE u (id INT PRIMARY KEY, v INT)",
    "INSERT INTO t VALUES (1, '2026-01-01')",
    "INSERT INTO u VALUES (1, 1)",
)


@pytest.mark.long
def test_a_run_continues_without_the_table_and_takes_it_up_again(
    spark: SparkSession, mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path
) -> None:
    run(*MADE)
    lake = pipeline(spark, mysql, database, tmp_path)
    lake.run(once=True)
    run("INSERT INTO t VALUES (2, '0000-00-00')", "UPDATE u SET v = 2", "DELETE FROM t WHERE id = 2")
    report = lake.run(once=True)  # the row is gone by now
    assert [notice for notice in report.notices if "t is quarantined at" in notice]
    assert lake.verify().verified
    assert lake.status().healthy
    run("INSERT INTO t VALUES (3, '0000-00-00')", "UPDATE u SET v = 3")
    lake.run(once=True)  # this one stays
    status = lake.status()
    assert not status.healthy
    assert "CDC-4021" in status.tables[f"{database}.t"].quarantined
    assert read(lake.state) is None
    assert [result.table for result in lake.verify().tables] == [f"{database}.u"]
    changed = pipeline(spark, mysql, database, tmp_path, source={"zero_dates": "null"})
    changed.run(once=True)  # which ends the quarantine by itself
    assert changed.status().healthy
    assert changed.verify().verified


def test_the_only_table_ends_a_first_run(
    spark: SparkSession, mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path
) -> None:
    run(MADE[0], MADE[1], "INSERT INTO t VALUES (2, '0000-00-00')")
    with pytest.raises(DefiniteError) as caught:
        pipeline(spark, mysql, database, tmp_path).run(once=True)
    assert caught.value.code is codes.ZERO_DATE
