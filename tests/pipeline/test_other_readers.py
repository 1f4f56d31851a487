"""Silver as a pipeline makes it by default, read by engines other than Spark: the same rows and types.

The table of the guide (`docs/guides/query-the-tables.md`) says what is tested here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_delta
import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from lakehouse_cdc.model.table_layout import Table
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.silver.apply import evolution_at_once
from lakehouse_cdc.testing import MySqlServer
from tests.pipeline.test_every_type import COLUMNS
from tests.support.pipelines import pipeline

PLAIN = {name: column for name, column in COLUMNS.items() if column[2] != "variant"}


def by_deltalake(path: str) -> pa.Table:
    return DeltaTable(path).to_pyarrow_table()


def by_polars(path: str) -> pa.Table:
    return polars.read_delta(path).to_arrow()


def by_duckdb(path: str) -> pa.Table:
    [extension] = Path(duckdb_extension_delta.__file__).parent.rglob("delta.duckdb_extension")
    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{extension}'")
        return connection.execute(f"SELECT * FROM delta_scan('{path}')").to_arrow_table()


READERS: Mapping[str, Callable[[str], pa.Table]] = {
    "deltalake": by_deltalake,
    "polars": by_polars,
    "duckdb": by_duckdb,
}


def rows(table: pa.Table) -> list[dict[str, Any]]:
    """In an order of their own; instants in UTC."""
    plain = [{name: _plain(value) for name, value in row.items()} for row in table.to_pylist()]
    return sorted(plain, key=lambda row: sorted((name, repr(value)) for name, value in row.items()))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return value.astimezone(timezone.utc) if isinstance(value, datetime) and value.tzinfo else value


def place(lake: Pipeline, table: str) -> Table:
    return lake.layout.silver_table(table)


@pytest.mark.one_server
def test_engines_read_the_rows_that_spark_reads(
    spark: SparkSession, mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    body = ", ".join(f"`{name}` {kind}" for name, (kind, *_) in PLAIN.items())
    values = ", ".join(value for _, value, *_ in PLAIN.values())
    run(
        f"CREATE TABLE keyed (id INT PRIMARY KEY, {body})",
        f"INSERT INTO keyed VALUES (1, {values}), (2, {', '.join(['NULL'] * len(PLAIN))}), (3, {values})",
        "CREATE TABLE log (n INT, note VARCHAR(20))",
        "INSERT INTO log VALUES (1, 'twice'), (1, 'twice'), (2, 'once'), (NULL, NULL)",
        "CREATE TABLE versions (id INT PRIMARY KEY, n INT)",
        "INSERT INTO versions VALUES (1, 1), (2, 1)",
    )
    lake = pipeline(spark, mysql, database, tmp_path, tables={f"{database}.versions": {"scd": 2}})
    lake.run(once=True)
    run(
        "UPDATE keyed SET money = 1.5, name = 'a' WHERE id = 2",
        "DELETE FROM keyed WHERE id = 3",
        "DELETE FROM log WHERE n = 1 LIMIT 1",
        "UPDATE versions SET n = 2 WHERE id = 1",
    )
    lake.run(once=True)
    for name, number in (("keyed", 2), ("log", 3), ("versions", 3)):
        path = str(place(lake, f"{database}.{name}").path)
        wanted = spark.read.format("delta").load(path).toArrow()
        assert wanted.num_rows == number
        for reader, of in READERS.items():
            assert rows(of(path)) == rows(wanted), (name, reader)
    run("ALTER TABLE keyed CHANGE name title VARCHAR(20) CHARACTER SET utf16", "UPDATE keyed SET title = 'b'")
    lake.run(once=True)
    path = str(place(lake, f"{database}.keyed").path)
    wanted = spark.read.format("delta").load(path).toArrow()
    assert [row["title"] for row in wanted.to_pylist()] == ["b", "b"]
    for reader, of in READERS.items():
        assert rows(of(path)) == rows(wanted), reader
    monkeypatch.setattr(evolution_at_once, "WRITTEN_AGAIN", 0)  # as a large table is, whose rows stay where they are
    run("ALTER TABLE keyed CHANGE title name VARCHAR(20) CHARACTER SET utf16", "UPDATE keyed SET name = 'c'")
    lake.run(once=True)
    assert [row["name"] for row in by_duckdb(path).to_pylist()] == ["c", "c"]
    for reader, refused in (("deltalake", DeltaError), ("polars", DeltaError)):
        with pytest.raises(refused, match="columnMapping"):
            READERS[reader](path)
