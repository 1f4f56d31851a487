"""Batches applied by tasks in this process, where commits can fail; and tables whose columns need no mapping."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from lakehouse_cdc.errors import codes
from lakehouse_cdc.images.typed.columns import NotOurs
from lakehouse_cdc.lake.delta_log import commit_info
from lakehouse_cdc.model.changelog import Change
from lakehouse_cdc.model.table_layout import Table
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.table_tasks.job import Runner
from lakehouse_cdc.silver.table_tasks.work import GaveUp, Outcome, TableTask, applied, gave_up
from tests.support.crash_points import Crash


def here(_: SparkSession, tasks: Sequence[TableTask]) -> list[Outcome]:
    """Each task in this process; a crash in one is the end of the batch."""
    return [_one(task) for task in tasks]


def _one(task: TableTask) -> Outcome:
    try:
        return applied(task)
    except Crash as error:
        raise codes.SILVER_WRITE_FAILED.error(str(error), where=task.name) from error
    except (GaveUp, NotOurs) as error:
        return gave_up(task, error)


def at_times(rng: random.Random, share: float) -> Runner:
    """Tasks in this process, of which some give up before they begin, so that Spark has those parts."""

    def run(spark: SparkSession, tasks: Sequence[TableTask]) -> list[Outcome]:
        return [gave_up(task, GaveUp("by chance")) if rng.random() < share else _one(task) for task in tasks]

    return run


def plain_names(schema: TableSchema, changes: Sequence[Change]) -> tuple[TableSchema, list[Change]]:
    """The same table and changes, with names that need no column mapping."""
    names = {c.name: re.sub(r"\W", "_", c.name) for c in schema.columns}
    columns = tuple(replace(c, name=names[c.name]) for c in schema.columns)
    plain = replace(schema, columns=columns, key=tuple(names[name] for name in schema.key))

    def image(held: Any) -> Any:
        if isinstance(held, TableSchema):
            return plain
        return {names[name]: value for name, value in held.items()} if isinstance(held, dict) else held

    return plain, [replace(c, before=image(c.before), after=image(c.after)) for c in changes]


def writers(table: Table, version: int) -> list[str]:
    """Who made each commit up to that version."""
    infos = [commit_info(table, one) or {} for one in range(version + 1)]
    return ["deltalake" if "delta-rs" in str(info.get("engineInfo")) else "spark" for info in infos]
