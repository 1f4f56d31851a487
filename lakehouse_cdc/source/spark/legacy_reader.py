"""The stream of Spark before 4.2, which asks for the end of a batch and does not say where the batch begins.

So what was offered last is kept in a file beside the schemas, before Spark gets it: where the batch begins and ends,
and whether Spark has planned it. What Spark plans it has written down before, so:

- planned: Spark's next batch begins at that end. The next offer begins there.
- not planned: Spark may know nothing of it, for the process may have died in between; or it has written it down, and
  plans it, the first thing that it does after a restart. Until it does, the same end is offered again.

So each offer begins where Spark's batch does, whatever dies when. A batch that begins or ends elsewhere is of another
checkpoint, and is refused: these files belong to one.

Spark counts the parameters of `latestOffset` to tell which kind it has. This kind gives no limits either, so the
options maxRowsPerTrigger and maxBytesPerTrigger hold always, and a trigger that wants all that is there gets one batch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pyspark.sql.datasource import InputPartition

from lakehouse_cdc.errors import codes
from lakehouse_cdc.errors.codec import crossing
from lakehouse_cdc.lake.files.choice import files_at
from lakehouse_cdc.source.spark.stream_reader import StreamReader

_FILE = "offered.json"


@dataclass(frozen=True)
class Offered:
    """A batch from `start` to `end`, as Spark stores offsets."""

    start: dict[str, Any]
    end: dict[str, Any]
    planned: bool


class RememberingReader(StreamReader):
    """Spark's view of one stream."""

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        """The end of the next batch; that of the last one if there is nothing new."""
        last = self._offered
        if not last.planned:
            return last.end
        end = self.end_after(last.end, self._options.max_rows_per_trigger, self._options.max_bytes_per_trigger)
        if end is None:
            return last.end
        self._keep(Offered(last.end, end, planned=False))
        return end

    @crossing()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The splits of a batch, the one that was offered. Raises DefiniteError for another one."""
        last = self._offered
        if start != end and (start, end) != (last.start, last.end):
            raise codes.CHECKPOINT_DAMAGED.error(
                "Spark's checkpoint and the schema folder do not belong together",
                where=self._options.schema_folder,
                hint="keep or delete them as one; a stream that begins again has a schemaFolder of its own",
            )
        if not last.planned:
            self._keep(replace(last, planned=True))
        return super().partitions(start, end)

    @property
    def _offered(self) -> Offered:
        text = files_at(self._options.schema_folder).read(_FILE)
        return Offered({}, {}, planned=True) if text is None else Offered(**json.loads(text))

    def _keep(self, offered: Offered) -> None:
        files_at(self._options.schema_folder).write(_FILE, json.dumps(asdict(offered)))


def forget_plan(schema_folder: str, start: Mapping[str, Any]) -> None:
    """Have the next batch begin at `start`, whatever was offered: its plan is about to be removed from the checkpoint.

    Only where something was ever remembered. Spark plans the old batch again as long as its checkpoint has it.
    """
    files = files_at(schema_folder)
    if files.exists(_FILE):
        files.write(_FILE, json.dumps(asdict(Offered({}, dict(start), planned=True))))
