"""A commit of files that were written beside Spark (see `change_files`, `data_file`), once, with its note.

Purpose: what a writer of Spark's would commit: the files with their statistics, the transaction, the note, and how many
rows there are (see `newest_version` for how).

Invariant: a batch of an application is in the table at most once, by whichever process or engine; and a file that is in
the table is never deleted.

Why it holds: the table is looked at before each try, and the commit is made on top of just that version. So a batch
that is in by then, of an earlier attempt, of another process or of a Spark that wrote it, is not committed again. The
files of a batch that comes again are deleted only where it was in before the first try of this call.

Where it cannot be (`can_commit`), rows go through Spark instead, and make the same table.

Guards: tests/lake/test_change_files.py, test_two_writers.py, tests/lake/engines/test_contract.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from lakehouse_cdc.lake import delta_log
from lakehouse_cdc.lake.commits import application
from lakehouse_cdc.lake.direct.data_file import delete
from lakehouse_cdc.lake.direct.newest_version import Action, NewestVersion, committed_on
from lakehouse_cdc.lake.refused_writes import writing_to
from lakehouse_cdc.model.bronze_row import PARTITION
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.table_layout import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Added(Protocol):
    """A file to be committed; see `data_file.NewFile`."""

    @property
    def path(self) -> str:
        """Relative to the table's folder, encoded like a URL."""

    @property
    def size(self) -> int:
        """Its bytes."""

    @property
    def modified(self) -> int:
        """Milliseconds since 1970."""

    @property
    def stats(self) -> str:
        """What Delta keeps of it."""

    @property
    def partition(self) -> Mapping[str, str]:
        """The values of the partition columns."""

    @property
    def count(self) -> int:
        """Its rows."""


@dataclass(frozen=True)
class DataFile:
    """One file of the change table; the fields are those of `model.bronze_arrow.LINE`."""

    source_table: str
    path: str
    size: int
    modified: int
    stats: str
    ops: str
    schemas: str

    @property
    def rows(self) -> dict[str, int]:
        """op -> rows."""
        counts: dict[str, int] = json.loads(self.ops)
        return counts

    @property
    def partition(self) -> Mapping[str, str]:
        """See `Added`."""
        return {PARTITION: self.source_table}

    @property
    def count(self) -> int:
        """See `Added`."""
        return sum(self.rows.values())


def add_files(
    table: Table, files: Sequence[Added], note: CommitNote, step: str, *, streamed: bool = False
) -> int | None:
    """Commit the files; the version. None if that was done before: the files, which hold the same, are deleted.

    `streamed`: the commit says that it is one of a stream, else an append. Raises DefiniteError where the table is
    changed meanwhile, other than in its rows.
    """
    app, begun = application(note, step), NewestVersion(table)

    def batch_is_in(newest: NewestVersion) -> bool:
        last = newest.last_batch(app)
        return last is not None and last >= note.batch

    if batch_is_in(begun):
        discard(table, files)
        return None
    once = {"txn": {"appId": app, "version": note.batch}}
    info = _streamed(files, note) if streamed else _appended(files, note)

    def attempt(newest: NewestVersion) -> int | None:
        return None if batch_is_in(newest) else newest.put(info, [once, *map(action, files)])

    return committed_on(begun, table, attempt)


def last_batch(spark: SparkSession, table: Table, app: str) -> int | None:
    """The last batch that an application has committed to the table, None for none or where that cannot be asked."""
    return NewestVersion(table).last_batch(app) if delta_log.is_at_hand(spark, table) else None


def discard(table: Table, files: Sequence[Added]) -> None:
    """Delete files that are not to be committed."""
    with writing_to(str(table.path)):
        delete(str(table.path), files)


def action(file: Added, *, changes: bool = True) -> Action:
    """The file as an action of Delta's log; `changes`: its rows are new to the table."""
    return {
        "add": {
            "path": file.path, "partitionValues": dict(file.partition), "size": file.size,
            "modificationTime": file.modified, "dataChange": changes, "stats": file.stats,
        }
    }  # fmt: skip


def _streamed(files: Sequence[Added], note: CommitNote) -> dict[str, Any]:
    parameters = {"outputMode": "Append", "queryId": note.query, "epochId": str(note.batch)}
    metrics = {"numAddedFiles": len(files), "numRemovedFiles": 0}
    return _info("STREAMING UPDATE", parameters, metrics, files, note)


def _appended(files: Sequence[Added], note: CommitNote) -> dict[str, Any]:
    return _info("WRITE", {"mode": "Append", "partitionBy": "[]"}, {"numFiles": len(files)}, files, note)


def _info(
    operation: str,
    parameters: Mapping[str, str],
    metrics: Mapping[str, int],
    files: Sequence[Added],
    note: CommitNote,
) -> dict[str, Any]:
    """What the commit says of itself (protocol, "Commit Provenance Information"), as one of Spark's would.

    An append that has read nothing is blind: Delta lets it pass beside an OPTIMIZE or a MERGE.
    """
    rows, size = sum(file.count for file in files), sum(file.size for file in files)
    counts = {**metrics, "numOutputRows": rows, "numOutputBytes": size}
    return {
        "operation": operation,
        "operationParameters": dict(parameters),
        "isolationLevel": "Serializable",
        "isBlindAppend": True,
        "operationMetrics": {name: str(value) for name, value in counts.items()},
        "userMetadata": note.text(),
    }
