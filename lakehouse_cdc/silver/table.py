"""Silver tables: the source's captured columns by their own names and types, then `_seq` and `_commit_ts`.

Column mapping by name lets a column be called anything; deletion vectors keep a MERGE from rewriting whole files. A
table that is there must be this pipeline's, for this source table, with just these columns, or nothing is touched.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.lake.commits import newest_first
from lakehouse_cdc.lake.tables import Columns, create, exists, require_ours
from lakehouse_cdc.model.layout import Layout, quoted
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.types import Kind, require
from lakehouse_cdc.silver import tombstones

SEQ = "_seq"
COMMIT_TS = "_commit_ts"
SOURCE = "lakehouse_cdc.source_table"
_NO_STATISTICS = (Kind.BINARY,)
_PROPERTIES = {
    "delta.columnMapping.mode": "name",
    "delta.enableDeletionVectors": "true",
    "delta.feature.timestampNtz": "supported",
    "delta.autoOptimize.autoCompact": "true",
}


def columns(schema: TableSchema) -> Columns:
    """The silver table's columns. Raises DefiniteError for a type or a name that silver cannot hold."""
    found = [(c.name, require(c, schema.name).silver) for c in schema.captured]
    for name, _ in found:
        if name.lower() in (SEQ, COMMIT_TS):
            raise DefiniteError(
                f"column {name} of {schema.name} has the name of one that silver adds",
                where=schema.name,
                hint="exclude the column, or rename it on the source",
            )
    return [*found, (SEQ, "decimal(38,0)"), (COMMIT_TS, "timestamp")]


def prepare(spark: SparkSession, layout: Layout, schema: TableSchema) -> bool:
    """See that the silver table and its tombstones are there, and ours; True if no batch has been applied to it yet.

    The tombstones come first, and anew: those of an earlier silver table mean nothing to this one. A table to which
    nothing has been applied (new, or left so by a crash) must be built from the whole of bronze.
    """
    table, beside = layout.silver_table(schema.name), layout.tombstones(schema.name)
    graves, mark = tombstones.columns(schema), {SOURCE: schema.name}
    graves_exist = exists(spark, beside)
    if exists(spark, table):
        require_ours(spark, table, columns(schema), pipeline=layout.pipeline, marks=mark)
        if not graves_exist:
            raise DefiniteError(
                f"the tombstones of {schema.name} are gone",
                where=str(beside),
                hint="restore them, or move the silver table away to have both built anew from bronze",
            )
        require_ours(spark, beside, graves, pipeline=layout.pipeline, marks=mark)
        return not any(commit.note for commit in newest_first(spark, table))
    if graves_exist:
        require_ours(spark, beside, graves, pipeline=layout.pipeline, marks=mark)
    create(
        spark, beside, graves, pipeline=layout.pipeline, properties={**_PROPERTIES, **mark}, replace=True,
        comment=f"Keys deleted from {schema.name}, so that an older change cannot bring them back.",
    )  # fmt: skip
    create(
        spark, table, columns(schema), pipeline=layout.pipeline, properties={**_properties(schema), **mark},
        comment=f"{schema.name} as it is now; {SEQ} orders the changes, {COMMIT_TS} is the row's last commit.",
    )  # fmt: skip
    return True


def require_same(schema: TableSchema, others: Mapping[str, TableSchema]) -> None:
    """Raise DefiniteError where a batch holds rows of schemas that silver would have to be altered for."""
    for other in others.values():
        if columns(other) != columns(schema) or other.key != schema.key:
            raise DefiniteError(
                f"the columns of {schema.name} changed (schema {schema.id} to {other.id}), which silver cannot follow",
                where=schema.name,
                hint="move the silver table and the checkpoint of silver away to have it built anew",
            )


def _properties(schema: TableSchema) -> dict[str, str]:
    def has_statistics(column: Column) -> bool:
        return require(column, schema.name).kind not in _NO_STATISTICS

    # the keys' ranges let a MERGE skip files
    indexed = [SEQ, COMMIT_TS, *(quoted(c.name) for c in schema.key_columns if has_statistics(c))]
    return {**_PROPERTIES, "delta.dataSkippingStatsColumns": ",".join(indexed)}
