"""A column's values as comparable text: how the server is asked for it, and how each of its answers is brought to it.

Three things are brought to one canonical form, each by code of its own:

- what the *server* prints, in the text protocol, read by PyMySQL (`selected`, `of_server`);
- what a *silver* column holds, by Spark's casts of the typed value (see `canonical`);
- what an *image* of bronze or of the binlog holds, as Python values (`of_image`).

No form is made by the loader's kernels, and none by the casts that fill silver. By the column's MySQL type:

    whole numbers, BIT, YEAR   decimal digits: of `column + 0`, so that the server decides on sign and width
    DECIMAL                    digits, with as many after the point as the server prints
    FLOAT, DOUBLE              a double: of `column * 1e0`, since the server prints a FLOAT with six digits alone
    DATE, DATETIME, TIMESTAMP  2024-02-29 12:34:56.789, in UTC, without trailing zeros of the fraction
    binary, geometry           the bytes
    VECTOR                     a list of floats
    JSON                       see `json_values`
    everything else            the text that the server prints, as the server converts it to UTF-8
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_cdc.schema.masks import NULL, hashed_under, kept
from lakehouse_cdc.schema.table import Column
from lakehouse_cdc.schema.type_registry import AS_TEXT, SPATIAL
from lakehouse_cdc.verify.json_values import of_source

_COUNTED = ("tinyint", "smallint", "mediumint", "int", "bigint", "bit", "year")
_FLOATING = ("float", "double")
_MOMENTS = ("datetime", "timestamp")
_DAYS = ("date", *_MOMENTS)
_BINARY = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")


def is_json(column: Column) -> bool:
    """Whether silver holds the column as a VARIANT."""
    return column.type == "json" and not column.carried and column.mask in ("", NULL)


def form(column: Column) -> pa.DataType:
    """The Arrow type of the canonical form: string, binary, double, or a list of floats."""
    if column.mask and column.mask != NULL:
        return pa.string()
    if column.carried == "text":
        return pa.string()
    if column.type in _FLOATING:
        return pa.float64()
    if column.type in _BINARY or column.type in SPATIAL:
        return pa.binary()
    return pa.list_(pa.float32()) if column.type == "vector" else pa.string()


def uncomparable(column: Column) -> str | None:
    """Why the column's values are not compared, but for whether they are NULL; None if they are."""
    if column.mask and column.mask != NULL and column.type in _FLOATING:
        return "masked text of a floating point number"
    return None


def selected(column: Column) -> str:
    """SQL that has the server print the column."""
    name = "`" + column.name.replace("`", "``") + "`"
    if column.mask == NULL:
        return "NULL"
    as_text = column.carried == "text" or (column.mask and column.type in AS_TEXT)
    if column.type in _COUNTED and not as_text:
        return f"{name} + 0"
    return f"{name} * 1e0" if column.type in _FLOATING else name


def of_server(column: Column, printed: Sequence[bytes | None], salt: str, *, exact_json: bool) -> tuple[Any, Any]:
    """The canonical form of what the server printed, as an Arrow array; and which values silver's type cannot hold
    (None: the type holds all). `exact_json`: a JSON document's text as it is.
    """
    if column.mask and column.mask != NULL:
        return _masked(column, printed, salt), None
    if column.type == "vector":
        floats = [None if value is None else np.frombuffer(value, "<f4") for value in printed]
        return pa.array(floats, form(column)), None
    values = pa.array(printed, pa.binary())
    if (kind := form(column)) == pa.binary():
        return values, None
    text = values.cast(pa.string())
    if is_json(column):
        return _documents(text, exact_json)
    if kind == pa.float64():
        return text.cast(pa.float64()), None
    if column.type in _DAYS and column.carried != "text":
        return _moments(text, column), None
    return (_digits(text), None) if column.type == "decimal" else (text, None)


def of_image(column: Column, values: Sequence[Any], *, exact_json: bool) -> tuple[Any, Any]:
    """The same of values as a decoded image has them, which are masked and carried already."""
    if is_json(column):
        return _documents(pa.array(values, pa.string()), exact_json)
    return pa.array([None if value is None else _as_text(value) for value in values], form(column)), None


def _as_text(value: Any) -> Any:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        utc = value.astimezone(timezone.utc).replace(tzinfo=None) if value.tzinfo else value
        text = utc.isoformat(" ", "microseconds")
        return text.rstrip("0").rstrip(".")
    return value.isoformat() if isinstance(value, date) else value


def _digits(text: Any) -> Any:
    """Without the zeros that ZEROFILL puts in front."""
    padded = pc.match_substring_regex(text, "^-?0[0-9]")
    return pc.replace_substring_regex(text, "^(-?)0+([0-9])", r"\1\2") if pc.any(padded).as_py() else text


def _moments(text: Any, column: Column) -> Any:
    if column.carried == "null":
        text = pa.array([None if value is None or not _on_a_calendar(value) else value for value in text.to_pylist()],
                        pa.string())  # fmt: skip
    if column.type == "date" or not pc.any(pc.match_substring(text, ".")).as_py():
        return text
    return pc.utf8_rtrim(pc.utf8_rtrim(text, "0"), ".")


def _on_a_calendar(text: str) -> bool:
    match = _DATE.match(text)
    if match is None:
        return True
    year, month, day = map(int, match.groups())
    try:
        date(year or 4, month, day)  # the year 0 is a leap year, as the year 4 is
    except ValueError:
        return False
    return True


def _documents(text: Any, exact: bool) -> tuple[Any, Any]:
    if exact:
        return text, None
    documents = [None if value is None else of_source(value) for value in text.to_pylist()]
    forms = pa.array([None if one is None else one.text for one in documents], pa.string())
    return forms, pa.array([one is not None and not one.representable for one in documents], pa.bool_())


def _masked(column: Column, printed: Sequence[bytes | None], salt: str) -> Any:
    """What the mask lets through of what the server printed."""
    if uncomparable(column) is not None:
        return pa.array([None if value is None else "" for value in printed], pa.string())
    plain = replace(column, mask="", carried="text" if column.type in AS_TEXT else column.carried)
    values, _ = of_server(plain, printed, salt, exact_json=True)
    mask = _hashing(salt) if hashed_under(column.mask) is not None else _keeping(column.mask)
    texts = [None if value is None else mask(value) for value in values.to_pylist()]
    return pa.array(texts, pa.string())


def _hashing(salt: str) -> Callable[[Any], str]:
    key = salt.encode()

    def hashed(value: Any) -> str:
        data = value if isinstance(value, bytes) else str(value).encode()
        return hmac.new(key, data, hashlib.sha256).hexdigest()

    return hashed


def _keeping(mask: str) -> Callable[[str], str]:
    first, last = kept(mask) or (0, 0)

    def starred(value: str) -> str:
        n = len(value)
        if n <= first + last:
            return "*" * n
        return value[:first] + "*" * (n - first - last) + value[n - last :]

    return starred


def stated(values: dict[str, Any]) -> str:
    """A key's canonical values as one text, by which rows are matched."""
    return json.dumps([value.hex() if isinstance(value, bytes) else value for value in values.values()])
