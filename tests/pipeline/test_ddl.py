"""DDL that is followed, on the whole road: silver is the source behind it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pymysql
from pyspark.sql import SparkSession

from lakehouse_cdc.testing import MySqlServer
from tests.pipeline.test_run import bronze, pipeline

PARTITIONS = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS THAN MAXVALUE)"


def test_truncated_tables_and_partitions(
    spark: SparkSession, mysql: MySqlServer, mysql_client: pymysql.Connection[Any], database: str, tmp_path: Path
) -> None:
    def run(*statements: str) -> None:
        with mysql_client.cursor() as cursor:
            cursor.execute(f"USE {database}")
            for sql in statements:
                cursor.execute(sql)

    run(
        "CREATE TABLE whole (id INT PRIMARY KEY, v INT)",
        f"CREATE TABLE parts (id INT PRIMARY KEY, v INT) {PARTITIONS}",
        *(f"INSERT INTO {name} VALUES {', '.join(f'({n}, 0)' for n in range(10))}" for name in ("whole", "parts")),
    )
    lake = pipeline(spark, mysql, database, tmp_path)
    lake.run(once=True)
    run(
        "CREATE INDEX i ON whole (v)", "UPDATE whole SET v = 1", "TRUNCATE TABLE whole",
        "INSERT INTO whole VALUES (1, 2), (20, 2)", "UPDATE parts SET v = 1", "ALTER TABLE parts TRUNCATE PARTITION p0",
        "INSERT INTO parts VALUES (2, 3)",
    )  # fmt: skip
    lake.run(once=True)
    report = lake.verify()
    assert report.verified, report.to_json()
    assert {t.table: t.silver_rows for t in report.tables} == {f"{database}.whole": 2, f"{database}.parts": 6}
    assert all(t.complete for t in report.tables)
    found = Counter(tuple(r) for r in bronze(spark, lake).select("source_table", "op").collect())
    assert found[(f"{database}.whole", "t")] == found[(f"{database}.parts", "x")] == 1
