"""The stream from bronze to silver, and where silver stands.

The stream's only part is to say *which* commits a batch holds, and to remember what is done; the rows are read by
version (see `lake.changes`). Without a limit on files a trigger takes all commits that are there, whole; a batch that
would end inside one is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.lake.checkpoint import Checkpoint
from lakehouse_cdc.lake.commits import Commit, newest_first
from lakehouse_cdc.lake.direct.file_listing import only_appended
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.commit_note import CommitNote, Standing
from lakehouse_cdc.model.table_layout import Layout, Table
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.tables.ledger import Ledger

_ALL = 2**31 - 1  # files a trigger: more than a table has


@dataclass(frozen=True)
class SilverBatch:
    """One batch that silver now holds: where all its tables stand, those it touched, and those that are set aside.

    It holds the commits of bronze behind `after` (None: from the first one on), and took `seconds`.
    """

    batch: int
    bronze_version: int
    standing: Standing
    tables: tuple[str, ...]
    quarantined: Mapping[str, str]
    after: int | None = None
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class Applied:
    """Where silver stands after its last complete batch: the source at `standing`, bronze at `bronze_version`.

    `bronze_batch` is the batch of bronze's stream that ends there; its checkpoint holds the source's whole offset.
    """

    batch: int
    bronze_version: int
    bronze_batch: int
    standing: Standing


def start(
    spark: SparkSession,
    layout: Layout,
    checkpoint: str,
    *,
    every_seconds: float | None = None,
    threads: int = 4,
    keep_days: float = 7.0,
    policy: Callable[[str], Policy] = lambda _: Policy(),
    on_batch: Callable[[SilverBatch], None] | None = None,
) -> StreamingQuery:
    """Start the stream from `<bronze>.changes`, which must exist, into the silver tables.

    Without `every_seconds` it takes what is there now and ends (availableNow), else it runs until it is stopped.
    `threads`, `keep_days` and `policy` are the `Applier`'s. `on_batch` is called after each batch, on a thread of
    Spark's; an exception of it fails the query.
    """
    place = Checkpoint(checkpoint)
    applier = Applier(spark, layout, threads=threads, keep_days=keep_days, policy=policy)

    ledger = Ledger(spark, layout)

    def write(_: DataFrame, batch: int) -> None:
        began = time.monotonic()
        done = apply_batch(spark, applier, ledger, layout, place, batch)
        done = replace(done, seconds=time.monotonic() - began)
        if on_batch is not None:
            on_batch(done)

    table = layout.changes
    reader = spark.readStream.format("delta").option("maxFilesPerTrigger", _ALL)
    if place.last_offset() is None and only_appended(spark, table):
        # the same commits, from the log itself; without it Delta begins with jobs that put together what is there now
        reader = reader.option("startingVersion", 0)
    changes = reader.load(table.path) if table.path is not None else reader.table(table.sql)
    writer = changes.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    writer = writer.queryName(f"{layout.pipeline}: silver")
    timed: dict[str, Any] = {"availableNow": True}
    if every_seconds is not None:
        timed = {"processingTime": f"{round(every_seconds * 1000)} milliseconds"}
    return writer.trigger(**timed).start()


def apply_batch(
    spark: SparkSession, applier: Applier, ledger: Ledger, layout: Layout, checkpoint: Checkpoint, batch: int
) -> SilverBatch:
    """Apply the micro-batch `batch` of that checkpoint; done before, it changes nothing."""
    versions = _versions(checkpoint, batch)
    source, *earlier = _sources(spark, layout, versions)
    note = CommitNote(layout.pipeline, checkpoint.query_id(), batch, source.standing, versions.last)
    ledger.prepare()
    tables = applier.apply(versions, note)
    ledger.enter(note, source.reading, tables, [one.standing.mark for one in (*reversed(earlier), source)])
    return SilverBatch(batch, versions.last, source.standing, tuple(tables), applier.quarantined, versions.after)


def applied(spark: SparkSession, layout: Layout, checkpoint: str) -> Applied | None:
    """Where silver stands, None before its first complete batch.

    Commits of bronze that hold no rows start no batch of silver; they move its standing all the same.
    """
    place = Checkpoint(checkpoint)
    batch = place.last_commit()
    if batch is None:
        return None
    last = _versions(place, batch).last
    later: list[Commit] = []
    for commit in newest_first(spark, layout.changes):
        if commit.version > last:
            later.insert(0, commit)
        elif commit.note is not None:
            break
    else:
        raise _no_note(layout, last)
    note = commit.note
    for commit in takewhile(lambda c: c.note is None or c.rows == 0, later):
        last, note = commit.version, commit.note or note
    return Applied(batch, last, note.batch, note.standing)


def version_at(spark: SparkSession, table: Table, bronze_version: int) -> int | None:
    """The version of a silver table that holds bronze up to that commit and nothing later; None if there is none.

    A table that a later batch has changed is thus read as it stood, while silver goes on.
    """
    found: int | None = None
    for commit in newest_first(spark, table):
        if commit.note is not None and (commit.note.bronze_version or 0) > bronze_version:
            found = None
        elif found is None:
            found = commit.version
    return found


def _versions(checkpoint: Checkpoint, batch: int) -> Versions:
    return Versions.between(checkpoint.offset(batch - 1) if batch else None, checkpoint.offset(batch))


def _sources(spark: SparkSession, layout: Layout, versions: Versions) -> list[CommitNote]:
    """What the source's commits among those versions of bronze say, newest first; at least the last one before."""
    found: list[CommitNote] = []
    for commit in newest_first(spark, layout.changes):
        if found and versions.after is not None and commit.version <= versions.after:
            break
        if commit.version <= versions.last and commit.note is not None:
            found.append(commit.note)
    if not found:
        raise _no_note(layout, versions.last)
    return found


def _no_note(layout: Layout, version: int) -> DefiniteError:
    return DefiniteError(
        f"no commit of bronze up to version {version} says where the source stood",
        where=str(layout.changes),
        hint="only this pipeline may write the change table",
    )
