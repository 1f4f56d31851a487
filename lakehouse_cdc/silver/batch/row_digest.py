"""The digest by which equal rows of a table without a key are known as such: by Spark, and beside it.

It is the SHA-256 of a JSON array with a text for each column that the source has, which no other value of its type has,
and null for NULL. The texts depend on no setting of a session: of an instant it is the number of microseconds, for a
printed time depends on the time zone, and two of them are alike where clocks are set back; of a decimal of many places
it is JSON, for what Spark prints depends on its ANSI mode.

Guards: tests/silver/test_row_digest.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from lakehouse_cdc.model.table_layout import quoted
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.schema.type_registry import Kind
from lakehouse_cdc.schema.types import Mapped, require

_PLAIN_PLACES = 6  # as many of a decimal are never printed with an exponent (java.math.BigDecimal.toString)
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=timezone.utc), timedelta(microseconds=1)


def by_spark(schema: TableSchema, prefix: str = "") -> SparkColumn:
    """That of rows whose columns are called as in `schema`, with `prefix` in front."""
    texts = [_sql(f"{prefix}{quoted(column.name)}", require(column, schema.name)) for column in schema.captured]
    return F.sha2(F.expr(f"to_json(array({', '.join(texts)}))"), 256)


def by_arrow(rows: pa.Table, schema: TableSchema) -> list[str]:
    """Those of rows in silver's types. Raises KeyError where the schema has a type that only Spark prints."""
    columns = []
    for column in schema.captured:
        mapped = require(column, schema.name)
        text, values = _TEXTS[mapped.kind], rows.column(column.name).to_pylist()
        columns.append([None if value is None else _escaped(text(value, mapped)) for value in values])
    return [
        hashlib.sha256(f"[{','.join('null' if text is None else text for text in row)}]".encode()).hexdigest()
        for row in zip(*columns, strict=True)
    ]


def _sql(value: str, mapped: Mapped) -> str:
    if mapped.kind is Kind.BINARY:
        return f"hex({value})"
    if mapped.kind is Kind.JSON:
        return f"to_json({value})"
    if mapped.kind is Kind.TIMESTAMP:
        return f"CAST(unix_micros({value}) AS STRING)"
    if mapped.kind is Kind.DECIMAL and mapped.scale > _PLAIN_PLACES:
        return f"IF({value} IS NULL, NULL, to_json(named_struct('v', {value})))"
    return f"CAST({value} AS STRING)"


def _decimal(value: Decimal, mapped: Mapped) -> str:
    return f"{value:f}" if mapped.scale <= _PLAIN_PLACES else f'{{"v":{value}}}'


def _time(value: datetime, mapped: Mapped) -> str:
    seconds, _, fraction = value.isoformat(sep=" ").partition(".")
    fraction = fraction.rstrip("0")
    return f"{seconds}.{fraction}" if fraction else seconds


def _instant(value: datetime, mapped: Mapped) -> str:
    return str((value - _EPOCH) // _MICROSECOND)


def _date(value: date, mapped: Mapped) -> str:
    return value.isoformat()


def _number(value: int, mapped: Mapped) -> str:
    return str(value)


def _boolean(value: bool, mapped: Mapped) -> str:
    return "true" if value else "false"


def _string(value: str, mapped: Mapped) -> str:
    return value


def _hex(value: bytes, mapped: Mapped) -> str:
    return value.hex().upper()


_TEXTS: dict[Kind, Callable[[Any, Mapped], str]] = {
    **dict.fromkeys((Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64), _number),
    Kind.DECIMAL: _decimal,
    Kind.STRING: _string,
    Kind.BINARY: _hex,
    Kind.DATE: _date,
    Kind.DATETIME: _time,
    Kind.TIMESTAMP: _instant,
    Kind.BOOLEAN: _boolean,
}
BY_SPARK_ALONE = frozenset(Kind) - _TEXTS.keys()  # floating-point numbers, which Java prints; and JSON

# as Jackson writes them; what has no letter after the backslash is four digits, capital ones
_ESCAPES = {c: f"\\u{c:04X}" for c in range(0x20)} | {
    ord(c): text
    for c, text in {
        '"': r"\"", "\\": r"\\", "\b": r"\b", "\t": r"\t", "\n": r"\n", "\f": r"\f", "\r": r"\r",
    }.items()
}  # fmt: skip


def _escaped(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'
