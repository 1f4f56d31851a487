"""The newest version of a table, and one that is committed on top of it, as the format says.

Purpose: commits of files that exist, to be added or to take the place of others, in milliseconds, without a job or a
JVM, and as fast however many files the table has. It is for tables of which the caller knows all features.

Invariant: what was true of a version as it was looked at is true as the next one is committed on top of it; a commit is
there as a whole, or not at all.

Why it holds: each attempt is of the version after the one that was looked at, and of no other, and its file is created
or refused in one step (`lake.log_files`; Delta protocol, "Delta Log Entries": writers put a version only where there is
none). So of two writers of one version one is refused. It then looks at the table again and decides again
(`committed_on`): each refusal is a commit of somebody else, so some writer always gets on. A table that has other
columns, properties or features by then is refused: files were made for the table as it was.

Spark's commits on a local disk are renames, which replace a version that has come since they looked. So in a process
that commits here, Spark does not commit to the same table at the same time (see `ops.upkeep`), and other processes are
kept out by a lock (`pipeline.run.exclusive`). In S3 Spark's commits are put on a condition, too, and may come at any
moment; what was begun by a process that has lost its lease meanwhile is refused, since who takes the lease over changes
a property of the table (`pipeline.run.lease`).

Why not by deltalake: it loads what the log says of every file of the table, as it opens it and again as it commits. And
it removes a file by the path as it would encode it, while readers compare paths letter by letter: a file of a writer
that encodes otherwise (`%3D` for `=`) would stay in the table. It makes the checkpoints and takes old commits away
(`log_upkeep`).

After a commit come its checksum, and, as often as Delta makes them, a checkpoint and the end of old commits
(`delta.checkpointInterval`, `delta.enableExpiredLogCleanup`, `delta.logRetentionDuration`). Nothing depends on them but
the time to look at the table: where one fails, the log has all commits, and so many commits later comes the next.

Guards: tests/lake/test_two_writers.py, test_checksum.py, test_replacement.py.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.lake import delta_log
from lakehouse_cdc.lake.bare import is_openable_path
from lakehouse_cdc.lake.checksum import (
    checksum_of,
    last_batch_in,
    newest_version,
    remove_old,
    state_in,
    write_checksum,
)
from lakehouse_cdc.lake.direct.creation import linkable, put_version
from lakehouse_cdc.lake.direct.log_upkeep import make_checkpoint
from lakehouse_cdc.lake.failpoints import Door, commit_to
from lakehouse_cdc.lake.log_files import log_at
from lakehouse_cdc.lake.opened import opened
from lakehouse_cdc.model.place import is_url
from lakehouse_cdc.model.table_layout import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Action = Mapping[str, Any]  # of a commit, as the log has it
_TRIES = 200  # commits of others that may come in between
_INTERVAL, _EVERY = "delta.checkpointInterval", 10
_CHECKPOINTS = 100  # after so many, commits are looked for that are too old: that takes longer, the longer the log
_CLEANS_UP = "delta.enableExpiredLogCleanup"
_log = logging.getLogger(__name__)


class OvertakenError(Exception):
    """Somebody else has committed the version, and nothing was committed here."""


class NewestVersion:
    """The table as it is now. Raises DefiniteError where its log does not simply say what it is."""

    def __init__(self, table: Table) -> None:
        self._folder = str(table.path)
        version = newest_version(self._folder)
        held = None if version is None else checksum_of(self._folder, version)
        if version is None or held is None:
            raise codes.DELTA_FAILED.error(
                "the table's log does not say what the table is", where=str(table),
                hint="OPTIMIZE the table by Spark, which writes what is missing",
            )  # fmt: skip
        self._checksum, self.state = held, state_in(held, version)

    @property
    def folder(self) -> str:
        """Where the table lies: a path or a URL."""
        return self._folder

    @property
    def metadata(self) -> Action:
        """The `metaData` of the log: who the table is, its columns and properties."""
        return dict(self._checksum["metadata"])

    def last_batch(self, application: str) -> int | None:
        """The last batch that the application has committed, None for none."""
        return last_batch_in(self._checksum, application)

    def files(self) -> Any:
        """Its files, as deltalake lists them: a table of Arrow, in which paths are as the log has them."""
        import pyarrow as pa

        return pa.table(opened(self._folder, self.state.version).get_add_actions())

    def put(self, info: Mapping[str, Any], actions: Sequence[Action]) -> int:
        """Commit actions on top of it, with what the commit says of itself; the version. Raises OvertakenError."""
        read, version = self.state.version, self.state.version + 1
        said = {"timestamp": round(time.time() * 1000), "readVersion": read, **info, "engineInfo": "lakehouse-cdc"}
        said["txnId"] = str(uuid.uuid4())  # so no two commits are one text (see `lake.log_files`)
        if not put_version(log_at(self._folder), version, [{"commitInfo": said}, *actions]):
            raise OvertakenError
        try:
            write_checksum(self._folder, version, self._checksum, actions)
        except (OSError, CdcError) as error:  # the version is committed whatever becomes of this
            _log.warning("there is no checksum of version %d of %s", version, self._folder, exc_info=error)
        return version

    def keep_log_short(self, version: int) -> None:
        """After a commit of that version: make a checkpoint, or delete commits that are too old, where it is time."""
        held = self.state.properties
        every = int(held.get(_INTERVAL, _EVERY))
        if version % every:
            return
        try:
            make_checkpoint(self._folder, version)
            if held.get(_CLEANS_UP, "true") != "false" and version % (every * _CHECKPOINTS) == 0:
                opened(self._folder).cleanup_metadata()
                remove_old(self._folder, version)
        except Exception as error:  # likewise
            _log.warning("there is no checkpoint of version %d of %s", version, self._folder, exc_info=error)


def can_put(spark: SparkSession, table: Table) -> bool:
    """Whether the place of a table allows that a commit to it is made here."""
    if table.path is not None and is_url(table.path):
        return delta_log.is_at_hand(spark, table)
    return delta_log.in_folder(spark, table) and _linkable(table)


def can_commit(spark: SparkSession, table: Table) -> bool:
    """Whether all commits to a table can be: deltalake makes checkpoints, and the table has no feature that is unknown.

    For a table that is not there yet, the place decides.
    """
    if not can_put(spark, table) or not is_openable_path(str(table.path)) or find_spec("deltalake") is None:
        return False
    if newest_version(str(table.path)) is None:
        return True
    state = delta_log.state(spark, table)
    return state is not None and state.extensible


@cache
def _linkable(table: Table) -> bool:
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
