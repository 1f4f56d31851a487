"""A sink that counts the rows of each op, in one file: the smallest one that keeps the contract."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pyspark.sql import SparkSession

from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.sinks.port import CommittedBatch


class CountingSink:
    """The counts and the batch that they end with are replaced together, so a repeated batch is not counted again."""

    def __init__(self, spark: SparkSession, layout: Layout) -> None:
        self._spark, self._layout = spark, layout
        self.file = Path(str(layout.path)) / "counts.json"

    def counts(self) -> dict[str, int]:
        """How many rows of each op."""
        return self._stored()[1]

    def _stored(self) -> tuple[int, dict[str, int]]:
        if not self.file.exists():
            return -1, {}
        data = json.loads(self.file.read_text())
        return data["version"], data["counts"]

    def apply(self, batch: CommittedBatch) -> int:
        """How many rows were counted."""
        version, counts = self._stored()
        if batch.versions.last <= version:
            return 0
        added = {
            row["op"]: row["count"] for row in batch.rows(self._spark, self._layout).groupBy("op").count().collect()
        }
        for op, rows in added.items():
            counts[op] = counts.get(op, 0) + rows
        self._replace({"version": batch.versions.last, "counts": counts})
        return sum(added.values())

    def _replace(self, data: object) -> None:
        partial = self.file.with_suffix(".partial")
        with partial.open("w") as file:
            json.dump(data, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self.file)
