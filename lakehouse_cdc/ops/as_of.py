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
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.errors import TableError, codes
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.commit_note import CommitNote, SourcePoint
from lakehouse_cdc.model.moment import Moment
from lakehouse_cdc.model.seq import unpack
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.ops.moment_resolution import seq_of
from lakehouse_cdc.ops.reach import known_schemas, newest_note, reaches
from lakehouse_cdc.ops.timeline import timeline
from lakehouse_cdc.silver.batch.contents import BEGUN
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.tables.known_schemas import SchemaInForce, past_schemas, schemas_in_force
from lakehouse_cdc.silver.tables.ledger_table import require_ledger
from lakehouse_cdc.silver.tables.names import SilverNames, own_table
from lakehouse_cdc.silver.time_travel import rows_at

if TYPE_CHECKING:
    from lakehouse_cdc.lake.readers.port import TableReader


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
    reader = SparkReader(spark)
    newest = newest_note(reader, layout)
    seq = _seq(spark, layout, moment, newest)
    by_table = known_schemas(reader, layout, table)
    if table is None:
        by_table = {name: schemas for name, schemas in by_table.items() if _is_there(schemas, seq)}
    for name, refused in _in_bronze_alone(reader, layout, by_table, policy).items():
        if name == table:
            raise refused
        del by_table[name]
    around = _Around.of(spark, layout, seq, newest)
    passes = _passes_over(spark, layout, seq)
    for name, schemas in by_table.items():
        if (reason := around.inexact(name, schemas, passes)) is not None:
            back = reaches(reader, layout, [name])[name]
            hint = f"it goes back to {back}" if back is not None else "ask again when its snapshot is done"
            raise codes.AS_OF_UNAVAILABLE.error(
                f"{name} cannot be had at {moment}: {reason}", where=f"{name} seq {seq}", hint=hint
            )
    return {
        name: rows_at(spark, layout, name, seq, schemas, in_order=newest.in_order)
        for name, schemas in sorted(by_table.items())
    }


def seq_at(spark: SparkSession, layout: Layout, moment: Moment) -> int:
    """The seq that a moment stands for: what was so then has a seq up to it. Raises as `as_of` does."""
    return _seq(spark, layout, moment, newest_note(SparkReader(spark), layout))


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
        if require_ledger(SparkReader(spark), layout):
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
    reader: TableReader,
    layout: Layout,
    by_table: Mapping[str, list[SchemaInForce]],
    policy: Callable[[str], Policy],
) -> dict[str, TableError]:
    """Why, for each of these tables that can have no silver table."""
    missing = [name for name in by_table if own_table(reader, layout, name) is None]
    names = SilverNames(layout, schemas_in_force(reader, layout) if missing else (), policy)
    reasons = {}
    for name in missing:
        known = past_schemas(by_table[name])
        refused = names.without(reader, known) if known else None
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
