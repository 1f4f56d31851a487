"""The rows of whole bronze commits, read as a table.

A DataFrame that `foreachBatch` hands over is opaque to the optimizer: every action on it reads every column of every
file of the batch. Read by version instead (bronze records Delta's change data feed, which costs an append-only table
nothing), a filter on the partition column reads that partition, and columns that are not asked for are not read. The
rows of a version never change, so reading them again, at any time, gives the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.errors import codes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse_cdc.model.table_layout import Table

_WHOLE = -1  # the index in a Delta source offset that says: nothing of `reservoirVersion` itself


@dataclass(frozen=True)
class Versions:
    """Bronze commits: those in (after, last]; `after` None stands for all from the beginning."""

    after: int | None
    last: int

    @classmethod
    def between(cls, start: Mapping[str, Any] | None, end: Mapping[str, Any]) -> Versions:
        """The commits between two offsets of a Delta streaming source (None: before the first).

        Raises DefiniteError where an offset lies inside a commit: a limit on files or bytes would cut one in two, and
        the tables after that batch would be the source at no position at all.
        """
        return cls(None if start is None else _complete(start), _complete(end))

    def rows(self, spark: SparkSession, table: Table) -> DataFrame:
        """Their rows, in bronze's columns."""
        from lakehouse_cdc.lake.tables import read

        if self.after is None:
            return read(spark, table, version=self.last)
        reader = spark.read.format("delta").option("readChangeFeed", "true")
        reader = reader.option("startingVersion", self.after + 1).option("endingVersion", self.last)
        feed = reader.load(table.path) if table.path is not None else reader.table(table.sql)
        inserted = feed.where("_change_type = 'insert'")
        return inserted.drop("_change_type", "_commit_version", "_commit_timestamp")


def offset_after(last: int, table_id: str) -> dict[str, Any]:
    """The offset of a Delta streaming source after that commit of a table, as Delta writes it."""
    return {
        "sourceVersion": 1, "reservoirId": table_id, "reservoirVersion": last + 1, "index": _WHOLE,
        "isStartingVersion": False,
    }  # fmt: skip


def _complete(offset: Mapping[str, Any]) -> int:
    """The last commit that lies wholly before an offset."""
    if offset["index"] != _WHOLE or offset.get("isStartingVersion"):
        raise codes.BRONZE_BATCH_SPLIT.error(
            f"a batch of bronze ends inside commit {offset['reservoirVersion']}",
            hint="do not limit the files or bytes of a trigger on bronze",
        )
    return int(offset["reservoirVersion"]) - 1
