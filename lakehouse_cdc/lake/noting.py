"""What statements such as ALTER TABLE say of their commit: a note, by a setting of the session or in their own text."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from lakehouse_cdc.lake.sessions import is_remote
from lakehouse_cdc.model.commit_note import CommitNote

_NOTE = "spark.databricks.delta.commitInfo.userMetadata"
_of_thread = threading.local()


@contextmanager
def noting(session: SparkSession, note: CommitNote) -> Iterator[None]:
    """Give the note alone to statements such as ALTER TABLE, which Delta does not tell apart from earlier ones.

    On a remote session those carry it that can (`noted`): a MERGE, and what sets properties of a table.
    """
    if not is_remote(session):
        with settings(session, {_NOTE: note.text()}):
            yield
        return
    before, _of_thread.note = getattr(_of_thread, "note", None), note
    try:
        yield
    finally:
        _of_thread.note = before


def noted(session: SparkSession) -> CommitNote | None:
    """The note that a statement of this thread is to carry itself; None where its session says it, or none is given."""
    return getattr(_of_thread, "note", None) if is_remote(session) else None


@contextmanager
def settings(session: SparkSession, values: dict[str, str]) -> Iterator[None]:
    """Within the block a session that is no remote one has these settings."""
    for name, value in values.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name in values:
            session.conf.unset(name)
