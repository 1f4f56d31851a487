"""Every metric, declared once: the outputs, and the page of the documentation, are made from this.

Names are Prometheus' (base units, `_total` for what only grows), and OpenTelemetry's are the same after a dot, so that
a dashboard serves both; units are UCUM's. Each series has the label `pipeline`, too.

No metric has a label of which the values grow without bound: the place in the binlog is two numbers, not a file's name,
and a table is named only where it changed or is in trouble, the first `MOST_TABLES` of them.

Sources: "Metric and label naming" of the Prometheus documentation; "Instrument Units" of OpenTelemetry's semantic
conventions.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

PREFIX = "lakehouse_cdc"
PIPELINE = "pipeline"  # the label of every series
MOST_TABLES = 100
OTHERS = "others"  # in place of the names of further tables; a table's name has a dot


class Kind(str, Enum):
    """A counter only grows within a run, a gauge is a value of now, a histogram counts values by size."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True)
class Metric:
    """One metric; `unit` is UCUM's, "" where there is none; `labels` besides `pipeline`; `buckets` of a histogram."""

    name: str
    kind: Kind
    unit: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def prometheus(self) -> str:
        """The name of its series; of a histogram, what they begin with."""
        return f"{PREFIX}_{self.name}{'_total' * (self.kind is Kind.COUNTER)}"

    @property
    def otel(self) -> str:
        """The name of its instrument."""
        return f"{PREFIX}.{self.name}"


COUNTER, GAUGE, HISTOGRAM = Kind

UP = Metric("up", GAUGE, "", "1 while the streams run, 0 once they have ended")
BUILD = Metric("build_info", GAUGE, "", "1; its labels are the versions", ("version", "spark"))
LAG = Metric(
    "lag_seconds", GAUGE, "s",
    "since all that was committed is in the layer, 0 while it has everything; with each batch, and every 10 s",
    ("layer",),
)  # fmt: skip
LAG_BYTES = Metric("lag_bytes", GAUGE, "By", "of binlog that the layer lacks, as seen every 10 s", ("layer",))
CAUGHT_UP = Metric(
    "caught_up_timestamp_seconds", GAUGE, "s", "when the layer was last seen to have everything", ("layer",)
)
LAST_COMMIT = Metric(
    "last_commit_timestamp_seconds", GAUGE, "s", "when the source committed the last transaction in it", ("layer",)
)
LAST_BATCH = Metric("last_batch_timestamp_seconds", GAUGE, "s", "when its last batch was committed", ("layer",))
BATCHES = Metric("batches", COUNTER, "{batch}", "that were committed", ("layer",))
DURATION = Metric(
    "batch_duration_seconds", HISTOGRAM, "s", "that a batch took, from its first row on", ("layer",),
    (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
)  # fmt: skip
ROWS = Metric(
    "rows", COUNTER, "{row}",
    "that were committed, by op: r read, c inserted, u updated, d deleted, t truncated, x end of a repeated read."
    " Of silver, those of bronze's commits in its batches, as far as this run has counted them",
    ("layer", "op"),
)  # fmt: skip
TABLE_ROWS = Metric("table_rows", COUNTER, "{row}", "into bronze, of tables that have changed", ("table",))
TRANSACTIONS = Metric(
    "transactions", COUNTER, "{transaction}", "that bronze has passed, where MySQL's GTIDs count them"
)
BINLOG_BYTES = Metric("binlog_bytes", COUNTER, "By", "that bronze has passed, as far as the sizes of files are known")
BINLOG_FILE = Metric("binlog_file_number", GAUGE, "", "the number of the binlog file that bronze is in")
BINLOG_POSITION = Metric("binlog_position_bytes", GAUGE, "By", "how far bronze is in that file")
SNAPSHOT_TABLES = Metric("snapshot_tables", GAUGE, "{table}", "by how far they are: waiting, reading, done", ("state",))
QUARANTINED = Metric("tables_quarantined", GAUGE, "{table}", "that are not followed, for a reason that `status` gives")
TABLE_QUARANTINED = Metric(
    "table_quarantined", GAUGE, "", "1 while the table is quarantined, 0 afterwards; of others no series", ("table",)
)
SCHEMA_CHANGES = Metric("schema_changes", COUNTER, "{statement}", "effects of DDL on captured tables", ("kind",))
RETRIES = Metric("retries", COUNTER, "{failure}", "failures that a run has waited to pass, by code", ("error_type",))
HEADROOM = Metric(
    "binlog_retention_headroom_seconds", GAUGE, "s",
    "for which the server keeps at least the binlog that is still needed; +Inf: no limit",
)  # fmt: skip
VERIFIED = Metric("verify_timestamp_seconds", GAUGE, "s", "of the last `verify`, by any process", ("layer",))
DIFFERENCES = Metric("verify_differences", GAUGE, "{row}", "that the last `verify` found to differ", ("layer",))
NOT_VERIFIED = Metric(
    "verify_tables_not_compared", GAUGE, "{table}", "that the last `verify` could not compare", ("layer",)
)
TABLE_DIFFERENCES = Metric(
    "verify_table_differences", GAUGE, "{row}", "the same of a table with any", ("layer", "table")
)

METRICS: tuple[Metric, ...] = (
    UP, BUILD, LAG, LAG_BYTES, CAUGHT_UP, LAST_COMMIT, LAST_BATCH, BATCHES, DURATION, ROWS, TABLE_ROWS, TRANSACTIONS,
    BINLOG_BYTES, BINLOG_FILE, BINLOG_POSITION, SNAPSHOT_TABLES, QUARANTINED, TABLE_QUARANTINED, SCHEMA_CHANGES,
    RETRIES, HEADROOM, VERIFIED, DIFFERENCES, NOT_VERIFIED, TABLE_DIFFERENCES,
)  # fmt: skip


@dataclass(frozen=True)
class Measurement:
    """What a metric is (gauge), what is added to it (counter), or one value (histogram); `labels` in its order."""

    metric: Metric
    value: float
    labels: tuple[str, ...] = ()


_HEAD = """\
# Metrics

What a run gives to Prometheus and OpenTelemetry: see [Watch a pipeline](../guides/watch-a-pipeline.md). Each series has
the label `pipeline`, too. OpenTelemetry's names are the same with a dot after `lakehouse_cdc`, and without `_total`.

| metric | type | unit | labels | meaning |
|---|---|---|---|---|
"""


def page() -> str:
    """The page `docs/reference/metrics.md`."""
    rows = (
        f"| `{one.prometheus}` | {one.kind.value} | {one.unit} | {', '.join(f'`{label}`' for label in one.labels)} | "
        f"{one.help} |\n"
        for one in METRICS
    )
    bound = f"\nOf `table` there are the first {MOST_TABLES} names at most; what more there is, counts as `{OTHERS}`.\n"
    return _HEAD + "".join(rows) + bound
