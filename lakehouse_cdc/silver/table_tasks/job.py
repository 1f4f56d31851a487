"""One job of Spark's for the tables of a batch that deltalake keeps, and what each of its tasks is given."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession

from lakehouse_cdc.lake import delta_log
from lakehouse_cdc.lake.commits import application
from lakehouse_cdc.lake.direct.file_listing import Listed, files_of
from lakehouse_cdc.lake.direct.rust_table import Once
from lakehouse_cdc.lake.sessions import done_in_tasks, tasks_at_once
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.bronze_row import PARTITION
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.batch.contents import TableBatch
from lakehouse_cdc.silver.definition.form import Form
from lakehouse_cdc.silver.table_tasks.work import Outcome, TableTask, Work, gave_up, run, spread
from lakehouse_cdc.silver.tables.table_definition import statistics

Runner = Callable[[SparkSession, Sequence[TableTask]], list[Outcome]]
_TASKS_PER_CORE = 2  # so that a core that is done early has something to do
_log = logging.getLogger(__name__)


def in_job(spark: SparkSession, tasks: Sequence[TableTask]) -> list[Outcome]:
    """Do them in tasks of one job. Where the job fails, all of them are Spark's: what was committed is skipped then."""
    try:
        runs = spread(tasks, tasks_at_once(spark) * _TASKS_PER_CORE)
        answers = done_in_tasks(spark, run, runs)
    except Exception as error:
        _log.warning("the job for %d tables failed", len(tasks), exc_info=error)
        return [gave_up(task, error) for task in tasks]
    return [outcome for answer in answers for outcome in answer]


def files_by_table(spark: SparkSession, layout: Layout, versions: Versions) -> dict[str, list[Listed]] | None:
    """The files of bronze that those commits added, of each table; None where the log does not simply say."""
    state = delta_log.state(spark, layout.changes)
    if state is None or not state.plain or state.partition_by != (PARTITION,):
        return None
    files = files_of(layout.changes, versions)
    if files is None:
        return None
    by_table: dict[str, list[Listed]] = {}
    for file in files:
        by_table.setdefault(file.partition[PARTITION], []).append(file)
    return by_table


def once(note: CommitNote, step: str) -> Once:
    """What makes a task's commit the one that a writer of Spark's would make in that step."""
    return Once(application(note, step), note.batch, note.text())


def task_of(
    layout: Layout,
    schema: TableSchema,
    form: Form,
    kept: Sequence[str],
    part: TableBatch,
    files: Sequence[Listed],
    merges: Once,
    work: Work,
) -> TableTask:
    """The task of a table with that schema, and columns `kept` beside, for a part that lies in those files."""
    table = layout.silver_table(schema.name)
    return TableTask(
        name=schema.name,
        bronze=str(layout.changes.path),
        files=tuple(file.path for file in files),
        rows=sum(file.rows for file in files),
        table=str(table.path),
        schema=schema,
        schema_ids=part.schema_ids,
        own=table.own,
        of_form=tuple(form.columns(table.own)),
        kept=frozenset(kept),
        bounded=statistics(schema, schema.key, form=form, own=table.own, bare=True),
        merges=merges,
        work=work,
    )
