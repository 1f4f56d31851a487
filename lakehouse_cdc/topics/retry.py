"""Letters tried once more: under the configuration as it is now, and against bronze as it is now.

They are read as a batch of records is. What can be taken goes to bronze in one commit, at the places that its messages
say; then those letters are taken out. A crash in between leaves letters whose rows are there, which the next try knows
as repeats. Of what cannot be taken the letters stay as they are.

None of them is late for what came after it in its partition: silver puts a row in the order of its seq, whenever it
comes. But a row that is older than a change of its table's schema, or than a truncation, stays a letter: silver has
done that. By arrival, a letter's place is that of the batch in which it was set aside: it takes no newer row's place.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.bronze.schema_registry import record_missing_schemas
from lakehouse_cdc.lake.commits import application_of
from lakehouse_cdc.lake.tables import alter, append
from lakehouse_cdc.model.bronze_row import PARTITION
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.topics import letters
from lakehouse_cdc.topics.batch import Known, sorted_out
from lakehouse_cdc.topics.letters import RECORD_ID, Selection
from lakehouse_cdc.topics.parsing import RECORD, Parsing


@dataclass(frozen=True)
class Retried:
    """How many letters were tried, and how many of them are in bronze by now, or say nothing of a row."""

    tried: int
    taken: int


def retry(
    spark: SparkSession, layout: Layout, parsing: Parsing, selection: Selection, *, accepted: bool = False
) -> Retried:
    """Try the letters; while no stream writes to bronze. `accepted`: see `schema_changes.change_by_names`."""
    tried = taken = 0
    held = letters.selected(spark, layout, selection)
    for batch in sorted(row["batch"] for row in held.select("batch").distinct().collect()):
        n, left = _batch(
            spark, layout, replace(parsing, batch=batch, again=True, truncations=False), selection, accepted=accepted
        )
        tried, taken = tried + n, taken + n - left
    return Retried(tried, taken)


def _batch(
    spark: SparkSession, layout: Layout, parsing: Parsing, selection: Selection, *, accepted: bool
) -> tuple[int, int]:
    """The letters of one batch, in one commit: how many, and how many of them stay."""
    known = Known.of(spark, layout)
    assert known.note is not None, "letters are of a batch, which has a note"
    epoch = known.note.source_point.epoch
    parsing = replace(parsing, progress=known.progress, schemas=known.schemas, epoch=epoch)
    of_batch = letters.selected(spark, layout, selection).where(F.col("batch") == parsing.batch)
    if parsing.order == "arrival":
        of_batch = of_batch.where(F.col("query") == known.note.query)  # others' batches have other places
    records = of_batch.select(*RECORD).repartition("topic", "partition").sortWithinPartitions(*RECORD_ID).persist()
    try:
        n = records.count()
        with sorted_out(spark, layout, records, parsing, known, accepted=accepted) as batch:
            stay = [] if batch.letters is None else batch.letters.select(*RECORD_ID).distinct().collect()
            note = replace(known.note, source_point=batch.point, topics=batch.progress.to_json())
            options: dict[str, str | int] = {
                "txnAppId": application_of(note.pipeline, str(uuid.uuid4()), "retry"), "txnVersion": 0,
                "userMetadata": note.text(),
            }  # fmt: skip
            append(batch.rows, layout.changes, options, partition_by=(PARTITION,))
        record_missing_schemas(spark, layout)
        left = {tuple(row) for row in stay}
        done = [tuple(row) for row in records.select(*RECORD_ID).collect() if tuple(row) not in left]
        _taken_out(spark, layout, done)
        return n, len(left)
    finally:
        records.unpersist()


def _taken_out(spark: SparkSession, layout: Layout, done: list[tuple[str, int, int]]) -> None:
    if done:
        view = f"taken_{uuid.uuid4().hex}"
        spark.createDataFrame(done, "topic string, partition int, offset bigint").createOrReplaceTempView(view)
        try:
            same = " AND ".join(f"t.{name} = d.{name}" for name in RECORD_ID)
            merge = f"MERGE INTO {layout.dead_letters.sql} d USING {view} t ON {same} WHEN MATCHED THEN DELETE"
            alter(spark, layout.dead_letters, merge)
        finally:
            spark.catalog.dropTempView(view)
