"""A result set's column definitions against the schema: what the server is about to send must be what we decode.

Checked are the count, each column's type, sign, scale and fraction, and the character set its bytes come in: a session
that forgot `character_set_results=NULL` would have latin1 arrive as UTF-8, and be converted twice. Source: MySQL's
documentation of "Column Definition" (Protocol::ColumnDefinition41).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.way_out import read_again
from lakehouse_cdc.schema.charsets import UNICODE, charset_of
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.type_registry import MARIADBS, SPATIAL, TYPES

_UNSIGNED = 32
_SAME = set(UNICODE)  # a value in one of these is the same bytes in all
_BINARY = 63  # the collation of everything that is no text
_STRINGS = ("char", "binary", "varchar", "varbinary", "enum", "set")
_BYTES = ("bit", "vector", *SPATIAL)


def check_definitions(definitions: Sequence[bytes], schema: TableSchema) -> None:
    """Raises DefiniteError where `definitions` are not the captured columns of `schema`, in order."""
    if len(definitions) != len(schema.captured):
        what = f"the server sends {len(definitions)} columns of {schema.name}, not {len(schema.captured)}"
        raise codes.TABLE_CHANGED.error(what, where=schema.name, hint=_hint(schema.name))
    for column, definition in zip(schema.captured, definitions, strict=True):
        _check(column, definition, schema.name)


def _check(column: Column, definition: bytes, table: str) -> None:
    at = 0
    for _ in range(6):  # catalog, schema, table, original table, name, original name
        at = _behind_text(definition, at)
    collation, _, kind, flags, decimals = struct.unpack_from("<HIBHB", definition, at + 1)
    numeric = collation == _BINARY and bool(flags & _UNSIGNED) == column.unsigned
    fits = column.type in TYPES and kind == TYPES[column.type].wire
    fits = fits or (column.type == "vector" and kind == TYPES["varbinary"].wire)  # MariaDB's
    if column.charset is not None:
        charset = charset_of(collation)
        fits = fits and (charset == column.charset or {charset, column.charset} <= _SAME)
    elif column.type in ("decimal", "datetime", "timestamp", "time"):
        fits = fits and decimals == ((column.scale or 0) if column.type == "decimal" else column.fraction)
        fits = fits and (numeric or column.type != "decimal")
    elif column.type not in ("float", "double", "date", "year", "json", *MARIADBS):
        plain = column.type in _STRINGS or column.type in _BYTES or "blob" in column.type
        fits = fits and collation == _BINARY and (plain or numeric)
    if not fits:
        raise codes.TABLE_CHANGED.error(
            f"the server sends column {column.name} of {table} as type {kind} (collation {collation}, flags {flags}, "
            f"decimals {decimals}), which is not {column.declared} in {column.charset or 'binary'}",
            where=table,
            hint=_hint(table),
        )


def _hint(table: str) -> str:
    return (
        "the table was changed (or the session did not SET character_set_results = NULL); have it read again, as it is"
        f" now: {read_again(table)}"
    )


def _behind_text(data: bytes, at: int) -> int:
    """The position after a length-encoded string; names are shorter than 64 KiB."""
    if data[at] < 251:
        return at + 1 + data[at]
    return at + 3 + int.from_bytes(data[at + 1 : at + 3], "little")
