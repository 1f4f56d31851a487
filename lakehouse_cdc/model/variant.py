"""The VARIANT binary encoding of Parquet and Spark: one value as (value bytes, metadata bytes).

Follows "Variant Binary Encoding" of the Apache Parquet format, version 1. The compiled kernels write the same bytes for
row images from the constants here; this module is the plain statement of the format, for small values (keys, schema
rows) and for tests. What makes it one format is that both are minimal: the metadata dictionary is sorted, holds exactly
the names in use, and every count, id and offset takes the fewest bytes that hold its maximum; the values of an object
may lie in any order after its header, as the format allows.

Names sort by their UTF-8 bytes, as the format says. Spark's builder and its binary search compare UTF-16 units, which
is the same order for all characters below U+10000, and MySQL has no others in the names of columns.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

from lakehouse_cdc.errors import codes

VERSION: Final = 1
SORTED: Final = 0x10  # metadata: the dictionary is sorted and has no duplicates
MAX_SIZE: Final = 128 * 1024 * 1024  # bytes that Spark 4.2 accepts in one value or one metadata

# basic types: the two low bits of a value's first byte
PRIMITIVE, SHORT_STRING, OBJECT, ARRAY = 0, 1, 2, 3
MAX_SHORT_STRING: Final = 63

# primitive types: the six high bits of a primitive's first byte
NULL, TRUE, FALSE, INT8, INT16, INT32, INT64, DOUBLE = 0, 1, 2, 3, 4, 5, 6, 7
DECIMAL4, DECIMAL8, DECIMAL16, DATE, TIMESTAMP, TIMESTAMP_NTZ = 8, 9, 10, 11, 12, 13
FLOAT, BINARY, LONG_STRING = 14, 15, 16

_INTEGERS = {INT8: 1, INT16: 2, INT32: 4, INT64: 8}
_DECIMALS = {DECIMAL4: (4, 9), DECIMAL8: (8, 18), DECIMAL16: (16, 38)}  # bytes, digits
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_DAYS_OF_400_YEARS = 146_097


def header(primitive: int) -> int:
    """The first byte of a primitive value."""
    return primitive << 2


def width(number: int) -> int:
    """The fewest bytes, 1 to 4, that hold an unsigned number below 2^32."""
    return max(1, (number.bit_length() + 7) // 8)


def metadata(names: Sequence[str]) -> bytes:
    """The dictionary of an object's field names, sorted; a name's rank in UTF-8 order is its id.

    Raises DefiniteError for a name that comes twice.
    """
    keys = sorted(name.encode() for name in names)
    if len(set(keys)) != len(keys):
        raise codes.VALUE_UNREPRESENTABLE.error("a VARIANT object cannot have two fields of one name")
    size = width(max(len(keys), sum(map(len, keys))))
    out = bytearray([VERSION | SORTED | (size - 1) << 6])
    out += len(keys).to_bytes(size, "little")
    _offsets(out, [len(key) for key in keys], size)
    return bytes(out + b"".join(keys))


def encode(value: Any) -> tuple[bytes, bytes]:
    """`value` as (value, metadata).

    Takes None, bool, int (the narrowest width up to 64 bits), Decimal (up to 38 digits), float (as a double), str,
    bytes, date, datetime (naive: timestamp_ntz, aware: timestamp; microseconds), dict with str keys, list and tuple.
    Raises DefiniteError for a value that VARIANT cannot hold, TypeError for any other type.
    """
    names: set[str] = set()
    _collect(value, names)
    ids = {name: i for i, name in enumerate(sorted(names, key=str.encode))}
    return _value(value, ids), metadata(sorted(names))


def decode(value: bytes, metadata: bytes) -> Any:
    """The inverse of `encode`; floats of 32 bits come as float, integers of every width as int.

    Decimals keep their scale. Raises DefiniteError for bytes that are no VARIANT, and for a date or time outside
    Python's years 1 to 9999.
    """
    try:
        return _read(value, 0, _names(metadata))
    except (IndexError, struct.error, UnicodeDecodeError, OverflowError, RecursionError) as error:
        raise codes.VARIANT_UNREADABLE.error(f"not a VARIANT that can be read: {error}") from error


def moment_text(value: bytes) -> str:
    """A date ("2024-02-29"), or a date and time with six digits of a second, in UTC; of year 0, too, unlike `decode`.

    Raises DefiniteError for any other value.
    """
    kind, number = value[0] >> 2, int.from_bytes(value[1:], "little", signed=True)
    if kind not in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
        raise codes.VARIANT_UNREADABLE.error("a VARIANT is no date or time")
    span = timedelta(days=number) if kind == DATE else timedelta(microseconds=number)
    early = 400 if span < datetime.min - _EPOCH else 0  # the calendar repeats itself after 400 years
    moment = _EPOCH + (span + timedelta(days=_DAYS_OF_400_YEARS if early else 0))
    text = f"{moment.year - early:04d}{moment.isoformat(' ', 'microseconds')[4:]}"
    return text[:10] if kind == DATE else text


def fields(value: bytes, metadata: bytes) -> dict[str, bytes]:
    """The fields of a flat object (no field has names of its own), each as its bytes: a row image, or a key.

    Raises DefiniteError for anything else.
    """
    try:
        basic, ids, offsets, start = _container_parts(value, 0)
        if basic != OBJECT:
            raise codes.VARIANT_UNREADABLE.error("a VARIANT is no object")
        names = _names(metadata)
        ends = sorted({*offsets})  # values may lie in any order
        after = dict(pairwise(ends))
        return {names[i]: _take(value, start + at, after[at] - at) for i, at in zip(ids, offsets[:-1], strict=True)}
    except (IndexError, KeyError, UnicodeDecodeError) as error:
        raise codes.VARIANT_UNREADABLE.error(f"not a VARIANT that can be read: {error}") from error


def object_of(values: Mapping[str, bytes]) -> tuple[bytes, bytes]:
    """The inverse of `fields`, as (value, metadata); in the form of `encode`."""
    names = sorted(values, key=str.encode)
    return _container(range(len(names)), [values[name] for name in names]), _metadata_of(tuple(names))


@lru_cache(maxsize=1024)
def _metadata_of(names: tuple[str, ...]) -> bytes:
    return metadata(names)


def _collect(value: Any, names: set[str]) -> None:
    if isinstance(value, dict):
        names.update(value)
    if isinstance(value, (dict, list, tuple)):
        for item in value.values() if isinstance(value, dict) else value:
            _collect(item, names)


def _value(value: Any, ids: dict[str, int]) -> bytes:
    if value is None or isinstance(value, bool):
        return bytes([header(NULL if value is None else TRUE if value else FALSE)])
    if isinstance(value, dict):
        keys = sorted(value, key=str.encode)
        return _container([ids[key] for key in keys], [_value(value[key], ids) for key in keys])
    if isinstance(value, (list, tuple)):
        return _container(None, [_value(item, ids) for item in value])
    return _scalar(value)


def _scalar(value: Any) -> bytes:
    if isinstance(value, (int, float, Decimal)):
        return _number(value)
    if isinstance(value, str):
        text = value.encode()
        if len(text) <= MAX_SHORT_STRING:
            return bytes([len(text) << 2 | SHORT_STRING]) + text
        return struct.pack("<BI", header(LONG_STRING), len(text)) + text
    if isinstance(value, bytes):
        return struct.pack("<BI", header(BINARY), len(value)) + value
    if isinstance(value, datetime):
        kind, moment = TIMESTAMP_NTZ, value
        if value.tzinfo is not None:
            kind, moment = TIMESTAMP, value.astimezone(timezone.utc).replace(tzinfo=None)
        return struct.pack("<Bq", header(kind), (moment - _EPOCH) // _MICROSECOND)
    if isinstance(value, date):
        return struct.pack("<Bi", header(DATE), value.toordinal() - _EPOCH.toordinal())
    raise TypeError(f"VARIANT cannot hold a {type(value).__name__}")


def _number(value: int | float | Decimal) -> bytes:
    if isinstance(value, float):
        return struct.pack("<Bd", header(DOUBLE), value)
    if isinstance(value, int):
        for kind, size in _INTEGERS.items():
            if -(1 << (8 * size - 1)) <= value < 1 << (8 * size - 1):
                return bytes([header(kind)]) + value.to_bytes(size, "little", signed=True)
    return _decimal(Decimal(value))


def _decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise codes.VALUE_UNREPRESENTABLE.error("VARIANT has no decimal NaN or infinity")
    scale = max(0, -exponent)
    unscaled: int = int("".join(map(str, digits))) * 10 ** max(0, exponent)
    for kind, (size, precision) in _DECIMALS.items():
        if unscaled < 10**precision and scale <= precision:
            number = -unscaled if sign else unscaled
            return bytes([header(kind), scale]) + number.to_bytes(size, "little", signed=True)
    raise codes.VALUE_UNREPRESENTABLE.error("a decimal of more than 38 digits does not fit VARIANT")


def _container(ids: Sequence[int] | None, values: Sequence[bytes]) -> bytes:
    """An object (with the ids of its names, in the names' order) or an array."""
    large = len(values) > 255
    size = width(sum(map(len, values)))
    info = (size - 1) | large << 2
    out = bytearray()
    if ids is None:
        out.append(info << 2 | ARRAY)
    else:
        id_size = width(max(ids, default=0))
        out.append(((size - 1) | (id_size - 1) << 2 | large << 4) << 2 | OBJECT)
    out += len(values).to_bytes(4 if large else 1, "little")
    if ids is not None:
        for i in ids:
            out += i.to_bytes(id_size, "little")
    _offsets(out, [len(value) for value in values], size)
    return bytes(out + b"".join(values))


def _offsets(out: bytearray, lengths: Sequence[int], size: int) -> None:
    at = 0
    out += at.to_bytes(size, "little")
    for length in lengths:
        at += length
        out += at.to_bytes(size, "little")


def _take(data: bytes, at: int, size: int) -> bytes:
    if at < 0 or at + size > len(data):
        raise IndexError("it ends too early")
    return data[at : at + size]


def _unsigned(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(_take(data, at, size), "little")


def _names(data: bytes) -> list[str]:
    first = _unsigned(data, 0, 1)
    if first & 0x0F != VERSION:
        raise codes.VARIANT_UNREADABLE.error(f"VARIANT metadata of version {first & 0x0F}, not {VERSION}")
    size = (first >> 6) + 1
    count = _unsigned(data, 1, size)
    start = 1 + (count + 2) * size
    _take(data, 0, start)
    ends = [_unsigned(data, 1 + (i + 1) * size, size) for i in range(count + 1)]
    return [_take(data, start + a, max(0, b - a)).decode() for a, b in pairwise(ends)]


def _read(data: bytes, at: int, names: list[str]) -> Any:
    first = _unsigned(data, at, 1)
    basic, info = first & 3, first >> 2
    if basic == SHORT_STRING:
        return _take(data, at + 1, info).decode()
    if basic == PRIMITIVE:
        return _read_primitive(data, at + 1, info)
    _, ids, offsets, start = _container_parts(data, at)
    items = (_read(data, start + offset, names) for offset in offsets[:-1])
    if basic != OBJECT:
        return list(items)
    return dict(zip((names[i] for i in ids), items, strict=True))


def _container_parts(data: bytes, at: int) -> tuple[int, list[int], list[int], int]:
    """The basic type of an object or array, the ids of its names, the offsets of its values, and where these begin.

    An array has no ids. The last offset is the end of all values.
    """
    first = _unsigned(data, at, 1)
    basic, info = first & 3, first >> 2
    is_object = basic == OBJECT
    large = info >> (4 if is_object else 2) & 1
    size, id_size = (info & 3) + 1, (info >> 2 & 3) + 1 if is_object else 0
    count = _unsigned(data, at + 1, 4 if large else 1)
    ids = at + 1 + (4 if large else 1)
    offsets = ids + count * id_size
    start = offsets + (count + 1) * size
    _take(data, at, start - at)
    numbers = [_unsigned(data, ids + i * id_size, id_size) for i in range(count)] if is_object else []
    return basic, numbers, [_unsigned(data, offsets + i * size, size) for i in range(count + 1)], start


def _read_primitive(data: bytes, at: int, kind: int) -> Any:
    if kind in (NULL, TRUE, FALSE):
        return None if kind == NULL else kind == TRUE
    if kind in _INTEGERS:
        return int.from_bytes(_take(data, at, _INTEGERS[kind]), "little", signed=True)
    if kind in _DECIMALS:
        unscaled = int.from_bytes(_take(data, at + 1, _DECIMALS[kind][0]), "little", signed=True)
        digits = tuple(map(int, str(abs(unscaled))))
        return Decimal((int(unscaled < 0), digits, -_unsigned(data, at, 1)))
    if kind in (DOUBLE, FLOAT):
        form, size = ("<d", 8) if kind == DOUBLE else ("<f", 4)
        (number,) = struct.unpack(form, _take(data, at, size))
        return number
    if kind == DATE:
        days = int.from_bytes(_take(data, at, 4), "little", signed=True)
        return (_EPOCH + timedelta(days=days)).date()
    if kind in (TIMESTAMP, TIMESTAMP_NTZ):
        micros = int.from_bytes(_take(data, at, 8), "little", signed=True)
        moment = _EPOCH + timedelta(microseconds=micros)
        return moment.replace(tzinfo=timezone.utc) if kind == TIMESTAMP else moment
    if kind in (BINARY, LONG_STRING):
        content = _take(data, at + 4, _unsigned(data, at, 4))
        return bytes(content) if kind == BINARY else content.decode()
    raise codes.VARIANT_UNREADABLE.error(f"VARIANT of primitive type {kind} is not supported")
