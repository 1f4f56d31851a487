"""What `verify` finds: values that silver cannot hold, casts that are wrong, and tables that cannot be compared."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.pipeline.report import VerifyReport
from lakehouse_cdc.silver.batch import typed_columns
from lakehouse_cdc.silver.definition.column_mapping import Shape
from lakehouse_cdc.testing import MySqlServer
from tests.support.commands import CONFIG, call
from tests.support.pipelines import pipeline
from tests.support.servers import connected
from tests.support.source import types_table

LONG = "CAST('12345678901234567890123456789012345678901234567890.5' AS DECIMAL(65,15))"

# column -> its type, a value in SQL, and what a wrong cast makes of silver's value
WRONG: dict[str, tuple[str, str, str]] = {
    "amount": ("DECIMAL(10,3)", "-7.125", "CAST(row.amount * 10 AS DECIMAL(10,3))"),
    "span": ("TIME(2)", "'-10:00:00.25'", "substr(row.span, 2)"),
    "moment": (
        "DATETIME(6)",
        "'2024-02-29 12:00:00.000001'",
        "CAST(date_trunc('SECOND', row.moment) AS TIMESTAMP_NTZ)",
    ),
    "instant": ("TIMESTAMP NULL", "'2024-02-29 12:00:00'", "row.instant + INTERVAL 1 HOUR"),
    "whole": ("BIGINT UNSIGNED", "18446744073709551615", "CAST(-1 AS DECIMAL(20,0))"),
    "label": ("ENUM('a', 'b', 'c')", "'b'", "translate(row.label, 'abc', 'bca')"),
    "padded": ("VARCHAR(20)", "'x  '", "rtrim(row.padded)"),
    "single": ("FLOAT", "0.1", "CAST(1.1 AS FLOAT)"),
    "raw": ("BINARY(3)", "x'010000'", "unhex('01')"),
    "doc": (
        "JSON",
        "JSON_ARRAY(CAST('0.1234567890123456789' AS DECIMAL(20,19)))",
        "parse_json('[0.12345678901234568]')",
    ),
}


@pytest.mark.long
def test_a_value_that_silver_cannot_hold_is_named_and_not_read_again(
    spark: SparkSession, mysql: MySqlServer, database: str, tmp_path: Path
) -> None:
    config, name = tmp_path / "pipeline.yml", f"{database}.t"
    config.write_text(CONFIG.format(url=mysql.url, database=database))
    with closing(connected(mysql)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, doc JSON)")
        cursor.execute(f"CREATE TABLE {database}.gone (id INT PRIMARY KEY)")
        cursor.execute(f"INSERT INTO {name} VALUES (1, JSON_OBJECT('n', {LONG})), (2, '[0.1]'), (3, NULL)")
        call(0, "run", "-c", config, "--once")
        found = call(1, "verify", "-c", config, "--repair")
        unheld = {"column": "doc", "values": 1, "keys": [{"id": "1"}]}
        assert found["tables"][name]["not_representable"] == [unheld]
        assert (found["verified"], found["tables"][name]["equal"], found["tables"][name]["differing"]) == (
            False,
            False,
            0,
        )
        assert (found["keys_read_again"], found["read_again"]) == ({}, [])
        assert found["tables"][f"{database}.gone"]["equal"] is True
        words = call(1, "verify", "-c", config, as_json=False)
        assert "1 not representable" in words
        assert "1 values of doc are not representable in silver's type, such as {'id': 1}" in words
        # bronze has it whole
        assert call(0, "verify", "-c", config, "--layer", "bronze")["tables"][name]["rows"] == 3
        changes = spark.read.format("delta").load(str(Pipeline.from_yaml(config).layout.changes))
        text = changes.where("op = 'r' AND key:id::int = 1").selectExpr("after:doc::string").head()
        assert text is not None
        assert text[0] == '{"n": 12345678901234567890123456789012345678901234567890.500000000000000}'
        # a value that differs besides is a difference, and a table that is gone is that table's line
        silver = f"delta.`{Pipeline.from_yaml(config).layout.silver_table(name).path}`"
        spark.sql(f"UPDATE {silver} SET doc = parse_json('{{\"n\": 1}}') WHERE id = 1")
        cursor.execute(f"DROP TABLE {database}.gone")
        both = call(1, "verify", "-c", config, "--layer", "all")
    assert both["verified"] is False
    assert both["silver"]["tables"][name]["differing"] == 1
    assert both["bronze"]["tables"][name]["equal"] is True
    for layer in ("silver", "bronze"):
        assert list(both[layer]["failed"]) == [f"{database}.gone"]
        assert "changes the table" in both[layer]["failed"][f"{database}.gone"]
    call(0, "run", "-c", config, "--once")
    after = call(1, "verify", "-c", config)
    assert (list(after["left_out"]), after["failed"]) == ([f"{database}.gone"], {})


@pytest.mark.long
def test_a_cast_of_the_loader_made_wrong_is_found_in_its_column(
    spark: SparkSession, mysql: MySqlServer, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = pipeline(spark, mysql, database, tmp_path)
    body = ", ".join(f"{name} {kind}" for name, (kind, *_) in WRONG.items())
    values = ", ".join(value for _, value, _ in WRONG.values())
    with closing(connected(mysql)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, {body})")
        cursor.execute(f"INSERT INTO {database}.t VALUES (0, {values})")
        lake.run(once=True)
        cursor.execute(
            f"INSERT INTO {database}.t VALUES {', '.join(f'({i + 1}, {values})' for i in range(len(WRONG)))}"
        )
    right = typed_columns._of_source

    def wrong(changes: DataFrame, shape: Shape) -> DataFrame:
        rows = right(changes, shape)
        for i, (name, (_, _, made)) in enumerate(WRONG.items()):
            spoilt = F.when(F.col("row.id") == i + 1, F.expr(made)).otherwise(F.col(f"row.{name}"))
            rows = rows.withColumn("row", F.col("row").withField(name, spoilt))
        return rows

    monkeypatch.setattr(typed_columns, "_of_source", wrong)
    lake.run(once=True)
    monkeypatch.undo()
    [found] = lake.verify().tables
    assert {(d.key["id"], d.kind, d.columns) for d in found.differences} == {
        (i + 1, "different", (name,)) for i, name in enumerate(WRONG)
    }
    assert found.not_representable == ()
    assert lake.verify("bronze").verified


@pytest.mark.long
def test_bronze_of_a_table_that_was_altered_and_of_one_without_a_key(
    spark: SparkSession,
    mysql: MySqlServer,
    run: Any,
    database: str,
    tmp_path: Path,
) -> None:
    run("CREATE TABLE t (id INT PRIMARY KEY, v INT, doc JSON)", "CREATE TABLE u (v INT, doc JSON)",
        "INSERT INTO t VALUES (1, 1, '[1.10]'), (2, 2, NULL), (3, 3, '{}')",
        "INSERT INTO u VALUES (1, '[]'), (1, '[]'), (2, NULL), (3, NULL)")  # fmt: skip
    lake = pipeline(spark, mysql, database, tmp_path, target={"silver": None})
    lake.run(once=True)
    run("ALTER TABLE t ADD COLUMN w INT DEFAULT 7, CHANGE v value BIGINT", "UPDATE t SET w = 8 WHERE id = 2",
        "DELETE FROM t WHERE id = 3", "INSERT INTO t VALUES (4, 4, '[]', 4)", "UPDATE u SET v = 9 WHERE v = 1 LIMIT 1",
        "DELETE FROM u WHERE v = 3")  # fmt: skip
    lake.run(once=True)
    report = lake.verify("bronze")
    assert report.verified, report.to_json()
    assert {t.table.partition(".")[2]: t.rows for t in report.tables} == {"t": 3, "u": 3}
    changes = f"delta.`{lake.layout.changes.path}`"
    spark.sql(f"ALTER TABLE {changes} SET TBLPROPERTIES (delta.appendOnly = false)")
    spark.sql(f"DELETE FROM {changes} WHERE source_table = '{database}.t' AND key:id::int = 4")
    spark.sql(f"DELETE FROM {changes} WHERE source_table = '{database}.u' AND op = 'd'")
    report = lake.verify("bronze")
    found = {t.table.partition(".")[2]: [(d.kind, d.key) for d in t.differences] for t in report.tables}
    assert found == {"t": [("missing", {"id": 4})], "u": [("extra", {"v": "3", "doc": None})]}


@contextmanager
def updates(server: MySqlServer, table: str) -> Iterator[None]:
    """A session that writes to a table meanwhile."""
    ended = threading.Event()

    def write() -> None:
        with closing(connected(server)) as connection, connection.cursor() as cursor:
            while not ended.wait(0.05):
                cursor.execute(f"UPDATE {table} SET n = n + 1 ORDER BY RAND() LIMIT 3")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def outcome(report: VerifyReport) -> tuple[dict[str, list[Any]], dict[str, str]]:
    return {t.table: [(d.key, d.kind, d.columns) for d in t.differences] for t in report.tables}, dict(report.failed)


@pytest.mark.long
def test_edge_values_of_every_type_verify_on_every_server_under_writes(
    spark: SparkSession, any_server: MySqlServer, any_database: str, tmp_path: Path
) -> None:
    """Rows of the snapshot and of the binlog; in silver and in bronze, at rest and while they are written to."""
    name = f"{any_database}.t"
    with closing(connected(any_server, charset="utf8mb4")) as connection, connection.cursor() as cursor:
        columns = types_table.every(connection)
        names = ", ".join(f"`{c.name}`" for c in columns)
        cursor.execute(types_table.ddl(name, columns))
        cursor.execute("SET time_zone = '+00:00'")
        for values in types_table.rows(columns, seed=9):
            cursor.execute(f"INSERT INTO {name} (id, n, {names}) VALUES {values}")
        # the column that MariaDB 11.8 does not log
        excluded = {name: {"exclude": ["twice"]}} if any_server.version == "mariadb-11" else {}
        lake = pipeline(spark, any_server, any_database, tmp_path, tables=excluded)
        lake.run(once=True)
        cursor.execute("SET time_zone = '+05:30'")
        cursor.execute(f"INSERT INTO {name} (id, n, {names}) SELECT id + 1000, 1, {names} FROM {name}")
        lake.run(once=True)
        cursor.execute(f"SELECT COUNT(*) FROM {name}")
        ((rows,),) = cursor.fetchall()
    for layer in ("silver", "bronze"):
        report = lake.verify("silver" if layer == "silver" else "bronze")
        assert report.verified, outcome(report)
        assert [(t.rows, t.by_image) for t in report.tables] == [(rows, 0)]
    with updates(any_server, name):
        for layer in ("silver", "bronze"):
            report = lake.verify("silver" if layer == "silver" else "bronze")
            assert report.verified, outcome(report)
            assert report.tables[0].by_image > 0
