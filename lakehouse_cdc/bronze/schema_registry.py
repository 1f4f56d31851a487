"""Record the schemas that bronze meets: one row of `<bronze>.schemas` for each s row of `<bronze>.changes`.

Called after the append and before Spark marks the batch as complete, so a crash in between is followed by the same
call again; the append is tied to the batch, so it happens once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from operator import itemgetter

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.bronze.tables import SCHEMAS
from lakehouse_cdc.lake.catalog_folder import by_folder
from lakehouse_cdc.lake.commits import writer_options
from lakehouse_cdc.lake.direct.commit import DataFile
from lakehouse_cdc.lake.engines.choice import engine_of
from lakehouse_cdc.lake.tables import append, read
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.bronze_row import LEFT
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.table_layout import Layout

_STEP = "schemas"
STATISTICS = ("source_table", "schema_id", "seq")


def record_schemas(spark: SparkSession, layout: Layout, versions: Versions, note: CommitNote) -> None:
    """Append the schemas of the s rows in those commits. `statement` is the DDL, NULL for a table's first schema.

    Where a table is left off (dropped, or quarantined) `schema` is NULL, and `schema_id` that of its last one.
    """
    append(schema_rows(versions.rows(spark, layout.changes)), layout.schemas, writer_options(note, _STEP))


def add_schemas(spark: SparkSession, layout: Layout, files: Sequence[DataFile], note: CommitNote) -> None:
    """The same of files of bronze, which say what s rows they hold; one file, without a job of Spark's."""
    rows = [
        {**entry, "source_table": file.source_table, "seq": Decimal(entry["seq"])}
        for file in files
        for entry in json.loads(file.schemas)
    ]
    if rows:
        rows.sort(key=itemgetter("seq"))
        table = by_folder(spark, layout.schemas)
        engine_of(spark, table).append(table, SCHEMAS, rows, note, _STEP, STATISTICS)


def record_missing_schemas(spark: SparkSession, layout: Layout) -> None:
    """Append the schemas of bronze's s rows that are not recorded, since a crash came in between; for one writer."""
    rows = schema_rows(read(spark, layout.changes))
    missing = rows.join(read(spark, layout.schemas), ["source_table", "seq"], "left_anti")
    if not missing.isEmpty():
        append(missing, layout.schemas, {})


def schema_rows(rows: DataFrame) -> DataFrame:
    """The schemas among rows of bronze, in the columns of `<bronze>.schemas`."""
    return rows.where(F.col("op") == Op.SCHEMA.value).select(
        "source_table",
        "schema_id",
        "seq",
        "position",
        F.expr("variant_get(after, '$.statement', 'string')").alias("statement"),
        F.when(~F.expr(LEFT), F.to_json("after")).alias("schema"),
    )
