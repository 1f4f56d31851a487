"""The tables of bronze: `changes`, in the shape of `model.bronze_row`, and `schemas`.

Statistics are kept for the narrow columns alone. The change data feed is on, so that readers can ask for the rows of a
range of commits (see `lake.versions`); for a table that is only appended to it writes nothing. `delta.appendOnly` makes
Delta itself refuse an UPDATE or DELETE.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

from pyspark.sql import SparkSession

from lakehouse_cdc.lake.table_state import Columns
from lakehouse_cdc.lake.tables import create, exists, require_ours
from lakehouse_cdc.model.bronze_row import COLUMNS, PARTITION, POSITION, STATISTICS
from lakehouse_cdc.model.table_layout import Layout, Table

CHANGES: Columns = tuple((column.name, column.sql) for column in COLUMNS)
CHANGES_PROPERTIES = {
    "delta.enableChangeDataFeed": "true",
    "delta.dataSkippingStatsColumns": ",".join(STATISTICS),
}
SCHEMAS: Columns = (
    ("source_table", "string"),
    ("schema_id", "string"),
    ("seq", "decimal(38,0)"),
    ("position", POSITION),
    ("statement", "string"),
    ("schema", "string"),
)
_BEGIN_AGAIN = "lakehouse-cdc reset -c pipeline.yml deletes all tables of the pipeline, so that run can begin again"


def create_bronze(spark: SparkSession, layout: Layout) -> None:
    """Create both tables where they are missing. Raises DefiniteError as `missing_bronze` does, before any is made."""
    for table in missing_bronze(spark, layout):
        _create(spark, layout, table)


def missing_bronze(spark: SparkSession, layout: Layout) -> list[Table]:
    """Those that are not there. Raises DefiniteError if one is, and is another pipeline's or of another shape."""
    wanted = ((layout.changes, CHANGES), (layout.schemas, SCHEMAS))
    missing = [table for table, _ in wanted if not exists(spark, table)]
    for table, columns in wanted:
        if table not in missing:
            require_ours(spark, table, columns, pipeline=layout.pipeline, way_out=_BEGIN_AGAIN)
    return missing


def _create(spark: SparkSession, layout: Layout, table: Table) -> None:
    if table == layout.changes:
        create(
            spark,
            layout.changes,
            CHANGES,
            pipeline=layout.pipeline,
            comment="Every change of the source tables, in the order of seq. Append-only; see the column op.",
            properties={"delta.appendOnly": "true", **CHANGES_PROPERTIES},
            partition_by=(PARTITION,),
        )
    else:
        create(
            spark,
            layout.schemas,
            SCHEMAS,
            pipeline=layout.pipeline,
            comment="Every schema of a source table, from the position on at which it came into force.",
            properties={"delta.appendOnly": "true"},
        )


class BronzeMaker:
    """The tables of bronze, made on a thread where they are missing, while the source is looked at.

    A context manager, which ends when they are made. To make one raises what `create_bronze` does.
    """

    def __init__(self, spark: SparkSession, layout: Layout) -> None:
        missing = missing_bronze(spark, layout)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="bronze")
        self._made = {table: self._pool.submit(_create, spark, layout, table) for table in missing}

    def wait(self, table: Table) -> None:
        """Return when that table is there. Raises what kept it from being made."""
        if (made := self._made.get(table)) is not None:
            made.result()

    def __enter__(self) -> BronzeMaker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown()
        if isinstance(error, Exception):
            for made in self._made.values():
                made.result()  # why one is not there explains what failed without it
