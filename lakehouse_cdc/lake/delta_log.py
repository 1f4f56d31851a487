"""What the log of a table says of it that this process reads itself, without a job of Spark's.

Delta's SQL (DESCRIBE DETAIL) makes all of a table's state to answer, with jobs that take half a second. The checksum
of the newest version says it in a few bytes (see `checksum`). Where there is none deltalake reads the log, and what it
cannot open, for the name of a folder, is read here. Where the table is in no folder and no bucket that this process
reaches (tables of a catalog), or its log is not of a form that is known, there is no answer, and callers
do without.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from lakehouse_cdc.lake.bare import is_openable_path, is_plain_path
from lakehouse_cdc.lake.checksum import state_by_checksum, state_by_log
from lakehouse_cdc.lake.file_systems import can_put_new, storage_of, writes_as_given
from lakehouse_cdc.lake.opened import opened, state_of
from lakehouse_cdc.lake.shared_folder import is_shared
from lakehouse_cdc.lake.table_state import State
from lakehouse_cdc.model.place import is_url
from lakehouse_cdc.model.table_layout import Table

_of_thread = threading.local()


def is_at_hand(spark: SparkSession, table: Table) -> bool:
    """Whether this process and its tasks read and write the table's files themselves: in a folder, or in a bucket."""
    if table.path is None or not is_url(table.path):
        return in_folder(spark, table)
    return can_put_new(table.path) and writes_as_given(storage_of(table.path))


def in_folder(spark: SparkSession, table: Table) -> bool:
    """Whether the table is in a folder that this process, Spark's driver and its tasks all see."""
    return table.path is not None and table.path.startswith("/") and is_shared(spark, table.path)


@contextmanager
def asked_once() -> Iterator[None]:
    """Within the block this thread asks for the state of a table once, and deltalake where that knows it.

    That takes a hundredth of the time. It is for who only looks, and has the table looked at again before a commit.
    """
    _of_thread.known = {}
    try:
        yield
    finally:
        del _of_thread.known


def state(spark: SparkSession, table: Table) -> State | None:
    """That of a table that is there; None where nobody can be asked."""
    known: dict[str, State | None] | None = getattr(_of_thread, "known", None)
    if known is None or table.path is None:
        return _asked(spark, table)
    if table.path not in known:
        known[table.path] = looked_up(table.path) or _asked(spark, table)
    return known[table.path]


def is_known(table: Table) -> bool:
    """Whether the table is there, within such a block."""
    known: dict[str, State | None] | None = getattr(_of_thread, "known", None)
    if known is None or table.path is None or not os.path.isdir(os.path.join(table.path, "_delta_log")):
        return False
    if table.path not in known and (found := looked_up(table.path)) is not None:
        known[table.path] = found
    return known.get(table.path) is not None


def looked_up(path: str) -> State | None:
    """The same by deltalake; None where there is no table, or it is not a bare one."""
    state = _opened(path) if is_plain_path(path) else None
    return state if state is not None and state.bare else None


def _opened(path: str) -> State | None:
    if not is_openable_path(path):
        return None
    try:
        return state_of(opened(path))
    except Exception:  # whatever it is, others have the say
        return None


def _asked(spark: SparkSession, table: Table) -> State | None:
    if not is_at_hand(spark, table):
        return None
    path = str(table.path)
    return state_by_checksum(path) or _opened(path) or state_by_log(path)
