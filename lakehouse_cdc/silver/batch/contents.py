"""What a batch of bronze holds for each table: one pass over its narrow columns, and the few changes of schemas."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.bronze_row import LEFT
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.definition.transform import Transform

_MICROS = "unix_micros(commit_ts) AS commit_ts"
# what a barrier carries: of an x row where its pass began, else its seq
# not of the column itself: that cast would move into the scan, in front of the filter (see `typed_columns`)
BELOW = f"CAST(IF(op = '{Op.END.value}', after, CAST(seq AS VARIANT)) AS DECIMAL(38,0))"
# where the pass began that an x row ends
BEGUN = f"CAST(IF(op = '{Op.END.value}', coalesce(before, after), CAST(seq AS VARIANT)) AS DECIMAL(38,0))"
_BARRIERS = (Op.TRUNCATE.value, Op.END.value)
MARKS = (Op.SCHEMA.value, *_BARRIERS)  # the ops that are no change of a row


@dataclass(frozen=True)
class Barrier:
    """At `seq` and `commit_ts` (microseconds since 1970) every row went that is older than `below`, a seq."""

    seq: int
    commit_ts: int
    below: int


@dataclass(frozen=True)
class SchemaBoundary:
    """A table got the schema `new` at `seq`; `origin` maps its columns to those of `old` that they were.

    `filled` is what all rows hold in some of the others, as text; `commit_ts` are microseconds since 1970. Rows after
    it are written under `schema_id`.
    """

    seq: int
    commit_ts: int
    old: TableSchema
    new: TableSchema
    origin: Mapping[str, str]
    filled: Mapping[str, str]
    schema_id: str

    @classmethod
    def of(
        cls, seq: int, commit_ts: int, schema_id: str, before: dict[str, Any], after: dict[str, Any]
    ) -> SchemaBoundary:
        """From an `s` row and its images. Raises DefiniteError for one that is not whole."""
        old, new = TableSchema.from_dict(before), TableSchema.from_dict(after)
        if new.id != schema_id or "origin" not in after or new.name != old.name:
            raise codes.SCHEMA_CHANGE_INCOMPLETE.error(
                f"a change of the schema of {new.name} to {schema_id} is not whole",
                where=f"{new.name} seq {seq}",
                hint="bronze was written by another release; move it away, with its checkpoint, to begin again",
            )
        return cls(seq, commit_ts, old, new, after["origin"], after.get("filled", {}), schema_id)

    def renamed(self, transform: Transform) -> SchemaBoundary:
        """The change as it is for the columns that a transform makes of the captured ones."""
        if not transform.rename:
            return self
        name, was, now = transform.silver_name, *({c.name for c in s.captured} for s in (self.old, self.new))
        return replace(
            self,
            old=transform.renamed(self.old),
            new=transform.renamed(self.new),
            origin={name(new): name(old) for new, old in self.origin.items() if new in now and old in was},
            filled={name(new): text for new, text in self.filled.items() if new in now},
        )


@dataclass(frozen=True)
class TableBatch:
    """One table's part: its ops and schema ids, the least and greatest seq of its row changes, its barriers in order.

    `single_read` is True where all row changes are snapshot rows of one position: one read of the source gives each
    key once. `barrier` is the seq below which no row survives, 0 if there is none. `end` is the greatest seq of all,
    `changes` are those of the schema, in order. `left` is the seq at which the table was left off last, or 0.
    `read` and `changed` are the least and the greatest seq of snapshot rows, and of other row changes; None for none.
    """

    table: str
    ops: frozenset[str]
    schema_ids: frozenset[str]
    first: int
    last: int
    barriers: tuple[Barrier, ...]
    end: int
    changes: tuple[SchemaBoundary, ...]
    left: int
    read: tuple[int, int] | None
    changed: tuple[int, int] | None

    @property
    def single_read(self) -> bool:
        """See above."""
        return self.ops & {"r", "c", "u", "d"} == {"r"} and self.first == self.last

    @property
    def barrier(self) -> int:
        """See above."""
        return max((barrier.below for barrier in self.barriers), default=0)

    @property
    def has_rows(self) -> bool:
        """True if any row changes."""
        return bool(self.ops & {"r", "c", "u", "d"})

    @property
    def in_two(self) -> tuple[TableBatch, TableBatch] | None:
        """One read, and all that came after it, each as a batch; None where the batch is not just that."""
        if self.read is None or self.changed is None or self.changes or Op.END.value in self.ops:
            return None
        at, oldest = self.read[1], min([self.changed[0], *(barrier.seq for barrier in self.barriers)])
        if self.read[0] != at or oldest <= at:
            return None
        read = replace(
            self, ops=frozenset({Op.READ.value}), first=at, last=at, barriers=(), end=at, left=0, changed=None
        )
        first, last = self.changed
        return read, replace(self, ops=self.ops - {Op.READ.value}, first=first, last=last, read=None)


@dataclass(frozen=True)
class Segment:
    """What a batch holds of a table under one schema: its bronze rows, and what these hold.

    `whole` is None where the table holds nothing that is newer. Else the rows may have come before, or come late, and
    `whole` are all of bronze's under that schema, these among them, up to the newest that the table may hold.
    `versions` are the commits of bronze of which the rows are all that they hold of the table, where they are that.
    The table holds all of bronze's rows up to the seq `through`.
    """

    part: TableBatch
    rows: DataFrame
    whole: DataFrame | None
    versions: Versions | None = None
    through: int = 0


@dataclass(frozen=True)
class Group:
    """The least and the greatest seq of a table's rows of one op and schema."""

    table: str
    op: str
    schema_id: str
    least: int
    greatest: int


def split(rows: DataFrame) -> dict[str, TableBatch]:
    """The part of each table that `rows`, in bronze's columns, holds anything of."""
    bounds = F.min("seq").alias("least"), F.max("seq").alias("greatest")
    counts = rows.groupBy("source_table", "op", "schema_id").agg(*bounds).collect()
    groups = [Group(row[0], row[1], row[2], int(row["least"]), int(row["greatest"])) for row in counts]
    ops = {group.op for group in groups}
    barriers = barriers_of(rows) if ops & set(_BARRIERS) else {}
    changes, left = _changes(rows) if Op.SCHEMA.value in ops else ({}, {})
    return assembled(groups, barriers, changes, left)


def assembled(
    groups: Sequence[Group],
    barriers: Mapping[str, Sequence[Barrier]],
    changes: Mapping[str, Sequence[SchemaBoundary]],
    left: Mapping[str, int],
) -> dict[str, TableBatch]:
    """The part of each table that occurs in `groups`."""
    parts: dict[str, TableBatch] = {}
    for name in sorted({group.table for group in groups}):
        mine = [group for group in groups if group.table == name]
        read = _bounds(group for group in mine if group.op == Op.READ.value)
        changed = _bounds(group for group in mine if group.op not in (*MARKS, Op.READ.value))
        moved = [seq for bounds in (read, changed) if bounds is not None for seq in bounds]
        parts[name] = TableBatch(
            table=name,
            ops=frozenset(group.op for group in mine),
            schema_ids=frozenset(group.schema_id for group in mine),
            first=min(moved, default=0),
            last=max(moved, default=0),
            barriers=tuple(barriers.get(name, ())),
            end=max(group.greatest for group in mine),
            changes=tuple(changes.get(name, ())),
            left=left.get(name, 0),
            read=read,
            changed=changed,
        )
    return parts


def _bounds(groups: Iterable[Group]) -> tuple[int, int] | None:
    """The least and the greatest seq; None where there are no groups."""
    each = list(groups)
    return (min(group.least for group in each), max(group.greatest for group in each)) if each else None


def barriers_of(rows: DataFrame) -> dict[str, list[Barrier]]:
    """table -> its truncations, and the ends of its repeated snapshots, which carry the seq that they began at."""
    marks = rows.where(F.col("op").isin(*_BARRIERS)).selectExpr("source_table", "seq", _MICROS, f"{BELOW} AS below")
    barriers: dict[str, list[Barrier]] = {}
    for row in marks.orderBy("seq").collect():
        barrier = Barrier(int(row["seq"]), row["commit_ts"], int(row["below"]))
        barriers.setdefault(row["source_table"], []).append(barrier)
    return barriers


def _changes(rows: DataFrame) -> tuple[dict[str, list[SchemaBoundary]], dict[str, int]]:
    """table -> the changes of its schema in the order of seq (its first is none); table -> where it was left off."""
    schema_rows = rows.where((F.col("op") == Op.SCHEMA.value) & F.col("before").isNotNull())
    images = [F.to_json(name).alias(name) for name in ("before", "after")]
    changes: dict[str, list[SchemaBoundary]] = {}
    left: dict[str, int] = {}
    wanted = schema_rows.select(
        "source_table", "seq", F.expr(_MICROS), "schema_id", F.expr(LEFT).alias("left"), *images
    )
    for row in wanted.orderBy("seq").collect():
        if row["left"]:
            left[row["source_table"]] = int(row["seq"])
            continue
        before, after = json.loads(row["before"]), json.loads(row["after"])
        change = SchemaBoundary.of(int(row["seq"]), row["commit_ts"], row["schema_id"], before, after)
        changes.setdefault(row["source_table"], []).append(change)
    return changes, left
