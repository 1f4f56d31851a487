"""The whole road on one server and one Spark session: run, run again, verify, and what must be refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pyspark.sql import DataFrame, SparkSession

from lakehouse_cdc.errors import ConfigError, DefiniteError
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.pipeline.report import VerifyReport
from lakehouse_cdc.source.spark.stream import MySqlCdcSource
from lakehouse_cdc.testing import MySqlServer, Shop, ShopWriter
from lakehouse_cdc.testing.shop import TABLES
from tests.support.pipelines import assert_each_event_once, bronze, files, ops, pipeline, small_table

DATABASE = "run_shop"


def data_files(folder: Path) -> dict[str, int]:
    return {path: at for path, at in files(folder).items() if "_checkpoints" not in path}


def of(report: VerifyReport, table: str) -> list[tuple[str, dict[str, Any], tuple[str, ...]]]:
    [found] = [t for t in report.tables if t.table == f"{DATABASE}.{table}"]
    return [(d.kind, d.key, d.columns) for d in found.differences]


@pytest.fixture(scope="module")
def shop(mysql: MySqlServer) -> Iterator[Shop]:
    shop = Shop(mysql.connect, DATABASE, seed=11)
    shop.create()
    shop.load(2000)
    yield shop
    shop.drop()


@pytest.fixture(scope="module")
def world(spark: SparkSession, mysql: MySqlServer, shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """A pipeline that took its snapshot and followed the binlog while the shop was written to, and was verified so."""
    lake = pipeline(spark, mysql, DATABASE, tmp_path_factory.mktemp("world"), source={"chunk_rows": 1000})
    with ShopWriter(shop, rate=20) as writer:
        first = lake.run(once=True)
        second = lake.run(once=True)
        under_writes = lake.verify()
        assert writer.transactions > 0
    assert under_writes.verified, under_writes.to_json()
    assert {t.table for t in under_writes.tables} == {f"{DATABASE}.{name}" for name in TABLES}
    assert all(t.complete and t.rows > 0 for t in under_writes.tables)
    assert sum(ops["r"] for ops in first.rows.values()) >= 1500
    assert sum(ops["r"] for ops in second.rows.values()) == 0
    assert sum(ops["c"] for ops in second.rows.values()) > 0
    lake.run(once=True)
    return lake


@pytest.mark.long
def test_at_rest_silver_has_the_rows_of_the_source(spark: SparkSession, world: Pipeline, shop: Shop) -> None:
    report = world.verify()
    assert report.verified
    assert {t.table.partition(".")[2]: t.rows for t in report.tables} == shop.counts()
    assert {t.table.partition(".")[2]: t.silver_rows for t in report.tables} == shop.counts()
    assert_each_event_once(bronze(spark, world))


@pytest.mark.long
def test_a_run_with_nothing_new_changes_nothing(world: Pipeline) -> None:
    before = data_files(world.state.parents[1])
    report = world.run(once=True)
    assert report.rows == {}
    assert data_files(world.state.parents[1]) == before


@pytest.mark.long
def test_status_says_where_all_stands(world: Pipeline, shop: Shop) -> None:
    status = world.status().to_json()
    counts = shop.counts()
    assert set(status["tables"]) == {f"{DATABASE}.{name}" for name in TABLES}
    for name in TABLES:
        table = status["tables"][f"{DATABASE}.{name}"]
        assert table["snapshot"] == "done"
        assert table["silver_rows"] == counts[name] <= table["bronze_rows"]
    assert status["position"] == status["silver"]
    assert status["lag"]["bytes"] >= 0  # others write to the server, too
    json.dumps(status)


@pytest.mark.long
def test_verify_names_what_was_changed_by_hand(spark: SparkSession, world: Pipeline) -> None:
    tables = {name: str(world.layout.silver_table(f"{DATABASE}.{name}")) for name in TABLES}
    before = {name: spark.sql(f"DESCRIBE HISTORY delta.`{at}` LIMIT 1").collect()[0][0] for name, at in tables.items()}
    order = spark.sql(f"SELECT min(id) FROM delta.`{tables['orders']}`").collect()[0][0]
    line = spark.sql(f"SELECT order_id, line FROM delta.`{tables['order_lines']}` ORDER BY 1, 2 LIMIT 1").head()
    assert order is not None
    assert line is not None
    try:
        spark.sql(f"UPDATE delta.`{tables['orders']}` SET total = total + 0.01, note = 'x' WHERE id = {order}")
        where = f"order_id = {line['order_id']} AND line = {line['line']}"
        spark.sql(f"DELETE FROM delta.`{tables['order_lines']}` WHERE {where}")
        one = spark.read.format("delta").load(tables["products"]).limit(1)
        one.selectExpr(
            "'nowhere-1' AS code", "title", "price", "stock", "weight", "digest", "_seq", "_commit_ts"
        ).write.format("delta").mode("append").save(tables["products"])
        report = world.verify()
    finally:
        for name, at in tables.items():
            spark.sql(f"RESTORE TABLE delta.`{at}` TO VERSION AS OF {before[name]}")
    assert not report.verified
    assert of(report, "customers") == []
    assert of(report, "orders") == [("different", {"id": order}, ("total", "note"))]
    assert of(report, "order_lines") == [("missing", line.asDict(), ())]
    assert of(report, "products") == [("extra", {"code": "nowhere-1"}, ())]


@pytest.mark.long
def test_another_pipeline_on_the_same_tables_is_refused(
    spark: SparkSession, mysql: MySqlServer, world: Pipeline
) -> None:
    home = world.state.parents[2]
    before = data_files(home)
    with pytest.raises(DefiniteError, match=r"the table belongs to the pipeline shop.*Hint: "):
        pipeline(spark, mysql, DATABASE, home, name="other").run(once=True)
    with pytest.raises(DefiniteError, match=r"the table belongs to the pipeline shop.*Hint: "):
        pipeline(spark, mysql, DATABASE, home, name="other", target={"bronze": "other_bronze"}).run(once=True)
    after = data_files(home)
    assert {path: at for path, at in after.items() if "other_bronze" not in path} == before


@pytest.mark.long
def test_a_batch_that_was_not_marked_as_done_is_not_written_twice(
    spark: SparkSession, world: Pipeline, shop: Shop, mysql: MySqlServer
) -> None:
    with shop.open() as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE orders SET total = total + 1 WHERE id % 10 = 0")
        connection.commit()
    world.run(once=True)
    held = bronze(spark, world).count()
    for layer in ("bronze", "silver"):
        commits = Path(world.checkpoint(layer)) / "commits"
        last = max(int(p.name) for p in commits.iterdir() if p.name.isdecimal())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)
    with shop.open() as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE orders SET total = total + 1 WHERE id % 10 = 1")
        changed = cursor.rowcount
        connection.commit()
    world.run(once=True)
    rows = bronze(spark, world)
    assert rows.count() == held + changed
    assert_each_event_once(rows)
    assert world.verify().verified


def more(connection: pymysql.Connection[Any], database: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {database}.t VALUES (4, 'hush', 40)")
        cursor.execute(f"UPDATE {database}.t SET v = 21, secret = 'more' WHERE id = 2")
        cursor.execute(f"DELETE FROM {database}.t WHERE id = 3")


@pytest.mark.long
def test_snapshot_only_without_an_excluded_column(
    spark: SparkSession, mysql: MySqlServer, mysql_client: pymysql.Connection[Any], database: str, tmp_path: Path
) -> None:
    small_table(mysql_client, database)
    lake = pipeline(
        spark, mysql, database, tmp_path, source={"snapshot": "only"}, tables={f"{database}.*": {"exclude": ["secret"]}}
    )
    lake.run(once=True)
    more(mysql_client, database)
    lake.run(once=True)
    assert ops(spark, lake) == [("r", 1), ("r", 2), ("r", 3)]
    rows = spark.read.format("delta").load(str(lake.layout.silver_table(f"{database}.t")))
    assert rows.columns == ["id", "v", "_seq", "_commit_ts"]
    assert sorted((r.id, r.v) for r in rows.collect()) == [(1, 10), (2, 20), (3, 30)]
    assert lake.verify().verified  # against the source as it stood then
    assert not any(b"hush" in Path(path).read_bytes() for path in files(tmp_path))


@pytest.mark.long
def test_changes_alone_into_bronze_alone(
    spark: SparkSession, mysql: MySqlServer, mysql_client: pymysql.Connection[Any], database: str, tmp_path: Path
) -> None:
    small_table(mysql_client, database)
    lake = pipeline(spark, mysql, database, tmp_path, source={"snapshot": "never"}, target={"silver": None})
    lake.run(once=True)
    assert ops(spark, lake) == []
    more(mysql_client, database)
    lake.run(once=True)
    assert ops(spark, lake) == [("c", 4), ("u", 2), ("d", 3)]
    assert sorted(p.name for p in (tmp_path / "lakehouse").iterdir()) == ["_checkpoints", "bronze"]
    with pytest.raises(ConfigError, match="keeps no silver tables"):
        lake.verify()


def test_the_source_by_itself_gives_a_batch_again_row_for_row(
    spark: SparkSession, mysql: MySqlServer, mysql_client: pymysql.Connection[Any], database: str, tmp_path: Path
) -> None:
    small_table(mysql_client, database)
    spark.dataSource.register(MySqlCdcSource)
    seen: dict[int, list[list[Any]]] = {}

    def keep(rows: DataFrame, batch: int) -> None:
        images = [f"to_json({c}) AS {c}" for c in ("key", "before", "after")]
        wanted = rows.selectExpr("seq", "op", "source_table", *images, "commit_ts", "position", "schema_id")
        seen.setdefault(batch, []).append(sorted(wanted.collect(), key=str))

    def run() -> None:
        rows = spark.readStream.format("mysql_cdc").options(
            url=mysql.url, tables=f"{database}.*", schemaFolder=str(tmp_path / "schemas"), chunkRows="2"
        )
        query = rows.load().writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()

    def forget_last() -> int:
        commits = tmp_path / "checkpoint" / "commits"
        last = max(int(p.name) for p in commits.iterdir() if p.name.isdecimal())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)
        return last

    run()
    snapshot = forget_last()
    more(mysql_client, database)
    run()
    assert len(seen[snapshot]) == 2
    assert seen[snapshot][0] == seen[snapshot][1]
    changes = forget_last()
    assert changes > snapshot
    more_of_it = mysql_client.cursor()
    more_of_it.execute(f"UPDATE {database}.t SET v = v + 1")
    run()
    assert len(seen[changes]) == 2
    assert seen[changes][0] == seen[changes][1]
    last = [row for batch in sorted(seen) for row in seen[batch][0]]
    assert sorted(r.op for r in last if r.op != "s") == ["c", "d", "r", "r", "r", "u", "u", "u", "u"]
