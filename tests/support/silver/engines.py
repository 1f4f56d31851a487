"""Batches applied by tasks in this process, where commits can fail; and tables whose columns need no mapping."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import codes
from lakehouse_cdc.images.typed.columns import NotOurs
from lakehouse_cdc.lake.commit_log import commit_info
from lakehouse_cdc.model.changelog import Change
from lakehouse_cdc.model.table_layout import Table
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.table_tasks.job import Runner
from lakehouse_cdc.silver.table_tasks.work import GaveUp, Outcome, TableTask, applied, gave_up
from tests.support.crash_points import Crash

spark_at_length = pytest.mark.parametrize("engine", [pytest.param("spark", marks=pytest.mark.long), "auto"])


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
    """Who made each commit up to that version: spark, deltalake, or nobody but us (the first alone)."""
    infos = [str((commit_info(table, one) or {}).get("engineInfo")) for one in range(version + 1)]
    names = {"delta-rs": "deltalake", "lakehouse-cdc": "us"}
    return [next((name for mark, name in names.items() if mark in info), "spark") for info in infos]


def require_true_bounds(table: Table) -> None:
    """The statistics of each file of a bare table hold for it, and are of columns of which deltalake knows them."""
    place, live = Path(str(table.path)), dict[str, str]()
    for log in sorted((place / "_delta_log").glob("*.json")):
        for action in map(json.loads, log.read_text(encoding="utf-8").splitlines()):
            if "remove" in action:
                live.pop(action["remove"]["path"], None)
            if "add" in action:
                live[action["add"]["path"]] = action["add"]["stats"]
    for path, text in live.items():
        stats, rows = json.loads(text, parse_float=Decimal), pq.read_table(place / unquote(path), partitioning=None)
        assert stats["numRecords"] == rows.num_rows
        assert not {"_seq", "seq", "key", "__START_AT", "__END_AT", "_deleted_at"} & stats["minValues"].keys()
        for name, least in stats["minValues"].items():
            ends = pc.min_max(rows.column(name)).as_py()
            if isinstance(ends["min"], datetime):
                ends = {which: end.replace(tzinfo=None) for which, end in ends.items()}
                bounds = [datetime.fromisoformat(at.removesuffix("Z")[:23]) for at in (least, stats["maxValues"][name])]
                assert bounds[0] <= ends["min"] <= ends["max"] < bounds[1] + timedelta(milliseconds=1), (path, name)
            else:
                said = least, stats["maxValues"][name]
                assert tuple(map(str, said)) == tuple(map(str, ends.values())), (path, name)
