"""Tables whose names hold dots, and one of a database that does: bronze, silver, settings, a request and verify."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.model.table_name import join
from lakehouse_cdc.testing import MySqlServer
from tests.support.pipelines import pipeline


@pytest.mark.long
def test_names_with_dots(
    spark: SparkSession, mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path
) -> None:
    other = f"{database}.x"
    names = [join(database, "a.b"), join(database, "t"), join(other, "t")]
    in_sql = ["`a.b`", "t", f"`{other}`.t"]
    run(f"CREATE DATABASE `{other}`")
    try:
        for table in in_sql:
            run(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT, secret INT)")
            run(f"INSERT INTO {table} VALUES (1, 1, 1), (2, 2, 2)")
        lake = pipeline(
            spark, mysql, database, tmp_path,
            source={"tables": [f"{database}.*", f"`{other}`.*"]},
            tables={
                f"{database}.`a.b`": {"exclude": ["secret"], "scd": 2},
                f"`{other}`.*": {"silver_name": "{database}__{table}"},
            },
        )  # fmt: skip
        assert [finding for finding in lake.doctor() if finding.severity == "error"] == []
        lake.run(once=True)
        for table in in_sql:
            run(f"DELETE FROM {table} WHERE id = 1", f"UPDATE {table} SET v = 3")
        assert lake.read_again([f"{database}.`a.b`"]) == [names[0]]
        lake.run(once=True)
        report = lake.verify()
        assert report.verified
        assert [(result.table, result.rows) for result in report.tables] == [(name, 1) for name in sorted(names)]
        assert lake.status().healthy
        versions = read(spark, lake.layout.silver_table(names[0]))
        assert "secret" not in versions.columns
        assert sorted(row["id"] for row in versions.collect()) == [1, 2, 2]
        assert Path(str(lake.layout.silver_table(names[2]).path)).name == f"{other}__t"
        at = lake.status().bronze
        assert at is not None
        assert [row["v"] for row in lake.as_of(names[0], position=f"{at.file}:{at.pos}").collect()] == [3]
    finally:
        run(f"DROP DATABASE `{other}`")
