"""The first rows of a silver table, written beside Spark.

What a snapshot has read comes into silver as it is: typed, and nothing else. For Spark that is a cast of each image and
a row of its own for each row; here tasks turn the images into Arrow's columns by a compiled kernel, and write files as
Spark would (see `direct_load_task`), which are committed as Spark would (see `lake.direct.commit`). It takes a tenth of
the time.

It is a second way to the same table, and it is taken only where nothing but the plain case can come: rows of one read,
each key once (what is newer may lie in other files of the same commits); a table without any property or feature that
this module does not know; the lists of files clear from bronze's log; and every image just as it was written.
Everything else goes through Spark, and so does a load in which a task comes across anything else: nothing is committed
before all tasks have ended, and files that no commit names are not part of the table. The commit is that of an append
by Spark, with its transaction, note and metrics.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from lakehouse_cdc.images.typed.columns import arrow_type
from lakehouse_cdc.lake import delta_log
from lakehouse_cdc.lake.direct.commit import add_files, discard
from lakehouse_cdc.lake.direct.file_listing import Listed, files_of
from lakehouse_cdc.lake.direct.newest_version import can_put
from lakehouse_cdc.lake.direct.statistics import Path
from lakehouse_cdc.lake.parquet import parquet_file
from lakehouse_cdc.lake.sessions import done_in_tasks, tasks_at_once
from lakehouse_cdc.lake.table_state import State
from lakehouse_cdc.model.bronze_row import PARTITION
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.own_columns import OwnColumns
from lakehouse_cdc.model.table_layout import PIPELINE, Layout, Table
from lakehouse_cdc.schema.types import require
from lakehouse_cdc.silver.batch.contents import Segment
from lakehouse_cdc.silver.definition.column_mapping import Shape
from lakehouse_cdc.silver.definition.form import Form
from lakehouse_cdc.silver.definition.transform import NOTHING
from lakehouse_cdc.silver.load.direct_load_task import FILE_ROWS, Conversion, convert
from lakehouse_cdc.silver.tables import table_definition

_READ = Op.READ.value
_log = logging.getLogger(__name__)
_SMALL = 50_000  # rows that are not worth another task
_OURS = PIPELINE.partition(".")[0] + "."
_OURS_REFUSED = ("lakehouse_cdc.clustered", "lakehouse_cdc.transform")
_PROPERTIES = frozenset(
    {
        "delta.appendOnly", "delta.autoOptimize.autoCompact", "delta.autoOptimize.optimizeWrite",
        "delta.checkpointInterval", "delta.columnMapping.maxColumnId", "delta.columnMapping.mode",
        "delta.dataSkippingStatsColumns", "delta.deletedFileRetentionDuration", "delta.enableChangeDataFeed",
        "delta.enableDeletionVectors", "delta.enableTypeWidening", "delta.logRetentionDuration",
    }
)  # fmt: skip
_FEATURES = frozenset(
    {
        "appendOnly", "changeDataFeed", "checkConstraints", "columnMapping", "deletionVectors", "generatedColumns",
        "invariants", "timestampNtz", "typeWidening", "typeWidening-preview", "vacuumProtocolCheck",
    }
)  # fmt: skip
_NAME, _ID = "delta.columnMapping.physicalName", "delta.columnMapping.id"
_TYPES = {
    "byte": pa.int8(), "short": pa.int16(), "integer": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "boolean": pa.bool_(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip


def load_files(
    session: SparkSession, layout: Layout, segment: Segment, shape: Shape, form: Form, note: CommitNote, step: str
) -> bool:
    """Whether the silver table, which is empty, now holds the segment's rows, or did before; else nothing is done."""
    table = layout.silver_table(shape.schema.name)
    planned = _planned(session, layout, table, segment, shape, form)
    if planned is None:
        return False
    conversion, files = planned
    runs = spread(files, tasks_at_once(session))
    # a task whose process dies, rather than give up, fails the batch: the load comes again, and begins again
    converted = done_in_tasks(session, partial(convert, conversion), runs)
    made = [file for files in converted if not isinstance(files, str) for file in files]
    for reason in converted:
        if isinstance(reason, str):
            _log.warning("the first load of %s goes through Spark: %s", table, reason)
            discard(table, made)
            return False
    add_files(table, made, note, step)
    return True


def _planned(
    session: SparkSession, layout: Layout, table: Table, segment: Segment, shape: Shape, form: Form
) -> tuple[Conversion, list[Listed]] | None:
    """What tasks are given, and the files of bronze that they read; None where it is not the plain case."""
    part, rows = segment.part, shape.rows
    whole = segment.versions is not None and segment.whole is None and part.single_read and not part.barriers
    if not whole or not shape.plain or shape.transform != NOTHING or table.part is not None:
        return None
    if any(arrow_type(require(column, rows.name)) is None for column in rows.captured):
        return None
    state, bronze = delta_log.state(session, table), delta_log.state(session, layout.changes)
    if not can_put(session, table):
        return None
    if state is None or bronze is None or not _known(state, shape, form, table.own):
        return None
    if not bronze.plain or bronze.partition_by != (PARTITION,):
        return None
    columns = _columns(state, shape, form, table.own)
    assert segment.versions is not None
    listed = files_of(layout.changes, segment.versions, {PARTITION: part.table})
    files = [file for file in listed or () if _may_have_reads(str(layout.changes.path), file)]
    if columns is None or not files:
        return None
    columns = columns.with_metadata({"org.apache.spark.version": session.version})  # so dates are of one calendar
    indexed = table_definition.indexed(shape.schema, shape.schema.key, form=form, own=table.own, bare=state.bare)
    statistics = tuple(_physical(state.fields, path) for path in indexed)
    null = form.null_in_first_load(table.own)
    own = tuple((name, name in null) for name, _ in form.columns(table.own))
    folders = str(layout.changes.path), str(table.path)
    return Conversion(*folders, rows, part.schema_ids, part.first, own, columns, statistics), files


def _may_have_reads(folder: str, file: Listed) -> bool:
    """Whether a file of bronze may have rows of a read: what Delta keeps of it says so, else its ops are looked at."""
    least, greatest = (file.stats.get(key, {}).get("op") for key in ("minValues", "maxValues"))
    if least is not None and greatest is not None and (_READ in (least, greatest) or not least < _READ < greatest):
        return _READ in (least, greatest)
    with parquet_file(os.path.join(folder, file.path)) as data:
        return _READ in pc.unique(data.read(columns=["op"]).column("op")).to_pylist()


def _known(state: State, shape: Shape, form: Form, own: OwnColumns) -> bool:
    """Whether a writer that knows what this module does may add files to the table."""
    of_delta = {name for name in state.properties if not name.startswith(_OURS)}
    statistics = table_definition.statistics(shape.schema, shape.schema.key, form=form, own=own, bare=state.bare)
    return (
        of_delta <= _PROPERTIES
        and state.features <= _FEATURES
        and bool(state.features)
        and not state.partition_by
        and not any(name in state.properties for name in _OURS_REFUSED)
        and state.properties.get("delta.columnMapping.mode", "none") in ("name", "none")
        and state.properties.get(table_definition.STATISTICS) == statistics
    )


def _columns(state: State, shape: Shape, form: Form, own: OwnColumns) -> pa.Schema | None:
    """The columns as files have them; None unless they are just those that rows of the shape have."""
    fields = _fields(state.fields)
    names = [name for name, _ in table_definition.columns(shape.schema, form=form, own=own)]
    if fields is None or [field["name"] for field in state.fields] != names:
        return None
    kinds = [arrow_type(require(column, shape.schema.name)) for column in shape.schema.captured]
    kinds += [_TYPES["timestamp"] if kind == "timestamp" else None for _, kind in form.columns(own)]
    kinds += [pa.decimal128(38, 0), _TYPES["timestamp"]]
    same = (kind is None or field.type == kind for field, kind in zip(fields, kinds, strict=True))
    return pa.schema(fields) if all(same) else None


def _fields(declared: Sequence[Mapping[str, Any]]) -> list[pa.Field] | None:
    fields = [field for field in map(_field, declared) if field is not None]
    return fields if len(fields) == len(declared) else None


def _field(field: Mapping[str, Any]) -> pa.Field | None:
    """A column of Delta's schema as files have it; None where there is more to it than its type."""
    metadata, kind = field["metadata"], _kind(field["type"])
    if not field["nullable"] or kind is None:
        return None
    if not metadata:
        return pa.field(field["name"], kind)  # of a table without column mapping
    if metadata.keys() != {_NAME, _ID}:
        return None
    return pa.field(metadata[_NAME], kind, metadata={"PARQUET:field_id": str(metadata[_ID])})


def _kind(declared: Any) -> pa.DataType | None:
    if isinstance(declared, str):
        if declared.startswith("decimal("):
            precision, scale = declared[len("decimal(") : -1].split(",")
            return pa.decimal128(int(precision), int(scale))
        return _TYPES.get(declared)
    if declared["type"] == "array" and declared["elementType"] == "float":
        return pa.list_(pa.field("element", pa.float32()))
    fields = _fields(declared.get("fields", ()))
    return pa.struct(fields) if fields else None


def _physical(fields: Sequence[Mapping[str, Any]], path: Path) -> Path:
    """The names that files have of a column, or of a field in it."""
    field = next(field for field in fields if field["name"] == path[0])
    inner = _physical(field["type"]["fields"], path[1:]) if path[1:] else ()
    return (field["metadata"].get(_NAME, field["name"]), *inner)


def spread(files: Sequence[Listed], tasks: int) -> list[list[str]]:
    """Runs of files for as many tasks: equal, in the files' order, and each enough for one file of silver, not more.

    A snapshot's files follow each other in the order of the key, so a file of silver has a narrow range of it.
    """
    rows = sum(file.rows for file in files)
    n = -(-(rows - len(files)) // FILE_ROWS)  # an s row, or a few, may be among them
    n = max(1, min(-(-n // tasks) * tasks, rows // _SMALL))
    while True:
        runs: list[list[Listed]] = [[] for _ in range(n)]
        before = 0
        for file in files:
            runs[min(n - 1, (2 * before + file.rows) * n // (2 * max(1, rows)))].append(file)
            before += file.rows
        if n >= len(files) or all(sum(file.rows for file in run) <= FILE_ROWS + len(run) for run in runs):
            return [[file.path for file in run] for run in runs if run]
        n = min(n + tasks, len(files))
