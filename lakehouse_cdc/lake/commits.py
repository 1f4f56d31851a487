"""Commits that happen once, and say which position they bring a table to.

Delta records (application id, version) with a commit and skips a later commit of the same application whose version
is not greater (Delta protocol, "Transaction Identifiers"). The application is the streaming query's id and the step,
the version its batch: a replayed batch changes nothing, while a new checkpoint, whose batches count from 0 again, is
another application. The note that a commit carries (`CommitNote`) is its user metadata.

A statement, such as MERGE, says both by settings of its session. A remote session has none for that (see `sessions`):
there a MERGE carries its note in its own text (see `merging`), with the application, and one whose application has a
commit among the newest of the table, which are of the same batch, is not done again (`is_committed`). Each table has
one writer, and batches come in order, so no other batch's commit can be among them. A server may still be at a
statement whose client was killed: of that one and its repetition Delta refuses the later, as both have read what the
other writes, and the part is then done again, which finds the commit (`silver.apply.applier`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from lakehouse_cdc.lake import delta_log
from lakehouse_cdc.lake.checksum import checksum_of, last_batch_in
from lakehouse_cdc.lake.checksum import newest_version as newest_in_log
from lakehouse_cdc.lake.commit_log import Commit, commits_in_log
from lakehouse_cdc.lake.noting import noting, settings
from lakehouse_cdc.lake.tables import described_history
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.table_layout import Table

_APP = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"
_RECENT = 16


def application(note: CommitNote, step: str) -> str:
    """Who commits, as Delta tells writers apart."""
    return application_of(note.pipeline, note.query, step)


def application_of(pipeline: str, query: str, step: str) -> str:
    """The same of a pipeline's query."""
    return f"lakehouse_cdc:{pipeline}:{query}:{step}"


def writer_options(note: CommitNote, step: str) -> dict[str, str | int]:
    """The options that make a DataFrameWriter append once, with its note."""
    return {"txnAppId": application(note, step), "txnVersion": note.batch, "userMetadata": note.text()}


@contextmanager
def committing(session: SparkSession, note: CommitNote, step: str) -> Iterator[None]:
    """The same for a statement such as MERGE, which takes it from its session's settings. One thread per session.

    Not for a remote session.
    """
    with settings(session, {_APP: application(note, step), _VERSION: str(note.batch)}), noting(session, note):
        yield


def is_committed(session: SparkSession, table: Table, note: CommitNote, step: str) -> bool:
    """Whether that step of the note's batch is in the table, of a remote session: see above."""
    app = application(note, step)
    if (last := _last_batch(session, table, app)) is not None and last >= note.batch:
        return True
    for commit in newest_first(session, table):
        if commit.note is None:
            continue
        if (commit.note.query, commit.note.batch) != (note.query, note.batch):
            return False
        if commit.carried_for == app:
            return True
    return False


def _last_batch(session: SparkSession, table: Table, app: str) -> int | None:
    """The last batch of the application that another engine has committed, where the log is at hand."""
    if not delta_log.is_at_hand(session, table) or (version := newest_in_log(str(table.path))) is None:
        return None
    held = checksum_of(str(table.path), version)
    return None if held is None else last_batch_in(held, app)


def history(spark: SparkSession, table: Table, limit: int | None = None) -> list[Commit]:
    """The table's commits, newest first."""
    columns = "version", "userMetadata", "operationMetrics", "operationParameters"
    return [Commit.of(*row) for row in described_history(spark, table, limit).select(*columns).collect()]


def newest_version(spark: SparkSession, table: Table) -> int:
    """The table's version now."""
    state = delta_log.state(spark, table)
    return history(spark, table, 1)[0].version if state is None else state.version


def newest_first(spark: SparkSession, table: Table) -> Iterator[Commit]:
    """The table's commits, newest first; the long tail of them is only read by a caller that gets that far.

    Of a part of a table, those that are about others are none.
    """
    return (commit for commit in _newest_first(spark, table) if commit.is_about(table))


def _newest_first(spark: SparkSession, table: Table) -> Iterator[Commit]:
    state = delta_log.state(spark, table)
    last = None
    for last in commits_in_log(table, -1 if state is None else state.version):
        yield last
    if last is not None:
        return  # Delta's own history begins where its log does
    recent = history(spark, table, _RECENT)
    yield from recent
    if len(recent) == _RECENT:
        yield from history(spark, table)[_RECENT:]


def find(spark: SparkSession, table: Table, query: str, batch: int) -> Commit | None:
    """The commit of that micro-batch."""
    for commit in newest_first(spark, table):
        if commit.note is not None and (commit.note.query, commit.note.batch) == (query, batch):
            return commit
    return None
