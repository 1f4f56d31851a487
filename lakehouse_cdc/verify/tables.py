"""All silver tables against the source, as both stood at the position at which silver stands."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from pyspark.sql import SparkSession

from lakehouse_cdc.errors import DefiniteError, TransientError
from lakehouse_cdc.lake.checkpoint import Checkpoint
from lakehouse_cdc.lake.commits import newest_first
from lakehouse_cdc.lake.tables import exists
from lakehouse_cdc.model.layout import Layout
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.apply import stream as silver
from lakehouse_cdc.silver.definition.column_mapping import Shape
from lakehouse_cdc.silver.definition.form import Form, no_key
from lakehouse_cdc.silver.tables.properties import Held, told
from lakehouse_cdc.source.offsets import restored
from lakehouse_cdc.source.schemas import SchemaStore
from lakehouse_cdc.verify.compare import TableResult
from lakehouse_cdc.verify.source import verify_table

_AT_ONCE = 4  # tables that are compared side by side: what one waits for, another computes


def verify_tables(
    spark: SparkSession, layout: Layout, options: Mapping[str, str], bronze_checkpoint: str, silver_checkpoint: str
) -> tuple[Offset, list[TableResult], dict[str, str]]:
    """The offset that they were compared at, each table's result, and why others are not followed, by source or silver.

    `options` are those of the `mysql_cdc` source. Raises DefiniteError before silver's first batch.
    """
    applied = silver.applied(spark, layout, silver_checkpoint)
    if applied is None:
        raise DefiniteError("silver has not been written yet", where=str(layout.changes), hint="run first")
    store = SchemaStore(options["schemaFolder"])
    offset = _offset_of(spark, layout, Checkpoint(bronze_checkpoint), store, applied.bronze_version)

    set_aside: dict[str, str] = {}

    def verified(name: str) -> TableResult | None:
        state, place = offset.tables[name], layout.silver_table(name)
        schema = store.get(state.schema)
        shape, form = Shape.of(schema), Form.ROWS
        if not schema.key and not exists(spark, place):
            refused = no_key(name)
            set_aside[name] = f"{refused.what}; {refused.hint}"
            return None
        version = silver.version_at(spark, place, applied.bronze_version)
        if version is not None:
            held = told(spark, layout, name)
            if held.stuck is not None:
                set_aside[name] = held.stuck.reason
                return None
            shape, form = shape_of(store, schema, held), held.form
        result = verify_table(spark, options, _whole(offset, name), shape, place, version, form=form)
        return replace(result, complete=state.complete)

    names = sorted(name for name, state in offset.tables.items() if state.begun and not state.away)
    pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="verify")
    try:
        results = [result for result in pool.map(verified, names) if result is not None]
        return offset, results, {**set_aside, **offset.quarantined}
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # after an error or a Ctrl-C, the rest is of no use


def _whole(offset: Offset, table: str) -> Offset:
    """Of a table that is read again silver has all keys meanwhile, of one read first those below the cursor."""
    state = offset.tables[table]
    return offset.with_table(table, replace(state, cursor=[], done=True)) if state.mode == "again" else offset


def shape_of(store: SchemaStore, rows: TableSchema, held: Held) -> Shape:
    """What a silver table holds of the source's columns. Raises TransientError where that has changed."""
    if held.frozen is None:
        return Shape.of(rows, held.transform)
    if not {*held.frozen.sources.values()} <= {c.name for c in rows.captured}:
        raise TransientError(f"the schema of {rows.name} has changed meanwhile", where=rows.name, hint="verify again")
    return Shape(store.get(held.frozen.schema_id), rows, held.frozen.sources, held.transform)


def _offset_of(
    spark: SparkSession, layout: Layout, checkpoint: Checkpoint, store: SchemaStore, bronze_version: int
) -> Offset:
    """The source's offset at the end of a bronze commit."""
    for commit in newest_first(spark, layout.changes):
        if commit.version <= bronze_version and commit.note is not None:
            found = restored(checkpoint.offset(commit.note.batch), store)
            if found is not None:
                return found
    raise DefiniteError("bronze holds no batch of this pipeline's checkpoint", where=str(layout.changes))
