"""One record of Python's logging for each batch, at INFO, to the logger of this module.

`run --log json` prints them as lines of JSON (`cli.logs`); any handler gets the same fields as `record.batch`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from lakehouse_cdc.telemetry.declaration import LAG, MOST_TABLES, ROWS, Measurement
from lakehouse_cdc.telemetry.events import Batch, Event

log = logging.getLogger(__name__)
FIELDS = "batch"  # the attribute of a record


class BatchLog:
    """Logs the batches of a pipeline."""

    name = "the log"

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline

    def take(self, event: Event, measured: Sequence[Measurement]) -> None:
        """See `port.Output`."""
        if isinstance(event, Batch):
            fields = self._fields(event, measured)
            log.info("batch %d of %s: %s rows", event.batch, event.layer, fields["rows"], extra={FIELDS: fields})

    def close(self) -> None:
        """See `port.Output`."""

    def _fields(self, event: Batch, measured: Sequence[Measurement]) -> dict[str, Any]:
        point, lags = event.point, [one.value for one in measured if one.metric is LAG]
        ops = {one.labels[1]: int(one.value) for one in measured if one.metric is ROWS}
        tables = Counter({
            table: sum(n for op, n in of_table.items() if op != "s") for table, of_table in (event.rows or {}).items()
        })  # fmt: skip
        return {
            "time": datetime.fromtimestamp(event.at, timezone.utc).isoformat(timespec="milliseconds"),
            "pipeline": self._pipeline, "layer": event.layer, "batch": event.batch, "bronze_version": event.version,
            "file": point.file, "pos": point.pos, "epoch": point.epoch, "seconds": round(event.seconds, 3),
            "lag_seconds": round(lags[0], 3) if lags else None, "rows": sum(ops.values()), "ops": ops,
            **({"tables": dict(tables.most_common(MOST_TABLES))} if event.rows is not None else {}),
        }  # fmt: skip
