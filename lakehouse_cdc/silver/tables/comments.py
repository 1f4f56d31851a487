"""The source's comments on silver tables that are there; a table that is made has them from its first commit on.

What the source said is remembered by its digest for each column, so a table is looked at only where it says something
else, and only those columns are set: a comment that a person gave a column of silver stays until the source's is
another. Where the source has none, silver's is left alone.
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
Remembered = Mapping[str, str]  # column of the source -> the digest of what it said last


@dataclass(frozen=True)
class Described:
    """What a silver table was given, and by digest all that the source says now."""

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
    """Give the silver table of the source table `name` the comments that are new, by a commit for its columns and one
    for itself; nothing where there is no such table, several source tables go into it, or it has other columns yet.

    `schemas` are all that bronze has met of a table. For the tables' only writer, while no batch is being applied.
    Raises what Spark raises.
    """
    of_table = {OF_TABLE: policy.comments.table} if policy.comments.table else {}
    texts = {source: text for source, text in policy.comments.columns.items() if text} | of_table
    new = {source for source, text in texts.items() if remembered.get(source) != _digest(text)}
    nothing = Described(remembered=remembered)
    if not new:
        return nothing
    table = own_table(SparkReader(spark), layout, name)
    if table is None or table.part is not None:
        return nothing
    held = own_properties(SparkReader(spark), layout, name)
    if not any(schema.id == held.schema_id and policy.comments.fit(schema) for schema in schemas(name)):
        return nothing
    if held.frozen is None:
        names = {source: policy.transform.silver_name(source) for source in policy.comments.columns}
    else:  # its columns are called as the source's once were
        names = {source: column for column, source in held.frozen.sources.items()}
    there = column_comments(spark, table)
    wanted = {names[source]: texts[source] for source in new if source in names}
    columns = {column: text for column, text in wanted.items() if there.get(column, text) != text}
    if columns:
        set_column_comments(spark, table, columns)
    whole = policy_comment(table, name, policy)
    changes = OF_TABLE in new and table_comment(spark, table) != whole
    if changes:
        set_table_comment(spark, table, whole)
    given = {source: _digest(text) for source, text in texts.items()}
    return Described(columns, whole if changes else "", given)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]
