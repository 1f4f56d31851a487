"""Columns of Spark in the canonical form of `columns`: by Spark's casts of typed values to strings, and back.

The type is the one that the silver table's column has, not the one that the type map says it should have. Everything
becomes a string but for binary values, so that values are compared whatever their types are. Doubles become one on both
sides here: Spark prints two of them alike only if they are the same, a sign of zero included.
"""

from __future__ import annotations

import re
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
from pyspark.sql import functions as F
from pyspark.sql.column import Column as SparkColumn
from pyspark.sql.pandas.functions import pandas_udf

from lakehouse_cdc.schema.table import Column
from lakehouse_cdc.verify.json_values import of_variant

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_PLAIN_SCALE = 6  # digits after the point up to which Java prints a decimal without an exponent
_FLOATS = "concat_ws(',', transform({0}, one -> CAST(CAST(one AS DOUBLE) AS STRING)))"
_EPOCH = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"


def _of_variants(texts: pd.Series) -> pd.Series:
    """A pandas series of what `to_json` printed, each brought to canonical form."""
    return texts.map(lambda text: None if text is None else of_variant(text))


def of_typed(value: str, kind: str) -> SparkColumn:
    """A typed value, as SQL, in canonical form; `kind` is Spark's name of its type."""
    if kind == "variant":
        vectorised: Any = pandas_udf
        canonical = vectorised(_of_variants, "string")
        text: SparkColumn = canonical(F.expr(f"to_json({value})"))
        return text
    return F.expr(_of_typed(value, kind))


def _of_typed(value: str, kind: str) -> str:
    if kind in ("string", "binary"):
        return value
    if kind == "boolean":
        return f"CASE WHEN {value} THEN '1' WHEN NOT {value} THEN '0' END"
    if kind in ("float", "double"):
        return f"CAST(CAST({value} AS DOUBLE) AS STRING)"
    if kind == "array<float>":
        return f"IF({value} IS NULL, NULL, {_FLOATS.format(value)})"
    if kind == "timestamp":  # in UTC, whatever the session's time zone is
        return f"CAST({_EPOCH} + unix_micros({value}) * INTERVAL '0.000001' SECOND AS STRING)"
    match = _DECIMAL.fullmatch(kind)
    if match is not None and int(match[2]) > _PLAIN_SCALE:
        # arithmetic would round: its results have fewer digits after the point than a type of 38 digits may have
        return f"replace(format_number({value}, {match[2]}), ',', '')"
    return f"CAST({value} AS STRING)"


def of_source(name: str, column: Column) -> str:
    """SQL: the canonical value of a source's column in the column `name`, where Spark has its part in it."""
    if column.mask and column.mask != "null":
        return name
    if column.type in ("float", "double"):
        return _of_typed(name, "double")
    return _of_typed(name, "array<float>") if column.type == "vector" else name


def to_typed(value: str, kind: str) -> str:
    """SQL: a canonical value of the source, of JSON its text, as a value of Spark's type `kind`."""
    if kind == "boolean":
        return f"({value} <> '0')"
    if kind == "variant":
        return f"parse_json({value})"
    if kind == "timestamp":
        return f"CAST({value} || 'Z' AS TIMESTAMP)"
    if kind in ("string", "binary", "array<float>"):
        return value
    return f"CAST({value} AS {kind})"
