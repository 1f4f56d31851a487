"""What a streaming query's checkpoint says: who it is, what each batch covers, which batch is complete.

Spark writes `offsets/<n>` before batch n runs and `commits/<n>` after it has ended, both whole (in S3 as
`runtime.object_store` says; elsewhere under another name, and renamed). So while a batch runs its end is known, and
after a crash the batches that are surely complete are. Where no query of Spark's runs, `micro_batches` does the same.
The layout of the folder is Spark's own and has not changed since Spark 2: a line with the log's version, a line of
metadata, then one line of JSON for each source.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.files.choice import files_at
from lakehouse_cdc.lake.files.port import Files

_VERSION = "v1"  # of the form of these files
# the one setting that Spark wants of a batch which it is to repeat, and does not take its default for (None.get)
_CONF = {"spark.sql.shuffle.partitions": "200"}


@dataclass(frozen=True)
class Checkpoint:
    """The checkpoint of a query with one source: in a folder, by its path, or in a bucket, by its URL."""

    location: str

    def query_id(self) -> str:
        """The id that Spark gave the query at its first start; a new checkpoint has a new one."""
        return str(json.loads(self._read("metadata"))["id"])

    def offset(self, batch: int) -> dict[str, Any]:
        """The end of that batch, in the source's own JSON. Raises DefiniteError if the checkpoint lacks it."""
        lines = self._read(f"offsets/{batch}").splitlines()
        if len(lines) != 3 or lines[0] != _VERSION:
            raise codes.CHECKPOINT_DAMAGED.error(
                f"the checkpoint's offset of batch {batch} is not of a query with one source",
                where=self.location,
                hint="restore the checkpoint",
            )
        offset: dict[str, Any] = json.loads(lines[2])
        return offset

    def last_commit(self) -> int | None:
        """The last batch that is complete, None before the first."""
        return max(self._batches("commits"), default=None)

    def last_offset(self) -> int | None:
        """The last batch that was begun, None before the first."""
        return max(self._batches("offsets"), default=None)

    @property
    def planned(self) -> int | None:
        """The batch that was begun and is not complete, None where there is none."""
        last, complete = self.last_offset(), self.last_commit()
        return last if last is not None and (complete is None or complete < last) else None

    def begun_at(self, batch: int) -> float:
        """When that batch was planned, in seconds since 1970."""
        return self._files.written_at(f"offsets/{batch}")

    def remove_plan(self) -> None:
        """Remove the end of the planned batch, so that Spark asks for another one. No query may be running.

        Hadoop keeps a sum beside each file, and reads a file without one: it is removed first.
        """
        if (planned := self.planned) is not None:
            self._remove("offsets", planned)

    def begin(self, query_id: str) -> None:
        """Make the checkpoint of a query that starts for the first time; one that is there stays."""
        self._create("metadata", json.dumps({"id": query_id}))

    def plan(self, batch: int, end: Mapping[str, Any]) -> bool:
        """Note the end of a batch that is about to run; False where somebody else has planned that batch."""
        of_batch = {"batchWatermarkMs": 0, "batchTimestampMs": round(time.time() * 1000), "conf": _CONF}
        return self._create(f"offsets/{batch}", f"{_VERSION}\n{json.dumps(of_batch)}\n{json.dumps(dict(end))}")

    def complete(self, batch: int) -> None:
        """Note that a batch has ended."""
        self._create(f"commits/{batch}", f'{_VERSION}\n{{"nextBatchWatermarkMs":0}}')

    def forget(self, batch: int) -> None:
        """Remove what is known of a batch that is long complete, if there is such a one."""
        if batch >= 0:
            for log in ("offsets", "commits"):
                self._remove(log, batch)

    @property
    def exists(self) -> bool:
        """True once a query has been started with it."""
        return self._files.exists("metadata")

    def _remove(self, log: str, batch: int) -> None:
        self._files.delete(f"{log}/.{batch}.crc")
        self._files.delete(f"{log}/{batch}")

    def _create(self, name: str, text: str) -> bool:
        """Create a file; False where there is one. A sum that is left of another file would belie this one."""
        folder, _, last = name.rpartition("/")
        if not self._files.exists(name):
            self._files.delete(f"{folder}/.{last}.crc".lstrip("/"))
        return self._files.create(name, text)

    @property
    def _files(self) -> Files:
        return files_at(self.location)

    def _batches(self, log: str) -> list[int]:
        return [int(name) for name in self._files.within(log).names() if name.isdecimal()]

    def _read(self, name: str) -> str:
        if (text := self._files.read(name)) is None:
            raise codes.CHECKPOINT_DAMAGED.error(
                f"the checkpoint has no {name}",
                where=self.location,
                hint="restore the checkpoint, or start with a new one",
            )
        return text
