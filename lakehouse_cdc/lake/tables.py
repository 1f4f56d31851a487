"""Create Delta tables, read and write them by Spark, and refuse to touch one that is not ours (see `ownership`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Literal

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from lakehouse_cdc.lake import delta_log
from lakehouse_cdc.lake.cleanup.trash import throw_away
from lakehouse_cdc.lake.cleanup.unfinished_tables import has_version, remove_unfinished, require_nothing_else
from lakehouse_cdc.lake.failpoints import Door, commit_to
from lakehouse_cdc.lake.noting import noted
from lakehouse_cdc.lake.object_store import ObjectStore
from lakehouse_cdc.lake.ownership import BUILT_AGAIN, owned, require_columns
from lakehouse_cdc.lake.table_state import Columns
from lakehouse_cdc.model.carried_note import carried
from lakehouse_cdc.model.place import is_url
from lakehouse_cdc.model.table_layout import PIPELINE, Table, literal, quoted

NOTE = "lakehouse_cdc.note"  # of the last commit that said so, of a session that had no other way
_OF_ONE_TABLE = ("delta.columnMapping.maxColumnId",)


def exists(spark: SparkSession, table: Table) -> bool:
    """True if the Delta table is there. Raises DefiniteError where something else lies in its place.

    What a crash left before the table's first commit is not there (see `cleanup`).
    """
    if table.path is None:
        return bool(spark.catalog.tableExists(table.sql))
    if is_url(table.path):
        return ObjectStore(spark).has_table(table.path)
    if delta_log.is_known(table) or has_version(table.path):
        return True
    require_nothing_else(table)
    return False


def detail(spark: SparkSession, table: Table) -> Row:
    """What Delta says of a table that is there: DESCRIBE DETAIL."""
    [row] = spark.sql(f"DESCRIBE DETAIL {table.sql}").collect()
    return row


def described_history(spark: SparkSession, table: Table, limit: int | None = None) -> DataFrame:
    """What Delta says of a table's commits, newest first: DESCRIBE HISTORY."""
    return spark.sql(f"DESCRIBE HISTORY {table.sql}" + ("" if limit is None else f" LIMIT {limit}"))


def read(spark: SparkSession, table: Table, version: int | None = None) -> DataFrame:
    """The table as it is now, or as it was at `version`."""
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    whole = reader.load(table.path) if table.path is not None else reader.table(table.sql)
    return whole if table.part is None else whole.where(table.rows()).drop(table.own.source_table)


def append(rows: DataFrame, table: Table, options: Mapping[str, str | int], partition_by: Sequence[str] = ()) -> None:
    """Append `rows` by name in one commit. `options` are those of Delta's DataFrameWriter."""
    write(rows, table, options, mode="append", partition_by=partition_by)


def write(
    rows: DataFrame,
    table: Table,
    options: Mapping[str, str | int],
    *,
    mode: Literal["append", "overwrite"],
    partition_by: Sequence[str] = (),
) -> None:
    """Write `rows` by name in one commit; to overwrite takes the option `replaceWhere` or `overwriteSchema`.

    Of a part of a table, that part alone is overwritten, and its columns stay.
    """
    for name, text in table.stamp.items():
        rows = rows.withColumn(name, F.expr(text))
    if table.part is not None and mode == "overwrite":
        assert "overwriteSchema" not in options, table
        options = {**options, "replaceWhere": table.rows()}
    writer = rows.write.format("delta").mode(mode).options(**options)
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    with commit_to(Door.WRITE, table.name):
        if table.path is not None:
            writer.save(table.path)
        else:
            writer.saveAsTable(table.sql)


def alter(spark: SparkSession, table: Table, statement: str) -> None:
    """Execute a statement, such as ALTER TABLE or UPDATE, that is one commit to the table."""
    with commit_to(Door.STATEMENT, table.name):
        spark.sql(statement)


def create(
    spark: SparkSession,
    table: Table,
    columns: Columns,
    *,
    pipeline: str,
    comment: str,
    properties: Mapping[str, str],
    column_comments: Mapping[str, str] = MappingProxyType({}),
    partition_by: Sequence[str] = (),
    cluster_by: Sequence[str] = (),
) -> None:
    """Create the table, empty and owned by `pipeline`; one that is there stays. For the tables' only writer."""
    _remove_unfinished(spark, table)
    if table.path is None:
        spark.sql(f"CREATE SCHEMA IF NOT EXISTS {quoted(table.catalog or '')}.{quoted(table.schema)}")
    inside = ", ".join(f"{quoted(name)} {kind}{commented(column_comments.get(name, ''))}" for name, kind in columns)
    marks = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in {PIPELINE: pipeline, **properties}.items())
    partitioning = f" PARTITIONED BY ({', '.join(map(quoted, partition_by))})" if partition_by else ""
    partitioning += f" CLUSTER BY ({', '.join(map(quoted, cluster_by))})" if cluster_by else ""
    with commit_to(Door.CREATE, table.name):
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {table.sql} ({inside}) USING delta{partitioning} COMMENT {literal(comment)} "
            f"TBLPROPERTIES ({marks})"
        )


def comment_of(field: StructField) -> str:
    """The comment of a column; "" where it has none."""
    return str(field.metadata.get("comment", ""))


def marked(comment: str) -> dict[str, str]:
    """The metadata of a column with that comment."""
    return {"comment": comment} if comment else {}


def commented(text: str) -> str:
    """What says in the declaration of a column what its comment is; "" for none."""
    return f" COMMENT {literal(text)}" if text else ""


def replace_by(spark: SparkSession, table: Table, other: Table) -> None:
    """Give the table the rows, columns and properties of another, in one commit.

    A table that is not there is made. What Delta counts for itself in the other's properties is left out.
    """
    of_other = detail(spark, other)
    held = {name: value for name, value in of_other["properties"].items() if name not in _OF_ONE_TABLE}
    held |= _carried(spark)
    marks = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in held.items())
    by = [quoted(name) for name in of_other["clusteringColumns"]]
    clustering = f" CLUSTER BY ({', '.join(by)})" if by else ""
    comment = of_other["description"] or ""
    _remove_unfinished(spark, table)
    with commit_to(Door.STATEMENT, table.name):
        spark.sql(
            f"CREATE OR REPLACE TABLE {table.sql} USING delta{clustering} COMMENT {literal(comment)} "
            f"TBLPROPERTIES ({marks}) AS SELECT * FROM {other.sql}"
        )


def drop(spark: SparkSession, table: Table, *, pipeline: str) -> None:
    """Delete a table, if it is there. Raises DefiniteError for one that is not this pipeline's."""
    _remove_unfinished(spark, table)
    if not exists(spark, table):
        return
    require_owner(spark, table, pipeline)
    delete(spark, table)


def delete(spark: SparkSession, table: Table) -> None:
    """Delete a table, whosever it is; a crash leaves all of it, or nothing that counts as a table."""
    if table.path is None:
        spark.sql(f"DROP TABLE IF EXISTS {table.sql}")
    elif is_url(table.path):
        ObjectStore(spark).throw_away(table.path)
    else:
        throw_away(table.path)


def _remove_unfinished(spark: SparkSession, table: Table) -> None:
    if table.path is not None and is_url(table.path):
        ObjectStore(spark).remove_unfinished(table.path)
    elif table.path is not None:
        remove_unfinished(table.path)


def require_ours(
    spark: SparkSession, table: Table, columns: Columns, *, pipeline: str, way_out: str = BUILT_AGAIN
) -> None:
    """Raise DefiniteError unless the table is this pipeline's, with just these columns.

    `way_out` is what to do with one that has others.
    """
    require_owner(spark, table, pipeline)
    require_columns(table, columns, held_columns(spark, table), way_out)


def held_columns(spark: SparkSession, table: Table) -> list[tuple[str, str]]:
    """The table's columns and their types' canonical names, in order."""
    state = delta_log.state(spark, table) if table.part is None else None
    if state is not None:
        return state.columns
    return [(field.name, field.dataType.simpleString()) for field in read(spark, table).schema.fields]


def require_owner(spark: SparkSession, table: Table, pipeline: str) -> Mapping[str, str]:
    """The table's properties, and those of the part. Raises DefiniteError unless it is this pipeline's."""
    return owned(properties(spark, table), table, pipeline)


def properties(spark: SparkSession, table: Table) -> Mapping[str, str]:
    """Those that the table, which is there, has; of a part, those of the whole."""
    if (state := delta_log.state(spark, table)) is not None:
        return state.properties
    return dict(detail(spark, table)["properties"])


def set_properties(spark: SparkSession, table: Table, properties: Mapping[str, str]) -> None:
    """Set properties of the table, or of the part."""
    of_part = "" if table.part is None else f"@{table.part}"
    named = {name + of_part: value for name, value in properties.items()} | _carried(spark)
    assignments = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in named.items())
    alter(spark, table, f"ALTER TABLE {table.sql} SET TBLPROPERTIES ({assignments})")


def _carried(spark: SparkSession) -> dict[str, str]:
    """The property that carries the note of the commit, where its session cannot say it (see `commits.noted`)."""
    note = noted(spark)
    return {} if note is None else {NOTE: carried(note.text())}


def unset_properties(spark: SparkSession, table: Table, *names: str) -> None:
    """Take properties of the table away; those that it does not have do not matter."""
    alter(spark, table, f"ALTER TABLE {table.sql} UNSET TBLPROPERTIES IF EXISTS ({', '.join(map(literal, names))})")


def table_id(spark: SparkSession, table: Table) -> str:
    """The id that Delta gave the table when it was made; one that is made again in its place has another."""
    if (state := delta_log.state(spark, table)) is not None:
        return state.id
    return str(detail(spark, table)["id"])


def plain(columns: Columns) -> list[tuple[str, str]]:
    """The columns with their types' canonical names, so that `BIGINT` and `bigint` are equal."""
    return [(name, _canonical(kind)) for name, kind in columns]


@cache
def _canonical(kind: str) -> str:
    from pyspark.sql.types import DataType

    return str(DataType.fromDDL(kind).simpleString())
