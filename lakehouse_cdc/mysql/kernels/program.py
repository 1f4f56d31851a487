"""Programs: per table and wire, what the kernels do with each value, as plain arrays.

A kernel knows no types, only steps. Each step says how many bytes a value takes on its wire and how those bytes become
one VARIANT value; the step is made from the declared type alone, never from a value. The two wires (rows of the binary
protocol, row images of the binlog) differ in extents and in four ways to read a number, and share all code that
writes: that is why a snapshot row and a binlog image of the same row are the same bytes.

A row image is a VARIANT object. Its dictionary holds the names of the captured columns and nothing else, sorted, so
the n-th field by name has id n in every row of the table; the key's object has a dictionary of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lakehouse_cdc.model import variant
from lakehouse_cdc.mysql.kernels.layout import BinlogType, binlog_types, extent, require_types
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.types import Kind, require

# A step's fields: how to read, the field's number in the object (-1: excluded), the bytes on the wire (-1: a length
# stands in front), the bytes of that length (0: length-encoded), the first byte and the payload bytes to write, the
# most bytes that one byte of the value can become, and two arguments.
OP, SLOT, FIXED, PREFIX, HEADER, WIDTH, GROWTH, ARG, ARG2 = range(9)
STEP_FIELDS = 9

# A table's fields: its first step, how many; the fields of an image; its first key field in `keys`, how many.
FIRST, COUNT, SLOTS, KEY_FIRST, KEY_COUNT = range(5)
TABLE_FIELDS = 5

# How to read a value
NUMBER = 0  # little-endian, extended to WIDTH: with the sign if ARG
WIDE = 1  # 64 bits unsigned, as a decimal of 16 bytes and scale 0
DECIMAL_PACKED, DECIMAL_TEXT = 2, 3  # ARG: precision, ARG2: scale
DATE_PACKED, TIME_WIRE, DATETIME_PACKED, TIMESTAMP_PACKED = 4, 5, 6, 7  # ARG: digits of a second
TEXT, LATIN1 = 8, 9  # ARG: 1 strips trailing spaces, as CHAR does
BINARY = 10  # padded with 0x00 to WIDTH
SKIP = 11  # an excluded column
UNKNOWN = 12  # an excluded column, and nobody said how long it is

_WIRE_BYTES = {"tinyint": 1, "smallint": 2, "mediumint": 4, "int": 4, "bigint": 8, "float": 4, "double": 8}
_NUMBERS = {
    Kind.INT8: (variant.INT8, 1),
    Kind.INT16: (variant.INT16, 2),
    Kind.INT32: (variant.INT32, 4),
    Kind.INT64: (variant.INT64, 8),
    Kind.FLOAT: (variant.FLOAT, 4),
    Kind.DOUBLE: (variant.DOUBLE, 8),
}
_TIMES = {
    Kind.DATE: (variant.DATE, 4, DATE_PACKED),
    Kind.DATETIME: (variant.TIMESTAMP_NTZ, 8, DATETIME_PACKED),
    Kind.TIMESTAMP: (variant.TIMESTAMP, 8, TIMESTAMP_PACKED),
}
_DECIMALS = ((9, variant.DECIMAL4, 4), (18, variant.DECIMAL8, 8), (38, variant.DECIMAL16, 16))  # digits, type, bytes
Matrix = npt.NDArray[np.int64]


class Program(NamedTuple):
    """Steps of all tables for one wire: `steps[n, STEP_FIELDS]`, `tables[t, TABLE_FIELDS]`, `keys[k]` field numbers."""

    steps: Matrix
    tables: Matrix
    keys: Matrix


@dataclass(frozen=True)
class ProgramSet:
    """The programs of some tables, by their index in `schemas`.

    `metadata[t]` and `key_metadata[t]` are the VARIANT metadata of each row image and each key of table t.
    """

    schemas: tuple[TableSchema, ...]
    binlog: Program
    wire: Program
    metadata: tuple[bytes, ...]
    key_metadata: tuple[bytes, ...]

    @classmethod
    def of(cls, schemas: Sequence[TableSchema], table_maps: Sequence[Sequence[BinlogType]] | None = None) -> ProgramSet:
        """Programs for `schemas`.

        `table_maps[t]`, if given, is what the binlog says of all columns of table t. It is checked against the schema,
        and it is needed to pass over excluded columns of types whose length the schema does not tell (ENUM, JSON, ...).
        Raises DefiniteError for a captured column of a type that is not supported, and for a table map that differs.
        """
        binlog, wire = [], []
        for t, schema in enumerate(schemas):
            types: Sequence[BinlogType | None] = binlog_types(schema)
            if table_maps is not None:
                require_types(schema, table_maps[t])
                types = table_maps[t]
            slots = _slots(schema)
            binlog.append([_binlog_step(schema, c, slots, kind) for c, kind in zip(schema.columns, types, strict=True)])
            wire.append([_wire_step(schema, column, slots) for column in schema.captured])
        return cls(
            tuple(schemas),
            _program(schemas, binlog),
            _program(schemas, wire),
            tuple(variant.metadata([column.name for column in schema.captured]) for schema in schemas),
            tuple(variant.metadata(schema.key) for schema in schemas),
        )


def _slots(schema: TableSchema) -> dict[str, int]:
    """Each captured column's field number: its rank by name."""
    return {name: i for i, name in enumerate(sorted((c.name for c in schema.captured), key=str.encode))}


def _program(schemas: Sequence[TableSchema], steps: Sequence[Sequence[list[int]]]) -> Program:
    flat: list[list[int]] = []
    tables: list[list[int]] = []
    keys: list[int] = []
    for schema, own in zip(schemas, steps, strict=True):
        slots = _slots(schema)
        tables.append([len(flat), len(own), len(slots), len(keys), len(schema.key)])
        keys += sorted(slots[name] for name in schema.key)
        flat += own
    return Program(
        np.array(flat, dtype=np.int64).reshape(-1, STEP_FIELDS),
        np.array(tables, dtype=np.int64).reshape(-1, TABLE_FIELDS),
        np.array(keys, dtype=np.int64),
    )


def _binlog_step(schema: TableSchema, column: Column, slots: dict[str, int], kind: BinlogType | None) -> list[int]:
    fixed, prefix = extent(kind) if kind else (0, 0)
    if not column.captured:
        return [SKIP if kind else UNKNOWN, -1, fixed, prefix, 0, 0, 0, 0, 0]
    op, _, written = _reading(column, schema.name)
    return [op, slots[column.name], fixed, prefix, *written]


def _wire_step(schema: TableSchema, column: Column, slots: dict[str, int]) -> list[int]:
    _, op, written = _reading(column, schema.name)
    fixed, prefix = (_WIRE_BYTES[column.type], 0) if column.type in _WIRE_BYTES else (-1, 1 if op == TIME_WIRE else 0)
    return [op, slots[column.name], fixed, prefix, *written]


def _reading(column: Column, table: str) -> tuple[int, int, list[int]]:
    """The op on the binlog and on the wire, and the step's fields from HEADER on."""
    found = require(column, table)
    if found.kind in _NUMBERS:
        primitive, size = _NUMBERS[found.kind]
        return NUMBER, NUMBER, [variant.header(primitive), size, 1, int(not column.unsigned), 0]
    if found.kind in _TIMES:
        primitive, size, op = _TIMES[found.kind]
        return op, TIME_WIRE, [variant.header(primitive), size, 1, column.fraction, 0]
    if found.kind is Kind.DECIMAL:
        primitive, size = next((p, s) for digits, p, s in _DECIMALS if found.precision <= digits)
        written = [variant.header(primitive), size, 1, found.precision, found.scale]
        return (WIDE, WIDE, written) if column.type == "bigint" else (DECIMAL_PACKED, DECIMAL_TEXT, written)
    if found.kind is Kind.STRING:
        op, growth = (LATIN1, 3) if column.charset == "latin1" else (TEXT, 1)
        return op, op, [variant.header(variant.LONG_STRING), 0, growth, int(column.type == "char"), 0]
    padded = (column.length or 0) if column.type == "binary" else 0
    return BINARY, BINARY, [variant.header(variant.BINARY), padded, 1, 0, 0]
