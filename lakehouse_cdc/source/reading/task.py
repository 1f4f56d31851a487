"""What a task does with a split: the dispatch, the replica id, and the few rows that need no source."""

from __future__ import annotations

import os
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from lakehouse_cdc.errors import DefiniteError, Scope, codes
from lakehouse_cdc.model.seq import Rank
from lakehouse_cdc.model.variant import encode
from lakehouse_cdc.schema.change import SchemaChange
from lakehouse_cdc.source.bronze_rows import Stamp, at_one_position, no_variants, shared, variants
from lakehouse_cdc.source.options import SourceOptions, replica_ids
from lakehouse_cdc.source.reading.binlog_read import read_binlog
from lakehouse_cdc.source.reading.key_read import read_repair
from lakehouse_cdc.source.reading.snapshot_read import read_snapshot
from lakehouse_cdc.source.retry import read_patiently
from lakehouse_cdc.source.splits import (
    AlterSplit,
    BinlogSplit,
    EndSplit,
    RepairSplit,
    SchemaSplit,
    SnapshotSplit,
    TruncateSplit,
)


def read_split(split: Any, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """The rows of a split, in the columns of `SHARED`. Raises DefiniteError for anything that is not a split."""
    ids = replica_ids(options.server_ids, replica_id(options))  # another one at each attempt
    if isinstance(split, SnapshotSplit):
        return _located(split, read_patiently(lambda: read_snapshot(split, options, next(ids))))
    if isinstance(split, RepairSplit):
        return _located(split, read_patiently(lambda: read_repair(split, options, next(ids))))
    if isinstance(split, BinlogSplit):
        return _located(split, read_patiently(lambda: read_binlog(split, options, next(ids))))
    if isinstance(split, SchemaSplit):
        return iter([
            _single(split.stamp, Rank.SCHEMA, "s", s.name, s.id, {**s.to_dict(), "statement": None})
            for s in split.schemas
        ])  # fmt: skip
    if isinstance(split, AlterSplit):
        return iter([_changed(split.stamp, change) for change in split.changes])
    if isinstance(split, TruncateSplit):
        return iter([_single(split.stamp, Rank.SCHEMA, "t", s.name, s.id, None) for s in split.schemas])
    if isinstance(split, EndSplit):
        began = Decimal(split.since) if split.since != split.below else None
        name, schema_id = split.schema.name, split.schema.id
        return iter([_single(split.stamp, Rank.END, "x", name, schema_id, Decimal(split.below), began)])
    if getattr(split, "value", split) is None:  # Spark's stand-in for "no partitions"
        return iter([])
    raise codes.INVARIANT_BROKEN.error(f"{type(split).__name__} is not a split of this source")


def _located(
    split: SnapshotSplit | RepairSplit | BinlogSplit, rows: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """`rows`; an error that is about one table says which, and where in the binlog it cannot be read any further."""
    try:
        yield from rows
    except DefiniteError as failure:
        error = failure
        if failure.code is codes.STATEMENT_REFUSED and not isinstance(split, BinlogSplit):
            error = codes.TABLE_READ_REFUSED.error(failure.what)  # whatever it was, it was to read that table
        if error.code.scope is Scope.PIPELINE:
            raise
        if isinstance(split, BinlogSplit):
            raise error.about(error.table, error.position or str(split.start)) from failure
        raise error.about(split.schema.name, str(split.stamp.position)) from failure


def replica_id(options: SourceOptions) -> int:
    """This reader's own id: the planner has the first of the range, each task attempt another.

    Attempt numbers rise by one, so attempts that run at the same time differ unless the range is smaller than their
    number; the server cuts the older of two equal ones off, which is a TransientError there, never a wrong row.
    """
    first, last = options.server_ids
    context = TaskContext.get()
    number = context.taskAttemptId() if context is not None else os.getpid()
    return first + 1 + number % (last - first)


def _single(
    stamp: Stamp, rank: Rank, op: str, table: str, schema_id: str, after: Any, before: Any = None
) -> pa.RecordBatch:
    return at_one_position(stamp, rank, op, table, schema_id, no_variants(1), _variant(after), before=_variant(before))


def _variant(value: Any) -> pa.Array:
    if value is None:
        return no_variants(1)
    image, metadata = encode(value)
    return variants(pa.array([image], pa.binary()), shared(metadata, 1))


def _changed(stamp: Stamp, change: SchemaChange) -> pa.RecordBatch:
    before, after = change.images()
    return _single(stamp, Rank.SCHEMA, "s", change.schema.name, change.schema.id, after, before)
