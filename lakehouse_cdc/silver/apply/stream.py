"""Silver as a sink of bronze (see `sinks.port`), and how far it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lakehouse_cdc.lake.commits import newest_first
from lakehouse_cdc.lake.micro_batches import MicroBatches
from lakehouse_cdc.model.commit_note import SourcePoint
from lakehouse_cdc.model.table_layout import Layout, Table
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.tables.ledger import Ledger
from lakehouse_cdc.sinks import stream
from lakehouse_cdc.sinks.port import CommittedBatch


@dataclass(frozen=True)
class SilverBatch:
    """One batch that silver now holds: where all its tables are, those it touched, and those that are set aside.

    It holds the commits of bronze after `after` (None: from the first one on), and took `seconds`.
    """

    batch: int
    bronze_version: int
    source_point: SourcePoint
    tables: tuple[str, ...]
    quarantined: Mapping[str, str]
    after: int | None = None
    seconds: float = field(default=0.0, compare=False)


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
) -> StreamingQuery | MicroBatches:
    """Start the stream from `<bronze>.changes`, which must exist, into the silver tables.

    Without `every_seconds` it takes what is there now and ends (availableNow), else it runs until it is stopped.
    `threads`, `keep_days` and `policy` are the `Applier`'s. `on_batch` is called after each batch, on a thread of
    Spark's; an exception of it fails the query.
    """
    sink = SilverSink(spark, layout, Applier(spark, layout, threads=threads, keep_days=keep_days, policy=policy))

    def report(done: SilverBatch, seconds: float) -> None:
        if on_batch is not None:
            on_batch(replace(done, seconds=seconds))

    return stream.start(spark, layout, checkpoint, sink, name="silver", every_seconds=every_seconds, on_batch=report)


class SilverSink:
    """The silver tables as a sink of bronze's batches, and the ledger of what they hold."""

    def __init__(self, spark: SparkSession, layout: Layout, applier: Applier) -> None:
        self._applier, self._ledger = applier, Ledger(spark, layout)

    def apply(self, batch: CommittedBatch) -> SilverBatch:
        """Apply the batch to each table; applied before, it changes nothing."""
        versions, note, source = batch.versions, batch.note, batch.sources[0]
        self._ledger.prepare()
        tables = self._applier.apply(versions, note)
        marks = [one.source_point.mark for one in reversed(batch.sources)]
        self._ledger.enter(note, source.reading, tables, marks, self._applier.versions)
        quarantined = self._applier.quarantined
        return SilverBatch(note.batch, versions.last, source.source_point, tuple(tables), quarantined, versions.after)


def version_at(spark: SparkSession, table: Table, bronze_version: int) -> int | None:
    """The version of a silver table that holds bronze up to that commit and nothing later; None if there is none.

    A table that a later batch has changed is thus read as it was, while silver continues.
    """
    version: int | None = None
    for commit in newest_first(spark, table):
        if commit.note is not None and (commit.note.bronze_version or 0) > bronze_version:
            version = None
        elif version is None:
            version = commit.version
    return version
