"""In which batches the small files of a silver table are put together, which Delta does after a commit.

Purpose: each batch adds files, so their number, hence the time of a batch and of every reader, is to be bounded; but a
batch is to cost what it changes, not what the small files hold.

Invariant: the small files of a table that changes all the time are put together in one of `_ONE_IN` batches or so, also
where each batch is in a process of its own.

Why it holds: Delta's auto-compaction is a property of the tables, and counts small files, but only those that the same
process has added. A table of which a process has not put files together yet, or of which no small file is left that
it has counted, is compacted after every commit (seen with Delta 4.4: each batch of a process that did not make the
table wrote all of its small files again). So a session has it off, and on in batches that are drawn by a digest of
their number and the table's name. That needs no memory, falls on other batches for other tables, and no rhythm of
changes avoids it.

A remote session has no such setting, so there the server decides, by what it has counted, after each commit.

Guards: tests/silver/test_compaction.py.
"""

from __future__ import annotations

import hashlib

from pyspark.sql import SparkSession

from lakehouse_cdc.lake.sessions import is_remote

_ONE_IN = 32
_ENABLED = "spark.databricks.delta.autoCompact.enabled"


def has_turn(table: str, batch: int) -> bool:
    """Whether that batch is one after which the source table's silver table is compacted."""
    return hashlib.sha256(f"{batch} {table}".encode()).digest()[0] % _ONE_IN == 0


def settle(session: SparkSession, table: str, batch: int) -> None:
    """Have the session's next commits compact what they write to, or not; the tables' properties have the last say."""
    if is_remote(session):
        return
    if has_turn(table, batch):
        session.conf.unset(_ENABLED)
    else:
        session.conf.set(_ENABLED, "false")
