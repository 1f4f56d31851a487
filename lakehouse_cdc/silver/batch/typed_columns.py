"""From VARIANT images to typed columns: one CAST with the schema's exact names, never one lookup per column.

The cast fails on a value that does not fit its column, where a lookup that may fail (`try_variant_get`) would give
NULL without a word. A field that an image lacks comes as NULL, so an image is only ever read by the schema it was
written under; images hold every captured column, also those that are NULL.

Of a table with a shape of its own the typed columns are then those. A value that has another type there is carried
over where the way back gives the same value again, else it is an error.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse_cdc.errors import TableError, codes
from lakehouse_cdc.errors.codec import encoded
from lakehouse_cdc.model.own_columns import OwnColumns
from lakehouse_cdc.model.table_layout import literal, quoted
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.type_registry import Kind
from lakehouse_cdc.schema.types import require
from lakehouse_cdc.silver.batch.computed_columns import filtered, with_computed
from lakehouse_cdc.silver.definition.casts import carried_over
from lakehouse_cdc.silver.definition.column_mapping import THAW, Shape

ROW_OPS = ("r", "c", "u", "d")


def _struct(schema: TableSchema, columns: Iterable[Column]) -> str:
    fields = (f"{quoted(c.name)}: {require(c, schema.name).image}" for c in columns)
    return f"STRUCT<{', '.join(fields)}>"


def key_type(schema: TableSchema) -> str:
    """The Spark SQL type of the primary key, as a struct in the key's order."""
    return _struct(schema, schema.key_columns)


def keyed(rows: DataFrame, shape: Shape, *, deleted: bool = False) -> DataFrame:
    """The row changes among bronze rows of one table: key (typed), seq, op, commit_ts, after (VARIANT).

    `deleted`: with the image that a deleted row had, which is NULL otherwise. A change to a row that silver's filter
    does not let through is a delete.
    """
    changes = rows.where(F.col("op").isin(*ROW_OPS))
    key = F.expr(f"CAST({of_rows('key')} AS {key_type(shape.rows)})").alias("key")
    image = "coalesce(after, before)" if deleted else "after"
    shaped = changes.select(key, "seq", "op", "commit_ts", F.expr(of_rows(image)).alias("after"))
    if not shape.plain:
        shaped = shaped.withColumn("key", _shaped("key", shape, shape.schema.key_columns))
    return shaped if shape.transform.filter is None else _without_filtered(shaped, shape)


def _without_filtered(changes: DataFrame, shape: Shape) -> DataFrame:
    rows = filtered(_of_source(changes.withColumn("image", F.col("after")), shape), shape)
    op = F.when(F.col("passes"), F.col("op")).otherwise("d").alias("op")
    return rows.select("key", "seq", op, "commit_ts", F.col("image").alias("after"))


def of_rows(variant: str) -> str:
    """The column, as an expression that Spark cannot take for the column itself; of other rows it gives any VARIANT.

    Spark moves a cast of a VARIANT column itself into the scan of the file (spark.sql.variant.pushVariantIntoScan), in
    front of every filter. There it fails on what is not of this schema: other ops, and rows from before a change.
    """
    ops = ", ".join(f"'{op}'" for op in ROW_OPS)
    return f"IF(op IN ({ops}), {variant}, CAST(op AS VARIANT))"


def require_unique(rows: DataFrame, shape: Shape) -> None:
    """Raise TableError where a key that the user gives is that of two rows that were read at one position."""
    name, key = shape.schema.name, shape.rows.key
    read = rows.where("op = 'r'").selectExpr(f"CAST({of_rows('key')} AS {key_type(shape.rows)}) AS key", "seq")
    twice = read.groupBy("key", "seq").count().where("count > 1").head()
    if twice is not None:
        raise codes.DECLARED_KEY_NOT_UNIQUE.error(
            f"{twice['count']} rows of {name} have the key ({', '.join(key)}) = {tuple(twice['key'])}",
            where=name,
            hint=f"choose other columns for tables.{name}.key, or correct the rows, and then read them again:"
            f" signal snapshot {name}",
        )


def latest(changes: DataFrame) -> DataFrame:
    """The last change of each key by seq; the columns stay."""
    others = [name for name in changes.columns if name not in ("key", "seq")]
    chosen = changes.groupBy("key").agg(F.max("seq").alias("seq"), F.max_by(F.struct(*others), "seq").alias("change"))
    return chosen.select("key", "seq", *(F.col(f"change.{name}").alias(name) for name in others))


def typed(changes: DataFrame, shape: Shape) -> DataFrame:
    """`after` as the struct `row` of silver's columns, the computed ones among them; the other columns stay."""
    return with_computed(_of_source(changes, shape), shape)


def laid_out(shape: Shape, own: OwnColumns) -> list[SparkColumn]:
    """The columns that a silver table has of a typed change (row, seq, commit_ts), but for those of its form."""
    metadata = shape.transform.metadata_of(shape.schema.name, "commit_ts")
    row = [F.col(f"row.{quoted(name)}").alias(name) for name in shape.names]
    row += [F.expr(text).alias(name) for name, text in metadata.items()]
    return [*row, F.col("seq").alias(own.seq), F.col("commit_ts").alias(own.commit_ts)]


def _of_source(changes: DataFrame, shape: Shape) -> DataFrame:
    """`after` as the struct `row` of those of silver's columns that are the source's."""
    schema = shape.rows
    row = image = F.expr(f"CAST(after AS {_struct(schema, schema.captured)})")
    for column in schema.captured:
        if require(column, schema.name).kind is Kind.JSON:
            # of the image: what refers to the row so far would be twice as large with each column
            row = row.withField(quoted(column.name), F.parse_json(image.getField(column.name)))
    selected = changes.select(*(name for name in changes.columns if name != "after"), row.alias("row"))
    return selected if shape.plain else selected.withColumn("row", _shaped("row", shape, shape.schema.captured))


def _unfit(table: str, column: str) -> TableError:
    what = f"a value of the source does not fit the frozen column {table}.{column}"
    return codes.FROZEN_VALUE_UNFIT.error(what, hint=THAW, table=table)


def _shaped(struct: str, shape: Shape, columns: Iterable[Column]) -> SparkColumn:
    """Those columns of the shape, from a struct of the source's."""
    comes = {c.name: require(c, shape.rows.name).silver for c in shape.rows.captured}
    fields = []
    for column in columns:
        held, source = require(column, shape.schema.name).silver, shape.sources.get(column.name)
        value = f"CAST(NULL AS {held})"
        if source is not None:
            error = f"raise_error({literal(encoded(_unfit(shape.schema.name, column.name)))})"
            value = f"{struct}.{quoted(source)}"
            if comes[source] != held:
                value = carried_over(value, comes[source], held, error)
        fields.append(F.expr(value).alias(column.name))
    # a row without an image, a deleted one, stays one
    return F.when(F.col(struct).isNotNull(), F.struct(*fields)).alias(struct)
