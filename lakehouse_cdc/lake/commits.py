"""Commits that happen once, and say which position they bring a table to.

Delta records (application id, version) with a commit and skips a later commit of the same application whose version
is not greater (Delta protocol, "Transaction Identifiers"). The application is the streaming query's id and the step,
the version its batch: a replayed batch changes nothing, while a new checkpoint, whose batches count from 0 again, is
another application. The note that a commit carries (`CommitNote`) is its user metadata.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from lakehouse_cdc.lake import delta_log
from lakehouse_cdc.lake.commit_log import Commit, commits_in_log
from lakehouse_cdc.lake.tables import delta_table
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.table_layout import Table

_APP = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"
_RECENT = 16
_NOTE = "spark.databricks.delta.commitInfo.userMetadata"


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
    """The same for a statement such as MERGE, which takes it from its session's settings. One thread per session."""
    with _set(session, {_APP: application(note, step), _VERSION: str(note.batch), _NOTE: note.text()}):
        yield


@contextmanager
def noting(session: SparkSession, note: CommitNote) -> Iterator[None]:
    """Give the note alone to statements such as ALTER TABLE, which Delta does not tell apart from earlier ones."""
    with _set(session, {_NOTE: note.text()}):
        yield


@contextmanager
def _set(session: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            session.conf.unset(name)


def history(spark: SparkSession, table: Table, limit: int | None = None) -> list[Commit]:
    """The table's commits, newest first."""
    log = delta_table(spark, table).history(*(() if limit is None else (limit,)))
    return [Commit.of(*row) for row in log.select("version", "userMetadata", "operationMetrics").collect()]


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
