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

from lakehouse_cdc.errors import codes
from lakehouse_cdc.images.bytes_io import Matrix, Step
from lakehouse_cdc.images.hashing.masking import hashing, keeping
from lakehouse_cdc.images.layout import END_TYPE, BinlogType, binlog_types, extent, require_types
from lakehouse_cdc.images.opcodes import (
    ADDRESS,
    ARG,
    ARG2,
    AS_NULL,
    AS_TEXT,
    ASCII_ALONE,
    BINARY,
    BITS,
    DATE_PACKED,
    DATETIME_PACKED,
    DECIMAL_PACKED,
    DECIMAL_TEXT,
    ENUM,
    FAIL,
    GB18030,
    HEADER,
    JSON_BINARY,
    LONG_PACKED,
    LONG_TEXT,
    MOMENT_WIRE,
    MULTI,
    MULTI3,
    NULLED,
    NUMBER,
    OP,
    REFUSED,
    REPLACED,
    SET,
    SINGLE,
    SKIP,
    STEP_FIELDS,
    TABLE_FIELDS,
    TEXT,
    TIME_PACKED,
    TIME_WIRE,
    TIMESTAMP_PACKED,
    UNKNOWN,
    UTF16,
    UTF16LE,
    UTF32,
    VECTOR,
    WIDE,
    YEAR,
)
from lakehouse_cdc.images.text.addresses import INET4, INET6, UUID
from lakehouse_cdc.images.text.codepages import labels, page
from lakehouse_cdc.images.text.json_text import GROWTH as GROWTH_OF_JSON
from lakehouse_cdc.model import variant
from lakehouse_cdc.schema.charsets import MAX_BYTES, UNICODE
from lakehouse_cdc.schema.charsets import WIDE as WIDE_CHARSETS
from lakehouse_cdc.schema.masks import NULL as MASKED_BY_NULL
from lakehouse_cdc.schema.masks import fingerprint, hashed_under, kept, unmasked
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.type_registry import MARIADBS, TYPES, Kind
from lakehouse_cdc.schema.types import Mapped, require

_NUMBERS = {
    Kind.INT8: (variant.INT8, 1),
    Kind.INT16: (variant.INT16, 2),
    Kind.INT32: (variant.INT32, 4),
    Kind.INT64: (variant.INT64, 8),
    Kind.FLOAT: (variant.FLOAT, 4),
    Kind.DOUBLE: (variant.DOUBLE, 8),
}
_TIMES = {
    "date": (variant.DATE, 4, DATE_PACKED),
    "datetime": (variant.TIMESTAMP_NTZ, 8, DATETIME_PACKED),
    "timestamp": (variant.TIMESTAMP, 8, TIMESTAMP_PACKED),
}
_SPECIAL = ("year", "time", "vector", "bit", "json", *MARIADBS)
_ADDRESSES = {"uuid": UUID, "inet4": INET4, "inet6": INET6}
_STRING = variant.header(variant.LONG_STRING)
_LONGEST_ADDRESS = 46
_NO_PERIOD = (-1, 0)
_LONG_DECIMAL = 72  # bytes of the longest one: 65 digits, a sign, a point, a zero before it
_DECIMALS = ((9, variant.DECIMAL4, 4), (18, variant.DECIMAL8, 8), (38, variant.DECIMAL16, 16))  # digits, type, bytes


class Program(NamedTuple):
    """Steps of all tables for one wire: `steps[n, STEP_FIELDS]`, `tables[t, TABLE_FIELDS]`, `keys[k]` field numbers.

    `pool` holds what steps look up (see `codepages`).
    """

    steps: Matrix
    tables: Matrix
    keys: Step
    pool: npt.NDArray[np.uint8]


class _Pool:
    """The bytes of a pool while steps are made; equal pages are in it once."""

    def __init__(self, salt: str = "") -> None:
        self.salt = salt  # that masks are made with
        self.data = bytearray(1)  # no page is at 0
        self._places: dict[bytes, int] = {}

    def place(self, entry: bytes) -> int:
        if entry not in self._places:
            self._places[entry] = len(self.data)
            self.data += entry
        return self._places[entry]


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
    def of(
        cls,
        schemas: Sequence[TableSchema],
        table_maps: Sequence[Sequence[BinlogType]] | None = None,
        *,
        salt: str = "",
        bare_doubles: Sequence[bool] | None = None,
    ) -> ProgramSet:
        """Programs for `schemas`.

        `table_maps[t]`, if given, is what the binlog says of all columns of table t. It is checked against the schema,
        and it is needed to pass over excluded columns of types whose length the schema does not say (ENUM, JSON, ...).
        `salt` is what columns are hashed with that are masked so. `bare_doubles[t]`: the server that wrote the binlog
        of table t prints whole doubles in JSON without a fraction.
        Raises DefiniteError for a captured column of a type that is not supported, for a table map that differs, and
        where the salt is not the one that a schema knows.
        """
        binlog, wire, periods = [], [], []
        pool = _Pool(salt)
        for t, schema in enumerate(schemas):
            types: Sequence[BinlogType | None] = binlog_types(schema)
            if table_maps is not None:
                require_types(schema, table_maps[t])
                types = table_maps[t]
            slots = _slots(schema)
            bare = bare_doubles is not None and bare_doubles[t]
            binlog.append(
                [
                    _printed(_binlog_step(schema, column, slots, kind, pool), bare)
                    for column, kind in zip(schema.columns, types, strict=True)
                ]
            )
            periods.append(_period(schema, types))
            wire.append([_wire_step(schema, column, slots, pool) for column in schema.captured])
        return cls(
            tuple(schemas),
            _program(schemas, binlog, pool, periods),
            _program(schemas, wire, pool, [_NO_PERIOD for _ in schemas]),  # a SELECT shows current rows alone
            tuple(map(row_metadata, schemas)),
            tuple(map(key_metadata, schemas)),
        )


def row_metadata(schema: TableSchema) -> bytes:
    """The VARIANT metadata of the table's row images."""
    return variant.metadata([column.name for column in schema.captured])


def key_metadata(schema: TableSchema) -> bytes:
    """The VARIANT metadata of the table's keys."""
    return variant.metadata(schema.key)


def _slots(schema: TableSchema) -> dict[str, int]:
    """Each captured column's field number: its rank by name."""
    return {name: i for i, name in enumerate(sorted((c.name for c in schema.captured), key=str.encode))}


def _period(schema: TableSchema, types: Sequence[BinlogType | None]) -> tuple[int, int]:
    """END and GREATEST of a table whose columns, all that are logged, have these types in the binlog.

    Raises DefiniteError for an end whose bytes are not known.
    """
    at = {column.name: i for i, column in enumerate(schema.columns)}
    if schema.versioning is None or schema.versioning.end not in at:  # hidden, and so not in what the program is for
        return _NO_PERIOD
    end = at[schema.versioning.end]
    if types[end] != END_TYPE:
        what = f"column {schema.versioning.end} of {schema.name}, the end of its period, has the binlog type"
        raise codes.TABLE_CHANGED.error(f"{what} {types[end]}, which is no TIMESTAMP(6)", where=schema.name)
    return end, schema.versioning.number


def _program(
    schemas: Sequence[TableSchema],
    steps: Sequence[Sequence[list[int]]],
    pool: _Pool,
    periods: Sequence[tuple[int, int]],
) -> Program:
    flat: list[list[int]] = []
    tables: list[list[int]] = []
    keys: list[int] = []
    for schema, own, period in zip(schemas, steps, periods, strict=True):
        slots = _slots(schema)
        heads = [pool.place(_head(len(fields))) for fields in (slots, schema.key)]
        tables.append([len(flat), len(own), len(slots), len(keys), len(schema.key), *heads, *period])
        keys += sorted(slots[name] for name in schema.key)
        flat += own
    return Program(
        np.array(flat, dtype=np.int64).reshape(-1, STEP_FIELDS),
        np.array(tables, dtype=np.int64).reshape(-1, TABLE_FIELDS),
        np.array(keys, dtype=np.int64),
        np.frombuffer(bytes(pool.data), dtype=np.uint8),
    )


def _head(fields: int) -> bytes:
    """What is between an object's first byte and its offsets: how many fields it has, and their numbers."""
    large, id_size = fields > 255, 1 if fields <= 256 else 2
    return fields.to_bytes(4 if large else 1, "little") + b"".join(i.to_bytes(id_size, "little") for i in range(fields))


def _binlog_step(
    schema: TableSchema, column: Column, slots: dict[str, int], kind: BinlogType | None, pool: _Pool
) -> list[int]:
    fixed, prefix = extent(kind) if kind else (0, 0)
    if not column.captured:
        return [SKIP if kind else UNKNOWN, -1, fixed, prefix, 0, 0, 0, 0, 0, 0]
    op, _, written = _reading(unmasked(column), schema.name, pool)
    if column.type in ("enum", "set"):
        op, written = _labelled(column, pool)
    return _masked(column, schema.name, [op, slots[column.name], fixed, prefix, *written], pool)


def _printed(step: list[int], bare: bool) -> list[int]:
    """The step of a column, with how doubles are printed where it is JSON."""
    return [*step[:ARG], int(bare), *step[ARG + 1 :]] if step[OP] == JSON_BINARY else step


def _wire_step(schema: TableSchema, column: Column, slots: dict[str, int], pool: _Pool) -> list[int]:
    _, op, written = _reading(unmasked(column), schema.name, pool)
    wire_bytes = TYPES[column.type].wire_bytes
    fixed, prefix = (-1, 0) if wire_bytes is None else (wire_bytes, 0)
    if op in (MOMENT_WIRE, TIME_WIRE):
        prefix = 1
    if op == TEXT and column.type in ("enum", "set"):
        written[ARG2 - HEADER] = REFUSED  # the binlog has its number, and the catalog other bytes for the label
    return _masked(column, schema.name, [op, slots[column.name], fixed, prefix, *written], pool)


def _masked(column: Column, table: str, step: list[int], pool: _Pool) -> list[int]:
    """The step with the column's mask."""
    mask = column.mask
    if mask == MASKED_BY_NULL:
        return [NULLED, *step[1:HEADER], variant.header(variant.NULL), 0, 0, 0, 0, 0]
    if (salt := hashed_under(mask)) is not None:
        if not pool.salt or fingerprint(pool.salt) != salt:
            what = f"column {column.name} of {table} is hashed under another salt than source.mask_salt"
            raise codes.MASK_SALT_CHANGED.error(
                what, where=table, hint="put the salt back; without masks by hash it is needed for one more run"
            )
        return [*step, pool.place(hashing(pool.salt))]
    if (parts := kept(mask)) is not None:
        return [*step, pool.place(keeping(*parts))]
    if mask:
        raise codes.MASK_UNUSABLE.error(
            f"column {column.name} of {table} has the mask {mask}, which is not known", where=table
        )
    return [*step, 0]


def _reading(column: Column, table: str, pool: _Pool) -> tuple[int, int, list[int]]:
    """The op on the binlog and on the wire, and the step's fields from HEADER on."""
    mapped_type = require(column, table)
    if column.type in _SPECIAL or (column.type == "decimal" and mapped_type.kind is Kind.STRING):
        return _special(column, mapped_type)
    if mapped_type.kind in _NUMBERS:
        primitive, size = _NUMBERS[mapped_type.kind]
        return NUMBER, NUMBER, [variant.header(primitive), size, 1, int(not column.unsigned), 0]
    if column.type in _TIMES:
        primitive, size, op = _TIMES[column.type]
        mode = {"": FAIL, "null": AS_NULL, "text": AS_TEXT}[column.carried]
        return op, MOMENT_WIRE, [variant.header(primitive), size, 1, column.fraction, mode]
    if mapped_type.kind is Kind.DECIMAL:
        primitive, size = next((p, s) for digits, p, s in _DECIMALS if mapped_type.precision <= digits)
        written = [variant.header(primitive), size, 1, mapped_type.precision, mapped_type.scale]
        return (WIDE, WIDE, written) if column.type == "bigint" else (DECIMAL_PACKED, DECIMAL_TEXT, written)
    if mapped_type.kind is Kind.STRING:
        op, growth, page = _text(column.charset or "utf8mb4", pool)
        return op, op, [_STRING, 0, growth, int(column.type == "char"), page]
    padded = (column.length or 0) if column.type == "binary" else 0
    return BINARY, BINARY, [variant.header(variant.BINARY), padded, 1, 0, 0]


def _special(column: Column, mapped_type: Mapped) -> tuple[int, int, list[int]]:
    """Types of which there is but one."""
    if column.type == "year":
        as_text = int(mapped_type.kind is Kind.STRING)
        return YEAR, YEAR, [variant.header(variant.INT16), 2, 1, as_text, 0]
    if column.type == "time":
        return TIME_PACKED, TIME_WIRE, [_STRING, 0, 1, column.fraction, 0]
    if column.type == "json":
        return JSON_BINARY, TEXT, [_STRING, 0, GROWTH_OF_JSON, 0, 0]
    if column.type in _ADDRESSES:
        return ADDRESS, TEXT, [_STRING, _LONGEST_ADDRESS, 1, _ADDRESSES[column.type], 0]
    if column.type == "vector":
        return VECTOR, VECTOR, [variant.header(variant.FLOAT), 0, 2, 0, 0]
    if column.type == "bit":
        width = {Kind.BOOLEAN: 0, Kind.INT64: 8, Kind.DECIMAL: 16}[mapped_type.kind]
        return BITS, BITS, [variant.header(variant.INT64 if width == 8 else variant.DECIMAL16), width, 1, 0, 0]
    # a decimal of more digits than VARIANT has
    return LONG_PACKED, LONG_TEXT, [_STRING, _LONG_DECIMAL, 1, column.precision or 10, column.scale or 0]


def _text(charset: str, pool: _Pool) -> tuple[int, int, int]:
    """The op for text of that character set, how many bytes one byte may become, and its page."""
    if charset in UNICODE:
        return TEXT, 1, ASCII_ALONE if charset == "ascii" else REPLACED
    if charset in WIDE_CHARSETS:
        return {"utf16": UTF16, "ucs2": UTF16, "utf16le": UTF16LE, "utf32": UTF32}[charset], 2, 0
    op = {1: SINGLE, 2: MULTI, 3: MULTI3, 4: GB18030}[MAX_BYTES.get(charset, 1)]
    return op, 3, pool.place(page(charset))


def _labelled(column: Column, pool: _Pool) -> tuple[int, list[int]]:
    """ENUM and SET in the binlog: numbers, where the wire has the text."""
    most = sum(len(value.encode()) + 1 for value in column.values)
    return ENUM if column.type == "enum" else SET, [_STRING, most, 1, 0, pool.place(labels(column.values))]
