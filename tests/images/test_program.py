"""Programs, the compiler's cache, and the images in Spark: what holds the kernels together."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pymysql
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.variant_utils import VariantUtils

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.images.ahead.library import SWITCH
from lakehouse_cdc.images.digest import DIGEST
from lakehouse_cdc.images.layout import binlog_types, extent
from lakehouse_cdc.images.program import ProgramSet
from lakehouse_cdc.model.variant import encode, metadata
from lakehouse_cdc.mysql.wire.select import select_images
from lakehouse_cdc.schema.table import Column, TableSchema
from tests.support.images.binlog_file import read_log
from tests.support.images.tables import ID, agree, create, insert, select

VARIANT = [
    pa.field("value", pa.binary(), nullable=False),
    pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
]
SPARK_TYPES = {
    "id": "CAST(v:{0} AS INT) AS {0}",
    "p": "CAST(v:{0} AS DECIMAL(10,2)) AS {0}",
    "f": "CAST(v:{0} AS FLOAT) AS {0}",
    "b": "CAST(v:{0} AS BINARY) AS {0}",
    "at": "unix_micros(CAST(v:{0} AS TIMESTAMP)) AS {0}",
    "dt": "CAST(v:{0} AS TIMESTAMP_NTZ) AS {0}",
    "day": "CAST(v:{0} AS DATE) AS {0}",
    "u": "CAST(v:{0} AS DECIMAL(20,0)) AS {0}",
    "s": "CAST(v:{0} AS STRING) AS {0}",
}


def test_a_text_row_is_what_the_codec_writes(session: pymysql.Connection[Any], database: str) -> None:
    """Fields by name, values in the table's order: for columns in order both are one, so the bytes can be compared."""
    columns = (Column("a", "varchar", length=99, charset="utf8mb4", nullable=False), Column("b", "double"), ID)
    schema = TableSchema(database, "t", columns, ("a",))
    create(session, schema)
    insert(session, schema, [("日本", -0.5, 2**31 - 1), ("x" * 70, None, -(2**31))])
    images = [after for _, after in select(session, schema, order="id DESC")]
    wanted = [{"a": "日本", "b": -0.5, "id": 2**31 - 1}, {"a": "x" * 70, "b": None, "id": -(2**31)}]
    assert images == [encode(row)[0] for row in wanted]
    assert ProgramSet.of([schema]).metadata[0] == encode(wanted[0])[1] == metadata(["id", "b", "a"])


def test_wide_tables(session: pymysql.Connection[Any], database: str) -> None:
    """256 fields take ids of one byte and a count of four; 257 take ids of two bytes."""
    for width in (255, 256, 257, 400):
        columns = [Column(f"c{i}", "smallint") for i in range(width - 1)]
        schema = TableSchema(database, f"t{width}", (ID, *columns), ("id",))
        rows = [(1, *range(width - 1)), (2, *[None] * (width - 1))]
        found = agree(session, schema, rows)
        names = [column.name for column in schema.columns]
        assert found == [dict(zip(names, row, strict=True)) for row in rows]
        (_, image), _ = select(session, schema)
        assert image is not None
        decoded: Any = VariantUtils.to_python(image, ProgramSet.of([schema]).metadata[0])  # annotated to give str
        assert decoded == found[0]


def test_what_a_table_map_must_say(session: pymysql.Connection[Any], database: str) -> None:
    types = ["tinyint", "smallint", "mediumint", "int", "bigint", "float", "double", "date"]
    texts = [("char", 3), ("char", 255), ("varchar", 63), ("varchar", 64), ("varchar", 9000)]
    columns = [
        *(Column(f"p{i}", name) for i, name in enumerate(types)),
        *(Column(f"d{p}", "decimal", precision=p, scale=s) for p, s in ((1, 1), (10, 0), (38, 30))),
        *(Column(f"{kind}{f}", kind, fraction=f) for kind in ("datetime", "timestamp") for f in range(7)),
        *(
            Column(f"s{i}{charset}", name, length=length, charset=charset)
            for i, (name, length) in enumerate(texts)
            for charset in ("utf8mb3", "latin1")
        ),
        Column("b255", "binary", length=255),
        *(Column(f"v{length}", "varbinary", length=length) for length in (255, 256)),
        *(Column(f"{size}b", f"{size}blob") for size in ("tiny", "", "medium", "long")),
        *(Column(f"{size}t", f"{size}text", charset="utf8mb4") for size in ("tiny", "", "medium", "long")),
    ]
    schema = TableSchema(database, "t", (ID, *columns), ("id",))
    start = create(session, schema)
    insert(session, schema, [(1, *[None] * len(columns))])
    assert read_log(session, start, [schema]).maps == [binlog_types(schema)]


def test_old_formats_are_refused() -> None:
    for code in (7, 11, 12):  # TIMESTAMP, TIME, DATETIME of before 5.6
        with pytest.raises(DefiniteError, match=f"binlog type {code}"):
            extent((code, b""))


def test_unsupported_columns_are_refused_by_name() -> None:
    schema = TableSchema("db", "t", (ID, Column("j", "xmltype")), ("id",))
    with pytest.raises(DefiniteError, match=r"column j of db\.t"):
        ProgramSet.of([schema])


def test_images_are_variants_in_spark(spark: SparkSession, session: pymysql.Connection[Any], database: str) -> None:
    columns = (
        *(ID, Column("p", "decimal", precision=10, scale=2), Column("f", "float"), Column("b", "binary", length=3)),
        *(Column("at", "timestamp", fraction=6), Column("dt", "datetime", fraction=3), Column("day", "date")),
        *(Column("u", "bigint", unsigned=True), Column("s", "char", length=9, charset="latin1")),
    )
    schema = TableSchema(database, "t", columns, ("id",))
    create(session, schema)
    values = ("-12.50", 5592405.5, b"ab", "2024-01-01 10:00:00.000001", "1969-12-31 23:59:59.5", "1582-10-15")
    insert(session, schema, [(1, *values, 2**64 - 1, "é€"), (2, *[None] * 8)])
    (piece,) = select_images(session, f"SELECT * FROM {database}.t ORDER BY id", schema)
    names = pa.array([ProgramSet.of([schema]).metadata[0]] * piece.n, pa.binary())
    variant = pa.StructArray.from_arrays([piece.after.to_arrow(), names], fields=VARIANT)
    frame = spark.createDataFrame(pa.table({"v": variant}))
    row, empty = frame.selectExpr(*(cast.format(name) for name, cast in SPARK_TYPES.items())).collect()
    assert row.asDict() == {
        "id": 1,
        "p": Decimal("-12.50"),
        "f": 5592405.5,
        "b": bytearray(b"ab\0"),
        "at": 1704103200000001,
        "dt": datetime(1969, 12, 31, 23, 59, 59, 500000),
        "day": date(1582, 10, 15),
        "u": Decimal(2**64 - 1),
        "s": "é€",
    }
    assert empty.asDict() == {"id": 2} | dict.fromkeys(name for name in SPARK_TYPES if name != "id")
    kinds = frame.limit(1).selectExpr("schema_of_variant(v) AS t").collect()[0].t
    assert kinds == (
        "OBJECT<at: TIMESTAMP, b: BINARY, day: DATE, dt: TIMESTAMP_NTZ, f: FLOAT, id: BIGINT, p: DECIMAL(3,1), "
        "s: STRING, u: DECIMAL(20,0)>"
    )


@pytest.mark.long
def test_a_cold_process_compiles_once(tmp_path: Path) -> None:
    code = "from lakehouse_cdc.images.warm import warm_up; warm_up()"
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), SWITCH: "numba"}

    def run() -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, env=env)
        return time.perf_counter() - began

    cold = run()
    files = sorted(path.name for path in tmp_path.rglob("*.nb?"))
    assert files
    assert all(DIGEST in name for name in files)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb?")}
    warm = run()
    assert stamps == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb?")}
    assert warm < cold
