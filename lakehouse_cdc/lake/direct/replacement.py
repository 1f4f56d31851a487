"""A commit that puts files in the place of others, and that no reader of changes sees.

Purpose: rows of a table that is only appended to are written again (see `bronze.redaction`), while streams read it.

Invariant: readers of the table see all old files or all new ones. Readers of what commits have added to it, the streams
of silver and of others and the change data feed among them, find nothing in this one.

Why it holds: it is one commit, whose actions all say `dataChange: false`, as those of OPTIMIZE do. Delta's streams and
its feed pass such files over, `delta.appendOnly` permits that they are removed (protocol, "Append-only Tables"), and
our own listing of what commits have added (`file_listing`) asks for the same. Delta refuses the commit if another has
removed one of the files meanwhile; one that has added others does not matter.

Guards: tests/lake/test_replacement.py.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from pyspark.sql import SparkSession

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake import delta_log
from lakehouse_cdc.lake.delta_log import library
from lakehouse_cdc.lake.direct.commit import Added, action
from lakehouse_cdc.lake.failpoints import Door, commit_to
from lakehouse_cdc.model.table_layout import Table, literal

_OPERATION = "DeltaOperations$ManualUpdate$"


@dataclass(frozen=True)
class LiveFile:
    """A file of the table as it is now. `path` is as Delta's log has it; `place` is where it lies."""

    path: str
    place: str
    size: int
    partition: Mapping[str, str]
    stats: Mapping[str, Any] = field(default_factory=dict)


def require_replaceable(spark: SparkSession, table: Table) -> None:
    """Raise DefiniteError for a table that is there and whose files cannot be replaced here."""
    state = delta_log.state(spark, table)
    if state is None:
        raise codes.REDACTION_UNSUPPORTED.error(
            "the table is not in a folder of this machine, so its files cannot be replaced", where=str(table)
        )
    if not state.plain or state.properties.get("delta.enableRowTracking") == "true":
        raise codes.REDACTION_UNSUPPORTED.error(
            "the table's files have rows or columns that only Delta itself can name", where=str(table)
        )


class Replacement:
    """One such commit to a table of which `require_replaceable` says nothing, begun now."""

    def __init__(self, spark: SparkSession, table: Table) -> None:
        self._spark, self._table = spark, table
        self._delta = library(spark)
        log = self._delta.DeltaLog.forTable(spark._jsparkSession, table.path)
        self._transaction: Any = log.startTransaction()

    def files(self, partition: Mapping[str, str]) -> list[LiveFile]:
        """Those of a partition, or, of a table without any, all. Raises DefiniteError for one with deleted rows."""
        listed = self._transaction.snapshot().allFiles()
        for name, value in partition.items():
            listed = listed.where(f"partitionValues[{literal(name)}] = {literal(value)}")
        return [self._live(json.loads(text)) for text in listed.toJSON().collectAsList()]

    def _live(self, added: Mapping[str, Any]) -> LiveFile:
        path = unquote(added["path"])
        if added.get("deletionVector") is not None or "://" in path or path.startswith("/"):
            raise codes.REDACTION_UNSUPPORTED.error(
                "a file of the table has deleted rows, or lies elsewhere", where=f"{self._table}: {path}"
            )
        stats = json.loads(added.get("stats") or "{}")
        place = os.path.join(str(self._table.path), path)
        return LiveFile(added["path"], place, added["size"], added.get("partitionValues", {}), stats)

    def commit(self, old: Sequence[LiveFile], new: Sequence[Added]) -> int:
        """Put the new files in the place of the old ones; the version.

        If that fails, the new ones are part of no table, and go with the next VACUUM.
        """
        removed = (_removal(file) for file in old)
        texts = [*removed, *(action(file, changes=False) for file in new)]
        actions = [self._delta.actions.Action.fromJson(text) for text in texts]
        operation = getattr(self._delta, _OPERATION).__getattr__("MODULE$")
        jvm: Any = self._spark._jvm
        with commit_to(Door.ADD, self._table.name):
            return int(self._transaction.commit(jvm.PythonUtils.toSeq(actions), operation))


def _removal(file: LiveFile) -> str:
    removed = {
        "path": file.path, "deletionTimestamp": round(time.time() * 1000), "dataChange": False,
        "extendedFileMetadata": True, "partitionValues": dict(file.partition), "size": file.size,
    }  # fmt: skip
    return json.dumps({"remove": removed})
