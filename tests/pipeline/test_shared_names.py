"""Tables of two databases, and names that differ in case: a first run takes all, and says who has no silver table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import TableError, codes
from lakehouse_cdc.testing import MySqlServer
from tests.remedies import remedy
from tests.support.pipelines import pipeline
from tests.support.servers import new_database


@pytest.mark.long
@remedy(codes.SILVER_NAME_AMBIGUOUS)
def test_the_others_are_given_names_of_their_own(
    spark: SparkSession,
    mysql: MySqlServer,
    mysql_client: pymysql.Connection[Any],
    run: Callable[..., None],
    database: str,
    tmp_path: Path,
) -> None:
    with new_database(mysql) as other:
        for name in ("t", "T", f"{other}.t"):
            run(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {name} VALUES (1, 1), (2, 2)")
        tables = [f"{database}.T", f"{database}.t", f"{other}.t"]
        selected = {"tables": [f"{database}.*", f"{other}.*"]}
        lake = pipeline(spark, mysql, database, tmp_path, source=selected)
        [warning] = [finding for finding in lake.doctor() if "have the same silver table" in finding.what]
        assert warning.severity == "warning"
        lake.run(once=True)
        run("UPDATE t SET v = 3", "UPDATE T SET v = 4", f"UPDATE {other}.t SET v = 5")
        lake.run(once=True)
        first, *others = sorted(tables)
        status = lake.status()
        assert {name: bool(table.quarantined) for name, table in status.tables.items()} == {
            first: False,
            **dict.fromkeys(others, True),
        }
        assert status.bronze is not None
        position = f"{status.bronze.file}:{status.bronze.pos}"
        assert set(lake.as_of(first, position=position).columns) > {"id", "v"}
        for name in others:
            assert f"is that of {first}, so {name} has none" in status.tables[name].quarantined
            with pytest.raises(TableError) as refused:
                lake.as_of(name, position=position)
            assert refused.value.code is codes.SILVER_NAME_AMBIGUOUS
            assert "silver_name" in refused.value.hint
        report = lake.verify()
        assert [result.table for result in report.tables] == [first]
        assert set(report.quarantined) == set(others)
        lake.maintain()
        named = {name: {"silver_name": "{database}__{table}"} for name in others}
        lake = pipeline(spark, mysql, database, tmp_path, source=selected, tables=named)
        lake.run(once=True)
        run("DELETE FROM t WHERE id = 1", "DELETE FROM T WHERE id = 1", f"DELETE FROM {other}.t WHERE id = 1")
        lake.run(once=True)
        assert lake.status().healthy
        report = lake.verify()
        assert report.verified
        assert [(result.table, result.rows) for result in report.tables] == [(name, 1) for name in sorted(tables)]
