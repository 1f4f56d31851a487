"""A table of the session's catalog by the folder that it is in, where files may be added to it there.

Purpose: the tasks of a pipeline in a catalog write bronze's files themselves, as those of one in a folder do: that
is several times as fast as Spark's writer.

Invariant: the table is the same by its name and by its folder, and no commit replaces another.

Why it holds. Of a Delta table the session's catalog (a Hive metastore, or Spark's own) keeps the name and the location;
what the table is, its log says, and Spark looks at the log for each query, by name or not. A catalog that decides what
a version is has Delta's feature for that, which is not among those that files are added to (`lake.bare`), and other
catalogs are not asked. The location is a folder that Spark's own tasks write to, so ours reach it. In it, a version is
created or refused in one step here; Spark's commits are renames there, so the processes of a pipeline take turns by a
lock, and within one process those who write to bronze are asked by the same rule (`pipeline.context`,
`ops.maintain`).

Guards: tests/pipeline/test_catalog_folder.py.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.model.table_layout import Table, quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SESSION_CATALOG = "spark_catalog"


def by_folder(spark: SparkSession, table: Table) -> Table:
    """The table by its folder, or as it is given, where it is in none or is not there yet."""
    if table.catalog != SESSION_CATALOG or not hasattr(spark, "_jsparkSession"):
        return table
    state: Any = spark._jsparkSession.sessionState()
    name = state.sqlParser().parseTableIdentifier(f"{quoted(table.schema)}.{quoted(table.name)}")
    if not state.catalog().tableExists(name):
        return table
    held = state.catalog().getTableMetadata(name)
    provider, location = held.provider(), held.storage().locationUri()
    if provider.isEmpty() or provider.get().lower() != "delta" or location.isEmpty():
        return table
    if location.get().getScheme() not in (None, "file"):
        return table
    folder = posixpath.normpath(str(location.get().getPath()))
    above, last = posixpath.split(folder)
    root, schema = posixpath.split(above)
    placed = Table(schema, last, root=root, part=table.part, own=table.own)
    return placed if placed.path == folder else table  # a name that a table of ours is never in a folder by
