"""Every type on the whole road: what silver holds is what the server says, after a snapshot and after the binlog."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakehouse_cdc.testing import MySqlServer
from tests.support.pipelines import pipeline
from tests.support.servers import connected

UTC = timezone.utc
# the column's type, a value in SQL, silver's type, what a query of silver gives
COLUMNS: dict[str, tuple[str, str, str, Any]] = {
    "tiny": ("TINYINT UNSIGNED", "255", "smallint", 255),
    "big": ("BIGINT UNSIGNED", "18446744073709551615", "decimal(20,0)", Decimal(2**64 - 1)),
    "money": ("DECIMAL(12,3)", "-7.125", "decimal(12,3)", Decimal("-7.125")),
    "long_money": ("DECIMAL(65,30)", "1.5", "string", "1.5" + "0" * 29),
    "single": ("FLOAT", "0.5", "float", 0.5),
    "flag": ("BIT(1)", "1", "boolean", True),
    "flags": ("BIT(10)", "513", "bigint", 513),
    "all_flags": ("BIT(64)", "18446744073709551615", "decimal(20,0)", Decimal(2**64 - 1)),
    "name": ("VARCHAR(20) CHARACTER SET utf16", "'😀 ü'", "string", "😀 ü"),
    "old_name": ("CHAR(20) CHARACTER SET sjis", "'日本'", "string", "日本"),
    "cyrillic": ("TEXT CHARACTER SET koi8r", "'привет'", "string", "привет"),
    "raw": ("BINARY(3)", "x'00ff'", "binary", bytearray(b"\0\xff\0")),
    "day": ("DATE", "'2024-02-29'", "date", date(2024, 2, 29)),
    "span": ("TIME(2)", "'-838:00:00.25'", "string", "-838:00:00.25"),
    "moment": ("DATETIME(3)", "'2024-02-29 12:00:00.125'", "timestamp_ntz", datetime(2024, 2, 29, 12, 0, 0, 125000)),
    "instant": ("TIMESTAMP(6) NULL", "'2024-02-29 12:00:00.000001'", "timestamp", "2024-02-29 12:00:00.000001"),
    "vintage": ("YEAR", "1901", "smallint", 1901),
    "size": ("ENUM('small', 'it''s large')", "2", "string", "it's large"),
    "tags": ("SET('a', 'b', 'c')", "'a,c'", "string", "a,c"),
    "place": ("POINT SRID 0", "ST_GeomFromText('POINT(1 2)')", "binary", None),
    "doc": (
        "JSON",
        """'{"n": 12345678901234567890, "d": 1.10, "list": [1, null, "é"], "deep": {"b": 1, "a": true}}'""",
        "variant",
        {"n": 12345678901234567890, "d": 1.1, "list": [1, None, "é"], "deep": {"b": 1, "a": True}},
    ),
    "nothing": ("JSON", "'null'", "variant", None),
}


def test_every_type_in_silver(spark: SparkSession, mysql: MySqlServer, database: str, tmp_path: Path) -> None:
    lake = pipeline(spark, mysql, database, tmp_path)
    body = ", ".join(f"`{name}` {kind}" for name, (kind, *_) in COLUMNS.items())
    values = ", ".join(value for _, value, *_ in COLUMNS.values())
    with closing(connected(mysql, charset="utf8mb4")) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, {body})")
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(f"INSERT INTO {database}.t VALUES (1, {values}), (2, {', '.join(['NULL'] * len(COLUMNS))})")
        lake.run(once=True)
        cursor.execute("SET time_zone = '+05:30'")
        cursor.execute(
            f"INSERT INTO {database}.t SELECT 3, {', '.join(f'`{n}`' for n in COLUMNS)} FROM {database}.t LIMIT 1"
        )
        cursor.execute(f"UPDATE {database}.t SET doc = JSON_SET(doc, '$.n', 1) WHERE id = 2")
    lake.run(once=True)
    silver = spark.read.format("delta").load(str(lake.layout.silver_table(f"{database}.t")))
    assert {f.name: f.dataType.simpleString() for f in silver.schema.fields if f.name in COLUMNS} == {
        name: kind for name, (_, _, kind, _) in COLUMNS.items()
    }
    shown = silver.selectExpr(
        "id", *[{"variant": f"to_json({n}) AS {n}", "timestamp": f"CAST({n} AS STRING) AS {n}"}.get(k, n)
                for n, (_, _, k, _) in COLUMNS.items()]
    ).orderBy("id")  # fmt: skip
    snapshot, empty, logged = (row.asDict() for row in shown.collect())
    assert snapshot == {**logged, "id": 1}
    assert set(empty.values()) == {2, None}
    for name, (_, _, kind, expected) in COLUMNS.items():
        found = json.loads(snapshot[name]) if kind == "variant" else snapshot[name]
        assert name == "place" or found == expected, name
    assert snapshot["nothing"] == "null"
    assert snapshot["place"][:9] == bytearray(b"\0\0\0\0\x01\x01\0\0\0")
    report = lake.verify()
    assert report.verified, report.to_json()
    assert report.rows == 3
