"""All tables of a layer against the source, as both were at the position at which the layer is.

One table's trouble is that table's: what cannot be compared is said by name, with the reason, and the others continue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import SparkSession

from lakehouse_cdc.errors import CdcError, TransientError, codes
from lakehouse_cdc.lake.checkpoint import Checkpoint
from lakehouse_cdc.lake.commits import newest_first
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.lake.tables import exists
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.model.table_state import Dropped, Quarantined, Streaming, TableState, with_all_keys
from lakehouse_cdc.model.way_out import silver_reason
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.apply.stream import version_at
from lakehouse_cdc.silver.definition.column_mapping import Shape
from lakehouse_cdc.silver.definition.form import Form
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.forms import CURRENT
from lakehouse_cdc.silver.tables.known_schemas import schemas_of
from lakehouse_cdc.silver.tables.names import SilverNames, own_table
from lakehouse_cdc.silver.tables.progress import require_applied
from lakehouse_cdc.silver.tables.properties import Held, own_properties
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.state.offset_codec import restored
from lakehouse_cdc.source.state.state_store import SchemaStore
from lakehouse_cdc.verify.bronze import verify_bronze
from lakehouse_cdc.verify.compare import TableResult
from lakehouse_cdc.verify.settling import settled
from lakehouse_cdc.verify.silver import verify_table
from lakehouse_cdc.verify.text_source import MySqlTextSource

_AT_ONCE = 4  # tables that are compared side by side: what one waits for, another computes


@dataclass
class Verified:
    """The offset that the tables were compared at, and what came of each.

    `quarantined` are those that are not followed, by source or silver, `failed` those that could not be compared, and
    `left_out` those that have nothing to be compared with, by design; each with the reason.
    """

    offset: Offset
    results: list[TableResult] = field(default_factory=list)
    quarantined: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Verifier:
    """Compares the tables of one pipeline.

    `options` are those of the `mysql_cdc` source, `bronze` and `silver` the checkpoints of these streams; `explain`
    makes an error of ours of any other; `policy` says what is configured for a table.
    """

    spark: SparkSession
    layout: Layout
    options: Mapping[str, str]
    bronze: str
    silver: str
    explain: Callable[[Exception], CdcError]
    policy: Callable[[str], Policy]

    def silver_tables(self) -> Verified:
        """Each silver table. Raises DefiniteError before silver's first batch, TransientError without a source."""
        done = require_applied(SparkReader(self.spark), self.layout, self.silver)
        verified, store = self._begin(done.bronze_version)[0], SchemaStore(self.options["schemaFolder"])
        names = SilverNames(self.layout, verified.offset.tables, self.policy)

        def compared(name: str, state: TableState, offset: Offset) -> TableResult | None:
            schema, place = store.get(state.schema), own_table(SparkReader(self.spark), self.layout, name)
            shape = Shape.of(schema)
            form: Form = CURRENT
            schemas = schemas_of(SparkReader(self.spark), self.layout, name) if place is None else []
            if schemas and (refused := names.without(SparkReader(self.spark), schemas)) is not None:
                verified.quarantined[name] = silver_reason(refused)
                return None
            place = place or self.layout.silver_table(name)
            version = version_at(self.spark, place, done.bronze_version)
            if version is not None:
                held = own_properties(SparkReader(self.spark), self.layout, name)
                if held.quarantine is not None:
                    verified.quarantined[name] = held.quarantine.reason
                    return None
                shape, form = shape_of(store, schema, held), held.form
            return verify_table(self.spark, self.options, offset, shape, place, version, form=form)

        return self._each(verified, compared)

    def bronze_tables(self) -> Verified:
        """The fold of each table's changes. Raises what `silver_tables` does, before bronze's first batch."""
        verified, version = self._begin(None)
        store = SchemaStore(self.options["schemaFolder"])

        def compared(name: str, state: TableState, offset: Offset) -> TableResult:
            schema = store.get(state.schema)
            return verify_bronze(self.spark, self.layout, self.options, offset, schema, version)

        return self._each(verified, compared)

    def _begin(self, bronze_version: int | None) -> tuple[Verified, int]:
        """What is at the end of the newest commit of bronze up to a version, and that commit's."""
        self.spark.dataSource.register(MySqlTextSource)
        options = SourceOptions.parse(self.options)
        offset, version = _offset_of(
            self.spark, self.layout, Checkpoint(self.bronze), SchemaStore(options.schema_folder), bronze_version
        )
        return Verified(settled(offset, options), quarantined=dict(offset.quarantined)), version

    def _each(self, verified: Verified, compare: Callable[[str, TableState, Offset], TableResult | None]) -> Verified:
        errors: list[CdcError] = []

        def attempt(name: str) -> TableResult | None:
            state = verified.offset.tables[name]
            try:
                result = compare(name, state, _whole(verified.offset, name))
            except Exception as error:
                errors.append(self.explain(error))
                verified.failed[name] = str(errors[-1])
                return None
            return None if result is None else replace(result, complete=state.complete)

        names = []
        for name, state in sorted(verified.offset.tables.items()):
            reason = _without_like(state)
            if reason is not None:
                verified.left_out[name] = reason
            elif name not in verified.offset.quarantined:
                names.append(name)
        pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="verify")
        try:
            verified.results = [result for result in pool.map(attempt, names) if result is not None]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # after a Ctrl-C, the rest is of no use
        if errors and not verified.results and all(isinstance(error, TransientError) for error in errors):
            raise errors[0]
        return verified


def _without_like(state: TableState) -> str | None:
    """Why nothing of the source can be compared with what is held of a table; None if there is something."""
    if isinstance(state.phase, Dropped):
        return "it is dropped, or not in source.tables; what was there is kept, and compared with nothing"
    if isinstance(state.phase, Quarantined):
        return None
    if isinstance(state.phase, Streaming):
        return "snapshot: never, so what was there before the first change was never read"
    return None if state.begun else "its snapshot has not begun"


def _whole(offset: Offset, table: str) -> Offset:
    """Of a table that is read again silver has all keys meanwhile, of one read first those below the cursor."""
    return offset.with_table(table, with_all_keys(offset.tables[table]))


def shape_of(store: SchemaStore, rows: TableSchema, held: Held) -> Shape:
    """What a silver table holds of the source's columns. Raises TransientError where that has changed."""
    if held.frozen is None:
        return Shape.of(rows, held.transform)
    if not {*held.frozen.sources.values()} <= {c.name for c in rows.captured}:
        raise codes.TABLE_CHANGED_MEANWHILE.error(
            f"the schema of {rows.name} has changed meanwhile", where=rows.name, hint="verify again"
        )
    return Shape(store.get(held.frozen.schema_id), rows, held.frozen.sources, held.transform)


def _offset_of(
    spark: SparkSession, layout: Layout, checkpoint: Checkpoint, store: SchemaStore, bronze_version: int | None
) -> tuple[Offset, int]:
    """The source's offset at the end of the newest bronze commit up to a version (None: of all), and the last version
    before the commit after that: others may have written some, or put files together.
    """
    newest: int | None = None
    for commit in _commits(spark, layout):
        if bronze_version is not None and commit.version > bronze_version:
            continue
        newest = commit.version if newest is None else newest
        if commit.note is not None:
            if (offset := restored(checkpoint.offset(commit.note.batch), store)) is not None:
                return offset, newest
            newest = None
    raise codes.BRONZE_EMPTY.error(
        "bronze holds no batch of this pipeline's checkpoint", where=str(layout.changes), hint="run first"
    )


def _commits(spark: SparkSession, layout: Layout) -> Any:
    return newest_first(spark, layout.changes) if exists(spark, layout.changes) else ()
