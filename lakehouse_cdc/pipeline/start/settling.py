"""The first step of every run: do the checkpoint, the tables and the configuration belong together? (See `belonging`.)

Nothing of the source is read and no row is written before this has ended. It runs under the lock of the pipeline, so
what it finds stays so. What it does is done in steps of which each leaves a state that the next start decides about
again, with the same result:

- A planned batch is removed by the removal of one file, and only where bronze has no commit of it. The data files that
  its tasks had written are part of no table; they are deleted before (of a table in a catalog, by VACUUM).
- A new epoch: the offset of bronze is stored first, then the file that names it, then the file that names
  the table. Before the last is there, or Spark has planned a batch, the checkpoint is a new one as before.
- A batch that bronze holds, planned under another configuration: what comes after the commit (its schemas) is done
  here, and the source is informed that there is nothing to read; Spark then completes the batch.
- Silver's checkpoint is moved aside in one step, and deleted there; in a bucket, where nothing is moved, it is deleted
  to the end before anything else is looked at.

Silver's stream needs no such care about its configuration: its plan says only which commits of bronze a batch covers.
What becomes of them is decided as they are applied, each table compares its own shape with the configuration, and a
table's part of a batch is committed as a whole.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from pyspark.sql import SparkSession

from lakehouse_cdc.bronze.recorded_state import find_bronze, greatest_seq, record_last_schemas, tables_in
from lakehouse_cdc.bronze.schema_registry import record_missing_schemas
from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.lake.checkpoint import Checkpoint
from lakehouse_cdc.lake.direct.uncommitted_files import remove_uncommitted
from lakehouse_cdc.lake.files.choice import parted
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.lake.tables import exists, table_id
from lakehouse_cdc.model.belonging import (
    Action,
    BronzeRecord,
    CheckpointRecord,
    Decision,
    Plan,
    PlanAction,
    Silver,
    Tie,
    decide,
    relation,
)
from lakehouse_cdc.model.commit_note import SourcePoint
from lakehouse_cdc.model.offset import Identity, Offset
from lakehouse_cdc.model.position import Position, file_name
from lakehouse_cdc.model.seq import unpack
from lakehouse_cdc.model.state_machine import advanced
from lakehouse_cdc.model.table_events import TableRecorded
from lakehouse_cdc.model.table_layout import Layout, Table
from lakehouse_cdc.pipeline.context import Folders
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.tables.ledger import last_seq
from lakehouse_cdc.silver.tables.ledger_table import bronze_of_ledger
from lakehouse_cdc.sinks.batches import versions_of
from lakehouse_cdc.sinks.stream import newest_note
from lakehouse_cdc.source.ddl.transitions import left
from lakehouse_cdc.source.spark.legacy_reader import forget_plan
from lakehouse_cdc.source.state.planned_configuration import DIGEST
from lakehouse_cdc.source.state.state_store import SchemaStore
from lakehouse_cdc.source.state.stream_start import Beginning

RESET = (
    "lakehouse-cdc reset -c pipeline.yml deletes what is left of both, after a question, so that run can begin again"
)
_KEEP = "lakehouse-cdc reset --keep-tables -c pipeline.yml begins a new epoch over the tables, which loses nothing"
_HINTS = {
    Tie.TABLE_GONE: f"put the table back; or {RESET}",
    Tie.OTHER_TABLE: f"put the checkpoint and the table that belong together back; or {_KEEP}",
    Tie.OLDER_CHECKPOINT: f"put the newer checkpoint back; or {_KEEP}",
    Tie.OLDER_TABLE: f"put the newer table back; or {RESET}",
    Silver.LEFT: f"put the change table back, with its checkpoint; or {RESET}",
    Silver.FOREIGN: f"put the change table back, with its checkpoint; or {RESET}",
    Silver.MATCHING: f"put the change table back, with its checkpoint; or {RESET}",
    Silver.OLDER: f"put the change table back, with its checkpoint; or {RESET}",
}
_REBUILDS = {
    Silver.LOST: "silver's tables are gone: they are built again from bronze",
    Silver.OLDER: "silver's tables are older than its checkpoint: what they lack is applied from bronze",
}
_log = logging.getLogger(__name__)


def settle(spark: SparkSession, layout: Layout, folders: Folders, digest: str) -> list[str]:
    """Decide, and do it; what was done, in words, where it is out of the ordinary.

    `digest` is that of the source's options. Raises DefiniteError where what is there does not belong together.
    """
    _finish_deletions(folders)
    place, beginning = Checkpoint(folders.bronze), Beginning(folders.schemas)
    checkpoint = _checkpoint(place, beginning)
    bronze = find_bronze(spark, layout, checkpoint.query)
    tie = relation(checkpoint, bronze)
    silver = _silver(spark, layout, bronze, Checkpoint(folders.silver))
    decision = decide(tie, silver, _plan(place, checkpoint, bronze, digest))
    if decision.why is not None:
        raise refused(decision.why, layout, folders)
    return _done(spark, layout, folders, decision, bronze)


def settle_topics(spark: SparkSession, layout: Layout, folders: Folders) -> list[str]:
    """The same where bronze is made from topics: the checkpoint says no position, and nothing else is to be done."""
    _finish_deletions(folders)
    place, beginning = Checkpoint(folders.bronze), Beginning(folders.schemas)
    query = place.query_id() if place.exists else None
    checkpoint = CheckpointRecord(query, place.last_offset(), place.last_commit(), beginning.table, {})
    bronze = find_bronze(spark, layout, query)
    if bronze is not None and bronze.last is not None and exists(spark, layout.schemas):
        record_missing_schemas(spark, layout)
    tie = relation(checkpoint, bronze)
    decision = decide(tie, _silver(spark, layout, bronze, Checkpoint(folders.silver)), Plan.NONE)
    if decision.why is not None:
        raise refused(decision.why, layout, folders)
    notices = []
    if decision.rebuild is not None:
        _throw_away(folders.silver)
        notices.append(_REBUILDS[decision.rebuild])
    if decision.action is Action.BEGIN_EPOCH:
        notices.append("the checkpoint is new, and bronze holds rows: the topics are read from their beginning")
    if bronze is not None:
        beginning.belongs_to(bronze.id)
    for notice in notices:
        _log.warning("%s: %s", layout.pipeline, notice)
    return notices


def _finish_deletions(folders: Folders) -> None:
    """What an earlier run, or `reset`, has begun to delete is not there any more: this comes before any look."""
    parted(folders.bronze)[0].empty_trash()


def _throw_away(location: str) -> None:
    files, name = parted(location)
    files.throw_away(name)


def refused(why: Tie | Silver, layout: Layout, folders: Folders) -> DefiniteError:
    """The error for what does not belong together."""
    where = f"{folders.bronze}, {layout.changes}" if isinstance(why, Tie) else f"{layout.ledger}, {layout.changes}"
    what = why.value if isinstance(why, Tie) else f"silver has {why.value}" if why is Silver.LEFT else (
        f"silver was {why.value}" + (", which holds no batch" if why is Silver.MATCHING else "")
    )  # fmt: skip
    return codes.CHECKPOINT_UNRELATED.error(what, where=where, hint=_HINTS[why])


class Naming:
    """To be called before a table of bronze is written to, as `ready`: then the checkpoint names the change table."""

    def __init__(self, spark: SparkSession, layout: Layout, schemas: str, ready: Callable[[Table], None]) -> None:
        self._spark, self._layout, self._schemas, self._ready = spark, layout, schemas, ready
        self._named = False

    def __call__(self, table: Table) -> None:
        self._ready(table)
        if table == self._layout.changes and not self._named:
            Beginning(self._schemas).belongs_to(table_id(self._spark, table))
            self._named = True


def _checkpoint(place: Checkpoint, beginning: Beginning) -> CheckpointRecord:
    planned, complete = place.last_offset(), place.last_commit()
    batches = {batch for batch in (planned, complete) if batch is not None}
    ends = {batch: SourcePoint.of_offset(place.offset(batch)) for batch in batches}
    return CheckpointRecord(place.query_id() if place.exists else None, planned, complete, beginning.table, ends)


def _plan(place: Checkpoint, checkpoint: CheckpointRecord, bronze: BronzeRecord | None, digest: str) -> Plan:
    planned = place.planned
    if planned is None:
        return Plan.NONE
    if bronze is not None:
        last = (
            (checkpoint.query, bronze.last_of_query) if bronze.last is None else (bronze.last.query, bronze.last.batch)
        )
        if last == (checkpoint.query, planned):
            return Plan.HELD
    if checkpoint.names is not None and (bronze is None or checkpoint.names != bronze.id):
        return Plan.CHANGED  # it was planned for another table
    return Plan.SAME if place.offset(planned).get(DIGEST) == digest else Plan.CHANGED


def _silver(spark: SparkSession, layout: Layout, bronze: BronzeRecord | None, place: Checkpoint) -> Silver:
    if layout.silver is None:
        return Silver.NONE
    of = bronze_of_ledger(SparkReader(spark), layout)
    if of is not None:
        if bronze is None:
            return Silver.LEFT
        if of != bronze.id:
            return Silver.FOREIGN
        return Silver.OLDER if _is_older(spark, layout, place) else Silver.MATCHING
    holds = bronze is not None and (bronze.last is not None or bronze.rows)
    begun = place.last_commit() if holds else place.last_offset()
    return Silver.NONE if begun is None else Silver.LOST


def _is_older(spark: SparkSession, layout: Layout, place: Checkpoint) -> bool:
    """Whether silver's checkpoint has a complete batch that its ledger has not.

    Where Delta's log no longer says where that batch ends, bronze's rows do: the ledger has that batch if it has all of
    them. If it lacks some, they may be of later batches, too; silver is then made from bronze once more, which is exact
    in either case.
    """
    batch = place.last_commit()
    if batch is None:
        return False
    note = newest_note(spark, layout, versions_of(place, batch))
    end = greatest_seq(spark, layout) if note is None else note.source_point.seq
    return last_seq(spark, layout) < end


def _done(
    spark: SparkSession, layout: Layout, folders: Folders, decision: Decision, bronze: BronzeRecord | None
) -> list[str]:
    place, beginning, notices = Checkpoint(folders.bronze), Beginning(folders.schemas), []
    if decision.plan is PlanAction.PASS and (planned := place.planned) is not None:
        record_last_schemas(spark, layout)
        SchemaStore(folders.schemas).mark_held(place.offset(planned))
    if decision.plan is PlanAction.REMOVE and (planned := place.planned) is not None:
        remove_uncommitted(layout.changes, since=place.begun_at(planned))
        forget_plan(folders.schemas, place.offset(planned - 1) if planned else {})
        place.remove_plan()
        notices.append(f"batch {planned}, which was planned and of which bronze has nothing, is planned again")
    if decision.rebuild is not None:
        _throw_away(folders.silver)
        notices.append(_REBUILDS[decision.rebuild])
    if decision.action is Action.BEGIN_EPOCH:
        record_last_schemas(spark, layout)
        before = _recorded_offset(spark, layout, SchemaStore(folders.schemas), bronze)
        forget_plan(folders.schemas, {})
        beginning.begin_after(before)
        notices.append(
            f"the checkpoint is new, and bronze holds rows up to epoch {before.epoch}: epoch {before.epoch + 1} begins,"
            " in which every table is read again"
        )
    elif decision.action is Action.BEGIN:
        beginning.begin_after(None)
        if place.last_offset() is None:
            forget_plan(folders.schemas, {})
    if bronze is not None:
        beginning.belongs_to(bronze.id)
    for notice in notices:
        _log.warning("%s: %s", layout.pipeline, notice)
    return notices


def _recorded_offset(spark: SparkSession, layout: Layout, store: SchemaStore, bronze: BronzeRecord | None) -> Offset:
    """The position of bronze: the epoch of its last row, and the tables of which it has rows."""
    greatest, recorded = tables_in(spark, layout)
    last, top = None if bronze is None else bronze.last, unpack(greatest)
    place = Position(file_name("bronze", top.file), top.pos)
    identity = Identity("", place.file, 0)
    if last is not None:
        place = Position(last.source_point.file, last.source_point.pos)
        identity = Identity(last.source_point.server_uuid, place.file, 0)
    tables = {}
    for table in recorded:
        schema = store.put(TableSchema.from_json(table.schema))
        state = advanced(None, TableRecorded(schema))
        tables[table.name] = state if table.left is None else advanced(state, left(table.left))
    epoch = max(top.epoch, last.source_point.epoch if last is not None else 0)
    return Offset(epoch=epoch, identity=identity, position=place, floor=place, tables=tables)
