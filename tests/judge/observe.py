"""What a server says of one database: its tables' schemas and rows at a binlog position.

The rows are fetched by PyMySQL as text, and the catalog is read after the statement, so nothing here goes through the
statement's parser, the binlog's decoder or the snapshot's kernels. A value is compared in the form in which an image
holds it (see `value`); what a calendar does not have is None, as `zeroDates` null makes it. Generated columns of which
the log has no value are left out: bronze must not have them either.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pymysql

from lakehouse_cdc.mysql import catalog
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.schema.column_choice import WITHOUT_VALUE
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.unique_key import keyed_by_unique
from tests.support.positions import binlog_end

Rows = Counter[Any]

_SHOWN = {
    "time": "CAST({} AS CHAR)", "bit": "{} + 0", "float": "{} + 0e0", "double": "{} + 0e0",
    "vector": "UNHEX(HEX({}))",  # which the client would decode as text
}  # fmt: skip
_CALENDAR = ("date", "datetime", "timestamp")
_MISSING = (1049, 1146)  # no such database, no such table


@dataclass(frozen=True)
class Moment:
    """The captured tables by `database.table` as the server has them at `position`."""

    position: tuple[str, int]
    schemas: Mapping[str, TableSchema]
    rows: Mapping[str, Rows]


def observe(session: Session, connection: pymysql.Connection[Any], selection: Selection) -> Moment:
    """The selected base tables now. Nobody writes meanwhile."""
    found = catalog.read_catalog(session, selection, known=selection.patterns).tables
    return Moment(binlog_end(connection), found, {name: _rows(connection, schema) for name, schema in found.items()})


def _rows(connection: pymysql.Connection[Any], schema: TableSchema) -> Rows:
    def quoted(name: str) -> str:
        return f"`{name.replace('`', '``')}`"

    columns = [c for c in schema.columns if c.generated not in WITHOUT_VALUE]
    shown = ", ".join(_SHOWN.get(c.type, "{}").format(quoted(c.name)) for c in columns)
    with connection.cursor() as cursor:
        try:
            cursor.execute(f"SELECT {shown} FROM {quoted(schema.database)}.{quoted(schema.table)}")
        except pymysql.err.ProgrammingError as error:
            if error.args[0] not in _MISSING:
                raise
            return Counter()
        return Counter(image(zip(columns, row, strict=True)) for row in cursor.fetchall())


def image(row: Iterable[tuple[Column, Any]]) -> Any:
    """A row as a value that compares and hashes: its columns by name."""
    return tuple(sorted((column.name, value(column, held)) for column, held in row))


def value(column: Column, held: Any) -> Any:
    """One value, of an image or as PyMySQL gives it, in the same form."""
    if held is None:
        return None
    if column.type in _CALENDAR:
        return None if isinstance(held, str) else _plain(held)
    if column.type == "decimal":
        return Decimal(held)
    if column.type == "vector" and not isinstance(held, bytes):
        return struct.pack(f"<{len(held)}f", *held)
    return held


def _plain(moment: Any) -> Any:
    """A timestamp at UTC, without saying so."""
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        return moment.astimezone(timezone.utc).replace(tzinfo=None)
    return moment


def described(schema: TableSchema) -> dict[str, Any]:
    """What two ways to know a schema must agree on: all but collations, and what the user chooses."""
    columns = [(c.name, c.declared, c.nullable, _charset(c.charset)) for c in schema.columns]
    return {"columns": columns, "key": keyed_by_unique(schema).key, "charset": _charset(schema.charset)}


def _charset(name: str | None) -> str | None:
    return "utf8mb3" if name == "utf8" else name
