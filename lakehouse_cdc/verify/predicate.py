"""The keys of a table that a predicate holds for: what is read again where not the whole table shall be.

The source and silver are both asked. Rows that silver lacks, or has otherwise, only the source can name; rows that it
has too much only silver can. MySQL and Spark each understand the predicate in their own way (MySQL's 'a' may equal
'A', a row may be wrong in just the column that is asked about), so the two lists differ where nothing does, and neither
is a judgement: a key that either names is read from the source, as any repair reads it (see `source.requests.repairs`),
and there it is decided what its row is, or that there is none. So the predicate chooses what is looked at, never what
is written.

Between the question and the reading rows change; what comes to match, or no longer does, is in the stream.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.images.program import key_metadata
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.model.key_repair import MOST_KEYS, Key, Repair
from lakehouse_cdc.model.table_layout import Layout, quoted
from lakehouse_cdc.model.table_state import TableState
from lakehouse_cdc.model.variant import decode
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, connect
from lakehouse_cdc.mysql.key_range import KeySpace
from lakehouse_cdc.mysql.wire.select import select_images
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.definition.column_mapping import Shape
from lakehouse_cdc.silver.tables.names import own_table
from lakehouse_cdc.silver.tables.properties import Held, own_properties
from lakehouse_cdc.source.state.state_store import SchemaStore
from lakehouse_cdc.verify.all_tables import shape_of
from lakehouse_cdc.verify.compare import distinct_keys
from lakehouse_cdc.verify.repair import repair_of

_BOTH = "it is asked of MySQL and of Spark, by the source's names of columns that are captured and not masked"
_AS_A_WHOLE = "have the whole table read again, without a predicate"


def keys_where(
    spark: SparkSession,
    layout: Layout,
    connection: ConnectionOptions,
    store: SchemaStore,
    state: TableState,
    name: str,
    predicate: str,
) -> Repair:
    """The repair of the rows of `database.table` that match; it may have no keys.

    Raises DefiniteError for a predicate that MySQL or Spark refuses, for more than `MOST_KEYS` rows, and for a table
    in which single rows cannot be looked for; TransientError while silver has other columns than the source.
    """
    schema = store.get(state.schema)
    if not state.captured or not schema.range_key:
        raise codes.PREDICATE_UNUSABLE.error("rows of this table cannot be looked for", where=name, hint=_AS_A_WHOLE)
    keys = _in_source(connection, schema, predicate)
    if layout.silver is not None and (silver := own_table(SparkReader(spark), layout, name)) is not None:
        held = own_properties(SparkReader(spark), layout, name)
        _require_same_columns(store, schema, held)
        rows = read(spark, silver).where(held.form.is_current(silver.own))
        keys += _in_silver(rows, shape_of(store, schema, held), predicate)
    each = {tuple(key[part] for part in schema.key): key for key in keys}  # 1 and 1.0 are one
    repair = repair_of(store, state, name, [*each.values()])
    if repair is None:
        raise codes.PREDICATE_UNUSABLE.error(
            "the source cannot look for a key that silver has", where=name, hint=_AS_A_WHOLE
        )
    if len(repair.keys) > MOST_KEYS:
        hint = "narrow it, or have the whole table read again"
        raise codes.PREDICATE_UNUSABLE.error(
            f"the predicate holds for more than {MOST_KEYS:,} rows", where=name, hint=hint
        )
    return repair


def _in_source(connection: ConnectionOptions, schema: TableSchema, predicate: str) -> list[Key]:
    space, keys = KeySpace(schema), replace(schema, columns=schema.key_columns)
    sql = f"SELECT {space.order_by()} FROM {space.table} WHERE (\n{predicate}\n) LIMIT {MOST_KEYS + 1}"
    metadata, in_source = key_metadata(schema), list[Key]()
    with connect(connection, purpose="data") as session:
        try:
            for images in select_images(session.connection, sql, keys):
                in_source += [decode(value, metadata) for value in images.key.to_arrow().to_pylist()]
        except DefiniteError as error:
            what = f"the source refuses '{predicate}': {error.what}"
            raise codes.PREDICATE_UNUSABLE.error(what, where=schema.name, hint=_BOTH) from error
    return in_source


def _require_same_columns(store: SchemaStore, schema: TableSchema, held: Held) -> None:
    """Raises TransientError while silver has not applied the last changes of the source's columns.

    Until then a name of the source's may be that of no column of silver's, or of another.
    """
    if held.frozen is None and held.schema_id is not None and store.get(held.schema_id).captured != schema.captured:
        raise codes.TABLE_CHANGED_MEANWHILE.error(
            "silver has not applied the last change of the table's columns yet", where=schema.name,
            hint="ask again when it has, or have the whole table read again, without a predicate",
        )  # fmt: skip


def _in_silver(rows: DataFrame, shape: Shape, predicate: str) -> list[Key]:
    """By the source's names; `rows` are those that exist."""
    schema = shape.rows
    clear = {c.name for c in schema.captured if not c.mask}
    columns = [F.col(quoted(mine)).alias(its) for mine, its in shape.sources.items() if its in clear]
    try:
        named = rows.select(*columns).alias("t")  # without a name Spark would look for columns after the projection
        chosen = named.where(f"(\n{predicate}\n)")
        return [*distinct_keys(chosen, [shape.sources[name] for name in shape.schema.key], MOST_KEYS + 1)]
    except PySparkException as error:
        what = f"Spark refuses '{predicate}': {error.getCondition() or type(error).__name__}"
        raise codes.PREDICATE_UNUSABLE.error(what, where=schema.name, hint=_BOTH) from error
