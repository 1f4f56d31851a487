"""A commit of files that were written beside Spark (see `change_files`, `data_file`), once, with its note.

Purpose: what a streaming sink of Spark's would commit, by deltalake (see `newest_version`): the files with their
statistics, the transaction, the note, and how many rows there are.

Invariant: a batch of an application is in the table at most once, by whichever process or engine; and a file that is in
the table is never deleted.

Why it holds: the table is looked at before each try, and the commit is made on top of just that version. So a batch
that is in by then, of an earlier attempt, of another process or of a Spark that wrote it, is not committed again. Files
of a batch that comes again are deleted only before the first try: of a later one nobody knows whether it was made.

Where deltalake cannot write the table (`extensible`), rows go through Spark instead, and make the same table; the first
rows of a silver table that Spark keeps are committed by Delta's library (see `library_commit`).

Guards: tests/lake/test_change_files.py, test_two_writers.py, tests/lake/engines/test_contract.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

from lakehouse_cdc.lake.commits import application
from lakehouse_cdc.lake.direct.newest_version import NewestVersion, can_open, committed_on
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


def add_files(table: Table, files: Sequence[Added], note: CommitNote, step: str) -> int | None:
    """Commit the files; the version. None if that was done before: the files, which hold the same, are deleted.

    Raises DefiniteError where the table is changed meanwhile, other than in its rows.
    """
    app, begun = application(note, step), NewestVersion(table)

    def batch_is_in(newest: NewestVersion) -> bool:
        last = newest.last_batch(app)
        return last is not None and last >= note.batch

    if batch_is_in(begun):
        discard(table, files)
        return None

    def attempt(newest: NewestVersion) -> int | None:
        if batch_is_in(newest):
            return None
        return newest.append(list(map(_action, files)), _info(files, note), (app, note.batch))

    return committed_on(begun, table, attempt)


def last_batch(spark: SparkSession, table: Table, app: str) -> int | None:
    """The last batch that an application has committed to the table, None for none or where that cannot be asked."""
    return NewestVersion(table).last_batch(app) if can_open(spark, table) else None


def discard(table: Table, files: Sequence[Added]) -> None:
    """Delete files that are not to be committed."""
    for file in files:
        os.unlink(os.path.join(str(table.path), unquote(file.path)))


def _action(file: Added) -> Any:
    """The file as deltalake takes it, which encodes the path."""
    from deltalake.transaction import AddAction

    return AddAction(unquote(file.path), file.size, dict(file.partition), file.modified, True, file.stats)


def _info(files: Sequence[Added], note: CommitNote) -> dict[str, Any]:
    """What the commit says of itself (protocol, "Commit Provenance Information"), with the metrics of Spark's appends.

    An append that has read nothing is blind: Delta lets it pass beside an OPTIMIZE or a MERGE.
    """
    rows, size = sum(file.count for file in files), sum(file.size for file in files)
    metrics = {"numFiles": len(files), "numOutputRows": rows, "numOutputBytes": size}
    return {
        "userMetadata": note.text(),
        "isBlindAppend": True,
        "operationMetrics": {name: str(value) for name, value in metrics.items()},
    }
