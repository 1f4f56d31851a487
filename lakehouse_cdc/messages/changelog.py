"""Flink's changelog-json: `{"data":{...},"op":"+I"}`, with the kinds of rows +I, -U, +U and -D.

An update is two messages. A snapshot's row is +I, also when it is read again: a reader that takes the topic for more
than an upsert of keys has to know that. Numbers and decimals are JSON's, bytes in base64, moments in SQL's form
(`2024-02-29 12:34:56.789`, a TIMESTAMP with Z), a TIME, which may exceed a day, as the server prints it, JSON as its
text. Nothing is lost. Flink writes no key; the one here has the key's columns, so that a key has one partition.

Sources: the format `flink-format-changelog-json` of Ververica's connectors for Flink 1.13
(ChangelogJsonSerializationSchema), and Flink's JsonRowDataSerializationSchema for values.
"""

from __future__ import annotations

from lakehouse_cdc.messages.change import Message, RowChange, Settings, Writer, headers_of, with_tombstone
from lakehouse_cdc.messages.flat import PIECES
from lakehouse_cdc.messages.texts import Moments, Piece, kind_of, row_object
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.type_registry import Kind


def piece_of(column: Column, table: str) -> Piece:
    """How a column's values are written."""
    kind = kind_of(column, table)
    if kind is Kind.DATETIME:
        return Moments(column.fraction, " ")
    if kind is Kind.TIMESTAMP:
        return Moments(column.fraction, " ", "Z")
    return PIECES[kind]


def writer(schema: TableSchema, settings: Settings) -> Writer:
    """The messages of a table."""
    pieces = {column.name: piece_of(column, schema.name) for column in schema.captured}
    key_pieces = {name: pieces[name] for name in schema.key}

    def messages(change: RowChange, _: int) -> list[Message]:
        key = None if change.key is None else row_object(key_pieces, change.key).encode()
        headers = headers_of(change)
        kinds = [("-D" if change.op is Op.DELETE else "+I", change.row)]
        if change.op is Op.UPDATE and change.before is not None:
            kinds = [("-U", change.before), ("+U", change.row)]
        written = [f'{{"data":{row_object(pieces, image)},"op":"{kind}"}}' for kind, image in kinds]
        return with_tombstone([Message(key, text.encode(), headers) for text in written], change, settings)

    return messages
