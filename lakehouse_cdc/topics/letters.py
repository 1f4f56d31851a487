"""Dead letters: each message that was set aside, as it was, with the reason; a table beside bronze.

A batch's letters are written before its rows, once (see `lake.commits`), so a message is never in neither. They are
taken out again when somebody has them tried once more, or drops them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.lake.commits import writer_options
from lakehouse_cdc.lake.table_state import Columns
from lakehouse_cdc.lake.tables import alter, append, create, exists, read, require_ours
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.table_layout import Layout, literal

COLUMNS: Columns = (
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("timestamp", "timestamp"),
    ("key", "binary"),
    ("value", "binary"),
    ("reason", "string"),
    ("text", "string"),
    ("query", "string"),
    ("batch", "bigint"),
)
RECORD_ID = ("topic", "partition", "offset")
_STEP = "letters"


@dataclass(frozen=True)
class Selection:
    """Which letters are meant: those of a reason, of a topic, both, or all."""

    reason: str | None = None
    topic: str | None = None

    @property
    def sql(self) -> str:
        """The condition."""
        parts = [
            f"{name} = {literal(value)}" for name, value in (("reason", self.reason), ("topic", self.topic)) if value
        ]
        return " AND ".join(parts) or "true"


def require_table(spark: SparkSession, layout: Layout) -> None:
    """Create the table where it is missing. Raises DefiniteError for one of another pipeline, or of another shape."""
    table = layout.dead_letters
    if exists(spark, table):
        require_ours(spark, table, COLUMNS, pipeline=layout.pipeline)
        return
    create(
        spark, table, COLUMNS, pipeline=layout.pipeline,
        comment="Messages that were set aside, as they were; see the column reason.",
        properties={"delta.dataSkippingStatsColumns": "topic,partition,offset,batch"}, partition_by=("reason",),
    )  # fmt: skip


def add(letters: DataFrame, layout: Layout, note: CommitNote) -> None:
    """Append a batch's letters (the columns up to `text`), each message once; done before, it changes nothing."""
    whole = letters.dropDuplicates([*RECORD_ID]).withColumns(
        {"query": F.lit(note.query), "batch": F.lit(note.batch).cast("bigint")}
    )
    append(
        whole.select(*(name for name, _ in COLUMNS)),
        layout.dead_letters,
        writer_options(note, _STEP),
        partition_by=("reason",),
    )


def counts(spark: SparkSession, layout: Layout, selection: Selection = Selection()) -> dict[str, int]:
    """How many there are, by reason."""
    if not exists(spark, layout.dead_letters):
        return {}
    rows = read(spark, layout.dead_letters).where(selection.sql).groupBy("reason").count().collect()
    return {row["reason"]: row["count"] for row in sorted(rows, key=lambda row: str(row["reason"]))}


def selected(spark: SparkSession, layout: Layout, selection: Selection) -> DataFrame:
    """Those letters."""
    return read(spark, layout.dead_letters).where(selection.sql)


def drop(spark: SparkSession, layout: Layout, condition: str) -> None:
    """Delete the letters for which a condition holds: one commit."""
    alter(spark, layout.dead_letters, f"DELETE FROM {layout.dead_letters.sql} WHERE {condition}")


@dataclass(frozen=True)
class Letter:
    """One of them, for people and machines: key and value as text, with what is no UTF-8 replaced."""

    topic: str
    partition: int
    offset: int
    timestamp: datetime
    reason: str
    text: str
    key: str | None
    value: str | None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**vars(self), "timestamp": self.timestamp.isoformat()}


def listed(spark: SparkSession, layout: Layout, selection: Selection, most: int) -> list[Letter]:
    """The first ones, in the order of their topics."""
    if not exists(spark, layout.dead_letters):
        return []
    rows = selected(spark, layout, selection).orderBy(*RECORD_ID).limit(most)
    names = ("topic", "partition", "offset", "timestamp", "reason", "text")
    return [
        Letter(**{name: row[name] for name in names}, key=_shown(row["key"]), value=_shown(row["value"]))
        for row in rows.select(*names, "key", "value").collect()
    ]


def _shown(data: bytearray | None) -> str | None:
    return None if data is None else bytes(data).decode("utf-8", "replace")
