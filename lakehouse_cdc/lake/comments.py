"""The comments of a Delta table and of its columns: what engines and catalogs show beside names and types.

They are a part of the table's metadata, so to set some is a commit. All columns are done by one statement, which Delta
makes one commit of.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from lakehouse_cdc.lake.tables import alter, comment_of, detail, read
from lakehouse_cdc.model.table_layout import Table, literal, quoted


def column_comments(spark: SparkSession, table: Table) -> dict[str, str]:
    """That of each column of the table, by name; "" of one that has none."""
    return {field.name: comment_of(field) for field in read(spark, table).schema.fields}


def table_comment(spark: SparkSession, table: Table) -> str:
    """That of the table; "" for none."""
    return str(detail(spark, table)["description"] or "")


def set_column_comments(spark: SparkSession, table: Table, comments: Mapping[str, str]) -> None:
    """Give columns of the table, at least one, these comments, in one commit."""
    each = ", ".join(f"{quoted(name)} COMMENT {literal(text)}" for name, text in comments.items())
    alter(spark, table, f"ALTER TABLE {table.sql} ALTER COLUMN {each}")


def set_table_comment(spark: SparkSession, table: Table, comment: str) -> None:
    """Give the table this comment, in one commit."""
    alter(spark, table, f"COMMENT ON TABLE {table.sql} IS {literal(comment)}")
