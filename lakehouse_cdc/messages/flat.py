"""A flat form: the row itself, with what happened to it beside its columns.

    {"id":1,"name":"Ada","__op":"u","__table":"shop.customers","__commit_ts":"2024-02-29T12:34:56.789012Z","__seq":"..."}

A deletion has the row as it was. Numbers are JSON's numbers, with all their digits; a reader that takes them for
doubles loses those from 2^53 on and most decimals. `exact` puts decimals and integers of 64 bits in quotes. Dates and
times are in ISO 8601, a TIME as the server prints it, bytes in base64, JSON as its text, a SET as `x,y`.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from lakehouse_cdc.errors import codes
from lakehouse_cdc.messages.change import Message, RowChange, Settings, Writer, headers_of, with_tombstone
from lakehouse_cdc.messages.texts import (
    Moments,
    Piece,
    base64,
    floats,
    kind_of,
    members,
    moment,
    number,
    quoted,
    row_object,
    single,
    truth,
)
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.type_registry import Kind

_OWN = ("__op", "__table", "__commit_ts", "__seq")
_EPOCH = datetime(1970, 1, 1)


def piece_of(column: Column, table: str, *, exact: bool) -> Piece:
    """How a column's values are written."""
    kind = kind_of(column, table)
    if kind in (Kind.DECIMAL, Kind.INT64) and exact:
        return lambda value: f'"{number(value)}"'
    if kind is Kind.DATETIME:
        return Moments(column.fraction, "T")
    if kind is Kind.TIMESTAMP:
        return Moments(column.fraction, "T", "Z")
    return PIECES[kind]


# of each kind that is written alike in every column
PIECES: dict[Kind, Piece] = {
    **dict.fromkeys((Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64, Kind.DECIMAL), number),
    Kind.FLOAT: single,
    Kind.DOUBLE: repr,
    Kind.STRING: quoted,
    Kind.JSON: quoted,
    Kind.BINARY: base64,
    Kind.DATE: lambda value: f'"{value.isoformat()}"',
    Kind.BOOLEAN: truth,
    Kind.FLOATS: floats,
}


def require_names(schema: TableSchema) -> None:
    """Raises TableError for a table with a column that has a name of this form's own."""
    for name in _OWN:
        if any(column.name == name for column in schema.captured):
            raise codes.MESSAGE_FORM_UNFIT.error(
                f"{schema.name} has a column {name}, which the format flat writes itself",
                table=schema.name,
                hint="exclude the column, or choose another format for the sink",
            )


def writer(schema: TableSchema, settings: Settings) -> Writer:
    """The messages of a table. Raises TableError for one with a column that has a name of this form's own."""
    require_names(schema)
    pieces = {column.name: piece_of(column, schema.name, exact=settings.exact) for column in schema.captured}
    key_pieces = {name: pieces[name] for name in schema.key}
    table = quoted(schema.name)

    def messages(change: RowChange, _: int) -> list[Message]:
        key = None if change.key is None else row_object(key_pieces, change.key).encode()
        at = moment(_EPOCH + timedelta(microseconds=change.commit_us), 6, "T", "Z")
        own = f'"__op":"{change.op.value}","__table":{table},"__commit_ts":"{at}","__seq":"{change.seq}"'
        value = f"{{{','.join([*members(pieces, change.row), own])}}}"
        return with_tombstone([Message(key, value.encode(), headers_of(change))], change, settings)

    return messages
