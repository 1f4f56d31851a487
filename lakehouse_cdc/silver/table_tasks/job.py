"""One job of Spark's for the tables of a batch that deltalake keeps."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession

from lakehouse_cdc.lake import delta_log
from lakehouse_cdc.lake.direct.file_listing import Listed, files_of
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.bronze_row import PARTITION
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.silver.table_tasks.work import Outcome, TableTask, gave_up, run, spread

Runner = Callable[[SparkSession, Sequence[TableTask]], list[Outcome]]
_TASKS_PER_CORE = 2  # so that a core that is done early has something to do
_log = logging.getLogger(__name__)


def in_job(spark: SparkSession, tasks: Sequence[TableTask]) -> list[Outcome]:
    """Do them in tasks of one job. Where the job fails, all of them are Spark's: what was committed is skipped then."""
    context = spark.sparkContext
    runs = spread(tasks, context.defaultParallelism * _TASKS_PER_CORE)
    try:
        answers = context.parallelize(runs, len(runs)).map(run).collect()
    except Exception as error:
        _log.warning("the job for %d tables failed", len(tasks), exc_info=error)
        return [gave_up(task, error) for task in tasks]
    return [outcome for answer in answers for outcome in answer]


def files_by_table(spark: SparkSession, layout: Layout, versions: Versions) -> dict[str, list[Listed]]:
    """The files of bronze that those commits added, of each table; of none where the log does not simply say."""
    state = delta_log.state(spark, layout.changes)
    if state is None or not state.plain or state.partition_by != (PARTITION,):
        return {}
    by_table: dict[str, list[Listed]] = {}
    for file in files_of(layout.changes, versions) or ():
        by_table.setdefault(file.partition[PARTITION], []).append(file)
    return by_table
