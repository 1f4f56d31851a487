"""Silver tables: the source's captured columns by their own names and types, then those of silver's own.

These are `_seq` and `_commit_ts`; and in front of them, where every version of a row is kept (SCD type 2), `__START_AT`
and `__END_AT`, each as AUTO CDC lays it out for a sequence of (seq, commit_ts); or, where rows that are gone are kept
(soft deletes), `_deleted_at`. Such tables have no tombstones: what is gone says since when.

Column mapping by name lets a column be called anything, and be renamed without its data; deletion vectors keep a MERGE
from rewriting whole files. A table that is there must be this pipeline's, for this source table, with just the columns
of its schema and those that it keeps of columns dropped on the source, or nothing is touched.

What was applied to a table stands in its own properties, so that it cannot part from its rows: the schema that it is
of, the seq of the last change of the schema that it went through, and how far it is with the next (see `evolution`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.lake.commits import newest_first
from lakehouse_cdc.lake.tables import Columns, create, exists, held_columns, other_columns, plain, require_marked
from lakehouse_cdc.model.layout import COMMIT_TS, DELETED_AT, END_AT, OWN, SEQ, START_AT, Layout, Table, quoted
from lakehouse_cdc.model.standing import CommitNote
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.types import Kind, require
from lakehouse_cdc.silver import tombstones
from lakehouse_cdc.silver.form import Form
from lakehouse_cdc.silver.shape import Shape
from lakehouse_cdc.silver.steps import Phase

SOURCE = "lakehouse_cdc.source_table"
SCHEMA_ID = "lakehouse_cdc.schema_id"
SCHEMA_SEQ = "lakehouse_cdc.schema_seq"
CHANGING = "lakehouse_cdc.schema_change"  # <seq of the change>:<its phase>
KEPT = "lakehouse_cdc.kept_columns"
FROZEN = "lakehouse_cdc.frozen"  # what a table keeps its shape by, and the seq of the last change for which it did
LEFT = "lakehouse_cdc.left_off"  # the seq at which the source's table was dropped, or quarantined; 0: followed again
STUCK = "lakehouse_cdc.quarantined"  # why no more of bronze is applied, and what was applied before
BUILDING = "lakehouse_cdc.building"  # true while several commits build a table from the whole of bronze
STATISTICS = "delta.dataSkippingStatsColumns"
WIDENING = "delta.enableTypeWidening"
_NO_STATISTICS = (Kind.BINARY,)
_PROPERTIES = {
    "delta.columnMapping.mode": "name",
    "delta.enableDeletionVectors": "true",
    "delta.feature.timestampNtz": "supported",
    "delta.autoOptimize.autoCompact": "true",
}
_KEPT = {
    Form.ROWS: "as it is now",
    Form.MARKED: f"as it is now, with the rows that are gone since {DELETED_AT}",
    Form.VERSIONS: f"in every version, from {START_AT} to {END_AT}",
}


@dataclass(frozen=True)
class FrozenShape:
    """What a frozen table says of its shape: the id of that schema, what each column follows, and what none does."""

    schema_id: str
    sources: Mapping[str, str]
    ignored: tuple[str, ...]

    @classmethod
    def of(cls, text: str | None, schema_seq: int) -> FrozenShape | None:
        """From the table's property; None where the last change of the schema was not one that it stood still for."""
        return cls.parse(text) if json.loads(text or "{}").get("seq") == schema_seq else None

    @classmethod
    def parse(cls, text: str | None) -> FrozenShape | None:
        """The inverse of `text`; None for none."""
        data = json.loads(text or "{}")
        return cls(data["shape"], data["sources"], tuple(data["ignored"])) if data else None

    @classmethod
    def of_shape(cls, shape: Shape) -> FrozenShape:
        """That of a table of this shape."""
        return cls(shape.schema.id, dict(shape.sources), shape.ignored)

    def text(self, seq: int) -> str:
        """The property of a table that stood still for the change at `seq`."""
        data = {"seq": seq, "shape": self.schema_id, "sources": self.sources, "ignored": self.ignored}
        return json.dumps(data, ensure_ascii=False)


@dataclass(frozen=True)
class Stuck:
    """A table that silver set aside: why, and the last version of bronze that it holds (None: it lacks all)."""

    reason: str
    after: int | None

    def text(self) -> str:
        """The property."""
        return json.dumps({"reason": self.reason, "after": self.after}, ensure_ascii=False)

    @classmethod
    def of(cls, text: str | None) -> Stuck | None:
        """The inverse; None for a table that is not set aside."""
        return cls(**json.loads(text)) if text else None


@dataclass(frozen=True)
class Held:
    """What a silver table says of itself. `schema_id` is None for one of a release that did not say it.

    `schema_seq` is the seq of the last change of the schema, `changing` of the one under way, each 0 for none.
    `building`: not everything that bronze held when the table was made has been applied to it yet. `left` is the seq
    at which the source's table was left off (dropped, or quarantined), 0 if it is followed. `frozen` is None where the
    table's shape is that of its schema. `form` is what it keeps of rows. `last` is the note of its newest commit,
    None for a table to which no batch has been applied; `through` the newest that its commits say, or 0.
    """

    schema_id: str | None
    schema_seq: int
    changing: int
    phase: Phase
    building: bool
    kept: frozenset[str]
    left: int
    frozen: FrozenShape | None
    stuck: Stuck | None
    form: Form
    last: CommitNote | None
    through: int

    @property
    def applied(self) -> int:
        """All that is older than this has been applied, under schemas that are gone."""
        return max(self.schema_seq, self.changing)

    @classmethod
    def of(cls, properties: Mapping[str, str], notes: Iterable[CommitNote]) -> Held:
        """From the table's properties and the notes of its commits, newest first."""
        last, through = None, 0
        for note in notes:
            last = last or note
            if note.through is not None:
                through = note.through
                break
        schema_seq = int(properties.get(SCHEMA_SEQ, "0"))
        seq, _, phase = properties.get(CHANGING, "0:0").partition(":")
        changing = int(seq) if int(seq) > schema_seq else 0
        return cls(
            schema_id=properties.get(SCHEMA_ID),
            schema_seq=schema_seq,
            changing=changing,
            phase=Phase(int(phase)) if changing else Phase.BEFORE,
            building=last is None or properties.get(BUILDING) == "true",
            kept=frozenset(json.loads(properties.get(KEPT, "[]"))),
            left=int(properties.get(LEFT, "0")),
            frozen=FrozenShape.of(properties.get(FROZEN), schema_seq),
            stuck=Stuck.of(properties.get(STUCK)),
            form=Form.of(properties),
            last=last,
            through=through,
        )


def columns(schema: TableSchema, *, form: Form) -> Columns:
    """The silver table's columns. Raises DefiniteError for a type that silver cannot hold."""
    return [
        *((c.name, require(c, schema.name).silver) for c in schema.captured),
        *form.columns,
        (SEQ, "decimal(38,0)"),
        (COMMIT_TS, "timestamp"),
    ]


def held(spark: SparkSession, layout: Layout, name: str) -> Held | None:
    """What the silver table of `name` says of itself, None if there is none yet.

    Raises DefiniteError where it, or its tombstones, are somebody else's or lack one another.
    """
    table, beside, mark = layout.silver_table(name), layout.tombstones(name), {SOURCE: name}
    if not exists(spark, table):
        return None
    properties = require_marked(spark, table, layout.pipeline, mark)
    found = Held.of(properties, (c.note for c in newest_first(spark, table) if c.note is not None))
    if not found.form.buries:
        return found
    if not exists(spark, beside):
        raise DefiniteError(
            f"the tombstones of {name} are gone",
            where=str(beside),
            hint="restore them, or move the silver table away to have both built anew from bronze",
        )
    require_marked(spark, beside, layout.pipeline, mark)
    return found


def told(spark: SparkSession, layout: Layout, name: str) -> Held:
    """What the silver table of `name`, which is there, says of itself; neither commits nor tombstones are looked at."""
    return Held.of(require_marked(spark, layout.silver_table(name), layout.pipeline, {SOURCE: name}), ())


def make(spark: SparkSession, layout: Layout, schema: TableSchema, *, in_steps: bool, form: Form) -> None:
    """Make the silver table, empty; `in_steps`: more than one commit will fill it.

    A table to which nothing has been applied (new, or left so by a crash) must be built from the whole of bronze.
    """
    mark = {SOURCE: schema.name}
    if form.buries:
        _make_tombstones(spark, layout, schema, mark)
    own = {SCHEMA_ID: schema.id, STATISTICS: statistics(schema, schema.key, form=form), WIDENING: "true"}
    own |= {BUILDING: "true"} if in_steps else {}
    what = _KEPT[form]
    create(
        spark, layout.silver_table(schema.name), columns(schema, form=form), pipeline=layout.pipeline,
        properties={**_PROPERTIES, **mark, **own, **form.properties},
        comment=f"{schema.name} {what}; {SEQ} orders the changes, {COMMIT_TS} is the row's last commit.",
    )  # fmt: skip


def _make_tombstones(spark: SparkSession, layout: Layout, schema: TableSchema, mark: Mapping[str, str]) -> None:
    """They come first, and anew: those of an earlier silver table mean nothing to this one."""
    beside = layout.tombstones(schema.name)
    if exists(spark, beside):
        require_marked(spark, beside, layout.pipeline, mark)
        tombstones.empty(spark, beside, schema)
    else:
        create(
            spark, beside, tombstones.columns(schema), pipeline=layout.pipeline, properties={**_PROPERTIES, **mark},
            comment=f"Keys deleted from {schema.name}, so that an older change cannot bring them back.",
        )  # fmt: skip


def require_shape(
    spark: SparkSession, layout: Layout, schema: TableSchema, kept: frozenset[str], *, form: Form
) -> list[str]:
    """The columns that the silver table has beside those of `schema`.

    Raises DefiniteError unless these are among `kept`, and the others, and the tombstones', are as the schema says.
    """
    table, beside = layout.silver_table(schema.name), layout.tombstones(schema.name)
    wanted, found = set(plain(columns(schema, form=form))), held_columns(spark, table)
    for odd in sorted(wanted ^ set(found)):
        if odd in wanted or odd[0] not in kept:
            raise other_columns(table, odd)
    if form.buries:
        for odd in sorted(set(plain(tombstones.columns(schema))) ^ set(held_columns(spark, beside))):
            raise other_columns(beside, odd)
    return [name for name, kind in found if (name, kind) not in wanted]


def require_same(schema: TableSchema, others: Mapping[str, TableSchema]) -> None:
    """Raise DefiniteError where rows are of other columns or another key, though no change of the schema came before.

    Schemas may differ in what silver does not hold (a length, a character set).
    """
    for other in others.values():
        if columns(other, form=Form.ROWS) != columns(schema, form=Form.ROWS) or other.key != schema.key:
            raise DefiniteError(
                f"the columns of {schema.name} changed (schema {schema.id} to {other.id}), but bronze does not say how",
                where=schema.name,
                hint="move the silver table and the checkpoint of silver away to have it built anew",
            )


def statistics(schema: TableSchema, names: tuple[str, ...], *, form: Form) -> str:
    """Delta's list of columns to keep statistics of: ours, and those key columns among `names` that have any."""
    own = [SEQ, COMMIT_TS, *form.indexed]

    def has_any(column: Column) -> bool:
        return require(column, schema.name).kind not in _NO_STATISTICS

    # the keys' ranges let a MERGE skip files
    indexed = [quoted(c.name) for c in schema.key_columns if c.name in names and has_any(c)]
    return ",".join([*own, *indexed])


def columns_of_source(spark: SparkSession, table: Table) -> dict[str, str]:
    """The table's columns and their types, but for those that silver adds."""
    return {name: kind for name, kind in held_columns(spark, table) if name not in OWN}
