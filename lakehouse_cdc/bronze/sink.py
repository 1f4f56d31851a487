"""The stream into bronze: each micro-batch is one Delta commit, once, that says where it ends.

The frame of a micro-batch is evaluated exactly once: every further action would read the source again. It holds either
rows, which are appended, and counted in the commit; or a line for each file that the source's tasks have written, which
are added (see `lake.direct.commit`). Schemas come with the files, or are read back from the commit. All that is
idempotent by (query, batch); the end of the batch is in the checkpoint before the batch runs, and goes into the
commit's note. A crash after the commit leaves a batch that Spark runs again: the commit is skipped, the rest is done
again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lakehouse_cdc.bronze.schema_registry import add_schemas, record_schemas
from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.catalog_folder import by_folder
from lakehouse_cdc.lake.checkpoint import Checkpoint
from lakehouse_cdc.lake.commit_log import Commit
from lakehouse_cdc.lake.commits import find, writer_options
from lakehouse_cdc.lake.direct.commit import DataFile, add_files
from lakehouse_cdc.lake.micro_batches import MicroBatches, Source
from lakehouse_cdc.lake.spark_errors import crossing_batch
from lakehouse_cdc.lake.tables import append
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.bronze_row import PARTITION
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.commit_note import CommitNote, SourcePoint
from lakehouse_cdc.model.table_layout import Layout, Table

Reading = Callable[[Mapping[str, Any]], Mapping[str, int]]
Ready = Callable[[Table], None]  # returns when a table of bronze is there
Counts = dict[str, dict[str, int]]  # table -> op -> rows
_LINE = [field.name for field in fields(DataFile)]
STEP = "changes"


@dataclass(frozen=True)
class BronzeBatch:
    """One micro-batch that bronze now holds. `rows` counts them: table -> op -> n; `seconds` are those it took."""

    batch: int
    version: int
    source_point: SourcePoint
    rows: Mapping[str, Mapping[str, int]]
    seconds: float = field(default=0.0, compare=False)


class Planned(Source, Protocol):
    """A stream that is planned in this process, for a session that is remote."""

    def rows(self, spark: SparkSession, start: Mapping[str, Any], end: Mapping[str, Any]) -> DataFrame:
        """The rows, or files, of the batch between two offsets."""


def start(
    spark: SparkSession,
    changes: DataFrame | Planned,
    layout: Layout,
    checkpoint: str,
    *,
    every_seconds: float | None = None,
    reading: Reading | None = None,
    ready: Ready = lambda _: None,
    on_batch: Callable[[BronzeBatch], None] | None = None,
) -> StreamingQuery | MicroBatches:
    """Start the stream of `changes` (rows of bronze, or its files) into `<bronze>.changes`; see `Planned` for others.

    Each table must exist when `ready`, which is called before it is written to, has returned.

    Without `every_seconds` it takes what is there now and ends (availableNow), else it runs until it is stopped.
    `reading` says of an offset which tables are being read there (see `CommitNote`).
    `on_batch` is called after each batch, on a thread of Spark's; an exception of it fails the query.
    """
    place = Checkpoint(checkpoint)

    def write(rows: DataFrame, batch: int) -> None:
        ready(layout.changes)
        began = time.monotonic()
        done = write_batch(spark, rows, batch, layout, place, reading, ready)
        done = replace(done, seconds=time.monotonic() - began)
        if on_batch is not None:
            on_batch(done)

    name = f"{layout.pipeline}: bronze"
    if not isinstance(changes, DataFrame):
        planned = changes

        def apply(batch: int, start: Mapping[str, Any], end: Mapping[str, Any]) -> None:
            write(planned.rows(spark, start, end), batch)

        return MicroBatches(checkpoint, planned, apply, name=name, every_seconds=every_seconds).start()
    writer = changes.writeStream.foreachBatch(crossing_batch()(write)).option("checkpointLocation", checkpoint)
    writer = writer.queryName(name)
    timed: dict[str, Any] = {"availableNow": True}
    if every_seconds is not None:
        timed = {"processingTime": f"{round(every_seconds * 1000)} milliseconds"}
    return writer.trigger(**timed).start()


def write_batch(
    spark: SparkSession,
    rows: DataFrame,
    batch: int,
    layout: Layout,
    checkpoint: Checkpoint,
    reading: Reading | None = None,
    ready: Ready = lambda _: None,
) -> BronzeBatch:
    """Commit one micro-batch and record its schemas; done before, it changes nothing and returns the same."""
    query = checkpoint.query_id()
    offset = checkpoint.offset(batch)
    being_read = None if reading is None else reading(offset)
    note = CommitNote(layout.pipeline, query, batch, SourcePoint.of_offset(offset), reading=being_read)
    write = _added if rows.columns == _LINE else append_rows
    version, counts = write(spark, rows, layout, note, ready)
    return BronzeBatch(batch, version, note.source_point, counts)


def _added(spark: SparkSession, lines: DataFrame, layout: Layout, note: CommitNote, ready: Ready) -> tuple[int, Counts]:
    """Commit the files that the source's tasks write as this is asked for. A replay's hold the same rows once more."""
    files = [DataFile(**row.asDict()) for row in lines.collect()]
    version = add_files(by_folder(spark, layout.changes), files, note, STEP, streamed=True)
    counts: Counts = {}
    for file in sorted(files, key=lambda file: file.source_table):
        of_table = counts.setdefault(file.source_table, {})
        for op, n in sorted(file.rows.items()):
            of_table[op] = of_table.get(op, 0) + n
    ready(layout.schemas)
    add_schemas(spark, layout, files, note)
    return _commit(spark, layout, note).version if version is None else version, counts


def append_rows(
    spark: SparkSession, rows: DataFrame, layout: Layout, note: CommitNote, ready: Ready
) -> tuple[int, Counts]:
    """Commit rows of bronze with that note, once, and record their schemas; the version, and what it holds."""
    append(rows, layout.changes, writer_options(note, STEP), partition_by=(PARTITION,))
    return record_commit(spark, layout, note, ready)


def record_commit(spark: SparkSession, layout: Layout, note: CommitNote, ready: Ready) -> tuple[int, Counts]:
    """What comes after the commit of that note: the schemas of its rows. Done before, it changes nothing."""
    commit = _commit(spark, layout, note)
    counts: Counts = {}
    if commit.rows:
        versions = Versions(commit.version - 1, commit.version)
        for row in sorted(versions.rows(spark, layout.changes).groupBy(PARTITION, "op").count().collect()):
            counts.setdefault(row[PARTITION], {})[row["op"]] = row["count"]
        if any(Op.SCHEMA.value in ops for ops in counts.values()):
            ready(layout.schemas)
            record_schemas(spark, layout, versions, note)
    return commit.version, counts


def _commit(spark: SparkSession, layout: Layout, note: CommitNote) -> Commit:
    commit = find(spark, layout.changes, note.query, note.batch)
    if commit is None:
        raise codes.BRONZE_COMMIT_MISSING.error(
            f"bronze has no commit of batch {note.batch}, which was just written",
            where=str(layout.changes),
            hint="run again; if it stays, Delta's log no longer has the commit: lakehouse-cdc reset --keep-tables "
            "-c pipeline.yml begins a new epoch over the tables, in which all are read again",
        )
    return commit
