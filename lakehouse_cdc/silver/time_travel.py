"""A silver table as it was at any seq that bronze holds: one of its versions, and what bronze has beyond that.

Each commit of a silver table says through which seq it holds bronze (`CommitNote.through`), exactly: its current rows
are the fold of all of bronze's rows up to there. That never goes back from commit to commit, for a batch that comes
again from an older checkpoint takes nothing away. So the newest version whose `through` is not beyond `seq` is a fold
of a prefix of what is asked for, and the rest is the bronze rows in (through, seq], folded on top as MERGE would: the
last change of each key wins over what the version holds of it, and the greatest barrier takes away what is older.

A table that was built again with other settings had the columns of its earlier settings before (see `apply.rebuild`),
and has them here: what is folded onto a version goes through the transform of that version.

Versions from before values were hidden (`CommitNote.redacted`) are not looked at: they hold these values. What bronze
holds has been redacted as a whole, and with it the schemas: so it can be folded across the change that hid a column.

A change of the schema in the rest would need the table's evolution. There is none: the commit that ends a change says
`through` the change's own seq, so a change at or below `seq` that silver has gone through lies within the version. One
that silver has not gone through yet is refused, unless it changes nothing in silver (`SchemaInForce.same`). Where no
version is old enough, bronze alone is folded, which takes that the table still had its first schema.

Sources: Delta's time travel by version; DBLog (Andreakis and Papapanagiotou, 2020) for the order of reads and events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.lake.commits import newest_first
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.model.own_columns import OwnColumns
from lakehouse_cdc.model.table_layout import Layout, Table, quoted
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.batch import typed_columns
from lakehouse_cdc.silver.batch.contents import split
from lakehouse_cdc.silver.definition.column_mapping import Shape
from lakehouse_cdc.silver.definition.form import form_of_columns
from lakehouse_cdc.silver.definition.transform import Transform
from lakehouse_cdc.silver.forms.writers import multiset
from lakehouse_cdc.silver.tables.known_schemas import SchemaInForce
from lakehouse_cdc.silver.tables.names import own_table
from lakehouse_cdc.silver.tables.properties import FrozenShape, own_properties
from lakehouse_cdc.sinks.schema_cache import Schemas


@dataclass(frozen=True)
class Base:
    """A version of a silver table that holds all through a seq.

    `frozen` is what it kept its shape by, if it did; `transform` what it made of the source's columns, where that is
    not what the table does now.
    """

    table: Table
    version: int
    through: int
    frozen: FrozenShape | None
    transform: Transform | None


def _unchanged_since(past: Sequence[SchemaInForce]) -> int:
    """The seq of the change since which the last schema is, to silver, the one that is in force."""
    return next((one.seq for one in reversed(past) if not one.same), past[0].seq)


def base(spark: SparkSession, layout: Layout, name: str, seq: int) -> Base | None:
    """The newest version of a silver table that holds nothing beyond `seq`; None where no such is known."""
    if (table := own_table(SparkReader(spark), layout, name)) is not None:
        transform = None
        for commit in newest_first(spark, table):
            note = commit.note
            if note is not None and note.through is not None and note.through <= seq:
                return Base(table, commit.version, note.through, FrozenShape.parse(note.frozen), transform)
            if note is not None and note.redacted:
                break
            if note is not None and note.replaced is not None:
                transform = Transform.of(note.replaced)
    return None


def rows_at(
    spark: SparkSession, layout: Layout, name: str, seq: int, schemas: list[SchemaInForce], *, in_order: bool = True
) -> DataFrame:
    """The table's rows as they were at `seq`, of which bronze holds all: silver's columns, and the seq and commit time.

    `schemas` are all that bronze met of the table, at least one of them by `seq`. Where bronze's commits are not
    `in_order`, no version of silver holds all through a seq, and bronze alone says it. Raises DefiniteError where the
    table was left off by then, and where the change to the last schema cannot be gone through.
    """
    past = [one for one in schemas if one.seq <= seq]
    basis = base(spark, layout, name, seq) if in_order else None
    schema = past[-1].schema
    if schema is None:
        raise codes.AS_OF_UNAVAILABLE.error(
            f"{name} was not followed at that position: it had been dropped, or quarantined",
            where=f"{name} seq {seq}",
            hint=f"ask for a position before {_position(spark, layout, name, past[-1].seq)}",
        )
    if (basis.through if basis is not None else past[0].seq) < _unchanged_since(past):
        raise _beyond_a_change(layout, name, past[-1].seq, later=any(one.seq > seq for one in schemas))
    shape = _shape(spark, layout, name, schema, basis)
    rows = read(spark, layout.changes).where(F.col("source_table") == name).where(f"seq <= {seq}BD")
    if basis is None:
        return _folded(None, rows, shape, layout.own)
    held = _rows_of_now(read(spark, basis.table, version=basis.version), layout.own)
    return _folded(held, rows.where(f"seq > {basis.through}BD"), shape, layout.own)


def _position(spark: SparkSession, layout: Layout, name: str, seq: int) -> str:
    """Where the source was when bronze met a schema of the table, or its end."""
    met = read(spark, layout.schemas).where(F.col("source_table") == name).where(f"seq = {seq}BD")
    at = met.select("position.file", "position.pos").head()
    return f"seq {seq}" if at is None else f"{at['file']}:{at['pos']}"


def _rows_of_now(held: DataFrame, own: OwnColumns) -> DataFrame:
    """The rows that existed when a silver table had this version, which may be of another form, or another prefix."""
    was = OwnColumns.of_columns(held.columns)
    form = form_of_columns(held.columns, was)
    rows = held.where(form.is_current(was)).drop(*(column for column, _ in form.columns(was)))
    return rows.withColumnsRenamed({was.seq: own.seq, was.commit_ts: own.commit_ts})


def _shape(spark: SparkSession, layout: Layout, name: str, schema: TableSchema, basis: Base | None) -> Shape:
    """That of the silver table while the source's table had that schema."""
    if (table := own_table(SparkReader(spark), layout, name)) is None:
        return Shape.of(schema)
    held, schemas = own_properties(SparkReader(spark), layout, name), Schemas(layout)
    frozen = basis.frozen if basis is not None else None
    transform = held.transform if basis is None or basis.transform is None else basis.transform
    if (base := frozen.schema_id if frozen is not None else held.base) is None:
        return Shape.of(schema, transform)
    schemas.learn(spark, [base], lambda: read(spark, layout.changes))
    if frozen is None:
        return Shape.joining(schemas[base], schema, transform, str(table))
    return Shape(schemas[base], schema, frozen.sources, transform)


def _beyond_a_change(layout: Layout, name: str, seq: int, *, later: bool) -> DefiniteError:
    if later:
        what = f"the schema of {name} had changed by then, and no version of its silver table is left from that time"
        return codes.AS_OF_UNAVAILABLE.error(what, where=f"{name} seq {seq}", hint="ask for a later position")
    return codes.AS_OF_UNAVAILABLE.error(
        f"the schema of {name} had changed by then, and its silver table has not gone through that change",
        where=f"{layout.silver_table(name)} seq {seq}",
        hint="run, then ask again; status says if the table is quarantined",
    )


def _folded(held: DataFrame | None, rows: DataFrame, shape: Shape, own: OwnColumns) -> DataFrame:
    """`rows` of bronze, of one schema and all newer, on top of the rows of a silver table (None: it has none)."""
    ours = [*shape.names, *shape.transform.metadata, own.seq, own.commit_ts]
    columns = held.columns if held is not None else ours
    part = split(rows).get(shape.schema.name)
    if held is not None and (part is None or not (part.has_rows or part.barriers)):
        return held
    barrier = part.barrier if part is not None else 0
    if not shape.schema.key:
        return multiset.at(held, part, rows, shape, own).select(*map(quoted, columns))
    latest = typed_columns.latest(typed_columns.keyed(rows, shape))
    stand = typed_columns.typed(latest.where(f"op <> 'd' AND seq >= {barrier}BD"), shape)
    came = stand.select(*typed_columns.laid_out(shape, own))
    if held is None:
        return came
    keys = latest.select(*(F.col(f"key.{quoted(k)}").alias(f"k{i}") for i, k in enumerate(shape.schema.key)))
    same = [F.col(f"held.{quoted(k)}") == F.col(f"moved.k{i}") for i, k in enumerate(shape.schema.key)]
    stay = held.where(f"{own.seq} >= {barrier}BD").alias("held").join(keys.alias("moved"), same, "left_anti")
    return stay.unionByName(came, allowMissingColumns=True).select(*map(quoted, columns))
