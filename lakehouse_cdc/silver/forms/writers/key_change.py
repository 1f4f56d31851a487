"""Rows of a silver table that are equal under a new key, after a change of the key.

An earlier change of the key may not have been read to its end, so a row that the source has and one that it has no more
can have the same new key. Every MERGE would take them for one row. Each form removes them in its own way
(`Form.resolve_equal_keys`); the read that follows every change of the key returns the one that the source has.

Guards: `tests/silver/test_alterations.py`, `tests/silver/test_fold.py`.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.lake.merging import Merge
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.model.table_layout import Table, quoted
from lakehouse_cdc.silver.batch.contents import SchemaBoundary


def equal_keys(
    session: SparkSession, table: Table, change: SchemaBoundary, is_current: str, *, only_current: bool = False
) -> Merge | None:
    """A MERGE, yet without actions, of the rows `t` that share a new key `m`; None if there are none.

    `m.current_rows` counts those that are current. `only_current`: the others do not count, and are not matched.
    """
    names = [quoted(name) for name in change.new.key]
    keys = [F.col(name).alias(f"k{i}") for i, name in enumerate(names)]
    rows, current = read(session, table), F.expr(is_current)
    if only_current:
        rows = rows.where(current)
    # a key that is not whole equals none
    grouped = rows.select(*keys, current.alias("current")).dropna().groupBy(*[f"k{i}" for i in range(len(names))])
    counted = grouped.agg(F.count(F.lit(1)).alias("rows"), F.count_if("current").alias("current_rows"))
    equal = counted.where("rows > 1")
    if equal.isEmpty():
        return None
    same = " AND ".join(f"t.{name} = m.k{i}" for i, name in enumerate(names))
    if only_current:
        same = f"t.{is_current} AND {same}"
    return Merge(table, equal, same, any_value="m.rows", alias="m")
