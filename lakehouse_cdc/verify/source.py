"""One silver table against its source, both as they stood at one position.

The source side is an as-of read at the position at which silver stands, so writes that go on meanwhile change neither
side. Of a table whose snapshot is unfinished the keys that silver can have are compared, those below the cursor.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.model.layout import Table, quoted
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.schema.types import Kind, require
from lakehouse_cdc.silver.batch import typed_columns as extract
from lakehouse_cdc.silver.batch.computed_columns import filtered
from lakehouse_cdc.silver.definition.column_mapping import Shape
from lakehouse_cdc.silver.definition.form import Form
from lakehouse_cdc.verify.compare import TableResult, compare


def verify_table(
    spark: SparkSession,
    options: Mapping[str, str],
    offset: Offset,
    shape: Shape,
    silver: Table,
    version: int | None,
    *,
    form: Form,
) -> TableResult:
    """Compare the silver table at `version` (None: it does not exist) with the source at the offset's position.

    Of one that keeps more, as its `form` says, the rows as they are now are compared. Columns of a frozen table that
    follow none of the source's are passed over, and so is metadata. `options` are those of the `mysql_cdc` source.
    """
    schema = shape.schema
    expected = source_rows(spark, options, offset, shape)
    columns = [name for name in shape.names if name in shape.sources or name in shape.transform.computed]
    if version is None:
        actual = spark.createDataFrame([], expected.schema)
    else:
        rows = read(spark, silver, version).where(form.standing)
        actual = rows.select(*[F.col(quoted(c)) for c in columns])
    expected, actual = (_comparable(side, schema, columns) for side in (expected, actual))
    found = compare(schema.name, expected, actual, list(schema.key), columns, rows=actual.count())
    if shape.frozen or found.keys is None:
        return replace(found, keys=None)
    return replace(found, keys=tuple({shape.sources[name]: key[name] for name in key} for key in found.keys))


def _comparable(side: DataFrame, schema: TableSchema, columns: Sequence[str]) -> DataFrame:
    """A VARIANT can be neither hashed nor compared: its JSON can."""
    for column in schema.captured:
        if column.name in columns and require(column, schema.name).kind is Kind.JSON:
            side = side.withColumn(column.name, F.to_json(F.col(quoted(column.name))))
    return side


def source_rows(spark: SparkSession, options: Mapping[str, str], offset: Offset, shape: Shape) -> DataFrame:
    """The rows of one source table as of the offset, typed as silver's columns."""
    name = shape.schema.name
    alone = replace(offset, tables={name: offset.tables[name]})
    bronze = spark.read.format("mysql_cdc").options(**options).option("asOf", json.dumps(alone.to_json())).load()
    rows = filtered(extract.typed(bronze.select("after"), shape), shape)
    return rows.where("passes").select("row.*")
