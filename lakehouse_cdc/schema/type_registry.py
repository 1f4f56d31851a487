"""The MySQL types that are captured, one row each: what differs by type alone, for every module that asks.

Purpose: a type is declared here once. What becomes of it (`schema.types`), how a result set and a binlog send it
(`mysql.wire.definitions`, `images.layout`, `images.program`), how a key component of it is written
(`mysql.literals`) and how it may be carried (`schema.representation`) are read from its row.

Invariant: every part of a row is given, or is None where the type has no such thing. What depends on a column's length,
sign or fraction too is computed by the module that reads the row.

Guards: `tests/schema/test_type_registry.py` asks every module for every row, and names the type and the part that is
missing. The guide is `docs/guides/add-a-mysql-type.md`.

Sources: MySQL's documentation of "Column Definition" for `wire` and of `Table_map_event` for `binlog`; MariaDB sends
its UUID, INET4 and INET6 as strings.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

KeyForm = Literal["integer", "decimal", "date", "moment", "time", "text", "binary", "address"]


class Kind(str, Enum):
    """How a value is carried, in images and on the wire."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    DECIMAL = "decimal"  # with a precision and a scale; unsigned bigint is decimal(20, 0)
    FLOAT = "float"
    DOUBLE = "double"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"
    DATETIME = "timestamp_ntz"
    TIMESTAMP = "timestamp"
    BOOLEAN = "boolean"
    FLOATS = "array<float>"
    JSON = "variant"  # in bronze the text that the server prints


@dataclass(frozen=True)
class MySqlType:
    """One type, by the name that catalogs show.

    `kind`: what it becomes; None where the column's length or precision decides. `unsigned`: what it becomes UNSIGNED,
    if that is different. `wire`: the type byte of a result set's column definition. `wire_bytes`: of a value there;
    None where a length is in front. `binlog`: the type byte and the metadata in a table map; None where these
    depend on the column. `key`: how a component of a key is written; None: it cannot be part of a key. `has_charset`:
    its character set decides how it is read. `may_be_text`: it can be carried as the text that the server prints.
    """

    name: str
    kind: Kind | None
    wire: int
    binlog: tuple[int, bytes] | None
    key: KeyForm | None
    wire_bytes: int | None = None
    unsigned: Kind | None = None
    has_charset: bool = False
    may_be_text: bool = False


def _text(name: str, wire: int, binlog: tuple[int, bytes] | None, key: KeyForm = "text") -> MySqlType:
    return MySqlType(name, Kind.STRING, wire, binlog, key, has_charset=True)


SPATIAL = (
    *("geometry", "point", "linestring", "polygon", "geomcollection", "geometrycollection"),
    *("multipoint", "multilinestring", "multipolygon"),
)
MARIADBS = ("uuid", "inet4", "inet6")
_ROWS = (
    MySqlType("date", Kind.DATE, 10, (10, b""), "date", may_be_text=True),
    MySqlType("datetime", Kind.DATETIME, 12, None, "moment", may_be_text=True),
    MySqlType("timestamp", Kind.TIMESTAMP, 7, None, "moment", may_be_text=True),
    MySqlType("year", Kind.INT16, 13, (13, b""), "integer", wire_bytes=2, may_be_text=True),
    MySqlType("json", Kind.JSON, 245, (245, b"\x04"), None, may_be_text=True),
    MySqlType("decimal", None, 246, None, "decimal", may_be_text=True),
    MySqlType("tinyint", Kind.INT8, 1, (1, b""), "integer", wire_bytes=1, unsigned=Kind.INT16),
    MySqlType("smallint", Kind.INT16, 2, (2, b""), "integer", wire_bytes=2, unsigned=Kind.INT32),
    MySqlType("mediumint", Kind.INT32, 9, (9, b""), "integer", wire_bytes=4, unsigned=Kind.INT32),
    MySqlType("int", Kind.INT32, 3, (3, b""), "integer", wire_bytes=4, unsigned=Kind.INT64),
    MySqlType("bigint", Kind.INT64, 8, (8, b""), "integer", wire_bytes=8, unsigned=Kind.DECIMAL),
    MySqlType("float", Kind.FLOAT, 4, (4, b"\x04"), None, wire_bytes=4),
    MySqlType("double", Kind.DOUBLE, 5, (5, b"\x08"), None, wire_bytes=8),
    MySqlType("bit", None, 16, None, "integer"),
    MySqlType("time", Kind.STRING, 11, None, "time"),  # up to 838 hours, below zero, too: Delta has no such type
    MySqlType("vector", Kind.FLOATS, 242, (242, b"\x04"), None),
    _text("char", 254, None),
    _text("varchar", 253, None),
    _text("tinytext", 252, (252, b"\x01")),
    _text("text", 252, (252, b"\x02")),
    _text("mediumtext", 252, (252, b"\x03")),
    _text("longtext", 252, (252, b"\x04")),
    _text("enum", 254, None, "integer"),
    _text("set", 254, None, "integer"),
    MySqlType("binary", Kind.BINARY, 254, None, "binary"),
    MySqlType("varbinary", Kind.BINARY, 253, None, "binary"),
    MySqlType("tinyblob", Kind.BINARY, 252, (252, b"\x01"), "binary"),
    MySqlType("blob", Kind.BINARY, 252, (252, b"\x02"), "binary"),
    MySqlType("mediumblob", Kind.BINARY, 252, (252, b"\x03"), "binary"),
    MySqlType("longblob", Kind.BINARY, 252, (252, b"\x04"), "binary"),
    MySqlType("uuid", Kind.STRING, 254, (254, b"\xfe\x10"), "address"),
    MySqlType("inet4", Kind.STRING, 254, (254, b"\xfe\x04"), "address"),
    MySqlType("inet6", Kind.STRING, 254, (254, b"\xfe\x10"), "address"),
    # as stored: the SRID in 4 bytes, little-endian, then WKB
    *(MySqlType(name, Kind.BINARY, 255, (255, b"\x04"), None) for name in SPATIAL),
)
TYPES = {row.name: row for row in _ROWS}
AS_TEXT = tuple(row.name for row in _ROWS if row.may_be_text)
