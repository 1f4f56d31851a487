"""Tables as the source held them at one moment, all at the same one; and how far back each can go, and why.

Bronze has all changes of a table, but these make the table only where all of it has been read: after the end of its
first snapshot, and not while it is read again (after a gap, or DDL whose effect nobody can compute), for then it holds
rows whose history was not seen. The ledger says which. Its rows cut the order of changes into steps: at a row, tables
that are not being read there are exact; between two rows, those that were exact at the one and are at the other, unless
a reading began and ended in between, of which bronze has the end (an x row, which says where it began).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from functools import partial

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.errors import TableError, codes
from lakehouse_cdc.lake.commits import newest_first
from lakehouse_cdc.lake.tables import exists, read
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.commit_note import CommitNote, SourcePoint
from lakehouse_cdc.model.moment import Moment
from lakehouse_cdc.model.seq import unpack
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.ops.moment_resolution import seq_of
from lakehouse_cdc.ops.timeline import timeline
from lakehouse_cdc.silver.batch.contents import BEGUN
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.tables.ledger import require_ledger
from lakehouse_cdc.silver.tables.names import SilverNames, own_table
from lakehouse_cdc.silver.time_travel import SchemaInForce, past_schemas, rows_at, schemas_in_force


@dataclass(frozen=True)
class Reach:
    """From where on a table can be had, and why not from earlier."""

    file: str
    pos: int
    commit_ts: datetime
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.pos} ({self.commit_ts.isoformat()}): {self.reason}"


def as_of(
    spark: SparkSession,
    layout: Layout,
    moment: Moment,
    table: str | None,
    policy: Callable[[str], Policy] = lambda _: Policy(),
) -> dict[str, DataFrame]:
    """That table, or all that the source had, as rows of silver's columns, and the seq and commit time of each row.

    A table that was not captured yet, was dropped, or is in bronze alone, is left out where all are asked for. Raises
    ConfigError for one that nobody knows, DefiniteError where a table cannot be said exactly at that moment.
    """
    newest = _newest(spark, layout)
    seq = _seq(spark, layout, moment, newest)
    by_table = schemas_in_force(spark, layout, None if table is None else [table])
    if table is not None and table not in by_table:
        known = schemas_in_force(spark, layout, None)
        raise codes.TABLE_UNKNOWN.error(f"bronze knows no table {table}", hint=f"one of {', '.join(sorted(known))}")
    if table is None:
        by_table = {name: schemas for name, schemas in by_table.items() if _is_there(schemas, seq)}
    for name, refused in _in_bronze_alone(spark, layout, by_table, policy).items():
        if name == table:
            raise refused
        del by_table[name]
    around = _Around.of(spark, layout, seq, newest)
    passes = _passes_over(spark, layout, seq)
    for name, schemas in by_table.items():
        if (reason := around.inexact(name, schemas, passes)) is not None:
            back = reach(spark, layout, name)
            hint = f"it goes back to {back}" if back is not None else "ask again when its snapshot is done"
            raise codes.AS_OF_UNAVAILABLE.error(
                f"{name} cannot be had at {moment}: {reason}", where=f"{name} seq {seq}", hint=hint
            )
    return {name: rows_at(spark, layout, name, seq, schemas) for name, schemas in sorted(by_table.items())}


def seq_at(spark: SparkSession, layout: Layout, moment: Moment) -> int:
    """The seq that a moment stands for: what was so then has a seq up to it. Raises as `as_of` does."""
    return _seq(spark, layout, moment, _newest(spark, layout))


def reach(spark: SparkSession, layout: Layout, table: str) -> Reach | None:
    """How far back a table goes, as far as the ledger and bronze show; None if it does not yet."""
    if not require_ledger(spark, layout):
        return None
    first = _ledger(spark, layout).where(_exact(table)).orderBy("seq").head()
    if first is None:
        return None
    earlier = not _ledger(spark, layout).where(F.col("seq") < first["seq"]).isEmpty()
    reason = "before that its first snapshot was not complete" if earlier else "there the ledger begins"
    changes = [one for one in schemas_in_force(spark, layout, [table]).get(table, [])[1:] if not one.same]
    if changes and changes[-1].seq > first["seq"]:
        held = _oldest(spark, layout, table)
        if held is None or held > first["seq"]:
            since = Decimal(held if held is not None else changes[-1].seq)
            later = _ledger(spark, layout).where(_exact(table) & (F.col("seq") >= F.lit(since))).orderBy("seq").head()
            if later is None:
                return None
            first, reason = later, "its schema changed since, and Delta's log has no older version of it"
    at = first["position"]
    return Reach(at["file"], at["pos"], first["commit_ts"].astimezone(timezone.utc), reason)


def reaches(spark: SparkSession, layout: Layout) -> dict[str, Reach | None]:
    """That of every table that bronze knows. Raises DefiniteError before its first batch."""
    _newest(spark, layout)
    return {name: reach(spark, layout, name) for name in sorted(schemas_in_force(spark, layout))}


@dataclass(frozen=True)
class _Around:
    """What the ledger has at the last row up to a seq, and at the first from there on; None where it has none."""

    seq: int
    before: Row | None
    next_row: tuple[int, Mapping[str, int] | None]
    newest: SourcePoint

    @classmethod
    def of(cls, spark: SparkSession, layout: Layout, seq: int, newest: CommitNote) -> _Around:
        at = F.lit(Decimal(seq))
        before = next_row = None
        if require_ledger(spark, layout):
            ledger = _ledger(spark, layout)
            before = ledger.where(F.col("seq") <= at).orderBy("seq", ascending=False).head()
            next_row = ledger.where(F.col("seq") >= at).orderBy("seq").head()
        if next_row is not None:
            return cls(seq, before, (int(next_row["seq"]), next_row["reading"]), newest.source_point)
        return cls(seq, before, (newest.source_point.seq, newest.reading), newest.source_point)

    def inexact(self, table: str, schemas: list[SchemaInForce], passes: Mapping[str, int]) -> str | None:
        """Why a table is not exact there, None if it is."""
        if schemas[0].seq > self.seq:
            return "it was not captured yet"
        end, reading = self.next_row
        if reading is None:
            return "an earlier release wrote what came next, and did not say whether it was being read"
        if reading.get(table, self.seq + 1) <= self.seq or table in passes:
            return "it was being read there, and what it held meanwhile is not known"
        if end == self.seq:
            return None
        if self.before is None or self.before["reading"] is None:
            return "the ledger begins later"
        if not self.newest.joins(self.before["position"]["epoch"], unpack(self.seq).epoch):
            return "the source's log began again, and where it began is later"
        if table not in self.before["tables"] or table in self.before["reading"]:
            return "it had not been read wholly"
        return None


def _is_there(schemas: list[SchemaInForce], seq: int) -> bool:
    past = [one for one in schemas if one.seq <= seq]
    return bool(past) and past[-1].schema is not None


def _in_bronze_alone(
    spark: SparkSession,
    layout: Layout,
    by_table: Mapping[str, list[SchemaInForce]],
    policy: Callable[[str], Policy],
) -> dict[str, TableError]:
    """Why, for each of these tables that can have no silver table."""
    missing = [name for name in by_table if own_table(spark, layout, name) is None]
    names = SilverNames(layout, schemas_in_force(spark, layout) if missing else (), policy)
    reasons = {}
    for name in missing:
        known = past_schemas(by_table[name])
        refused = names.without(spark, known) if known else None
        if refused is not None:
            reasons[name] = refused
    return reasons


def _passes_over(spark: SparkSession, layout: Layout, seq: int) -> dict[str, int]:
    """The tables that were read again from before `seq` to after it, and since which seq."""
    ends = read(spark, layout.changes).where(f"op = '{Op.END.value}' AND seq > {seq}BD")
    passes = ends.selectExpr("source_table", f"{BEGUN} AS since").collect()
    # compared here: in a filter Spark knows what op is, and would cast every row of the file (see
    # `silver.batch.contents.BEGUN`)
    return {row["source_table"]: int(row["since"]) for row in passes if row["since"] <= seq}


def _seq(spark: SparkSession, layout: Layout, moment: Moment, newest: CommitNote) -> int:
    at = newest.source_point
    marks = partial(timeline, spark, layout, newest=at.seq)
    return seq_of(moment, read(spark, layout.changes), at, marks)


def _ledger(spark: SparkSession, layout: Layout) -> DataFrame:
    return read(spark, layout.ledger)


def _exact(table: str) -> Column:
    return F.map_contains_key("tables", table) & ~F.map_contains_key("reading", table)


def _oldest(spark: SparkSession, layout: Layout, table: str) -> int | None:
    """The least seq through which a version of the silver table, that may be read, and is in the log, holds bronze."""
    oldest: int | None = None
    for commit in newest_first(spark, layout.silver_table(table)):
        if commit.note is not None and commit.note.through is not None:
            oldest = commit.note.through if oldest is None else min(oldest, commit.note.through)
        if commit.note is not None and commit.note.redacted:
            break
    return oldest


def _newest(spark: SparkSession, layout: Layout) -> CommitNote:
    if exists(spark, layout.changes):
        for commit in newest_first(spark, layout.changes):
            if commit.note is not None:
                return commit.note
    raise codes.BRONZE_EMPTY.error("nothing has been read yet", where=str(layout.changes), hint="run first")
