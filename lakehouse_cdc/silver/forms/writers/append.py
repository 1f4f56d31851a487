"""Bring one silver table of a source without a key, to which rows are only ever added, from one position to the next.

Such rows have no name by which a MERGE could find them, so an update or a delete there stops the table (it is
quarantined; bronze continues). What is added is appended: each row once, by the place in the order up to which the
table holds bronze. What takes rows away does it to all that are older than some seq: a truncation; and a repeated read,
whose rows are all there are (see `model.multiset`), so that they replace the older ones in the commit that adds them.

A batch that is not newer than what the table holds (an older checkpoint) has the table made again, as of type 2: what
it held when the schema came into force, and all that bronze has since. So nothing is appended twice.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.commits import writer_options
from lakehouse_cdc.lake.merging import Merge
from lakehouse_cdc.lake.tables import append, read, write
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.own_columns import OwnColumns
from lakehouse_cdc.model.table_layout import quoted
from lakehouse_cdc.silver.batch import typed_columns
from lakehouse_cdc.silver.batch.computed_columns import filtered
from lakehouse_cdc.silver.batch.contents import TableBatch, split
from lakehouse_cdc.silver.definition.column_mapping import Shape
from lakehouse_cdc.silver.forms.writers.incremental_writer import OrderedWriter
from lakehouse_cdc.silver.table_tasks.appended import Appended
from lakehouse_cdc.silver.table_tasks.work import Work


class AppendWriter(OrderedWriter):
    """The writer of a table of appended rows."""

    _writes = "appended"

    def _add(self, session: SparkSession, part: TableBatch, rows: DataFrame, note: CommitNote) -> None:
        floor, laid_out = added(part, rows, self.shape, self._own)
        if not (floor and self._has_rows):
            append(laid_out, self._table, writer_options(note, self._step()))
            return
        values = {quoted(name): f"s.{quoted(name)}" for name in laid_out.columns} | self._table.stamp
        statement = (
            Merge(self._table, laid_out, "false", any_value=f"s.{self._own.seq}")
            .when_not_matched_insert(None, values)
            .when_not_matched_by_source_delete(f"t.{self._own.seq} < {floor}BD AND {self._table.rows('t.')}")
        )
        statement.commit(session, note, self._step())

    def _work(self, part: TableBatch) -> Work:
        return Appended(part.barrier)

    def _rewrite(self, session: SparkSession, whole: DataFrame, note: CommitNote) -> None:
        part = split(whole).get(self._schema.name)
        if part is None:
            return  # nothing has come under this schema
        floor, laid_out = added(part, whole, self.shape, self._own)
        table = read(session, self._table)
        seq = self._own.seq
        stay = table.where(f"{seq} <= {self._since}BD AND {seq} >= {floor}BD")
        rewritten = stay.unionByName(laid_out, allowMissingColumns=True)
        options = writer_options(note, self._step())
        write(rewritten.select(*map(quoted, table.columns)), self._table, options, mode="overwrite")


def added(part: TableBatch | None, rows: DataFrame, shape: Shape, own: OwnColumns) -> tuple[int, DataFrame]:
    """What bronze's `rows` of one table without a key add, in silver's columns, and the seq below which none counts.

    0 where none is taken away. Raises TableError for an update or a delete that a later read does not cover.
    """
    floor, ops = (part.barrier, part.ops) if part is not None else (0, frozenset[str]())
    if "r" in ops:
        last = rows.where("op = 'r'").agg(F.max("seq").alias("seq")).head()
        floor = max(floor, int(last["seq"])) if last is not None else floor
    rows = rows.where(f"seq >= {floor}BD")
    if ops & {"u", "d"} and (odd := rows.where("op IN ('u', 'd')").orderBy("seq").head()) is not None:
        name, verb = shape.schema.name, "updated" if odd["op"] == "u" else "deleted"
        raise codes.APPEND_ROW_CHANGED.error(
            f"a row of {name} was {verb}, and its silver table is one of rows that are only added",
            where=f"{name} seq {odd['seq']}",
            hint=f"read it again (signal snapshot {name}), or take append out of tables.{name},"
            " or give it key in its place",
        )
    image = F.expr(typed_columns.of_rows("after")).alias("after")
    changes = rows.where("op IN ('r', 'c')").select("seq", "commit_ts", image)
    typed = filtered(typed_columns.typed(changes, shape), shape).where("passes")
    return floor, typed.select(*typed_columns.laid_out(shape, own))
