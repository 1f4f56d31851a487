"""Canal-JSON: Canal's FlatMessage with one row in each message, as Canal sends it where rows are partitioned by key.

Every value is text, as the server prints it, or null: so nothing is lost, whatever the type. Bytes are text in
ISO-8859-1, a BIT is a number, moments of a TIMESTAMP are in UTC. A snapshot's row is an INSERT. `old` has the columns
that an update has changed. `es` is the time of the commit and `ts` that of writing, in milliseconds; `id` is the
number of the row in its transaction. A deletion whose row is not known has the key's columns alone. Canal sends no key;
the one here has the key's columns.

Sources: alibaba/canal, FlatMessage.java and MQMessageUtils.java; java.sql.Types for `sqlType`; for bytes PingCAP's
description of Canal-JSON (docs.pingcap.com, "TiCDC Canal-JSON Protocol").
"""

from __future__ import annotations

from typing import Any

from lakehouse_cdc.messages.change import Message, RowChange, Settings, Writer, headers_of, with_tombstone
from lakehouse_cdc.messages.texts import Moments, Piece, changed, floats, kind_of, number, quoted, row_object, single
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.type_registry import Kind

_TYPES = {Op.READ: "INSERT", Op.INSERT: "INSERT", Op.UPDATE: "UPDATE", Op.DELETE: "DELETE"}
_SQL_TYPES = {  # java.sql.Types
    "tinyint": -6, "smallint": 5, "mediumint": 4, "int": 4, "bigint": -5, "decimal": 3, "float": 7, "double": 8,
    "bit": -7, "date": 91, "time": 92, "datetime": 93, "timestamp": 93, "year": 12, "char": 1, "varchar": 12,
    "tinytext": 2005, "text": 2005, "mediumtext": 2005, "longtext": 2005, "enum": 4, "set": -7, "json": 12,
}  # fmt: skip
_UNSIGNED = {"tinyint": 5, "smallint": 4, "int": -5, "bigint": 3}
_BLOB, _VARCHAR = 2004, 12


def _piece_of(column: Column, table: str) -> Piece:
    kind = kind_of(column, table)
    if kind in (Kind.DATETIME, Kind.TIMESTAMP):
        return Moments(column.fraction, " ")
    return _PIECES[kind]


def _text(of: Piece) -> Piece:
    return lambda value: f'"{of(value)}"'


_PIECES: dict[Kind, Piece] = {
    **dict.fromkeys((Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64, Kind.DECIMAL, Kind.BOOLEAN), _text(number)),
    Kind.FLOAT: _text(single),
    Kind.DOUBLE: _text(repr),
    Kind.STRING: quoted,
    Kind.JSON: quoted,
    Kind.BINARY: lambda value: quoted(value.decode("latin-1")),
    Kind.DATE: _text(lambda value: value.isoformat()),
    Kind.FLOATS: _text(floats),
}


def _sql_type(column: Column, table: str) -> int:
    if column.unsigned and column.type in _UNSIGNED:
        return _UNSIGNED[column.type]
    binary = kind_of(column, table) is Kind.BINARY
    return _SQL_TYPES.get(column.type, _BLOB if binary else _VARCHAR)


def writer(schema: TableSchema, settings: Settings) -> Writer:
    """The messages of a table."""
    pieces = {column.name: _piece_of(column, schema.name) for column in schema.captured}
    key_pieces = {name: pieces[name] for name in schema.key}
    mysql = ",".join(f"{quoted(column.name)}:{quoted(column.declared)}" for column in schema.captured)
    sql = ",".join(f"{quoted(column.name)}:{_sql_type(column, schema.name)}" for column in schema.captured)
    names = f"[{','.join(map(quoted, schema.key))}]" if schema.key else "null"
    of_table = (
        f'"database":{quoted(schema.database)},"table":{quoted(schema.table)},"pkNames":{names},"isDdl":false,'
        f'"sql":"","sqlType":{{{sql}}},"mysqlType":{{{mysql}}}'
    )

    def old(change: RowChange) -> str:
        if change.op is not Op.UPDATE or change.before is None:
            return "null"
        values: dict[str, Any] = changed(change.before, change.row)
        return f"[{row_object(pieces, values)}]"

    def messages(change: RowChange, now_us: int) -> list[Message]:
        key = None if change.key is None else row_object(key_pieces, change.key).encode()
        value = (
            f'{{"id":{change.ordinal},{of_table},"type":"{_TYPES[change.op]}","es":{change.commit_us // 1000},'
            f'"ts":{now_us // 1000},"data":[{row_object(pieces, change.row)}],"old":{old(change)},'
            f'"gtid":{quoted(change.gtid or "")}}}'
        )
        return with_tombstone([Message(key, value.encode(), headers_of(change))], change, settings)

    return messages
