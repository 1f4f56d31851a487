"""The files that hold the rows of some commits of a change table, read from Delta's log itself.

The log is a file of JSON for each version (protocol, "Delta Log Entries"). Of the rows of a range of versions, those
files count that these versions added as changes; of all rows up to a version, those that are part of the table then:
added, and not removed since. There is no answer (the caller then lets Spark read) where the log does not go back as
far, and where it says more than that rows were appended, or files put together.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from urllib.parse import unquote

from pyspark.sql import SparkSession

from lakehouse_cdc.lake import delta_log
from lakehouse_cdc.lake.log_actions import Action, last_checkpoint, of_checkpoint, of_commit
from lakehouse_cdc.lake.log_files import LogFiles, log_at
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.table_layout import Table

_COLUMNS = ["add.path", "add.partitionValues", "add.stats", "add.deletionVector", "metaData.configuration"]
_CUT = 32  # characters that a bound of a text may have been cut to
LONG = 1_000  # versions of a table whose log is no longer read from its beginning


@dataclass(frozen=True)
class Listed:
    """A file, by its path below the table's folder, how many rows it has, its partition, and Delta's statistics."""

    path: str
    rows: int
    partition: Mapping[str, str] = field(default_factory=dict)
    stats: Mapping[str, Any] = field(default_factory=dict)

    def bounds(self, column: str) -> tuple[Any, Any]:
        """The least and the greatest value of a column, as the statistics have them; None for one that they lack."""
        return self.stats.get("minValues", {}).get(column), self.stats.get("maxValues", {}).get(column)

    def only(self, column: str) -> str | None:
        """The text that all rows have in a column, if the statistics say that there is one."""
        least, greatest = self.bounds(column)
        return least if isinstance(least, str) and len(least) < _CUT and least == greatest else None


def files_of(table: Table, versions: Versions, partition: Mapping[str, str] | None = None) -> list[Listed] | None:
    """Those of that partition, or all, in the order in which they were added; None if the log does not simply say."""
    first = 0 if versions.after is None else versions.after + 1
    files: dict[str, Listed] = {}
    try:
        log = log_at(str(table.path))
        for action in _of_commits(log, range(first, versions.last + 1)):
            if not _followed(action, files, partition, whole=versions.after is None):
                return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return list(files.values())


def live_files(table: Table, version: int) -> list[Listed] | None:
    """Those that are part of the table at that version, in no order; None if the log does not simply say.

    It is read from its last checkpoint on, so it may be long.
    """
    log, files = log_at(str(table.path)), dict[str, Listed]()
    try:
        checkpoint = last_checkpoint(log)
        begun = iter(()) if checkpoint is None else of_checkpoint(log, checkpoint, _COLUMNS)
        for action in chain(begun, _of_commits(log, range(0 if checkpoint is None else checkpoint + 1, version + 1))):
            if not _followed(action, files, None, whole=True):
                return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return list(files.values())


def _of_commits(log: LogFiles, versions: range) -> Iterator[Action]:
    return (action for version in versions for action in of_commit(log, version))


def only_appended(spark: SparkSession, table: Table) -> bool:
    """Whether the log of a table that is there goes back to its beginning, and says that rows were appended, and no
    more.

    False where the log is long, or in a bucket, of which each commit would be asked for.
    """
    state = delta_log.state(spark, table) if delta_log.in_folder(spark, table) else None
    return state is not None and state.version < LONG and bool(files_of(table, Versions(-1, state.version)))


def _followed(action: Action, files: dict[str, Listed], partition: Mapping[str, str] | None, *, whole: bool) -> bool:
    """Bring `files` after an action; False where that says something of which this module knows nothing."""
    if (added := action.get("add")) is not None:
        its = added["partitionValues"]
        if not (whole or added["dataChange"]) or (partition is not None and its != partition):
            return bool(partition is None or its.keys() == partition.keys())
        path, stats = unquote(added["path"]), json.loads(added["stats"])
        files[path] = Listed(path, int(stats["numRecords"]), its, stats)
        return added.get("deletionVector") is None and "://" not in path and not path.startswith("/")
    if (removed := action.get("remove")) is not None:
        if whole:
            files.pop(unquote(removed["path"]), None)
        return bool(whole or not removed["dataChange"])
    if (metadata := action.get("metaData")) is not None:
        return bool(metadata["configuration"].get("delta.columnMapping.mode", "none") == "none")
    return "cdc" not in action
