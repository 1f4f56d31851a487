"""Take a silver table that deltalake keeps through a change of its schema: one commit, without Spark.

Purpose: a table that Spark takes through a rename, a drop or a wider type has features of Delta's from then on, is
Spark's, and closed to other engines; and even an added column takes Spark some commits. Here the rows of a small table
are written again instead, and it stays what it was (see `silver.evolution.at_once` for what that comes to).

Invariant: the table is of the old schema with all that was applied under it, or of the new one and nothing is lacking.

Why it holds: it is one commit (see `lake.direct.redefinition`), with the properties that the last of Spark's steps
sets. A table that is in the middle of a change, which Spark has begun, is Spark's.

Guards: tests/silver/test_engine.py; tests/silver/test_alterations.py runs over both ways.
"""

from __future__ import annotations

import logging
from functools import partial
from importlib.util import find_spec

import pyarrow as pa
from pyspark.sql import SparkSession

from lakehouse_cdc.images.typed.columns import arrow_type
from lakehouse_cdc.lake.direct.newest_version import NewestVersion, can_put
from lakehouse_cdc.lake.direct.redefinition import Definition, Whole, redefine
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.schema.types import require
from lakehouse_cdc.silver.apply.schema_executor import finished
from lakehouse_cdc.silver.batch.contents import SchemaBoundary
from lakehouse_cdc.silver.definition.engine import DELTALAKE, ENGINE, why_spark
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.evolution.at_once import at_once
from lakehouse_cdc.silver.evolution.plan import evolution
from lakehouse_cdc.silver.evolution.steps import Phase
from lakehouse_cdc.silver.tables.table_definition import indexed, statistics

WRITTEN_AGAIN = 16 << 20  # bytes of the files of a table, at most: as Arrow's columns they are some times as many
_log = logging.getLogger(__name__)


def evolve_at_once(
    session: SparkSession, layout: Layout, change: SchemaBoundary, done: CommitNote, policy: Policy
) -> frozenset[str] | None:
    """Bring a table that deltalake keeps to the schema after `change`, with the note `done`; the columns kept beside.

    None, and nothing is done, where it takes Spark: for the change itself, or for the rows that it would write again.
    """
    table, form = layout.silver_table(change.new.name), policy.form
    takes_spark = policy.freezes or form.counts_copies or why_spark(policy, table, change.new)
    if takes_spark or not can_put(session, table) or find_spec("deltalake") is None:
        return None
    kinds = {c.name: arrow_type(require(c, change.new.name)) for c in change.new.captured}
    comments = policy.column_comments if policy.comments.fit(change.new) else {}
    kept: frozenset[str] = frozenset()

    def define(newest: NewestVersion, whole: Whole) -> Definition | None:
        nonlocal kept
        state = newest.state
        if not state.bare or state.partition_by or state.properties.get(ENGINE) != DELTALAKE:
            return None
        present = {name: kind for name, kind in state.columns if name not in table.own.all_forms}
        steps = evolution(change.old, change.new, change.origin, present, Phase.BEFORE, change.filled, policy)
        wanted = at_once(state.fields, steps, comments)
        if wanted is None or not wanted.knows(kinds) or (wanted.changes_rows and whole.size > WRITTEN_AGAIN):
            return None
        names = {column["name"] for column in wanted.fields}.difference(table.own.all_forms)
        kept = frozenset(names - kinds.keys())
        return Definition(
            wanted.fields,
            finished(change, kept, statistics(change.new, change.new.key, form=form, own=table.own, bare=True)),
            partial(wanted.rows, kinds=kinds, ended=form.ended(table.own)) if wanted.changes_rows else None,
            indexed(change.new, change.new.key, form=form, own=table.own, bare=True),
        )

    try:
        return None if redefine(table, define, done.text()) is None else kept
    except pa.ArrowException as error:
        _log.info("Spark takes %s through a change of its schema: %s", table, error)
        return None
