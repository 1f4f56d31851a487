"""A bare table is made by writing its first version, as the format says (Delta protocol, "Delta Log Entries",
"Change Metadata", "Protocol Evolution"): of Spark's CREATE TABLE most of the time goes into making states of the table.

Invariant: there is no such table, or it is whole; one that is there stays as it is, also if it is made meanwhile.

Why it holds: the file of the version is created once, and as a whole (`lake.log_files`), as "mutual exclusion" demands
of writers of a log; before it there is no version, so no table.
What a crash leaves until then is a log without a version, which the next attempt removes (`cleanup`).

Some file systems have no links (`linkable`): those of many networks and of FUSE. deltalake commits by them as well, so
a table there is Spark's.

Guards: tests/lake/test_creation.py.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.lake.bare import BARE
from lakehouse_cdc.lake.cleanup.unfinished_tables import LOG, remove_unfinished
from lakehouse_cdc.lake.failpoints import Door, commit_to
from lakehouse_cdc.lake.log_actions import name_of
from lakehouse_cdc.lake.log_files import LogFiles, log_at
from lakehouse_cdc.lake.object_store import ObjectStore
from lakehouse_cdc.lake.table_state import Columns
from lakehouse_cdc.model.place import is_url
from lakehouse_cdc.model.table_layout import PIPELINE, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_READER_FEATURES = ["timestampNtz"]  # of those in `lake.bare`


def create_bare(
    spark: SparkSession,
    table: Table,
    columns: Columns,
    *,
    pipeline: str,
    comment: str,
    properties: Mapping[str, str],
    column_comments: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Create the table in its place, empty, owned by `pipeline`, and with each of the features that a bare table has.

    One that is there stays. `properties` are written as they are: Delta's own must have their names and values as Delta
    writes them. For the tables' only writer, as `tables.create` is.
    """
    folder = str(table.path)
    if _is_there(spark, folder):
        return
    with commit_to(Door.CREATE, table.name):
        put_version(log_at(folder), 0, _version(columns, comment, {PIPELINE: pipeline, **properties}, column_comments))


def _is_there(spark: SparkSession, folder: str) -> bool:
    """Whether there is a table. If not, what a crash left of one is removed, and a folder has a log afterwards."""
    if is_url(folder):
        store = ObjectStore(spark)
        store.remove_unfinished(folder)
        return store.has_table(folder)
    remove_unfinished(folder)
    log = os.path.join(folder, LOG)
    if os.path.isdir(log):
        return True
    os.makedirs(log)
    return False


def put_version(log: LogFiles, version: int, actions: Sequence[Mapping[str, Any]]) -> bool:
    """Write a version of a table, whole, into its log; False, and nothing is done, if there is one."""
    lines = (json.dumps(action, ensure_ascii=False) + "\n" for action in actions)
    return log.create(name_of(version, "json"), "".join(lines))


def linkable(table: Table) -> bool:
    """Whether files in the folder that the table's is in can be linked, which is tried; it is made if it is missing."""
    folder = os.path.dirname(str(table.path))
    os.makedirs(folder, exist_ok=True)
    one, other = (os.path.join(folder, f".linking-{uuid.uuid4()}") for _ in range(2))
    try:
        open(one, "x").close()
        os.link(one, other)
    except OSError:
        return False
    finally:
        for path in (one, other):
            with suppress(OSError):
                os.unlink(path)
    return True


def _version(
    columns: Columns, comment: str, properties: Mapping[str, str], column_comments: Mapping[str, str]
) -> list[Mapping[str, Any]]:
    now = round(time.time() * 1000)
    metadata = {
        "id": str(uuid.uuid4()),
        "description": comment,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": _schema(tuple((*column, column_comments.get(column[0], "")) for column in columns)),
        "partitionColumns": [],
        "configuration": dict(properties),
        "createdTime": now,
    }
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": _READER_FEATURES,
        "writerFeatures": sorted(BARE),
    }
    info = {"timestamp": now, "operation": "CREATE TABLE", "operationParameters": {}, "engineInfo": "lakehouse-cdc"}
    return [{"commitInfo": info}, {"metaData": metadata}, {"protocol": protocol}]


@cache
def _schema(columns: tuple[tuple[str, str, str], ...]) -> str:
    from pyspark.sql.types import DataType, StructField, StructType

    def field(name: str, kind: str, comment: str) -> StructField:
        return StructField(name, DataType.fromDDL(kind), metadata={"comment": comment} if comment else None)

    return StructType([field(*column) for column in columns]).json()
