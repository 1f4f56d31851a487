"""What Delta keeps of a file's columns (protocol, "Per-file Statistics"): rows, NULLs, the least and greatest values.

Queries leave files out by them, so a bound that is said holds for all of the file: texts are cut to a prefix, where
the greatest one gets a character after it that is greater than what was cut off. Times are cut to milliseconds, as
Delta's own are; readers add one. Of types without an order that Delta uses, NULLs alone are counted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Path = tuple[str, ...]  # the name of a column, and of a field in it
_PREFIX = 32  # characters of a text
_LAST, _LAST_OF_ASCII = "\U0010ffff", "\x7f"


class Bounds:
    """The statistics of some columns of a file. Those of times outside of the years 1 to 9999 raise ValueError."""

    def __init__(self, columns: Iterable[Path]) -> None:
        self.rows = 0
        self._nulls = dict.fromkeys(columns, 0)
        self._least: dict[Path, Any] = {}
        self._greatest: dict[Path, Any] = {}

    def take(self, rows: pa.Table) -> None:
        """Add rows."""
        self.rows += rows.num_rows
        for path in self._nulls:
            column = rows.column(path[0])
            for name in path[1:]:
                column = pc.struct_field(column, name)
            self._nulls[path] += column.null_count
            if pa.types.is_boolean(column.type) or pa.types.is_binary(column.type):
                continue
            bounds = pc.min_max(_said_in(column))
            for held, bound, better in ((self._least, bounds["min"], min), (self._greatest, bounds["max"], max)):
                if (value := bound.as_py()) is not None:
                    held[path] = better(held.get(path, value), value)

    def text(self) -> str:
        """As Delta has it."""
        nulls = {path: str(count) for path, count in self._nulls.items()}
        statistics = {
            "numRecords": str(self.rows),
            "minValues": _object(_cut_values(self._least, _shorter)),
            "maxValues": _object(_cut_values(self._greatest, _beyond)),
            "nullCount": _object(nulls),
        }
        return _object({(name,): text for name, text in statistics.items()})


def _said_in(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values of a column; of one of dictionaries, each of those that are in a row."""
    if not pa.types.is_dictionary(column.type):
        return column
    chunks = [chunk.unique() for chunk in column.chunks]
    return pa.chunked_array([chunk.dictionary_decode() for chunk in chunks], column.type.value_type)


def _cut_values(values: Mapping[Path, Any], cut: Callable[[str], str]) -> dict[Path, str]:
    return {path: _json(cut(value) if isinstance(value, str) else value) for path, value in values.items()}


def _object(values: Mapping[Path, str]) -> str:
    """JSON of values, each as JSON, by their paths."""
    inner: dict[str, dict[Path, str]] = {}
    for path, text in values.items():
        inner.setdefault(path[0], {})[path[1:]] = text
    fields = (f"{json.dumps(name)}: {rest[()] if () in rest else _object(rest)}" for name, rest in inner.items())
    return f"{{{', '.join(fields)}}}"


def _json(value: Any) -> str:
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime):
        zone = "" if value.tzinfo is None else "Z"
        utc = value if value.tzinfo is None else value.astimezone(timezone.utc)
        return json.dumps(f"{utc.replace(tzinfo=None).isoformat(timespec='milliseconds')}{zone}")
    return json.dumps(value.isoformat() if isinstance(value, date) else value)


def _shorter(text: str) -> str:
    return text[:_PREFIX]


def _beyond(text: str) -> str:
    """A text that is not less, and not much longer than the prefix."""
    for end in range(_PREFIX, len(text)):
        if text[end] != _LAST:
            return text[:end] + (_LAST_OF_ASCII if text[end] < _LAST_OF_ASCII else _LAST)
    return text
