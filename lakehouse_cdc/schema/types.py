"""The type map: what a MySQL type becomes as VARIANT in bronze and as a Delta column in silver.

One table of data decides; a type that is not in it is refused by name before the first row is read. Widths follow the
declared type, never the value, so that the snapshot and the binlog give the same bytes for the same row.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.schema.table import Column, TableSchema

MAX_DECIMAL = 38  # digits of a Delta and of a VARIANT decimal
CHARSETS = ("utf8mb4", "utf8mb3", "utf8", "latin1", "ascii")


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


@dataclass(frozen=True)
class Mapped:
    """The kind of a column, and the precision and scale of a decimal."""

    kind: Kind
    precision: int = 0
    scale: int = 0

    @property
    def silver(self) -> str:
        """The Spark SQL type of the silver column."""
        names = {Kind.INT8: "tinyint", Kind.INT16: "smallint", Kind.INT32: "int", Kind.INT64: "bigint"}
        if self.kind is Kind.DECIMAL:
            return f"decimal({self.precision},{self.scale})"
        return names.get(self.kind, str(self.kind.value))


_INTEGERS = {  # signed, unsigned
    "tinyint": (Kind.INT8, Kind.INT16),
    "smallint": (Kind.INT16, Kind.INT32),
    "mediumint": (Kind.INT32, Kind.INT32),
    "int": (Kind.INT32, Kind.INT64),
    "bigint": (Kind.INT64, Kind.DECIMAL),
}
_PLAIN = {
    "float": Kind.FLOAT,
    "double": Kind.DOUBLE,
    "binary": Kind.BINARY,
    "varbinary": Kind.BINARY,
    "tinyblob": Kind.BINARY,
    "blob": Kind.BINARY,
    "mediumblob": Kind.BINARY,
    "longblob": Kind.BINARY,
    "date": Kind.DATE,
    "datetime": Kind.DATETIME,
    "timestamp": Kind.TIMESTAMP,
}
_TEXT = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")


def mapped(column: Column) -> Mapped | None:
    """What the column becomes, or None where this version cannot carry it."""
    if column.type in _INTEGERS:
        kind = _INTEGERS[column.type][column.unsigned]
        return Mapped(kind, 20, 0) if kind is Kind.DECIMAL else Mapped(kind)
    if column.type == "decimal":
        precision, scale = column.precision or 10, column.scale or 0
        return Mapped(Kind.DECIMAL, precision, scale) if precision <= MAX_DECIMAL else None
    if column.type in _TEXT:
        return Mapped(Kind.STRING) if column.charset in CHARSETS else None
    kind_or_none = _PLAIN.get(column.type)
    return Mapped(kind_or_none) if kind_or_none else None


def require(column: Column, table: str) -> Mapped:
    """`mapped`, or a DefiniteError that names the column and its type."""
    found = mapped(column)
    if found is None:
        raise _unsupported(column, table)
    return found


def _unsupported(column: Column, table: str) -> DefiniteError:
    charset = f" character set {column.charset}" if column.charset else ""
    return DefiniteError(
        f"column {column.name} of {table} has type {column.declared}{charset}, which is not supported yet",
        where=table,
        hint=f'leave the table out ("!{table}" under source.tables) or exclude the column',
    )


def faults(schema: TableSchema) -> list[DefiniteError]:
    """All that forbids to capture this table exactly.

    That is each captured column that `mapped` does not know, a missing primary key, and each column of the key that is
    excluded or a floating point number (their text and their order are not exact).
    """
    name = schema.name
    found = [_unsupported(column, name) for column in schema.captured if mapped(column) is None]
    if not schema.key:
        what = f"{name} has no primary key, which is not supported yet"
        hint = f'add a primary key, or leave the table out ("!{name}" under source.tables)'
        found.append(DefiniteError(what, where=name, hint=hint))
    for column in schema.key_columns:
        if not column.captured:
            what = f"column {column.name} is part of the primary key of {name} and cannot be excluded"
            found.append(DefiniteError(what, where=name, hint="take it out of exclude"))
        elif column.type in ("float", "double"):
            what = f"the primary key of {name} holds {column.name} {column.declared}: a floating point key"
            hint = "floating point keys have no exact order; leave the table out"
            found.append(DefiniteError(what, where=name, hint=hint))
    return found


def check_table(schema: TableSchema) -> None:
    """Refuse, by name, a table that cannot be captured exactly: raises the first of its `faults`."""
    for fault in faults(schema):
        raise fault
