"""What each batch was, for the operator of the pipeline: rows and seconds, and how far behind the source it left us.

One row a batch and layer in `<bronze>.metrics`, which is only appended to. A commit of its own for each batch would
cost as much as a small batch does, so rows are kept here and written together, at most every `every_seconds` and at
the end of a run, on the thread that waits for the streams and never inside a batch. Nothing that goes wrong on the way
fails a run: it is logged, and the rows are tried again with the next ones.

So this is no ledger: a process that is killed takes the rows of its last seconds along, and a batch that is run again
after a crash has a second row, with the same layer, batch and bronze_version. What decides anything is read elsewhere.

Silver's rows are those of the bronze commits that its batch covers, NULL where not all are known (see
`telemetry.row_counts`). The lag compares two clocks, the source's and ours.

A verification leaves a row, too (`verify_silver`, `verify_bronze`): `rows` and `seconds` are what it compared, and in
what time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from datetime import datetime, timezone
from typing import Any

from pyspark.sql import SparkSession

from lakehouse_cdc.bronze.sink import BronzeBatch
from lakehouse_cdc.lake.commits import newest_first
from lakehouse_cdc.lake.spark_errors import first_line
from lakehouse_cdc.lake.table_state import Columns
from lakehouse_cdc.lake.tables import (
    alter,
    append,
    create,
    exists,
    held_columns,
    require_ours,
    require_owner,
)
from lakehouse_cdc.model.commit_note import SourcePoint
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.model.verification import Verification
from lakehouse_cdc.ops.source_watch import Look
from lakehouse_cdc.silver.apply.stream import SilverBatch
from lakehouse_cdc.telemetry.row_counts import UNKNOWN, Counts, RowCounts

COLUMNS: Columns = (
    ("at", "timestamp"),  # when the batch was in
    ("layer", "string"),  # bronze or silver; source: the lag of bronze between batches; verify_silver, verify_bronze
    ("batch", "bigint"),
    ("bronze_version", "bigint"),  # the commit that holds it; of silver, the last one in it
    ("position", "struct<epoch: int, server_uuid: string, file: string, pos: bigint>"),
    ("commit_ts", "timestamp"),  # of the last transaction up to there
    ("lag_seconds", "double"),  # from that to `at`; of the source, since all that was committed was in bronze
    ("seconds", "double"),  # that the batch took, from its first row on
    ("rows", "bigint"),  # without schemas
    ("ops", "map<string, bigint>"),
    ("tables", "map<string, bigint>"),
    ("lag_bytes", "bigint"),  # of binlog that bronze lacks, as far as was seen last
    ("caught_up_seconds", "double"),  # since bronze last had everything, 0 while it has
    ("retention_seconds", "double"),  # for which the server keeps at least the binlog that is needed; NULL: no limit
    ("differing", "map<string, bigint>"),  # of verify: rows that are not equal, by table; NULL: not compared
    ("quarantined", "map<string, string>"),  # of verify: the reason, by table
)
# which tables of earlier releases lack
_LATER = {"lag_bytes", "caught_up_seconds", "retention_seconds", "differing", "quarantined"}
_DDL = ", ".join(f"{name} {kind}" for name, kind in COLUMNS)
_EVERY_SECONDS = 60.0
_SOURCE_EVERY = 600.0
_MOST = 100_000  # rows that wait, while they cannot be written
_SCHEMA = "s"
_log = logging.getLogger(__name__)


def record_verification(spark: SparkSession, layout: Layout, verification: Verification) -> None:
    """Write its row. What goes wrong, as a right to write that is missing, is logged."""
    try:
        metrics = Metrics(spark, layout)
    except Exception as error:
        _log.warning("the verification is not in %s: %s", layout.metrics, first_line(error))
        return
    metrics.verified(verification)
    metrics.flush()


class Metrics:
    """The metrics of one run, which makes the table where it is missing.

    `bronze` and `silver` may be called from any thread; `tick` and `flush` write, and are one thread's. Raises
    DefiniteError, when it is made, where the table is somebody else's.
    """

    def __init__(self, spark: SparkSession, layout: Layout, every_seconds: float = _EVERY_SECONDS) -> None:
        self._spark, self._layout, self._every = spark, layout, every_seconds
        self._lock = threading.Lock()
        self._waiting: list[tuple[Any, ...]] = []
        self._counts = RowCounts(_newest_with_rows(spark, layout))
        self._look: Look | None = None
        self._source_row = -float("inf")
        if exists(spark, layout.metrics):
            self._with_later_columns()
            require_ours(spark, layout.metrics, COLUMNS, pipeline=layout.pipeline)
        else:
            create(
                spark,
                layout.metrics,
                COLUMNS,
                pipeline=layout.pipeline,
                comment="For each batch its rows, seconds and lag; for each verification what differed.",
                properties={"delta.appendOnly": "true", "delta.autoOptimize.autoCompact": "true"},
            )
        self._written = time.monotonic()

    def _with_later_columns(self) -> None:
        """Give a table of an earlier release the columns that it lacks."""
        table = self._layout.metrics
        held = {name for name, _ in held_columns(self._spark, table)}
        if missing := [f"{name} {kind}" for name, kind in COLUMNS if name in _LATER - held]:
            require_owner(self._spark, table, self._layout.pipeline)
            alter(self._spark, table, f"ALTER TABLE {table.sql} ADD COLUMNS ({', '.join(missing)})")

    def looked(self, look: Look) -> None:
        """The run has looked at the source's log. A row by itself is made of it now and then only."""
        with self._lock:
            self._look = look
            if time.monotonic() - self._source_row < _SOURCE_EVERY:
                return
            self._source_row = time.monotonic()
        self._enter("source", None, None, look.point, None, None)

    def bronze(self, batch: BronzeBatch) -> None:
        """Bronze has committed a batch."""
        with self._lock:
            self._counts.bronze(batch.version, batch.rows, keep=self._layout.silver is not None)
        self._enter("bronze", batch.batch, batch.version, batch.source_point, batch.seconds, batch.rows)

    def silver(self, batch: SilverBatch) -> None:
        """Silver has committed a batch."""
        with self._lock:
            counts = self._counts.silver(batch.after, batch.bronze_version)
        self._enter("silver", batch.batch, batch.bronze_version, batch.source_point, batch.seconds, counts)

    def verified(self, verification: Verification) -> None:
        """A layer has been compared with the source."""
        row = dict.fromkeys((name for name, _ in COLUMNS), None) | {
            "at": _moment(verification.at), "layer": f"verify_{verification.layer}", "rows": verification.rows,
            "seconds": verification.seconds, "differing": dict(verification.differing),
            "quarantined": dict(verification.quarantined),
        }  # fmt: skip
        with self._lock:
            self._waiting.append(tuple(row.values()))

    def _enter(
        self,
        layer: str,
        batch: int | None,
        version: int | None,
        at: SourcePoint,
        seconds: float | None,
        counts: Counts | None,
    ) -> None:
        now = time.time()
        tables: Counter[str] | None = None
        ops: Counter[str] | None = None
        if counts is not None:
            tables, ops = Counter(), Counter()
            for table, of_table in counts.items():
                for op, rows in of_table.items():
                    ops[op] += rows
                    if op != _SCHEMA:
                        tables[table] += rows
        lag_seconds = max(0.0, now - at.time / 1e6) if at.commit_ts else None
        if layer == "source" and self._look is not None:
            lag_seconds = self._look.lag.seconds
        row: tuple[Any, ...] = (
            _moment(now), layer, batch, version, (at.epoch, at.server_uuid, at.file, at.pos),
            _moment(at.time / 1e6) if at.commit_ts else None,
            lag_seconds, seconds, None if tables is None else sum(tables.values()),
            None if ops is None else dict(ops), None if tables is None else dict(tables),
        )  # fmt: skip
        with self._lock:
            look = self._look
            row += (None,) * 3 if look is None or layer == "silver" else _seen(look, at)
            row += (None, None)
            self._waiting.append(row)
            del self._waiting[:-_MOST]

    def tick(self) -> None:
        """Write what waits, if that was done last long enough ago."""
        if time.monotonic() - self._written >= self._every:
            self.flush()

    def flush(self) -> None:
        """Write what waits, in one commit. What goes wrong is logged."""
        self._written = time.monotonic()
        with self._lock:
            rows, self._waiting = self._waiting, []
        if not rows:
            return
        try:
            append(self._spark.createDataFrame(rows, _DDL).coalesce(1), self._layout.metrics, {})
        except Exception as error:
            _log.warning("%d rows of %s are not written yet: %s", len(rows), self._layout.metrics, first_line(error))
            with self._lock:
                self._waiting[:0] = rows


def _newest_with_rows(spark: SparkSession, layout: Layout) -> int:
    """The last commit of bronze's so far that holds rows; after it, an earlier run may have left empty ones."""
    if not exists(spark, layout.changes):
        return UNKNOWN
    versions = (c.version for c in newest_first(spark, layout.changes) if c.note is not None and c.rows != 0)
    return next(versions, 0)


def _seen(look: Look, at: SourcePoint) -> tuple[int | None, float | None, float | None]:
    """What was seen of the log: bronze has moved since, unless it is where it was then."""
    if at == look.point:
        return look.lag.bytes, look.lag.caught_up_seconds, look.headroom.seconds
    return None, None, look.headroom.seconds


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)
