"""What the change table says of itself at a start: whose batches it holds, and of which tables it has rows."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.bronze.schema_registry import record_schemas, schema_rows
from lakehouse_cdc.bronze.sink import STEP
from lakehouse_cdc.bronze.tables import create_bronze
from lakehouse_cdc.lake.commits import application_of, newest_first
from lakehouse_cdc.lake.direct.commit import last_batch
from lakehouse_cdc.lake.tables import exists, read, require_owner, table_id
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.belonging import BronzeRecord
from lakehouse_cdc.model.bronze_row import LEFT
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.table_layout import Layout

_WHY = "variant_get(after, '$.quarantined', 'string')"


def find_bronze(spark: SparkSession, layout: Layout, query: str | None) -> BronzeRecord | None:
    """The change table, None where there is none. Raises DefiniteError where it is somebody else's.

    `query` is the id in the checkpoint of bronze's stream.
    """
    table = layout.changes
    if not exists(spark, table):
        return None
    require_owner(spark, table, layout.pipeline)
    bronze_id = table_id(spark, table)
    last = next((commit.note for commit in newest_first(spark, table) if commit.note is not None), None)
    if last is not None:
        return BronzeRecord(bronze_id, last)
    rows = not read(spark, table).isEmpty()
    known = last_batch(spark, table, application_of(layout.pipeline, query, STEP)) if query and rows else None
    return BronzeRecord(bronze_id, rows=rows, last_of_query=known)


def record_last_schemas(spark: SparkSession, layout: Layout) -> None:
    """Record the schemas of bronze's newest batch, where a crash came between the two; done before, nothing changes."""
    create_bronze(spark, layout)
    for commit in newest_first(spark, layout.changes):
        if commit.note is not None:
            versions = Versions(commit.version - 1, commit.version)
            if not schema_rows(versions.rows(spark, layout.changes)).isEmpty():
                record_schemas(spark, layout, versions, commit.note)
            return


@dataclass(frozen=True)
class RecordedTable:
    """A source table of which bronze has rows: its last schema, by id and as JSON, and why it is not followed.

    `left`: None for a table that is followed, '' for one that was dropped, else why it is quarantined.
    """

    name: str
    schema_id: str
    schema: str
    left: str | None


def tables_in(spark: SparkSession, layout: Layout) -> tuple[int, list[RecordedTable]]:
    """The greatest seq in bronze (0 if it is empty), and the tables of which it has rows."""
    changes = read(spark, layout.changes)
    left, text = F.expr(LEFT), F.to_json("after")
    rows = changes.where(F.col("op") == Op.SCHEMA.value).groupBy("source_table")
    last = rows.agg(
        F.max_by(left, "seq").alias("left"),
        F.max_by(F.expr(_WHY), "seq").alias("why"),
        F.max_by("schema_id", F.when(~left, F.col("seq"))).alias("schema_id"),
        F.max_by(text, F.when(~left, F.col("seq"))).alias("schema"),
    )
    tables = [
        RecordedTable(row["source_table"], row["schema_id"], row["schema"], (row["why"] or "") if row["left"] else None)
        for row in last.collect()
    ]
    return greatest_seq(spark, layout), sorted(tables, key=lambda table: table.name)


def greatest_seq(spark: SparkSession, layout: Layout) -> int:
    """That of all rows of bronze; 0 if it is empty."""
    greatest = read(spark, layout.changes).agg(F.max("seq").alias("seq")).collect()[0]["seq"]
    return int(greatest or 0)
