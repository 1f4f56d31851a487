"""A system-versioned table on the whole road: silver holds what a SELECT shows, as history, too."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.versions import MARIADB
from tests.support.pipelines import pipeline

COLUMNS = "id INT NOT NULL, v INT, note TEXT"
PERIOD = (
    "s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, e TIMESTAMP(6) GENERATED ALWAYS AS ROW END,"
    " PERIOD FOR SYSTEM_TIME (s, e)"
)
TABLES = {
    "hidden": f"CREATE TABLE hidden ({COLUMNS}, PRIMARY KEY (id)) WITH SYSTEM VERSIONING",
    "declared": f"CREATE TABLE declared ({COLUMNS}, {PERIOD}, UNIQUE (id)) WITH SYSTEM VERSIONING",
    "keyless": f"CREATE TABLE keyless ({COLUMNS}) WITH SYSTEM VERSIONING",
    "later": f"CREATE TABLE later ({COLUMNS}, PRIMARY KEY (id))",
}


def run(connection: pymysql.Connection[Any], *statements: str) -> None:
    """Each statement for each table."""
    with connection.cursor() as cursor:
        for statement in statements:
            for table in TABLES:
                cursor.execute(statement.format(table))


def assert_verified(lake: Pipeline, rows: int) -> None:
    report = lake.verify()
    assert [(t.table.rpartition(".")[2], t.equal, t.rows) for t in report.tables] == [
        (table, True, rows) for table in sorted(TABLES)
    ]
    assert lake.verify("bronze").verified
    assert lake.status().healthy


@pytest.mark.long
@pytest.mark.parametrize("any_server", MARIADB, indirect=True)
def test_silver_holds_the_current_rows(
    spark: SparkSession, any_server: MySqlServer, any_database: str, tmp_path: Path
) -> None:
    with closing(any_server.connect(database=any_database, autocommit=True)) as connection:
        cursor = connection.cursor()
        cursor.execute("SET system_versioning_alter_history = KEEP")
        for create in TABLES.values():
            cursor.execute(create)
        run(
            connection,
            "INSERT INTO {} (id, v, note) VALUES (1, 1, 'a'), (2, 1, NULL), (3, 1, 'c'), (4, 1, 'c')",
            "UPDATE {} SET v = 2 WHERE id < 3",
            "DELETE FROM {} WHERE id = 4",
        )
        name = f"{any_database}.hidden"
        lake = pipeline(spark, any_server, any_database, tmp_path, tables={name: {"scd": 2}})
        lake.run(once=True)
        assert_verified(lake, 3)
        cursor.execute("ALTER TABLE later ADD SYSTEM VERSIONING")
        run(
            connection,
            "UPDATE {} SET v = v + 1",
            "DELETE FROM {} WHERE id = 3",
            "INSERT INTO {} (id, v) VALUES (3, 9)",
            "UPDATE {} SET id = 5 WHERE id = 1",
            "DELETE HISTORY FROM {}",
            "ALTER TABLE {} ADD COLUMN more INT DEFAULT 3 FIRST",
            "UPDATE {} SET more = NULL, v = 7 WHERE id = 2",
        )
        lake.run(once=True)
        assert_verified(lake, 3)
        cursor.execute("ALTER TABLE later DROP SYSTEM VERSIONING")
        run(connection, "DELETE FROM {} WHERE id = 2", "INSERT INTO {} (id) VALUES (6)")
        lake.run(once=True)
        assert_verified(lake, 3)
        # every version since the capture, of which the source may keep none; the column was added with its default
        versions = read(spark, lake.layout.silver_table(name)).where("id = 2").orderBy("__START_AT")
        assert [(row.v, row.more) for row in versions.collect()] == [(2, None), (3, 3), (7, None)]


@pytest.mark.long
@pytest.mark.parametrize("any_server", ["mariadb-11"], indirect=True)
def test_a_row_of_another_servers_time_costs_its_table_alone(
    spark: SparkSession, any_server: MySqlServer, any_database: str, tmp_path: Path
) -> None:
    """A period that ends at the greatest time of a server before 11.5 is not understood: the table is read again."""
    with closing(any_server.connect(database=any_database, autocommit=True)) as connection:
        cursor = connection.cursor()
        for create in TABLES.values():
            cursor.execute(create)
        lake = pipeline(spark, any_server, any_database, tmp_path)
        lake.run(once=True)
        run(connection, "INSERT INTO {} (id, v) VALUES (1, 1)")
        cursor.execute("SET time_zone = '+00:00', system_versioning_insert_history = ON")
        cursor.execute(
            "INSERT INTO hidden (id, v, row_start, row_end) VALUES (2, 1, '2020-01-01', '2038-01-19 03:14:07.999999')"
        )
        run(connection, "INSERT INTO {} (id, v) VALUES (3, 1)")
        notices = lake.run(once=True).notices
        assert [notice for notice in notices if "greatest time of another server" in notice]
        lake.run(once=True)
        assert_verified(lake, 2)
