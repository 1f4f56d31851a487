"""Which engine keeps a silver table: Spark, or deltalake (delta-rs), which a task calls without Spark; pure.

Purpose: a MERGE by Spark takes seconds, however little it changes, and deltalake a few hundredths of one. Yet deltalake
writes no table with column mapping, deletion vectors, type widening, a VARIANT or clustering. So a table that is
deltalake's is made without any of them, and one that needs one is Spark's. A change of a small table's schema
needs none (see `silver.evolution.at_once`).

Invariant: Spark may write every table at any time. deltalake writes a table only where the table says that it is
deltalake's and has no feature beyond a few (`lake.bare`).

Why it holds: a task looks for both in the version on top of which it commits, and a commit that changes either
meanwhile makes deltalake refuse its own. The property is set as the table is made, together with its features, and
taken back in the one commit that gives the table the features (see `tables.table_definition.hand_to_spark`). No commit
of ours takes a feature out of a table again, so it does not return to deltalake, unless it is made afresh.

Guards: tests/silver/test_engine.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from lakehouse_cdc.lake.bare import is_plain_path
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.schema.type_registry import Kind
from lakehouse_cdc.schema.types import require
from lakehouse_cdc.silver.definition.transform import NOTHING

if TYPE_CHECKING:
    from lakehouse_cdc.model.table_layout import Table
    from lakehouse_cdc.silver.definition.policy import Policy

Configured = Literal["spark", "auto"]  # `target.engine`
SPARK, DELTALAKE = "spark", "deltalake"
ENGINE = "lakehouse_cdc.engine"  # the property that says which of them keeps the table; spark where it is absent

# Parquet without column mapping takes no space, no comma and no bracket in a name; the rest is what is easily quoted
_NAME = re.compile(r"[\w$-]+")
_UNKEYED = (Kind.FLOAT, Kind.DOUBLE)  # 0.0 and -0.0 are one key to Spark, and two to Arrow
_PRINTED = (*_UNKEYED, Kind.FLOATS)  # a digest of rows has them as Java prints them
_KNOWN = (
    "delta.checkpointinterval", "delta.logretentionduration", "delta.deletedfileretentionduration",
    "delta.autooptimize.autocompact", "delta.autooptimize.optimizewrite",
)  # fmt: skip


def why_spark(policy: Policy, table: Table, schema: TableSchema) -> str:
    """Why Spark keeps the silver table of that schema, "" where deltalake can. `schema` has silver's columns."""
    if policy.engine != "auto":
        return "target.engine is spark"
    return _place(table) or _settings(policy) or _columns(policy, schema)


def _place(table: Table) -> str:
    if table.path is None:
        return "it is in a catalog"
    if not is_plain_path(table.path):
        return "the name of its place has characters that deltalake takes for another"
    return "" if table.part is None else "several source tables go into it"


def _settings(policy: Policy) -> str:
    if not policy.form.by_deltalake:
        return f"it is of {policy.form.title}"
    if policy.transform != NOTHING or policy.freezes or policy.cluster_by:
        return "its columns, or the order of its files, are configured"
    of_delta = [name for name in policy.properties if name.lower().startswith("delta.")]
    return next((f"its property {name} is configured" for name in of_delta if name.lower() not in _KNOWN), "")


def _columns(policy: Policy, schema: TableSchema) -> str:
    for column in schema.captured:
        if not _NAME.fullmatch(column.name):
            return f"the name of its column {column.name} needs column mapping"
        if require(column, schema.name).kind is Kind.JSON:
            return f"its column {column.name} is a VARIANT"
        if policy.form.counts_copies and require(column, schema.name).kind in _PRINTED:
            return f"its column {column.name} is of floating-point numbers, and without a key"
    for column in schema.key_columns:
        if require(column, schema.name).kind in _UNKEYED:
            return f"its key column {column.name} is a floating-point number"
    return ""
