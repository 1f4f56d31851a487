"""Tables and columns with names that are no plain words: bronze, silver, a request, an ALTER, verify."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.model.table_name import join
from lakehouse_cdc.testing import MySqlServer
from tests.support.pipelines import pipeline

NAMES = (
    'double"quote', "single'quote", "back`tick", "a space", " first", "100%", "%25", "a/b", "a\\b", "_lead", "con",
    "select", "a:b*c?", "a{b}=[c]", "a,b;c", "(x)", "é", "__HIVE_DEFAULT_PARTITION__", "_delta_log",
    "_samples", "_spark_metadata", "_temporary", "$+&#!~^|<>@",
    "-- comment", "new\nline", "{database}", "0", "1e5",
)  # fmt: skip


@pytest.mark.long
def test_any_name(spark: SparkSession, mysql: MySqlServer, database: str, tmp_path: Path) -> None:
    lake = pipeline(spark, mysql, database, tmp_path)
    tables = {join(database, name): "`{}`".format(name.replace("`", "``")) for name in NAMES}
    with closing(mysql.connect(database=database, autocommit=True, charset="utf8mb4")) as connection:
        cursor = connection.cursor()
        for quoted in tables.values():
            cursor.execute(f"CREATE TABLE {quoted} ({quoted} INT PRIMARY KEY, v INT)")
            cursor.execute(f"INSERT INTO {quoted} VALUES (1, 1), (2, 2)")
        assert [finding for finding in lake.doctor() if finding.severity == "error"] == []
        lake.run(once=True)
        for quoted in tables.values():
            cursor.execute(f"DELETE FROM {quoted} WHERE {quoted} = 1")
            cursor.execute(f"UPDATE {quoted} SET v = 3")
        assert lake.read_again(again := sorted(tables)[:3]) == again
        lake.run(once=True)
        for quoted in tables.values():
            cursor.execute(f"ALTER TABLE {quoted} ADD COLUMN w INT DEFAULT 7")
        lake.run(once=True)
    assert lake.status().healthy
    report = lake.verify()
    assert report.verified
    assert sorted(result.table for result in report.tables) == sorted(tables)
    for name in tables:
        [row] = read(spark, lake.layout.silver_table(name)).collect()
        assert tuple(row)[:3] == (2, 3, 7)
