"""The source's comments on silver tables that are there; a table that is made has them from its first commit on.

What was set is remembered by its digest for each column, so a table is looked at only where the source says something
else than it did. So a comment that a person gave a column of silver stays until the source's is another. Where the
source has none, silver's is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

from lakehouse_cdc.lake.comments import column_comments, set_column_comments, set_table_comment, table_comment
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.tables.names import own_table
from lakehouse_cdc.silver.tables.properties import own_properties
from lakehouse_cdc.silver.tables.table_definition import policy_comment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse_cdc.schema.table import TableSchema

OF_TABLE = ""  # in the place of a column: the table's own
Remembered = Mapping[str, str]  # column of silver -> the digest of what it was given


@dataclass(frozen=True)
class Described:
    """What a silver table was given, and by digest all that it has been given by now."""

    columns: Mapping[str, str] = field(default_factory=dict)
    table: str = ""
    remembered: Remembered = field(default_factory=dict)


def describe(
    spark: SparkSession,
    layout: Layout,
    name: str,
    policy: Policy,
    remembered: Remembered,
    schemas: Callable[[str], Iterable[TableSchema]],
) -> Described:
    """Give the silver table of the source table `name` the comments that it lacks, by a commit for its columns and one
    for itself; nothing where there is no such table, several source tables go into it, or it has other columns yet.

    `schemas` are all that bronze has met of a table. For the tables' only writer, while no batch is being applied.
    Raises what Spark raises.
    """
    of_table = {OF_TABLE: policy.comments.table} if policy.comments.table else {}
    texts, nothing = policy.column_comments | of_table, Described(remembered=remembered)
    if all(remembered.get(column) == _digest(text) for column, text in texts.items()):
        return nothing
    table = own_table(SparkReader(spark), layout, name)
    if table is None or table.part is not None:
        return nothing
    held = own_properties(SparkReader(spark), layout, name)
    if not any(schema.id == held.schema_id and policy.comments.fit(schema) for schema in schemas(name)):
        return nothing
    if held.frozen is not None:  # its columns are called as the source's once were
        of_source = {source: text for source, text in policy.comments.columns.items() if text}
        followed = held.frozen.sources.items()
        texts = {column: of_source[source] for column, source in followed if source in of_source} | of_table
    there = column_comments(spark, table)
    columns = {column: text for column, text in texts.items() if there.get(column, text) != text}
    if columns:
        set_column_comments(spark, table, columns)
    whole = policy_comment(table, name, policy)
    changes = bool(of_table) and table_comment(spark, table) != whole
    if changes:
        set_table_comment(spark, table, whole)
    given = {column: _digest(text) for column, text in texts.items() if column == OF_TABLE or column in there}
    return Described(columns, whole if changes else "", given)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]
