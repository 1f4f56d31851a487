"""Maxwell's JSON, a row in each message: types insert, update and delete.

Numbers and decimals are JSON's numbers, moments text with a space, bytes in base64, a SET a list, a JSON column the
document itself. So JSON's null is read as NULL; `exact` writes a JSON column as its text. A snapshot is of inserts:
the types bootstrap-* stop other readers. `old` has the columns that an update has changed. Geometries are in base64 as
the server stores them, where Maxwell has WKT. `xid` and `thread_id` are not in bronze; `xoffset` numbers the rows of a
transaction, and no row says `commit`. The key is Maxwell's: the table, and the key's columns after `pk.`; of a table
without a key there is none.

Sources: zendesk/maxwell, the pages dataformat and producers (`kafka_key_format: hash`) of its documentation.
"""

from __future__ import annotations

from lakehouse_cdc.messages.change import Message, RowChange, Settings, Writer, headers_of, with_tombstone
from lakehouse_cdc.messages.flat import PIECES
from lakehouse_cdc.messages.texts import Moments, Piece, changed, kind_of, quoted, row_object, source_type
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.type_registry import Kind

_TYPES = {Op.READ: "insert", Op.INSERT: "insert", Op.UPDATE: "update", Op.DELETE: "delete"}


def _piece_of(column: Column, table: str, *, exact: bool) -> Piece:
    kind = kind_of(column, table)
    if kind in (Kind.DATETIME, Kind.TIMESTAMP):
        return Moments(column.fraction, " ")
    if kind is Kind.JSON and not exact:
        return str  # it is JSON already
    if source_type(column) == "set":
        return lambda value: f"[{','.join(map(quoted, value.split(','))) if value else ''}]"
    return PIECES[kind]


def writer(schema: TableSchema, settings: Settings) -> Writer:
    """The messages of a table."""
    pieces = {column.name: _piece_of(column, schema.name, exact=settings.exact) for column in schema.captured}
    key_pieces = {name: pieces[name] for name in schema.key}
    of_table = f'"database":{quoted(schema.database)},"table":{quoted(schema.table)}'

    def key_of(change: RowChange) -> bytes | None:
        if change.key is None:
            return None
        named = {f"pk.{name}": piece for name, piece in key_pieces.items()}
        inside = row_object(named, {f"pk.{name}": value for name, value in change.key.items()})
        return f"{{{of_table},{inside[1:]}".encode()

    def messages(change: RowChange, _: int) -> list[Message]:
        old = ""
        if change.op is Op.UPDATE and change.before is not None:
            old = f',"old":{row_object(pieces, changed(change.before, change.row))}'
        gtid = f',"gtid":{quoted(change.gtid)}' if change.gtid else ""
        value = (
            f'{{{of_table},"type":"{_TYPES[change.op]}","ts":{change.commit_us // 1_000_000},'
            f'"xoffset":{change.ordinal},"position":{quoted(f"{change.file}:{change.pos}")}{gtid},'
            f'"data":{row_object(pieces, change.row)}{old}}}'
        )
        return with_tombstone([Message(key_of(change), value.encode(), headers_of(change))], change, settings)

    return messages
