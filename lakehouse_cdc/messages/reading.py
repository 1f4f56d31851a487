"""What a message says, read from its bytes: the other direction of `change`. Pure.

Invariant: a message is read as what it says, or is set aside for one of the reasons of `Reason`; it is never read as
something else, and never passed over because it could not be read. Only messages that say nothing of a row are passed
over: tombstones, heartbeats, the ends of transactions, and statements, whose effect is in the schema of what follows.

Why it holds: each part that is needed is looked for where the format has it, with its type; what is missing, of another
type or of an unknown kind raises `Unreadable`. Values are read by the schema that the message itself names, or that is
declared, and every column of it must be there.

Guards: tests/messages.
"""

from __future__ import annotations

import json
import struct
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Any

from lakehouse_cdc.messages.change import Image
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.table_name import join
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.type_registry import Kind
from lakehouse_cdc.schema.types import mapped


class Reason(str, Enum):
    """Why a message is set aside; the value is what the table of dead letters has."""

    NOT_JSON = "not_json"
    NOT_AVRO = "not_avro"
    NOT_THE_FORMAT = "not_the_format"
    UNKNOWN_OP = "unknown_op"
    UNKNOWN_TYPE = "unknown_type"
    UNKNOWN_TABLE = "unknown_table"
    NO_KEY = "no_key"
    NO_POSITION = "no_position"
    OTHER_COLUMNS = "other_columns"
    BAD_VALUE = "bad_value"
    TOO_LARGE = "too_large"
    OTHER_LOG = "other_log"
    OUT_OF_ORDER = "out_of_order"
    SCHEMA_CHANGE = "schema_change"


MEANINGS = {
    Reason.NOT_JSON: "the key or the value is no JSON in UTF-8",
    Reason.NOT_AVRO: "the key or the value is no data in Avro by a schema that the registry has",
    Reason.NOT_THE_FORMAT: "a part that the format has is missing, or is of another type",
    Reason.UNKNOWN_OP: "the kind of change is none of the format's",
    Reason.UNKNOWN_TYPE: "a column has a type that is not known",
    Reason.UNKNOWN_TABLE: "the message names no types, and the columns of its table are not declared",
    Reason.NO_KEY: "neither the message nor the configuration says what identifies the row, or a part of it is NULL",
    Reason.NO_POSITION: "the message does not say where in the source's log it is from",
    Reason.OTHER_COLUMNS: "the row has other columns than the schema",
    Reason.BAD_VALUE: "a value is none of its column's type",
    Reason.TOO_LARGE: "the message is larger than `max_message_bytes`",
    Reason.OTHER_LOG: "the message is of another server's log than the rows before it",
    Reason.OUT_OF_ORDER: "the message is older than one before it in its partition, or than a truncation of its table"
    " or a change of its schema, and bronze does not have it",
    Reason.SCHEMA_CHANGE: "the table's schema changed in a way that says not what the rows before it hold now",
}
assert MEANINGS.keys() == set(Reason)


class Unreadable(Exception):
    """A message that is to be set aside, with the reason and, in words, what it is about. Never leaves the program."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason.value}: {detail}")
        self.reason, self.detail = reason, detail


@dataclass(frozen=True)
class Place:
    """Where in the source's log a change is: in which file, at which byte, which row there (from 0).

    `read`: it is a row that a snapshot read there. `server` is the id of the server, 0 where the message has none.
    """

    file: str
    pos: int
    row: int
    read: bool = False
    server: int = 0


@dataclass(frozen=True)
class ReadChange:
    """One row of bronze, as a message says it; `op` is r, c, u, d or t.

    `place` is None where the format has none: then the order of the topic's partition is that of the changes.
    `commit_us` is in microseconds since 1970. `filled` has, as text, what rows that are older than a column hold in it;
    None where that is a default which the message does not say plainly.
    """

    op: Op
    schema: TableSchema
    key: Image | None
    before: Image | None
    after: Image | None
    commit_us: int
    place: Place | None
    gtid: str | None
    filled: Mapping[str, str | None]


@dataclass(frozen=True)
class Row:
    """How the rows of a table are read that were written under one schema."""

    schema: TableSchema
    values: Mapping[str, Value]
    filled: Mapping[str, str | None] = field(default_factory=dict)


# of bytes, which are a "key" or a "value": the number of the schema of Avro that they are written by, the schema, whose
# logical types are withheld (see `debezium.avro_reader`), and the data; raises Unreadable
Decoder = Callable[[bytes, str], tuple[int, Any, Any]]


@dataclass(frozen=True)
class Declared:
    """What the configuration says of tables: `columns` and `key` of one by its name, None where it says nothing.

    `column` makes a column of a name and of a type as MySQL writes it (`decimal(10,2)`); it raises Unreadable. `known`
    is the schema that a table has by now, for a truncation, which names none; None where it is not known. `decoder` is
    for the format in Avro, which needs one.
    """

    columns: Callable[[str], tuple[Column, ...] | None]
    key: Callable[[str], tuple[str, ...] | None]
    column: Callable[[str, str], Column]
    known: Callable[[str], TableSchema | None] = lambda _: None
    decoder: Decoder | None = None


# the changes that a key and a value say, in their order; none where they say nothing of a row
Reader = Callable[[bytes | None, bytes | None], list[ReadChange]]


def parsed(data: bytes, what: str) -> Any:
    """The JSON. Numbers with a fraction are Decimals, so that no digit is lost. Raises Unreadable."""
    try:
        return json.loads(data.decode("utf-8"), parse_float=Decimal, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Unreadable(Reason.NOT_JSON, f"the {what} is no JSON: {error}") from error


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


def part(held: Any, name: str, kind: type, reason: Reason = Reason.NOT_THE_FORMAT) -> Any:
    """A member of an object, which must be there and of that type. Raises Unreadable."""
    value = held.get(name) if isinstance(held, dict) else None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise Unreadable(reason, f"{name} is missing, or no {_WORDS[kind]}")
    return value


_WORDS = {dict: "object", list: "list", str: "text", int: "whole number"}


def optional(held: Mapping[str, Any], name: str, kind: type) -> Any:
    """The same of one that may be null, or missing: None."""
    return None if held.get(name) is None else part(held, name, kind)


_BITS = {Kind.INT8: 8, Kind.INT16: 16, Kind.INT32: 32, Kind.INT64: 64}
Value = Callable[[Any], Any]  # a value of bronze's image from one of the message that is not null


def fitting(column: Column, value: Value) -> Value:
    """The same, where a number is one that the column's type in silver holds."""
    entry = mapped(column)
    if entry is None:
        raise Unreadable(Reason.UNKNOWN_TYPE, f"{column.name} has the type {column.declared}, which is not known")
    if (bits := _BITS.get(entry.kind)) is not None:
        most: Decimal | int = 2 ** (bits - 1)
        least: Decimal | int = -most
    elif entry.kind is Kind.DECIMAL:
        most = Decimal((0, (1, *[0] * (entry.precision - entry.scale)), 0))
        least = -most
    else:
        return value

    def read(held: Any) -> Any:
        number = value(held)
        if not least <= number < most or (entry.kind is Kind.DECIMAL and number == least):
            raise ValueError(f"out of the range of {column.declared}")
        return number

    return read


def row_of(values: Mapping[str, Value], held: Any, *, whole: bool = True) -> dict[str, Any]:
    """An image from a JSON object; `whole`: with every column. Raises Unreadable."""
    if not isinstance(held, dict):
        raise Unreadable(Reason.NOT_THE_FORMAT, "the row is no object")
    if (held.keys() != values.keys()) if whole else (held.keys() - values.keys()):
        other = sorted(held.keys() ^ values.keys() if whole else held.keys() - values.keys())
        raise Unreadable(Reason.OTHER_COLUMNS, f"{other[0]} is in the row alone, or missing in it")
    return {name: _value(values[name], held[name], name) for name in held}


def _value(value: Value, held: Any, name: str) -> Any:
    if held is None:
        return None
    try:
        return value(held)
    except (ValueError, TypeError, ArithmeticError, LookupError, struct.error) as error:
        raise Unreadable(Reason.BAD_VALUE, f"{name} is {str(held)[:60]!r}: {error}") from error


def text(value: Any) -> str:
    """A text, without half of a surrogate pair, which is no character."""
    if not isinstance(value, str):
        raise ValueError("no text")
    value.encode()
    return value


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError("neither true nor false")
    return value


def double(value: Any) -> float:
    """A number."""
    if not isinstance(value, int | Decimal) or isinstance(value, bool):
        raise ValueError("no number")
    return float(value)


def single(value: Any) -> float:
    """A number of 32 bits."""
    (number,) = struct.unpack("<f", struct.pack("<f", double(value)))
    return float(number)


def base64_bytes(value: Any) -> bytes:
    """Bytes from base64."""
    return b64decode(text(value), validate=True)


def key_of(schema: TableSchema, image: Mapping[str, Any]) -> dict[str, Any]:
    """The key's columns of a row. Raises Unreadable for one that is NULL, or not there."""
    for name in schema.key:
        if image.get(name) is None:
            raise Unreadable(Reason.NO_KEY, f"{name}, which is of the key of {schema.name}, is NULL or missing")
    return {name: image[name] for name in schema.key}


def changes_of(
    schema: TableSchema,
    op: Op,
    before: Image | None,
    after: Image | None,
    at: Callable[[Op], tuple[int, Place | None, str | None]],
    key_row: Image,
) -> list[ReadChange]:
    """The rows of bronze of one change: of an update that changes the key a `d` and a `c`.

    `at` gives commit time, place and GTID of a row with that op. `key_row` has at least the key.
    """

    def change(of: Op, key: Image, was: Image | None, now: Image | None) -> ReadChange:
        return ReadChange(of, schema, key, was, now, *at(of), {})

    if op is Op.DELETE:
        return [change(op, key_of(schema, key_row), before, None)]
    assert after is not None
    key = key_of(schema, after)
    if op is Op.UPDATE and before is not None and (old := key_of(schema, before)) != key:
        return [change(Op.DELETE, old, before, None), change(Op.INSERT, key, None, after)]
    return [change(op, key, before if op is Op.UPDATE else None, after)]


def table_of(
    declared: Declared, database: str, table: str, columns: tuple[Column, ...], said: tuple[str, ...]
) -> TableSchema:
    """The table, with the key that is declared, or else that which a message says. Raises Unreadable without one."""
    name = join(database, table)
    given, names = declared.key(name), {column.name for column in columns}
    key = given or said
    if not database or not table or len({one.lower() for one in names}) < len(columns):
        raise Unreadable(Reason.NOT_THE_FORMAT, "the table has no name, or two columns of one")
    if not key or not {*key} <= names:
        what = f"{name} has no key" if not key else f"the key of {name} is of other columns than its rows"
        raise Unreadable(Reason.NO_KEY, what)
    return TableSchema(database, table, columns, key, key_given=bool(given and given != said))


def place_at(file: str, pos: int, row: int, op: Op, *, server: int) -> Place:
    """The place of a row; an insert comes after the deletion at the same place. Raises Unreadable."""
    number = file.rpartition(".")[2]
    if not number.isdecimal() or len(number) > 10 or not 0 <= pos < 10**13 or not 0 <= row < 10**9:
        raise Unreadable(Reason.NO_POSITION, f"{file[:60]}:{pos} row {row} is no place in a binlog")
    return Place(file, pos, 2 * row + (op is not Op.DELETE), read=op is Op.READ, server=server)
