"""A row's computed columns and its filter, by Spark, and what they must not be.

An expression sees the row's own columns and nothing else, and must give the same for the same row, always: what depends
on the time, on chance, on other rows or on code outside is refused, by what Spark's own analysis says of it. Spark 4's
`ComputeCurrentTime` and the optimizer find such expressions by the same marks (`TreePattern`).
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.errors import TableError, codes
from lakehouse_cdc.lake.sessions import is_remote
from lakehouse_cdc.lake.table_state import Columns
from lakehouse_cdc.model.own_columns import longer_than_any
from lakehouse_cdc.model.table_layout import Table, quoted
from lakehouse_cdc.schema.types import require
from lakehouse_cdc.silver.definition.column_mapping import Shape

_OTHERS = longer_than_any("_lakehouse_cdc_others")  # what is not the row's, while expressions look at the row
_REFUSED = {  # of org.apache.spark.sql.catalyst.trees.TreePattern
    "CURRENT_LIKE": "the time or the user",
    "PLAN_EXPRESSION": "other rows",
    "AGGREGATE_EXPRESSION": "other rows",
    "WINDOW_EXPRESSION": "other rows",
    "GENERATOR": "more than one row",
    "SCALA_UDF": "code that is not Spark's",
    "PYTHON_UDF": "code that is not Spark's",
}
_CURRENT = re.compile(r"\b(?:current_\w+|now|localtimestamp|curdate|session_user|user)\(", re.IGNORECASE)
_SUBQUERY = re.compile(r"\b(?:scalar-subquery|list|exists)#")
_INCOMPARABLE = ("variant", "map<", "interval", "void")


def derived(session: SparkSession, shape: Shape, silver: Table) -> Columns:
    """The computed and metadata columns of the silver table, which is of that shape, and their types.

    Raises TableError for an expression that Spark cannot make sense of or that is not the row's alone, and where two
    columns of silver would have one name.
    """
    transform, table = shape.transform, shape.schema.name
    names = [c.name for c in shape.schema.captured] + [*transform.computed, *transform.metadata, *silver.reserved]
    for i, name in enumerate(names):
        if name.lower() in (other.lower() for other in names[:i]):
            raise _refused(table, f"two columns of the silver table would be called {name}")
    if not transform.computed and transform.filter is None:
        return list(transform.metadata_columns)
    types = [(c.name, require(c, table).silver) for c in shape.schema.captured]
    row = session.range(0).select(*[F.expr(f"CAST(NULL AS {kind})").alias(name) for name, kind in types])
    columns: list[tuple[str, str]] = []
    for name, text in transform.computed.items():
        kind = _analysed(row, table, f"computed column {name}", text)
        if any(word in kind for word in _INCOMPARABLE):
            raise _refused(table, f"computed column {name} would be of type {kind}, which cannot be compared: cast it")
        columns.append((name, kind))
    if transform.filter is not None and (kind := _analysed(row, table, "filter", transform.filter)) != "boolean":
        raise _refused(table, f"the filter is of type {kind}, not boolean")
    return [*columns, *transform.metadata_columns]


def with_computed(rows: DataFrame, shape: Shape) -> DataFrame:
    """`rows` with the computed columns after the other fields of their column `row`."""
    if not shape.transform.computed:
        return rows
    others = [name for name in rows.columns if name != "row"]
    fields = [F.col(quoted(c.name)) for c in shape.schema.captured]
    added = [F.expr(f"({text})").alias(name) for name, text in shape.transform.computed.items()]
    apart = rows.select(F.struct(*others, F.col("row").isNotNull().alias("row")).alias(_OTHERS), "row.*")
    # a row that is none stays none
    row = F.when(F.col(f"{_OTHERS}.row"), F.struct(*fields, *added)).alias("row")
    return apart.select(*[F.col(f"{_OTHERS}.{quoted(name)}").alias(name) for name in others], row)


def filtered(rows: DataFrame, shape: Shape) -> DataFrame:
    """`rows` (row, ...) with a column `passes`: whether the filter lets the row through."""
    text = shape.transform.filter
    if text is None:
        return rows.withColumn("passes", F.lit(True))
    passes = F.coalesce(F.expr(f"({text})"), F.lit(False)).alias("passes")
    others = F.struct(*rows.columns).alias(_OTHERS)
    return rows.select(others, "row.*").select(f"{_OTHERS}.*", passes)


def _analysed(row: DataFrame, table: str, what: str, text: str) -> str:
    """The type of an expression over the row."""
    try:
        selected = row.select(F.expr(f"({text})").alias("value"))
    except (AnalysisException, ParseException) as error:
        line = next((line for line in str(error).splitlines() if line.strip()), "it cannot be read")
        raise _refused(table, f"the {what} cannot be computed: {line}") from error
    depends_on = _remotely(row, text) if is_remote(row.sparkSession) else _by_marks(selected)
    if depends_on is not None:
        raise _refused(table, f"the {what} depends on {depends_on}")
    return str(selected.schema["value"].dataType.simpleString())


def _by_marks(selected: DataFrame) -> str | None:
    """What but the row the plan says that an expression depends on; None for nothing."""
    plan: Any = selected._jdf.queryExecution().analyzed()
    patterns: Any = selected.sparkSession._jvm.org.apache.spark.sql.catalyst.trees.TreePattern  # type: ignore[union-attr]
    for pattern, on in _REFUSED.items():
        if plan.containsPattern(patterns.withName(pattern)):
            return on
    return None if plan.deterministic() else "chance"


def _remotely(row: DataFrame, text: str) -> str | None:
    """The same where the plan cannot be asked: Spark refuses most of it in the condition of a join.

    The rest is in the plan as it is printed; a text in the expression that looks so is refused as well. A function of
    a user's is only known there by its name, so it passes.
    """
    one = row.sparkSession.range(1).select(F.col("id").alias(_OTHERS))
    joined = row.join(one, F.expr(f"({text}) IS NOT NULL"))
    try:
        plan = joined._explain_string(mode="extended")  # type: ignore[operator]  # of Connect's
    except AnalysisException as error:
        condition = error.getCondition() or ""
        return "chance" if "DETERMINISTIC" in condition else "other rows"
    if _SUBQUERY.search(plan):
        return _REFUSED["PLAN_EXPRESSION"]
    return _REFUSED["CURRENT_LIKE"] if _CURRENT.search(plan) else None


def _refused(table: str, what: str) -> TableError:
    return codes.TRANSFORM_REFUSED.error(
        f"{what} ({table})",
        where=f"tables.{table}",
        hint="let computed and filter name only columns that the table always had, and no two have one name;"
        " rename: {NEW: OLD} keeps a name in silver; the next run builds the silver table again",
    )
