"""Silver tables: the source's captured columns by their own names and types, then those of silver's own.

These are the seq and the commit time (see `model.own_columns`); and in front of them, where every version of a row is
kept (SCD type 2), `__START_AT` and `__END_AT`, each as AUTO CDC lays it out for a sequence of (seq, commit_ts); or,
where rows that are gone are kept (soft deletes), when they went. Such tables have no tombstones: what is gone says
since when.

Column mapping by name lets a column be called anything, and be renamed without its data; deletion vectors keep a MERGE
from rewriting whole files. A table that deltalake keeps is bare: it has neither, until it needs one (see
`definition.engine`). A table that is there must be this pipeline's, for this source table, with just the columns
of its schema and those that it keeps of columns dropped on the source, or nothing is touched.

What was applied to a table is kept with it (see `properties`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec

from pyspark.sql import SparkSession

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake import delta_log
from lakehouse_cdc.lake.direct.creation import create_bare
from lakehouse_cdc.lake.direct.log_upkeep import RETENTION
from lakehouse_cdc.lake.direct.newest_version import can_put
from lakehouse_cdc.lake.ownership import other_columns
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.lake.table_state import Columns
from lakehouse_cdc.lake.tables import (
    create,
    exists,
    held_columns,
    plain,
    set_properties,
)
from lakehouse_cdc.model.own_columns import OwnColumns
from lakehouse_cdc.model.table_layout import Layout, Table, quoted
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.type_registry import Kind
from lakehouse_cdc.schema.types import require
from lakehouse_cdc.silver.definition.column_mapping import Shape, columns_of
from lakehouse_cdc.silver.definition.engine import DELTALAKE, ENGINE, SPARK, why_spark
from lakehouse_cdc.silver.definition.form import Form
from lakehouse_cdc.silver.definition.policy import Policy, require_clustered
from lakehouse_cdc.silver.definition.transform import NOTHING, Transform
from lakehouse_cdc.silver.tables import tombstones
from lakehouse_cdc.silver.tables.guards import BOUNDED
from lakehouse_cdc.silver.tables.names import PREFIX, SOURCE, mark_of, require_own
from lakehouse_cdc.silver.tables.properties import (
    BASE,
    BUILDING,
    CLUSTERED,
    FROZEN,
    SCHEMA_ID,
    SCHEMA_SEQ,
    TRANSFORM,
    FrozenShape,
)

STATISTICS = "delta.dataSkippingStatsColumns"
WIDENING = "delta.enableTypeWidening"
_NO_STATISTICS = (Kind.BINARY, Kind.BOOLEAN)  # Delta refuses to keep them
_EXACT_BOUNDS = (Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64, Kind.DATE)  # as deltalake writes and reads them
_PROPERTIES = {
    "delta.columnMapping.mode": "name",
    "delta.enableDeletionVectors": "true",
    "delta.feature.timestampNtz": "supported",
    "delta.autoOptimize.autoCompact": "true",
}
_NTZ = {"delta.feature.timestampNtz": "supported"}
_BARE_PROPERTIES = {  # of tables that deltalake keeps; either engine then makes checkpoints as often
    "delta.autoOptimize.autoCompact": "true",
    "delta.checkpointInterval": "10",
    "delta.logRetentionDuration": RETENTION,
}


def columns(schema: TableSchema, added: Columns = (), *, form: Form, own: OwnColumns) -> Columns:
    """The silver table's columns; `added` are those that come of a transform.

    Raises DefiniteError for a type that silver cannot hold.
    """
    return [
        *columns_of(schema),
        *added,
        *form.columns(own),
        (own.seq, "decimal(38,0)"),
        (own.commit_ts, "timestamp"),
    ]


def make(
    spark: SparkSession,
    layout: Layout,
    shape: Shape,
    added: Columns,
    *,
    in_steps: bool,
    policy: Policy,
    since: int = 0,
) -> str:
    """Make the silver table, empty, and say which engine is to keep it.

    `in_steps`: more than one commit will fill it. `added` are those of `columns`.

    `since` is the seq of the change of the schema that it begins with, 0 for the first schema.

    A table to which nothing has been applied (new, or left so by a crash) must be built from the whole of bronze.
    """
    schema, form, table = shape.schema, policy.form, layout.silver_table(shape.schema.name)
    bare = not why_spark(policy, table, schema) and find_spec("deltalake") is not None and can_put(spark, table)
    if form.has_tombstones:
        bare = _make_tombstones(spark, layout, schema, bare=bare)
    declared, partition = columns(schema, added, form=form, own=table.own), []
    require_clustered(schema.name, policy.cluster_by, plain(declared))
    indexed = statistics(schema, schema.key, form=form, own=table.own, clustered=policy.cluster_by, bare=bare)
    own = {SCHEMA_ID: shape.base.id, STATISTICS: indexed, PREFIX: table.own.prefix}
    own |= {ENGINE: DELTALAKE} if bare else {WIDENING: "true"}
    own |= {CLUSTERED: "true"} if policy.cluster_by else {}
    own |= {BUILDING: "true"} if in_steps else {}
    own |= {SCHEMA_SEQ: str(since)} if since else {}
    own |= {TRANSFORM: shape.transform.text()} if shape.transform != NOTHING else {}
    if table.part is not None:
        of_part = {SCHEMA_ID: shape.rows.id, FROZEN: FrozenShape.of_shape(shape).text(0), BUILDING: "true"}
        if exists(spark, table):
            set_properties(spark, table, of_part)
            return SPARK
        own |= {f"{name}@{table.part}": value for name, value in of_part.items()} | {BASE: shape.base.id}
        own = {name: value for name, value in own.items() if name not in (SCHEMA_ID, SCHEMA_SEQ, BUILDING)}
        declared, partition = [(table.own.source_table, "string"), *declared], [table.own.source_table]
    own = {**policy.properties, SOURCE: mark_of(table, schema.name), **own, **form.properties}
    comment = policy_comment(table, schema.name, policy)
    fit = table.part is None and policy.comments.fit(shape.rows)
    of_columns = policy.column_comments if fit else {}
    if bare and not any(name.lower().startswith("delta.") for name in policy.properties):
        create_bare(
            spark, table, declared, pipeline=layout.pipeline, comment=comment, column_comments=of_columns,
            properties={**_BARE_PROPERTIES, **own},
        )  # fmt: skip
    else:  # also where Delta is to see whether its properties are right
        create(
            spark, table, declared, pipeline=layout.pipeline, partition_by=partition, cluster_by=policy.cluster_by,
            properties={**(_BARE_PROPERTIES | _NTZ if bare else _PROPERTIES), **own}, comment=comment,
            column_comments=of_columns,
        )  # fmt: skip
    return DELTALAKE if bare else SPARK


def policy_comment(table: Table, name: str, policy: Policy) -> str:
    """That of the silver table of `name`: what it is, after the comment of the source's table, if that has one."""
    ours = f"{name} {policy.form.comment}; {table.own.meaning}"
    return ours if table.part is not None else policy.comments.before(ours)


def _make_tombstones(spark: SparkSession, layout: Layout, schema: TableSchema, *, bare: bool) -> bool:
    """They come first, and again: those of an earlier silver table mean nothing to this one. Whether they are bare."""
    beside = layout.tombstones(schema.name)
    if exists(spark, beside):
        require_own(SparkReader(spark), layout, beside, schema.name)
        if not bare:
            hand_to_spark(spark, beside)
        tombstones.empty(spark, beside, schema)
        state = delta_log.state(spark, beside)
        return bare and state is not None and state.bare and state.properties.get(STATISTICS) == BOUNDED
    declared, mark = tombstones.columns(schema), {SOURCE: schema.name}
    comment = f"Keys deleted from {schema.name}, so that an older change cannot bring them back."
    if bare:
        mark |= {**_BARE_PROPERTIES, STATISTICS: BOUNDED}
        create_bare(spark, beside, declared, pipeline=layout.pipeline, comment=comment, properties=mark)
    else:
        mark |= _PROPERTIES
        create(spark, beside, declared, pipeline=layout.pipeline, comment=comment, properties=mark)
    return bare


def is_bare(spark: SparkSession, table: Table) -> bool:
    """Whether the table, which is there, has no feature that deltalake lacks, as far as can be seen."""
    state = delta_log.state(spark, table)
    return state is not None and state.bare


def hand_to_spark(spark: SparkSession, table: Table) -> None:
    """Give a bare table, in one commit, the features that it would have if it had been made for Spark; it stays so.

    Any other table stays as it is. Done after a crash at any point, it makes the same.
    """
    if is_bare(spark, table):
        set_properties(spark, table, {**_PROPERTIES, WIDENING: "true", ENGINE: SPARK})


def require_shape(
    spark: SparkSession, layout: Layout, schema: TableSchema, added: Columns, kept: frozenset[str], *, form: Form
) -> list[str]:
    """The columns that the silver table has beside those of `schema` and `added`.

    Raises DefiniteError unless these are among `kept`, and the others, and the tombstones', are as the schema says.
    """
    table, beside = layout.silver_table(schema.name), layout.tombstones(schema.name)
    wanted, actual = set(plain(columns(schema, added, form=form, own=table.own))), held_columns(spark, table)
    for odd in sorted(wanted ^ set(actual)):
        if odd in wanted or odd[0] not in kept:
            raise other_columns(table, odd)
    if form.has_tombstones:
        for odd in sorted(set(plain(tombstones.columns(schema))) ^ set(held_columns(spark, beside))):
            raise other_columns(beside, odd)
    return [name for name, kind in actual if (name, kind) not in wanted]


def require_same(schema: TableSchema, others: Mapping[str, TableSchema]) -> None:
    """Raise DefiniteError where rows are of other columns or another key, though no change of the schema came before.

    Schemas may differ in what silver does not hold (a length, a character set).
    """
    for other in others.values():
        if columns_of(other) != columns_of(schema) or other.key != schema.key:
            raise codes.SCHEMA_CHANGE_INCOMPLETE.error(
                f"the columns of {schema.name} changed (schema {schema.id} to {other.id}), but bronze does not say how",
                where=schema.name,
                hint="move the silver table and the checkpoint of silver away to have it built again",
            )


def statistics(
    schema: TableSchema,
    names: tuple[str, ...],
    *,
    form: Form,
    own: OwnColumns,
    clustered: Iterable[str] = (),
    bare: bool = False,
) -> str:
    """Delta's list of columns to keep statistics of: ours, those key columns among `names` that have any, `clustered`.

    What files are clustered by must be among them. Of a bare table they are fewer (see `indexed`).
    """
    paths = indexed(schema, names, form=form, own=own, bare=bare)
    kept = [".".join(path) if path[0] in own.all_forms else quoted(path[0]) for path in paths]
    return ",".join(dict.fromkeys([*kept, *(name if name in own.all_forms else quoted(name) for name in clustered)]))


def indexed(
    schema: TableSchema, names: tuple[str, ...], *, form: Form, own: OwnColumns, bare: bool = False
) -> list[tuple[str, ...]]:
    """Those of the columns, and of their fields, that are kept for a MERGE, which skips files by the keys' ranges.

    deltalake writes wrong bounds of a decimal beyond 64 bits (its own reader then passes the file over, and so does
    Spark), and takes those of times, which Delta cuts to milliseconds, as they are. So a bare table has none of either,
    but for the commit time, by which no MERGE and no reader of ours leaves a file out.
    """

    def has_any(column: Column) -> bool:
        kind = require(column, schema.name).kind
        return kind in _EXACT_BOUNDS if bare else kind not in _NO_STATISTICS

    of_all = (own.commit_ts,) if bare else (own.seq, own.commit_ts, *form.indexed(own))
    always = [tuple(name.split(".")) for name in of_all]
    return always + [(c.name,) for c in schema.key_columns if c.name in names and has_any(c)]


def columns_of_source(spark: SparkSession, table: Table, transform: Transform) -> dict[str, str]:
    """The table's columns and their types, but for those that silver adds."""
    added = {*table.own.all_forms, *transform.added}
    return {name: kind for name, kind in held_columns(spark, table) if name not in added}
