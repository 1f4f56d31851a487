"""What some commits of bronze hold for each table, from what Delta keeps of their files.

Of a file whose least and greatest op and schema are one, as of every chunk of a snapshot, Delta's statistics say all
that is asked; of others three narrow columns are read, and all of the few s, t and x rows. So a batch is taken apart
without a job of Spark's, of which it would take two or three. Where the log does not simply list the files, or they are
not as they always are, Spark reads instead (see `batch.contents.split`), and finds the same.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.lake import delta_log
from lakehouse_cdc.lake.direct.file_listing import Listed, files_of
from lakehouse_cdc.lake.parquet import parquet_file
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.bronze_row import PARTITION
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.table_layout import Layout, Table
from lakehouse_cdc.model.variant import decode
from lakehouse_cdc.silver.batch.contents import MARKS, Barrier, Group, SchemaBoundary, TableBatch, assembled, split
from lakehouse_cdc.silver.batch.seq_range import EVERYTHING, SeqRange

Mark = tuple[str, dict[str, Any]]  # a table, and an s, t or x row of it
_log = logging.getLogger(__name__)
_NARROW = ["seq", "op", "schema_id"]
_WIDE = [*_NARROW, "commit_ts", "before", "after"]


class _NotAsEver(Exception):
    """Something of which this module knows nothing."""


def parts_of(
    spark: SparkSession, layout: Layout, versions: Versions, table: str | None = None
) -> dict[str, TableBatch]:
    """The part of each table that those commits hold anything of, or of that one alone."""
    parts = _of_files(spark, layout.changes, versions, table)
    if parts is None:
        rows = versions.rows(spark, layout.changes)
        parts = split(rows if table is None else rows.where(F.col(PARTITION) == table))
    return parts


def _of_files(
    spark: SparkSession, changes: Table, versions: Versions, table: str | None
) -> dict[str, TableBatch] | None:
    state = delta_log.state(spark, changes)
    if state is None or not state.plain or state.partition_by != (PARTITION,):
        return None
    files = files_of(changes, versions, None if table is None else {PARTITION: table})
    if files is None:
        return None
    try:
        return _assembled(str(changes.path), files)
    except (_NotAsEver, DefiniteError, OSError, pa.ArrowException, KeyError, TypeError) as error:
        _log.info("Spark looks into versions %s of %s: %s", versions, changes, error)
        return None


def segment_of(
    changes: Table, name: str, files: Iterable[Listed], among: SeqRange
) -> tuple[TableBatch | None, list[Listed]]:
    """What files of a table's hold of it in a range of seqs, and those that hold any of that; None where none does.

    Raises what reading them does: OSError, pa.ArrowException.
    """
    held = [(file, _held_by(str(changes.path), file, among)) for file in files]
    parts = _of_all(of_file for _, of_file in held)
    return parts.get(name), [file for file, (groups, _) in held if groups]


def _assembled(folder: str, files: Iterable[Listed]) -> dict[str, TableBatch]:
    return _of_all(_held_by(folder, file) for file in files)


def _of_all(files: Iterable[tuple[Sequence[Group], Sequence[Mark]]]) -> dict[str, TableBatch]:
    groups: list[Group] = []
    marks: list[Mark] = []
    for its, of_file in files:
        groups += its
        marks += of_file
    marks.sort(key=lambda mark: mark[1]["seq"])
    return assembled(groups, _barriers(marks), *_changes(marks))


def _held_by(folder: str, file: Listed, among: SeqRange = EVERYTHING) -> tuple[list[Group], list[Mark]]:
    """What a file holds in a range of seqs."""
    name, path = file.partition[PARTITION], os.path.join(folder, file.path)
    least, greatest = file.bounds("seq")
    bounded = type(least) is int and type(greatest) is int
    if bounded and not among.meets(least, greatest):
        return [], []
    whole = among.whole or (bounded and among.has(least, greatest))
    groups = (_groups_by_statistics(name, file) if whole else []) or _looked_up(name, path, among)
    if not any(group.op in MARKS for group in groups):
        return groups, []
    return groups, [(name, row) for row in _marks(path) if among.has(row["seq"])]


def _groups_by_statistics(name: str, file: Listed) -> list[Group]:
    """The one group of a file, if its statistics say that there is one; else none."""
    op, schema_id, seqs, nulls = (
        file.only("op"),
        file.only("schema_id"),
        file.bounds("seq"),
        file.stats.get("nullCount", {}),
    )
    whole = all(type(seq) is int for seq in seqs) and all(nulls.get(column) == 0 for column in _NARROW)
    return [] if op is None or schema_id is None or not whole else [Group(name, op, schema_id, *seqs)]


def _looked_up(name: str, path: str, among: SeqRange) -> list[Group]:
    with parquet_file(path) as file:
        rows = file.read(columns=_NARROW)
    if rows.column("seq").type != pa.decimal128(38, 0):
        raise _NotAsEver(f"seq lies as {rows.column('seq').type}")
    if not among.whole:
        rows = rows.filter(among.of(rows.column("seq")))
    groups = rows.group_by(["op", "schema_id"]).aggregate([("seq", "min"), ("seq", "max")]).to_pylist()
    return [Group(name, one["op"], one["schema_id"], int(one["seq_min"]), int(one["seq_max"])) for one in groups]


def _marks(path: str) -> list[dict[str, Any]]:
    """The s, t and x rows of a file; their times in microseconds since 1970, their images as Python has them."""
    with parquet_file(path) as file:
        rows = file.read(columns=_WIDE)
    rows = rows.filter(pc.is_in(rows.column("op"), value_set=pa.array(MARKS)))
    times = rows.column("commit_ts")
    if not pa.types.is_timestamp(times.type) or times.type.unit != "us":
        raise _NotAsEver(f"times are {times.type}")
    marks: list[dict[str, Any]] = rows.select(_NARROW).to_pylist()
    columns = (times.cast(pa.int64()).to_pylist(), *(_images(rows.column(name)) for name in ("before", "after")))
    for row, at, before, after in zip(marks, *columns, strict=True):
        row.update(seq=int(row["seq"]), commit_ts=at, before=before, after=after)
    return marks


def _images(column: pa.ChunkedArray) -> list[Any]:
    images: list[Any] = []
    for chunk in column.chunks:
        stored = chunk.storage if isinstance(chunk, pa.ExtensionArray) else chunk
        if not pa.types.is_struct(stored.type) or sorted(f.name for f in stored.type) != ["metadata", "value"]:
            raise _NotAsEver(f"images lie as {stored.type}")
        images += (one and decode(one["value"], one["metadata"]) for one in stored.to_pylist())
    return images


def _barriers(marks: Iterable[Mark]) -> dict[str, list[Barrier]]:
    """As `batch.contents.barriers_of` has them."""
    barriers: dict[str, list[Barrier]] = {}
    for name, row in marks:
        if row["op"] != Op.SCHEMA.value:
            below = row["after"] if row["op"] == Op.END.value else row["seq"]
            barriers.setdefault(name, []).append(Barrier(row["seq"], row["commit_ts"], int(below)))
    return barriers


def _changes(marks: Iterable[Mark]) -> tuple[dict[str, list[SchemaBoundary]], dict[str, int]]:
    """The changes of each table's schema, and where it was left off, as `batch.contents.split` finds them."""
    changes: dict[str, list[SchemaBoundary]] = {}
    left: dict[str, int] = {}
    for name, row in marks:
        if row["op"] != Op.SCHEMA.value or row["before"] is None:
            continue
        if row["after"].get("columns") is None:
            left[name] = row["seq"]
            continue
        change = SchemaBoundary.of(row["seq"], row["commit_ts"], row["schema_id"], row["before"], row["after"])
        changes.setdefault(name, []).append(change)
    return changes, left
