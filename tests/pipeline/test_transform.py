"""Renames, computed columns, filters and metadata, from a real server to silver, verified, and as of a moment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.commits import history
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.testing import MySqlServer
from tests.support.pipelines import pipeline
from tests.support.servers import connected

DATABASE = "transformed"
TRANSFORM = {
    "rename": {"cust_nm": "customer name", "no": "id"},
    "computed": {"domain": "substring_index(mail, '@', -1)", "total": "CAST(price * amount AS DECIMAL(12,2))"},
    "filter": "region <=> 'EU'",
    "metadata": {"changed_at": "op_ts", "of": "table_name"},
}


@pytest.mark.long
def test_silver_as_it_is_wished_equals_the_source(spark: SparkSession, mysql: MySqlServer, tmp_path: Path) -> None:
    with mysql.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {DATABASE}")
        try:
            for name in ("now", "then"):
                cursor.execute(
                    f"CREATE TABLE {DATABASE}.{name} (no INT PRIMARY KEY, cust_nm VARCHAR(20), mail VARCHAR(40),"
                    " price DECIMAL(8,2), amount INT, region CHAR(2))"
                )
                cursor.execute(
                    f"INSERT INTO {DATABASE}.{name} VALUES (1, 'Ana', 'a@x.org', 1.50, 2, 'EU'),"
                    " (2, 'Bo', NULL, 2, 1, 'US'), (3, 'Cy', 'c@y.org', NULL, 1, NULL)"
                )
            connection.commit()
            tables = {f"{DATABASE}.*": TRANSFORM, f"{DATABASE}.then": {"scd": 2, "track": ["domain"]}}
            lake = pipeline(spark, mysql, DATABASE, tmp_path, tables=tables)
            first = lake.run(once=True).to_json()["position"]
            now, then = (lake.layout.silver_table(f"{DATABASE}.{name}") for name in ("now", "then"))
            [held] = read(spark, now).drop("changed_at").collect()
            first_row = ("1", "Ana", "a@x.org", "1.50", "2", "EU", "x.org", "3.00", "now")
            assert tuple(map(str, held))[:9] == first_row
            assert lake.verify().verified
            for name in ("now", "then"):
                cursor.execute(f"UPDATE {DATABASE}.{name} SET region = 'US' WHERE no = 1")
                cursor.execute(f"UPDATE {DATABASE}.{name} SET region = 'EU', mail = 'b@z.org' WHERE no = 2")
                cursor.execute(f"ALTER TABLE {DATABASE}.{name} ADD note TEXT, MODIFY amount BIGINT, CHANGE no nr INT")
                cursor.execute(f"UPDATE {DATABASE}.{name} SET note = 'n', price = 3 WHERE nr = 2")
            connection.commit()
            lake.run(once=True)
            assert lake.verify().verified
            assert read(spark, now).columns[:2] == ["nr", "customer name"]
            assert [(row["nr"], str(row["total"]), row["note"]) for row in read(spark, now).collect()] == [
                (2, "3.00", "n")
            ]
            ended = read(spark, then).orderBy("nr").collect()
            assert [(row["nr"], row["domain"], row["__END_AT"] is None, row["note"]) for row in ended] == [
                (1, "x.org", False, None),
                (2, "z.org", True, "n"),
            ]
            back = lake.all_as_of(position=f"{first['file']}:{first['pos']}")
            assert {name: [row[1] for row in rows.collect()] for name, rows in back.items()} == {
                f"{DATABASE}.now": ["Ana"],
                f"{DATABASE}.then": ["Ana"],
            }
        finally:
            cursor.execute(f"DROP DATABASE {DATABASE}")
            connection.commit()


@pytest.mark.long
def test_downstream_reads_what_changed_in_silver(spark: SparkSession, mysql: MySqlServer, tmp_path: Path) -> None:
    """Delta's own change feed, by a property of the table; also behind a change of the schema."""
    with connected(mysql) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE fed")
        try:
            cursor.execute("CREATE TABLE fed.t (id INT PRIMARY KEY, v INT)")
            cursor.execute("INSERT INTO fed.t VALUES (1, 10), (2, 20), (3, 30)")
            wished = {
                "properties": {"delta.enableChangeDataFeed": True, "delta.logRetentionDuration": "interval 90 days"}
            }
            lake = pipeline(spark, mysql, "fed", tmp_path, tables={"fed.*": wished})
            lake.run(once=True)
            table = lake.layout.silver_table("fed.t")

            def fed(after: int) -> list[tuple[str, int, int]]:
                lake.run(once=True)
                options = {"readChangeFeed": "true", "startingVersion": str(after + 1)}
                rows = (
                    spark.read.options(**options)
                    .format("delta")
                    .load(str(table))
                    .where("_change_type <> 'update_preimage'")
                )
                return sorted((row["_change_type"], row["id"], row["v"]) for row in rows.collect())

            def version() -> int:
                return max(commit.version for commit in history(spark, table))

            before = version()
            for sql in (
                "UPDATE fed.t SET v = 11 WHERE id = 1",
                "DELETE FROM fed.t WHERE id = 2",
                "INSERT INTO fed.t VALUES (4, 40)",
            ):
                cursor.execute(sql)
            assert fed(before) == [("delete", 2, 20), ("insert", 4, 40), ("update_postimage", 1, 11)]
            cursor.execute("ALTER TABLE fed.t MODIFY v BIGINT, ADD w INT, CHANGE id id INT")
            lake.run(once=True)
            before = version()
            cursor.execute(f"UPDATE fed.t SET v = {2**40} WHERE id = 3")
            assert fed(before) == [("update_postimage", 3, 2**40)]
            assert lake.verify().verified
            [held] = spark.sql(f"SHOW TBLPROPERTIES {table.sql} ('delta.logRetentionDuration')").collect()
            assert held["value"] == "interval 90 days"
        finally:
            cursor.execute("DROP DATABASE fed")


@pytest.mark.long
def test_shards_go_into_one_table(spark: SparkSession, mysql: MySqlServer, tmp_path: Path) -> None:
    shards = [f"{DATABASE}_{number}" for number in (1, 2, 3)]
    with connected(mysql) as connection, connection.cursor() as cursor:
        try:
            for number, name in enumerate(shards):
                cursor.execute(f"CREATE DATABASE {name}")
                cursor.execute(f"CREATE TABLE {name}.orders (id INT PRIMARY KEY, note VARCHAR(9))")
                cursor.execute(f"INSERT INTO {name}.orders VALUES (1, 'a{number}'), (2, 'b{number}')")
            tables = {"*.orders": {"into": "all orders"}}
            lake = pipeline(spark, mysql, f"{DATABASE}_[123]", tmp_path, tables=tables)
            lake.run(once=True)
            assert lake.verify().verified
            cursor.execute(f"TRUNCATE {shards[0]}.orders")
            cursor.execute(f"ALTER TABLE {shards[1]}.orders ADD more INT, CHANGE note remark VARCHAR(99)")
            cursor.execute(f"INSERT INTO {shards[1]}.orders VALUES (3, 'c', 7)")
            cursor.execute(f"DELETE FROM {shards[2]}.orders WHERE id = 1")
            lake.run(once=True)
            assert lake.verify().verified
            whole = replace(lake.layout.silver_table(f"{shards[0]}.orders"), part=None)
            found = read(spark, whole).select("_source_table", "id", "note").collect()
            assert sorted(map(tuple, found)) == [
                (f"{shards[1]}.orders", 1, "a1"),
                (f"{shards[1]}.orders", 2, "b1"),
                (f"{shards[1]}.orders", 3, "c"),
                (f"{shards[2]}.orders", 2, "b2"),
            ]
            assert list(lake.status().tables[f"{shards[1]}.orders"].ignored) == ["more"]
        finally:
            for name in shards:
                cursor.execute(f"DROP DATABASE IF EXISTS {name}")
