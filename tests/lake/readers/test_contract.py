"""Every reader says the same of a table: of all kinds that ours are, and of such as others make of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType

from lakehouse_cdc.bronze.tables import CHANGES, SCHEMAS
from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.lake import delta_log
from lakehouse_cdc.lake.commits import writer_options
from lakehouse_cdc.lake.ownership import canonical
from lakehouse_cdc.lake.readers.choice import ReaderOnDemand
from lakehouse_cdc.lake.readers.direct import DirectReader
from lakehouse_cdc.lake.readers.port import TableReader
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.model.table_layout import Table
from lakehouse_cdc.ops import metrics
from lakehouse_cdc.silver.tables import ledger_table
from tests.support.commit_notes import note
from tests.support.delta_library import forget

pytestmark = [pytest.mark.spark, pytest.mark.long]
MAPPED = (
    "'delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true', 'delta.enableTypeWidening' = 'true'"
)
AT = datetime(2026, 1, 1, tzinfo=timezone.utc)
ROWS = [
    (1, "a", (Decimal("1.5"), AT), {"x": 1}),
    (2, None, None, None),
    (3, "c", (None, None), {}),
]
COLUMNS = "id INT, t STRING, m STRUCT<seq: DECIMAL(3,1), at: TIMESTAMP>, counts MAP<STRING, BIGINT>"


def _make(spark: SparkSession, table: Table, properties: str = "", partition: str = "") -> None:
    with_properties = f"TBLPROPERTIES ({properties})" if properties else ""
    spark.sql(f"CREATE TABLE {table.sql} ({COLUMNS}) USING delta {partition} {with_properties}")
    for batch in range(3):
        rows = spark.createDataFrame([(10 * batch + n, *others) for n, *others in ROWS], COLUMNS)
        rows.write.format("delta").mode("append").options(**writer_options(note(batch), "step")).save(table.path)


def plain(spark: SparkSession, table: Table) -> None:
    _make(spark, table)


def mapped(spark: SparkSession, table: Table) -> None:
    """As Spark's silver tables are: deleted rows, a renamed column, one that is new, a wider type."""
    _make(spark, table, MAPPED)
    spark.sql(f"DELETE FROM {table.sql} WHERE id % 10 = 2")
    spark.sql(f"UPDATE {table.sql} SET t = NULL WHERE id = 11")
    spark.sql(f"ALTER TABLE {table.sql} RENAME COLUMN t TO `an odd; name`")
    spark.sql(f"ALTER TABLE {table.sql} ADD COLUMNS (later STRING)")
    spark.sql(f"ALTER TABLE {table.sql} ALTER COLUMN id TYPE BIGINT")
    spark.sql(f"INSERT INTO {table.sql} VALUES (5000000000, 'z', NULL, NULL, 'new')")


def optimized(spark: SparkSession, table: Table) -> None:
    mapped(spark, table)
    spark.sql(f"OPTIMIZE {table.sql}")
    spark.sql(f"DELETE FROM {table.sql} WHERE id = 1")


def variants(spark: SparkSession, table: Table) -> None:
    spark.sql(f"CREATE TABLE {table.sql} (id INT, t VARIANT) USING delta")
    spark.sql(f"INSERT INTO {table.sql} SELECT 1, parse_json('{{\"a\": 1}}') UNION ALL SELECT 2, NULL")


def parted(spark: SparkSession, table: Table) -> None:
    _make(spark, table, MAPPED, partition="PARTITIONED BY (t)")
    for value in ("a b", "a%20b", "a=b/c", "ü"):
        spark.sql(f"INSERT INTO {table.sql} VALUES (7, '{value}', NULL, NULL)")
    spark.sql(f"DELETE FROM {table.sql} WHERE t IS NULL AND id > 10")
    spark.sql(f"DELETE FROM {table.sql} WHERE id = 1")


def by_deltalake(spark: SparkSession, table: Table) -> None:
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "t": ["a", None, "c"]})
    write_deltalake(str(table.path), rows)
    merged = DeltaTable(str(table.path)).merge(rows.slice(1, 1), "s.id = t.id", source_alias="s", target_alias="t")
    merged.when_matched_delete().execute()


def cleaned_up(spark: SparkSession, table: Table) -> None:
    """A log of which the beginning is gone: a checkpoint has it."""
    mapped(spark, table)
    spark.sql(f"ALTER TABLE {table.sql} SET TBLPROPERTIES (delta.checkpointInterval = 1)")
    log = Path(str(table.path), "_delta_log")
    newest = max(int(path.stem) for path in log.glob("*.json"))
    for version in range(newest):
        (log / f"{version:020}.json").unlink()
    forget(spark)


def without_statistics(spark: SparkSession, table: Table) -> None:
    spark.conf.set("spark.databricks.delta.stats.collect", "false")
    try:
        plain(spark, table)
    finally:
        spark.conf.unset("spark.databricks.delta.stats.collect")


def empty(spark: SparkSession, table: Table) -> None:
    spark.sql(f"CREATE TABLE {table.sql} ({COLUMNS}) USING delta TBLPROPERTIES ({MAPPED})")


KINDS = (plain, mapped, optimized, variants, parted, by_deltalake, cleaned_up, without_statistics, empty)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("readers")


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__, scope="module")
def table(request: pytest.FixtureRequest, spark: SparkSession, root: Path) -> Table:
    make: Callable[[SparkSession, Table], None] = request.param
    made = Table("a (schema)", f"t'{make.__name__}", root=str(root))
    make(spark, made)
    return made


@pytest.fixture
def as_of_a_catalog(spark: SparkSession) -> Iterator[SparkReader]:
    """A reader that is left with Spark's SQL, as where no library of Delta's can be asked."""
    with patch.object(delta_log, "in_folder", lambda *_: False):
        yield SparkReader(spark)


def _said(reader: TableReader, table: Table) -> dict[str, Any]:
    columns = reader.columns(table)
    nulls = [name for name, _ in columns] + ["m.seq" for name, kind in columns if kind.startswith("struct")]
    return {
        "exists": reader.exists(table), "properties": {**reader.properties(table)}, "id": reader.id(table),
        "columns": columns, "commits": [*reader.commits(table)], "rows": reader.count(table),
        "nulls": {name: reader.count(table, name) for name in nulls if ";" not in name},
    }  # fmt: skip


def test_all_say_the_same(spark: SparkSession, as_of_a_catalog: SparkReader, table: Table) -> None:
    said = _said(DirectReader(), table)
    assert said == _said(as_of_a_catalog, table)
    with patch.object(delta_log, "in_folder", lambda *_: True):
        assert said == _said(SparkReader(spark), table)
    assert said["exists"]


def _sorted(rows: Iterator[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: sorted(map(repr, row.items())))


def test_rows_are_the_same(spark: SparkSession, as_of_a_catalog: SparkReader, table: Table) -> None:
    """Also by the choice where the folder's reader knows a feature too few; columns that are not there are left out."""
    names = [name for name, kind in DirectReader().columns(table) if kind != "variant"]
    by_all = ReaderOnDemand(lambda: spark)
    wanted = _sorted(as_of_a_catalog.rows(table, [*names, "none"]))
    assert _sorted(by_all.rows(table, ["none", *names])) == wanted
    assert all([*row] == [name for name in names if name in row] for row in wanted)


def test_counts_of_partitions(spark: SparkSession, as_of_a_catalog: SparkReader, root: Path) -> None:
    table = Table("s", "counted", root=str(root))
    parted(spark, table)
    spark.sql(f"DELETE FROM {table.sql} WHERE t IS NULL")
    wanted = {"a": 2, "c": 3, "a b": 1, "a%20b": 1, "a=b/c": 1, "ü": 1}
    assert DirectReader().counts(table, "t") == as_of_a_catalog.counts(table, "t") == wanted


def test_a_part_of_a_table(spark: SparkSession, as_of_a_catalog: SparkReader, root: Path) -> None:
    whole = Table("s", "into", root=str(root))
    spark.sql(
        f"CREATE TABLE {whole.sql} (_source_table STRING, id INT, _deleted_at TIMESTAMP) USING delta"
        f" PARTITIONED BY (_source_table) TBLPROPERTIES ({MAPPED}, 'a@x.one' = 'b')"
    )
    spark.sql(
        f"INSERT INTO {whole.sql} VALUES ('x.one', 1, NULL), ('x.one', 2, current_timestamp()), ('y.two', 3, NULL)"
    )
    spark.sql(f"DELETE FROM {whole.sql} WHERE id = 1")
    for part, (rows, now) in {"x.one": (1, 0), "y.two": (1, 1), "z.none": (0, 0)}.items():
        one = Table("s", "into", root=str(root), part=part)
        for reader in (DirectReader(), as_of_a_catalog):
            assert reader.columns(one) == [("id", "int"), ("_deleted_at", "timestamp")]
            assert (reader.count(one), reader.count(one, "_deleted_at")) == (rows, now)
            assert reader.properties(one)["a@x.one"] == "b"


def test_what_is_not_there_and_what_is_no_table(spark: SparkSession, tmp_path: Path) -> None:
    table, other = Table("s", "t", root=str(tmp_path)), Table("s", "other", root=str(tmp_path))
    Path(str(other.path)).mkdir(parents=True)
    Path(str(other.path), "file").touch()
    for reader in (DirectReader(), SparkReader(spark)):
        assert not reader.exists(table)
        with pytest.raises(DefiniteError, match="not a Delta table"):
            reader.exists(other)
    Path(str(table.path), "_delta_log").mkdir(parents=True)
    assert not DirectReader().exists(table)


def test_an_open_table_stays_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    table, reader = Table("s", "t", root=str(tmp_path)), DirectReader()
    plain(spark, table)
    assert (reader.count(table), len([*reader.commits(table)])) == (9, 4)
    spark.sql(f"DELETE FROM {table.sql}")
    assert (reader.count(table), len([*reader.commits(table)])) == (9, 4)
    assert DirectReader().count(table) == 0


def test_types_of_ours_are_declared_as_spark_names_them(spark: SparkSession) -> None:
    """So they can be compared without a session."""
    for kind in {kind for columns in (CHANGES, SCHEMAS, ledger_table.COLUMNS, metrics.COLUMNS) for _, kind in columns}:
        assert canonical(kind) == DataType.fromDDL(kind).simpleString()


def test_values_come_in_arrows_forms(spark: SparkSession, tmp_path: Path) -> None:
    table = Table("s", "t", root=str(tmp_path))
    plain(spark, table)
    for reader in (DirectReader(), SparkReader(spark)):
        [row] = [row for row in reader.rows(table, ["id", "m", "counts"]) if row["id"] == 1]
        assert row["m"]["seq"] == Decimal("1.5")
        assert row["m"]["at"].isoformat() == "2026-01-01T00:00:00+00:00"
        assert dict(row["counts"]) == {"x": 1}
