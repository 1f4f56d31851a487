"""The stream from bronze to a sink.

The stream's only part is to say *which* commits a batch holds, and to remember what is done; the rows are read by
version (see `lake.versions`). Without a limit on files a trigger takes all commits that are there, whole; a batch that
would end inside one is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lakehouse_cdc.lake.checkpoint import Checkpoint
from lakehouse_cdc.lake.commits import newest_first, newest_version
from lakehouse_cdc.lake.direct.file_listing import only_appended
from lakehouse_cdc.lake.micro_batches import MicroBatches
from lakehouse_cdc.lake.sessions import is_remote
from lakehouse_cdc.lake.spark_errors import crossing_batch
from lakehouse_cdc.lake.tables import table_id
from lakehouse_cdc.lake.versions import Versions, offset_after
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.sinks.batches import no_note, versions_of
from lakehouse_cdc.sinks.port import CommittedBatch, Sink

_ALL = 2**31 - 1  # files a trigger: more than a table has
Result = TypeVar("Result")


def start(
    spark: SparkSession,
    layout: Layout,
    checkpoint: str,
    sink: Sink[Result],
    *,
    name: str,
    every_seconds: float | None = None,
    on_batch: Callable[[Result, float], None] | None = None,
    here: bool = False,
) -> StreamingQuery | MicroBatches:
    """Start the stream from `<bronze>.changes`, which must exist, into the sink; `name` is its query's.

    It is driven by Spark, or `here`, by this process, as it always is where the session is remote.

    Without `every_seconds` it takes what is there now and ends (availableNow), else it runs until it is stopped.
    `on_batch` is called after each batch with what the sink returned and the seconds that it took, on a thread of
    Spark's; an exception of it fails the query.
    """
    place = Checkpoint(checkpoint)

    def apply(batch: int) -> None:
        began = time.monotonic()
        done = sink.apply(committed_batch(spark, layout, place, batch))
        if on_batch is not None:
            on_batch(done, time.monotonic() - began)

    table, title = layout.changes, f"{layout.pipeline}: {name}"
    if here or is_remote(spark):
        source = NewCommits(spark, layout)
        return MicroBatches(
            checkpoint, source, lambda batch, _start, _end: apply(batch), name=title, every_seconds=every_seconds
        ).start()

    @crossing_batch()
    def write(_: DataFrame, batch: int) -> None:
        apply(batch)

    reader = spark.readStream.format("delta").option("maxFilesPerTrigger", _ALL)
    if place.last_offset() is None and only_appended(spark, table):
        # the same commits, from the log itself; without it Delta begins with jobs that put together what is there now
        reader = reader.option("startingVersion", 0)
    changes = reader.load(table.path) if table.path is not None else reader.table(table.sql)
    writer = changes.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    writer = writer.queryName(title)
    timed: dict[str, Any] = {"availableNow": True}
    if every_seconds is not None:
        timed = {"processingTime": f"{round(every_seconds * 1000)} milliseconds"}
    return writer.trigger(**timed).start()


class NewCommits:
    """What is new in bronze, for a session that is remote (see `lake.micro_batches.Source`).

    Offsets are those of Delta's source: `Versions.between` reads them. Commits of others than bronze's stream, such as
    of one that puts files together, change no row, and are taken along by the next batch.
    """

    def __init__(self, spark: SparkSession, layout: Layout) -> None:
        self._spark, self._table = spark, layout.changes
        self._id = ""
        self._until: int | None = None

    def until_now(self) -> None:
        """See `lake.micro_batches.Source`."""
        self._until = newest_version(self._spark, self._table)

    def latest(self, start: Mapping[str, Any]) -> dict[str, Any] | None:
        """See `lake.micro_batches.Source`."""
        after = -1 if not start else Versions.between(None, start).last
        last = newest_version(self._spark, self._table) if self._until is None else self._until
        if last <= after or not self._has_rows(Versions(after, last)):
            return None
        self._id = self._id or table_id(self._spark, self._table)
        return offset_after(last, self._id)

    def _has_rows(self, versions: Versions) -> bool:
        for commit in newest_first(self._spark, self._table):
            if versions.after is not None and commit.version <= versions.after:
                return False
            if commit.version <= versions.last and commit.note is not None:
                return True
        return False

    def close(self) -> None:
        """See `lake.micro_batches.Source`."""


def committed_batch(spark: SparkSession, layout: Layout, checkpoint: Checkpoint, batch: int) -> CommittedBatch:
    """The micro-batch `batch` of that checkpoint."""
    versions = versions_of(checkpoint, batch)
    sources = source_notes(spark, layout, versions, checkpoint)
    note = CommitNote(layout.pipeline, checkpoint.query_id(), batch, sources[0].source_point, versions.last)
    return CommittedBatch(versions, note, tuple(sources))


def source_notes(
    spark: SparkSession, layout: Layout, versions: Versions, checkpoint: Checkpoint | None = None
) -> list[CommitNote]:
    """The notes of the source's commits among those versions of bronze, newest first; at least the last one before.

    `checkpoint` is that of the stream which reads them, if one does. Raises DefiniteError where there is none.
    """
    notes = list(_notes(spark, layout, versions))
    if not notes:
        raise no_note(layout, versions.last, checkpoint)
    return notes


def newest_note(spark: SparkSession, layout: Layout, versions: Versions) -> CommitNote | None:
    """The first of them; None where Delta's log no longer has these commits."""
    return next(_notes(spark, layout, versions), None)


def _notes(spark: SparkSession, layout: Layout, versions: Versions) -> Iterator[CommitNote]:
    """Without a version before them, all that the log has: it may be very long."""
    begun = False
    for commit in newest_first(spark, layout.changes):
        if begun and versions.after is not None and commit.version <= versions.after:
            return
        if commit.version <= versions.last and commit.note is not None:
            begun = True
            yield commit.note
