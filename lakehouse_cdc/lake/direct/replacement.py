"""A commit that puts files in the place of others, and that no reader of changes sees.

Purpose: rows of a table that is only appended to are written again (see `bronze.redaction`, `bronze.compaction`), while
streams read it.

Invariant: readers of the table see all old files or all new ones. Readers of what commits have added to it, the streams
of silver and of others and the change data feed among them, find nothing in this one.

Why it holds: it is one commit, whose actions all say `dataChange: false`, as those of OPTIMIZE do. Delta's streams and
its feed pass such files over, `delta.appendOnly` permits that they are removed (protocol, "Append-only Tables"), and
our own listing of what commits have added (`file_listing`) asks for the same. It is made on top of a version of which
all old files are part (see `newest_version`): where another commit has removed one of them meanwhile, it is refused,
and one that has added others does not matter. The old files are named letter by letter as the log has them.

Guards: tests/lake/test_replacement.py.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from pyspark.sql import SparkSession

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.direct.commit import Added, action
from lakehouse_cdc.lake.direct.newest_version import Action, NewestVersion, can_commit, can_put, committed_on
from lakehouse_cdc.model.place import is_url
from lakehouse_cdc.model.table_layout import Table


@dataclass(frozen=True)
class LiveFile:
    """A file of the table as it is now. `path` is as Delta's log has it; `place` is where it lies."""

    path: str
    place: str
    size: int
    partition: Mapping[str, str]


def require_replaceable(spark: SparkSession, table: Table) -> None:
    """Raise DefiniteError for a table that is there and whose files cannot be replaced here."""
    if not can_put(spark, table) or is_url(table.path):
        raise codes.REDACTION_UNSUPPORTED.error(
            "the table is not in a folder of this machine, so its files cannot be replaced", where=str(table)
        )
    if not can_commit(spark, table):
        raise codes.REDACTION_UNSUPPORTED.error(
            "the table's files have rows or columns that only Delta itself can name", where=str(table)
        )


class Replacement:
    """One such commit to a table of which `require_replaceable` says nothing, begun now."""

    def __init__(self, table: Table) -> None:
        self._table, self._begun = table, NewestVersion(table)

    def files(self, partition: Mapping[str, str]) -> list[LiveFile]:
        """Those of a partition, or, of a table without any, all, in the order in which they were written."""
        listed = sorted(self._begun.files().to_pylist(), key=lambda file: file["modification_time"])
        live = (self._live(file) for file in listed)
        return [file for file in live if partition.items() <= file.partition.items()]

    def _live(self, listed: Mapping[str, Any]) -> LiveFile:
        path = unquote(listed["path"])
        if "://" in path or path.startswith("/"):
            raise codes.REDACTION_UNSUPPORTED.error(
                "a file of the table lies elsewhere", where=f"{self._table}: {path}"
            )
        place = os.path.join(str(self._table.path), path)
        return LiveFile(listed["path"], place, listed["size_bytes"], listed.get("partition") or {})

    def commit(self, old: Sequence[LiveFile], new: Sequence[Added]) -> int:
        """Put the new files in the place of the old ones; the version.

        Raises DefiniteError where one of the old files has been removed meanwhile. If this fails, the new ones are part
        of no table, and go with the next VACUUM.
        """
        info = {
            "operation": "Manual Update", "operationParameters": {}, "isBlindAppend": False,
            "operationMetrics": {"numAddedFiles": str(len(new)), "numRemovedFiles": str(len(old))},
        }  # fmt: skip
        actions = [*map(_removal, old), *(action(file, changes=False) for file in new)]

        def attempt(newest: NewestVersion) -> int:
            if not {file.path for file in old} <= set(newest.files().column("path").to_pylist()):
                raise codes.DELTA_FAILED.error(
                    "a file that is to be replaced has been removed by a concurrent commit", where=str(self._table),
                    hint="do it again",
                )  # fmt: skip
            return newest.put(info, actions)

        version = committed_on(self._begun, self._table, attempt)
        assert version is not None
        return version


def _removal(file: LiveFile) -> Action:
    return {
        "remove": {
            "path": file.path, "deletionTimestamp": round(time.time() * 1000), "dataChange": False,
            "extendedFileMetadata": True, "partitionValues": dict(file.partition), "size": file.size,
        }
    }  # fmt: skip
