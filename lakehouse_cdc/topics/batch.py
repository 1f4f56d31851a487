"""One micro-batch of records: what cannot be taken to the dead letters, the rest to bronze, each once.

Purpose: bronze has each change that a topic has, once, under the schema that it was written under; and whatever is not
in bronze is a letter, a repeat of what bronze has, or says nothing of a row.

Why it holds. A batch is a range of offsets in Spark's checkpoint, so a repeated one has the same records. Its letters
are committed first and its rows then, each once by (query, batch); what it does in between is a function of the records
and of bronze before the batch, which does not change until the rows are there. A batch whose rows are there is not read
again: its commit says that it is the newest one. A row whose seq is not greater than the mark of its partition is
compared with bronze by (table, seq, op, key): it is there, hence a repeat, or it is late. By position, seqs are the
source's own, so this holds for redeliveries under other offsets, too, and for a new checkpoint.

Guards: tests/topics.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.bronze.recorded_state import tables_in
from lakehouse_cdc.bronze.sink import BronzeBatch, Ready, append_rows, record_commit
from lakehouse_cdc.lake.commits import newest_first
from lakehouse_cdc.lake.tables import exists, read
from lakehouse_cdc.messages.reading import Reason
from lakehouse_cdc.model.bronze_arrow import ARROW
from lakehouse_cdc.model.bronze_row import COLUMNS
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.commit_note import CommitNote, SourcePoint
from lakehouse_cdc.model.position import file_name
from lakehouse_cdc.model.seq import unpack
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.model.variant import encode
from lakehouse_cdc.schema.change import SchemaChange
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.topics import letters
from lakehouse_cdc.topics.eras import Boundary, Group, Plan, Rule, planned
from lakehouse_cdc.topics.order import Mark, Progress, batch_file
from lakehouse_cdc.topics.parsing import (
    AGAIN,
    LATE,
    LETTER,
    LINE_DDL,
    NEW,
    RECORD,
    ROW,
    TABLE,
    Parsing,
    variants,
)
from lakehouse_cdc.topics.schema_changes import Filled, change_by_names

_BRONZE = [column.name for column in COLUMNS]
_IDENTITY = ["source_table", "seq", "op", "identity"]
_LETTER = [name for name, _ in letters.COLUMNS[:8]]
_MICROS = "unix_micros(timestamp)"


@dataclass(frozen=True)
class Known:
    """What bronze has before a batch: the note of its newest commit, and the schema of each table."""

    note: CommitNote | None
    schemas: Mapping[str, TableSchema]

    @classmethod
    def of(cls, spark: SparkSession, layout: Layout) -> Known:
        """As its tables say."""
        if not exists(spark, layout.changes):
            return cls(None, {})
        note = next((commit.note for commit in newest_first(spark, layout.changes) if commit.note is not None), None)
        _, tables = tables_in(spark, layout)
        return cls(note, {table.name: TableSchema.from_json(table.schema) for table in tables})

    @property
    def progress(self) -> Progress:
        """How far bronze has come in each topic."""
        return Progress.of_json(None if self.note is None else self.note.topics)


def epoch_of(note: CommitNote | None, query: str, parsing_order: str) -> int:
    """The epoch of a stream's rows: by arrival, a new one with each checkpoint."""
    if parsing_order == "position" or note is None:
        return 1
    return note.source_point.epoch + (note.query != query)


class BatchWriter:
    """Writes the batches of one stream, in their order. `accepted`: see `change_by_names`."""

    def __init__(self, layout: Layout, ready: Ready, *, accepted: bool = False) -> None:
        self._layout, self._ready, self._accepted = layout, ready, accepted
        self._known: Known | None = None

    def write(self, records: DataFrame, parsing: Parsing, query: str) -> BronzeBatch:
        """Write a batch of records; done before, it changes nothing, and returns the same but for the seconds."""
        self._ready(self._layout.changes)
        spark = records.sparkSession
        if self._known is None:
            self._known = Known.of(spark, self._layout)
        known = self._known
        if known.note is not None and (known.note.query, known.note.batch) == (query, parsing.batch):
            version, counts = record_commit(spark, self._layout, known.note, self._ready)
            self._known = None
            return BronzeBatch(parsing.batch, version, known.note.source_point, counts)
        epoch = epoch_of(known.note, query, parsing.order)
        parsing = replace(parsing, progress=known.progress, schemas=known.schemas, epoch=epoch)
        with sorted_out(spark, self._layout, records, parsing, known, accepted=self._accepted) as batch:
            note = CommitNote(
                self._layout.pipeline, query, parsing.batch, batch.point, reading={}, topics=batch.progress.to_json()
            )
            if batch.letters is not None:
                letters.require_table(spark, self._layout)
                letters.add(batch.letters, self._layout, note)
            version, counts = append_rows(spark, batch.rows, self._layout, note, self._ready)
        self._known = Known(note, {**known.schemas, **batch.schemas})
        return BronzeBatch(parsing.batch, version, note.source_point, counts)


@dataclass(frozen=True)
class SortedOut:
    """A batch before it is written: rows of bronze, and letters; where bronze is then, and the schemas it has met."""

    rows: DataFrame
    letters: DataFrame | None
    point: SourcePoint
    progress: Progress
    schemas: Mapping[str, TableSchema]


@contextmanager
def sorted_out(
    spark: SparkSession, layout: Layout, records: DataFrame, parsing: Parsing, known: Known, *, accepted: bool
) -> Iterator[SortedOut]:
    """What becomes of records; to be used within the block, for what Spark has of it is given up then."""
    lines = records.select(*RECORD).mapInArrow(parsing.lines, LINE_DDL).persist(StorageLevel.MEMORY_AND_DISK)
    held = [lines]
    try:
        rows, late, met = lines.where(F.col("kind") == ROW), None, _summed(lines)
        schemas, filled = _described(met)
        taken = rows.where(F.col("state") == NEW)
        in_groups = [one for one in met if one["state"] == NEW]
        if any(one["state"] in (AGAIN, LATE) for one in met):
            left = _not_repeated(spark, layout, rows).persist(StorageLevel.MEMORY_AND_DISK)
            held.append(left)
            of_left = _summed(left)
            if any(one["state"] == AGAIN for one in of_left):
                taken = taken.unionByName(left.where(F.col("state") == AGAIN))
                in_groups += [one for one in of_left if one["state"] == AGAIN]
            if any(one["state"] == LATE for one in of_left):
                late = left.where(F.col("state") == LATE)
        plan = planned(
            _groups(in_groups), lambda one: schemas[one], known.schemas,
            lambda before, after: change_by_names(before, after, filled[after.id], accepted=accepted),
            lambda table: _newest(spark, layout, table), parsing,
        )  # fmt: skip
        taken, unfit = _ruled(spark, taken, plan)
        boundaries = _boundaries(spark, plan.boundaries)
        own = lines if any(one["kind"] == LETTER for one in met) else None
        yield SortedOut(
            taken.select(*_BRONZE) if boundaries is None else taken.select(*_BRONZE).unionByName(boundaries),
            _letters(records, own, late, unfit),
            _point(in_groups, plan, parsing, known),
            _progress(in_groups, plan, parsing, known),
            {table: _schema_of(ones[-1]) for table, ones in plan.boundaries.items()},
        )
    finally:
        for frame in held:
            frame.unpersist()


def _summed(lines: DataFrame) -> list[Row]:
    """What there is among lines: one pass."""
    by = lines.withColumn("truncates", F.col("op") == Op.TRUNCATE.value)
    summed = by.groupBy("kind", "state", "topic", "partition", "source_table", "schema_id", "truncates").agg(
        F.min("seq").alias("first"), F.max("seq").alias("last"), F.expr(f"min({_MICROS})").alias("since"),
        F.max("server").alias("server"), F.max_by("position", "seq").alias("position"),
        F.expr("max(unix_micros(commit_ts))").alias("commit_us"), F.min("text").alias("text"),
    )  # fmt: skip
    return summed.collect()


def _described(met: Iterable[Row]) -> tuple[dict[str, TableSchema], dict[str, Filled]]:
    """The schemas that the lines have met, and what rows hold in columns that are new, by id."""
    held = {one["schema_id"]: json.loads(one["text"]) for one in met if one["kind"] == TABLE}
    schemas = {one: TableSchema.from_dict(data["schema"]) for one, data in held.items()}
    return schemas, {one: data["filled"] for one, data in held.items()}


def _identified(rows: DataFrame) -> DataFrame:
    return rows.withColumn("identity", F.coalesce(F.to_json("key"), F.lit("")))


def _not_repeated(spark: SparkSession, layout: Layout, rows: DataFrame) -> DataFrame:
    """Of the rows that may be repeats, those that neither bronze nor the rest of the batch has."""
    suspects = _identified(rows.where(F.col("state") != NEW))
    ranges = suspects.groupBy("source_table").agg(F.min("seq").alias("first"), F.max("seq").alias("last")).collect()
    there = reduce(lambda a, b: a | b, map(_range, ranges), F.lit(False))
    bronze = read(spark, layout.changes).where(there).where(F.col("op") != Op.SCHEMA.value)
    known = _identified(bronze).select(*_IDENTITY)
    again = suspects.where(F.col("state") == AGAIN).join(known, _IDENTITY, "left_anti").dropDuplicates(_IDENTITY)
    in_batch = _identified(rows.where(F.col("state") != LATE)).select(*_IDENTITY)
    late = suspects.where(F.col("state") == LATE).join(known.unionByName(in_batch), _IDENTITY, "left_anti")
    return again.unionByName(late).drop("identity")


def _range(row: Row) -> Any:
    return (F.col("source_table") == row["source_table"]) & F.col("seq").between(row["first"], row["last"])


def _groups(met: Iterable[Row]) -> list[Group]:
    by: dict[tuple[str, str, str, int], Group] = {}
    for one in met:
        group = Group(
            one["source_table"], one["schema_id"], one["topic"], one["partition"], int(one["first"]), int(one["last"]),
            one["since"],
        )  # fmt: skip
        other = by.setdefault((group.table, group.schema_id, group.topic, group.partition), group)
        by[group.table, group.schema_id, group.topic, group.partition] = replace(
            group, first=min(group.first, other.first), last=max(group.last, other.last),
            since=min(group.since, other.since),
        )  # fmt: skip
    return list(by.values())


def _newest(spark: SparkSession, layout: Layout, table: str) -> int:
    """The greatest seq of a table in bronze."""
    row = read(spark, layout.changes).where(F.col("source_table") == table).agg(F.max("seq").alias("seq")).head()
    return 0 if row is None or row["seq"] is None else int(row["seq"])


_RULE = (
    "source_table string, schema_id string, topic string, partition int, shift decimal(38,0), below decimal(38,0),"
    " why string, what string"
)
_OF_RULE = ["source_table", "schema_id", "topic", "partition"]


def _ruled(spark: SparkSession, rows: DataFrame, plan: Plan) -> tuple[DataFrame, DataFrame | None]:
    """The rows that are taken, with their seqs, and those that are not, with reason and text."""
    if not any(rule.shift or rule.reason or rule.below <= rule.group.last for rule in plan.rules):
        return rows, None
    rules = F.broadcast(spark.createDataFrame([_as_row(rule) for rule in plan.rules], _RULE))
    ruled = rows.join(rules, _OF_RULE)
    fits = F.col("why").isNull() & (F.col("seq") < F.col("below"))
    unfit = ruled.where(~fits).withColumns({
        "reason": F.coalesce("why", F.lit(Reason.OUT_OF_ORDER.value)),
        "text": F.coalesce("what", F.lit("the table had another schema by then")),
    })  # fmt: skip
    shifted = (F.col("seq") + F.col("shift")).cast("decimal(38,0)")
    return ruled.where(fits).withColumn("seq", shifted), unfit


def _as_row(rule: Rule) -> tuple[Any, ...]:
    group = rule.group
    reason = None if rule.reason is None else rule.reason.value
    below = Decimal(min(rule.below, 10**38 - 1))
    return (
        group.table, group.schema_id, group.topic, group.partition, Decimal(rule.shift), below, reason,
        rule.text if reason else None,
    )  # fmt: skip


def _letters(
    records: DataFrame, own: DataFrame | None, late: DataFrame | None, unfit: DataFrame | None
) -> DataFrame | None:
    """All letters; None where there is none. Of rows that were read, the record has the bytes."""
    found = []
    if own is not None:
        of_lines = own.where(F.col("kind") == LETTER).drop("key")
        of_lines = of_lines.withColumnsRenamed({"record_key": "key", "record_value": "value"})
        found.append(of_lines.select(*_LETTER))
    if late is not None:
        what = "bronze does not have it, and has what came after it"
        late = late.withColumns({"reason": F.lit(Reason.OUT_OF_ORDER.value), "text": F.lit(what)})
    for rows in (late, unfit):
        if rows is not None:
            why = rows.select(*letters.RECORD_ID, "reason", "text").dropDuplicates([*letters.RECORD_ID])
            found.append(records.select(*RECORD).join(why, [*letters.RECORD_ID]).select(*_LETTER))
    return reduce(DataFrame.unionByName, found) if found else None


def _progress(met: Sequence[Row], plan: Plan, parsing: Parsing, known: Known) -> Progress:
    """How far bronze has come in its topics after the batch."""
    progress = known.progress
    if parsing.order == "position" and not parsing.again:
        marks = [((one["topic"], one["partition"]), Mark(int(one["last"]), one["server"] or 0)) for one in met]
        progress = progress.with_marks(marks)
    progress = progress.with_floors({table: ones[-1].seq for table, ones in plan.boundaries.items()})
    shifts = {(r.group.table, r.group.schema_id, r.group.topic, r.group.partition): r.shift for r in plan.rules}
    for one in met:
        if one["truncates"]:
            shift = shifts[one["source_table"], one["schema_id"], one["topic"], one["partition"]]
            progress = progress.with_floors({one["source_table"]: int(one["last"]) + shift})
    return progress


def _point(met: Sequence[Row], plan: Plan, parsing: Parsing, known: Known) -> SourcePoint:
    """Where bronze is after the batch: at its newest row."""
    before = SourcePoint(parsing.epoch, "", batch_file(-1), 0) if known.note is None else known.note.source_point
    if not met:
        return before
    at = max(met, key=lambda one: one["last"])["position"]
    last = max(rule.group.last + rule.shift for rule in plan.rules)
    pos = at["pos"] if parsing.order == "position" else unpack(last).pos
    commit = max(one["commit_us"] for one in met)
    now = SourcePoint(parsing.epoch, at["server_uuid"] or "", at["file"], pos, commit_ts=commit)
    return max(before, now, key=lambda one: one.seq)


def _schema_of(boundary: Boundary) -> TableSchema:
    return boundary.schema.schema if isinstance(boundary.schema, SchemaChange) else boundary.schema


def _boundaries(spark: SparkSession, boundaries: Mapping[str, Iterable[Boundary]]) -> DataFrame | None:
    """The `s` rows of bronze."""
    rows = [_schema_row(table, one) for table, ones in boundaries.items() for one in ones]
    if not rows:
        return None
    columns = {
        one.name: variants([row[one.name] for row in rows])
        if one.name in ("key", "before", "after")
        else pa.array([row[one.name] for row in rows], one.type)
        for one in ARROW
    }
    made: DataFrame = spark.createDataFrame(pa.table(columns, schema=ARROW))
    return made


def _schema_row(table: str, boundary: Boundary) -> dict[str, Any]:
    change, schema, place = boundary.schema, _schema_of(boundary), unpack(boundary.seq)
    before, after = (None, {**schema.to_dict(), "statement": None})
    if isinstance(change, SchemaChange):
        before, after = change.images()
    return {
        "seq": Decimal(boundary.seq), "op": Op.SCHEMA.value, "source_table": table, "key": None,
        "before": None if before is None else encode(before), "after": encode(after), "commit_ts": 0,
        "position": {"server_uuid": None, "file": file_name("at", place.file), "pos": place.pos, "gtid": None},
        "schema_id": schema.id,
    }  # fmt: skip
