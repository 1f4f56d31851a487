"""How columns lie in the row images of a binlog: type bytes, metadata, and the bytes that one value takes.

Types and their metadata are those of a table map event, as MySQL's `mysql::binlog::event::Table_map_event` documents
them. A captured column's layout follows from its schema alone, so that what a table map says can be checked against
it; an excluded column's layout comes from the table map, since the schema need not know its type at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakehouse_cdc.errors import codes
from lakehouse_cdc.schema.charsets import MAX_BYTES
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.type_registry import TYPES

BinlogType = tuple[int, bytes]  # the type byte, and the column's bytes of the table map's metadata block

TINY, SHORT, LONG, FLOAT, DOUBLE, LONGLONG, INT24 = 1, 2, 3, 4, 5, 8, 9
DATE, YEAR, NEWDATE, VARCHAR, BIT, TIMESTAMP2, DATETIME2, TIME2 = 10, 13, 14, 15, 16, 17, 18, 19
BLOB_COMPRESSED, VARCHAR_COMPRESSED = 140, 141  # MariaDB's
VECTOR, JSON, NEWDECIMAL, ENUM, SET, BLOB, VAR_STRING, STRING, GEOMETRY = 242, 245, 246, 247, 248, 252, 253, 254, 255

END_TYPE: BinlogType = (TIMESTAMP2, bytes([6]))  # of the columns of a system-versioned table's period

_FRACTIONS = {"datetime": DATETIME2, "timestamp": TIMESTAMP2, "time": TIME2}
_FIXED = {TINY: 1, SHORT: 2, INT24: 3, LONG: 4, LONGLONG: 8, FLOAT: 4, DOUBLE: 8, YEAR: 1, DATE: 3, NEWDATE: 3}
_TEMPORAL = {TIME2: 3, TIMESTAMP2: 4, DATETIME2: 5}  # bytes before the fraction
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def binlog_types(schema: TableSchema) -> list[BinlogType | None]:
    """What a table map must say of each physical column; None for an excluded column of a type that is not captured."""
    return [binlog_type(column) for column in schema.columns]


def binlog_type(column: Column) -> BinlogType | None:
    """The type byte and the metadata of a column, or None where the schema does not say."""
    declared = TYPES.get(column.type)
    if declared is not None and declared.binlog is not None:
        return declared.binlog
    if column.type == "decimal":
        return NEWDECIMAL, bytes([column.precision or 10, column.scale or 0])
    if column.type in _FRACTIONS:
        return _FRACTIONS[column.type], bytes([column.fraction])
    if column.type == "bit":
        return BIT, bytes([(column.length or 1) % 8, (column.length or 1) // 8])
    if column.type in ("enum", "set") and not column.values:
        return None
    if column.type == "enum":
        return STRING, bytes([ENUM, 1 if len(column.values) < 256 else 2])
    if column.type == "set":
        size = (len(column.values) + 7) // 8
        return STRING, bytes([SET, size if size < 5 else 8])
    if column.type not in ("char", "varchar", "binary", "varbinary") or column.length is None:
        return None
    size = column.length * (MAX_BYTES.get(column.charset, 1) if column.charset else 1)
    if column.type in ("varchar", "varbinary"):
        return VARCHAR, size.to_bytes(2, "little")
    # a CHAR of 256 bytes and more hides the two high bits of its length, inverted, in the type's own byte
    return STRING, bytes([STRING ^ (size & 0x300) >> 4, size & 0xFF])


def fits(column: Column, kind: BinlogType) -> bool:
    """Whether a table map may say `kind` of a captured column.

    MariaDB's VECTOR (11.7) is a VARBINARY of four bytes a number to its binlog; MySQL's has a type of its own.
    """
    if column.type == "vector" and kind[0] == VARCHAR:
        return int.from_bytes(kind[1], "little") % 4 == 0
    return binlog_type(column) == kind


def decimal_bytes(precision: int, scale: int) -> int:
    """The bytes of a packed decimal: 9 digits in 4 bytes, fewer digits in fewer (MySQL: decimal2bin)."""
    whole, part = precision - scale, scale
    return whole // 9 * 4 + _DIGIT_BYTES[whole % 9] + part // 9 * 4 + _DIGIT_BYTES[part % 9]


def plain_type(kind: BinlogType) -> BinlogType:
    """The column's type once its values are inflated (see `mysql.binlog.compression.columns`): without COMPRESSED."""
    code, meta = kind
    if code == VARCHAR_COMPRESSED:  # one byte more, since each value has one in front
        return VARCHAR, max(int.from_bytes(meta, "little") - 1, 0).to_bytes(2, "little")
    return (BLOB, meta) if code == BLOB_COMPRESSED else kind


def extent(kind: BinlogType) -> tuple[int, int]:
    """(fixed bytes, 0), or (-1, bytes of the length in front) of any value of this type.

    Raises DefiniteError for a type that is not known here; the formats of before MySQL 5.6 are among these.
    """
    code, meta = kind
    if code in _FIXED:
        return _FIXED[code], 0
    if code in _TEMPORAL:
        return _TEMPORAL[code] + (meta[0] + 1) // 2, 0
    if code == NEWDECIMAL:
        return decimal_bytes(meta[0], meta[1]), 0
    if code == BIT:
        return meta[1] + (meta[0] > 0), 0
    if code in (BLOB, BLOB_COMPRESSED, JSON, GEOMETRY, VECTOR):
        return -1, meta[0]
    if code in (VARCHAR, VARCHAR_COMPRESSED, VAR_STRING):
        return -1, 1 if int.from_bytes(meta, "little") < 256 else 2
    if code == STRING and meta[0] in (ENUM, SET):
        return meta[1], 0
    if code == STRING:
        return -1, 1 if (meta[0] ^ STRING) & 0x30 == 0 else 2
    raise codes.TYPE_UNSUPPORTED.error(f"a column of binlog type {code} is not supported", hint="exclude the table")


def require_types(schema: TableSchema, types: Sequence[BinlogType]) -> None:
    """Refuse a table map that contradicts the schema: the table was changed. Raises DefiniteError with the column."""
    if len(types) != len(schema.columns):
        what = f"{schema.name} has {len(types)} columns in the binlog and {len(schema.columns)} in its schema"
        raise codes.TABLE_CHANGED.error(what, where=schema.name)
    for column, kind in zip(schema.columns, types, strict=True):
        if column.captured and not fits(column, kind):
            raise codes.TABLE_CHANGED.error(
                f"column {column.name} of {schema.name} has binlog type {kind[0]} ({kind[1].hex()}), not "
                f"{column.declared}",
                where=schema.name,
            )
