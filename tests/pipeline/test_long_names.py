"""Tables whose names, escaped, are longer than a file's name may be: through bronze, silver, a request and verify."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.testing import MySqlServer
from tests.support.pipelines import pipeline


@pytest.mark.long
@pytest.mark.parametrize("script", ["таблица", "表"])
def test_a_name_as_long_as_the_server_takes(
    spark: SparkSession, mysql: MySqlServer, database: str, tmp_path: Path, script: str
) -> None:
    name = (script * 63)[: 63 if script == "таблица" else 49]  # as long as the server's own files may be called
    table = f"{database}.{name}"
    lake = pipeline(spark, mysql, database, tmp_path)
    with closing(mysql.connect(database=database, autocommit=True, charset="utf8mb4")) as connection:
        cursor = connection.cursor()
        cursor.execute(f"CREATE TABLE `{name}` (id INT PRIMARY KEY, v INT)")
        cursor.execute(f"INSERT INTO `{name}` VALUES (1, 1), (2, 2)")
        lake.run(once=True)
        cursor.execute(f"DELETE FROM `{name}` WHERE id = 1")
        cursor.execute(f"UPDATE `{name}` SET v = 3")
        assert lake.read_again([table]) == [table]
        lake.run(once=True)
    assert lake.verify().verified
    rows = read(spark, lake.layout.changes).where(f"source_table = '{table}' AND op IN ('c', 'u', 'd')")
    assert rows.count() == 2
    assert [row["v"] for row in read(spark, lake.layout.silver_table(table)).collect()] == [3]
