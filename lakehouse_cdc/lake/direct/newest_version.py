"""The newest version of a table in a folder here, and one that is committed on top of it, by deltalake (delta-rs).

Purpose: commits of files that exist, to be added or to take the place of others, in hundredths of a second, by an
interface that is public, and without a JVM. It is for tables that `can_commit` says yes to.

Invariant: what was true of a version as it was looked at is true as the next one is committed on top of it; a commit is
there as a whole, or not at all.

Why it holds: each attempt is of the version after the one that was opened, and of no other. deltalake is allowed one
try (`max_commit_retries=0`); it writes the version under another name, and links it to its own, which the file system
does or refuses in one step (protocol, "Delta Log Entries": writers put a version only where there is none), as does
`creation.put_version`. So of two writers of one version one is refused. Then the table is opened again, and the caller
decides again (`committed_on`): each refusal is a commit of somebody else, so some writer always gets on. A table that
has other columns, properties or features by then is refused: files were made for the table as it was.

Spark's commits on a local disk are renames, which replace a version that has come since they looked. So in a process
that commits here, Spark does not commit to the same table at the same time (see `ops.upkeep`), and other processes are
kept out by a lock (`pipeline.run.exclusive`).

Removals are not deltalake's: it removes a file by the path as it would encode it, and readers compare paths letter by
letter, so a file of another writer, who encodes otherwise (`%3D` for `=`), would stay part of the table. They are
written as the log has the path, by `creation.put_version`.

After a commit come its checksum (`checksum`), and, as often as Delta makes them, a checkpoint and the end of old
commits (`delta.checkpointInterval`, `delta.enableExpiredLogCleanup`, `delta.logRetentionDuration`). Nothing depends on
them but the time to open the table: where one fails, the log has all commits, and so many commits later comes the next.

The library is imported where it is first used, as in `rust_table`, which says why.

Guards: tests/lake/test_two_writers.py, test_checksum.py, test_replacement.py.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake import delta_log
from lakehouse_cdc.lake.bare import is_openable_path
from lakehouse_cdc.lake.cleanup.unfinished_tables import LOG, has_version
from lakehouse_cdc.lake.direct import checksum
from lakehouse_cdc.lake.direct.checksum import Change
from lakehouse_cdc.lake.direct.creation import linkable, put_version
from lakehouse_cdc.lake.failpoints import Door, commit_to
from lakehouse_cdc.lake.opened import opened, state_of
from lakehouse_cdc.model.table_layout import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TRIES = 200  # commits of others that may come in between
_INTERVAL, _EVERY = "delta.checkpointInterval", 10
_CLEANS_UP = "delta.enableExpiredLogCleanup"
_log = logging.getLogger(__name__)


class OvertakenError(Exception):
    """Somebody else has committed the version, and nothing was committed here."""


class NewestVersion:
    """The table as it is now. Raises deltalake's errors."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._opened = opened(str(table.path))
        self.state = state_of(self._opened)

    def last_batch(self, application: str) -> int | None:
        """The last batch that the application has committed, None for none."""
        last = self._opened.transaction_version(application)
        return None if last is None else int(last)

    def files(self) -> Any:
        """Its files, as deltalake lists them: a table of Arrow, in which paths are as the log has them."""
        import pyarrow as pa

        return pa.table(self._opened.get_add_actions())

    def append(self, files: Sequence[Any], info: Mapping[str, Any], once: tuple[str, int]) -> int:
        """Commit deltalake's actions on top of it, with what the commit says of itself and the batch of an application.

        Raises OvertakenError, or DefiniteError where deltalake refuses the commit for any other reason.
        """
        from deltalake import CommitProperties, PostCommitHookProperties, Transaction
        from deltalake.exceptions import CommitFailedError

        no_hooks = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
        try:
            self._opened.create_write_transaction(
                list(files), "append", self._opened.schema(), list(self.state.partition_by),
                commit_properties=CommitProperties(dict(info), 0, [Transaction(*once)]),
                post_commithook_properties=no_hooks,
            )  # fmt: skip
        except CommitFailedError as error:
            if NewestVersion(self._table).state.version == self.state.version:
                raise codes.DELTA_FAILED.error(f"a commit was refused: {error}", where=str(self._table)) from error
            raise OvertakenError from error
        return self._summed(Change(len(files), sum(file.size for file in files), once))

    def put(self, actions: Sequence[Mapping[str, Any]]) -> int:
        """Commit actions, as the log has them, on top of it. Raises OvertakenError."""
        if not put_version(self._log, self.state.version + 1, actions):
            raise OvertakenError
        sizes = [[one[kind]["size"] for one in actions if kind in one] for kind in ("add", "remove")]
        return self._summed(Change(len(sizes[0]) - len(sizes[1]), sum(sizes[0]) - sum(sizes[1])))

    def _summed(self, change: Change) -> int:
        """The version that was just committed; it gets its checksum file."""
        version = self.state.version + 1
        try:
            checksum.write(self._log, version, change, self.state, self._count)
        except OSError as error:  # the version is committed whatever becomes of this
            _log.warning("there is no checksum of version %d of %s", version, self._table, exc_info=error)
        return version

    def _count(self) -> tuple[int, int]:
        sizes = self.files().column("size_bytes").to_pylist()
        return len(sizes), sum(sizes)

    @property
    def _log(self) -> str:
        return os.path.join(str(self._table.path), LOG)

    def keep_log_short(self, version: int) -> None:
        """After a commit of that version: make a checkpoint, and delete commits that are too old, where it is time."""
        held = self.state.properties
        if version % int(held.get(_INTERVAL, _EVERY)):
            return
        try:
            self._opened.update_incremental()
            with suppress(FileNotFoundError):  # a sum that Hadoop keeps beside the file, which is written in place
                os.unlink(os.path.join(self._log, "._last_checkpoint.crc"))
            self._opened.create_checkpoint()
            if held.get(_CLEANS_UP, "true") != "false":
                self._opened.cleanup_metadata()
                checksum.remove_old(self._log)
        except Exception as error:  # the version is committed whatever becomes of this
            _log.warning("there is no checkpoint of version %d of %s", version, self._table, exc_info=error)


def can_open(spark: SparkSession, table: Table) -> bool:
    """Whether the place of a table allows that it is opened here."""
    here = delta_log.in_folder(spark, table) and is_openable_path(str(table.path))
    return here and find_spec("deltalake") is not None


def can_commit(spark: SparkSession, table: Table) -> bool:
    """Whether commits to the table can be made here; for one that is not there yet, whether its place allows it."""
    if not can_open(spark, table) or not _tried(table):
        return False
    if not has_version(str(table.path)):
        return True
    state = delta_log.state(spark, table)
    return state is not None and state.extensible


@cache
def _tried(table: Table) -> bool:
    return linkable(table)


def committed_on(begun: NewestVersion, table: Table, attempt: Callable[[NewestVersion], int | None]) -> int | None:
    """The version that `attempt` commits on top of the newest one, or None where it finds that there is nothing to do.

    `begun` is the version that files were made for, or that was looked at. Raises DefiniteError where the table has
    been changed since, other than in its rows.
    """
    newest = begun
    with commit_to(Door.ADD, table.name):
        for _ in range(_TRIES):
            try:
                version = attempt(newest)
                break
            except OvertakenError:
                newest = NewestVersion(table)
            if replace(newest.state, version=begun.state.version) != begun.state:
                raise codes.DELTA_FAILED.error(
                    "the table was changed while files were added to it", where=str(table), hint="run again"
                )
        else:
            raise codes.DELTA_FAILED.error(
                f"others have committed {_TRIES} times in between", where=str(table), hint="run again"
            )
    if version is not None:
        newest.keep_log_short(version)
    return version
