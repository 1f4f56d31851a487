"""The values in binary JSON that are no objects and no arrays, to text: numbers, strings, and the server's own types.

Format: MySQL's `sql-common/json_binary.h`. Decimals, dates and times come as the server's own ("opaque") types: a
precision, a scale and the packed digits; one number of 8 bytes (`TIME_to_longlong_packed` in `sql-common/my_time.cc`).
A type that JSON knows nothing of is printed as base64 with the type's number; `VAR_STRING` alone is a string, too
(`wrapper_to_string` in `sql-common/json_dom.cc`).

What no value of its type can be is refused, even where the server would print something: infinity (0.0 there), 839
hours, the year 10000 (0000). Zero dates are printed.
"""

from __future__ import annotations

import numpy as np

from lakehouse_cdc.images.bytes_io import Bytes, decimal, little, put
from lakehouse_cdc.images.compiled import part
from lakehouse_cdc.images.numbers.doubles import finite, write_double, write_integer, write_number
from lakehouse_cdc.images.numbers.packed_decimals import packed_size, write_packed
from lakehouse_cdc.images.status import BAD_JSON

LITERAL, INT16, UINT16, INT32, UINT32, INT64, UINT64, DOUBLE, STRING, OPAQUE = 4, 5, 6, 7, 8, 9, 10, 11, 12, 15
_WIDTHS = np.array([0, 0, 0, 0, 1, 2, 2, 4, 4, 8, 8, 8], dtype=np.int64)
_TIMESTAMP, _DATE, _TIME, _DATETIME, _DECIMAL, _VAR_STRING = 7, 10, 11, 12, 246, 253
_MAX_DIGITS = 81  # of a decimal while it is calculated with
_MAX_HOURS = 838
_LINE = 57  # bytes on a line of base64

_ESCAPES = np.zeros(256, dtype=np.uint8)
_ESCAPES[:0x20] = ord("u")
_ESCAPES[list(b'\b\t\n\f\r"\\')] = list(b'btnfr"\\')
_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", dtype=np.uint8)


def fixed(text: bytes) -> int:
    """A few bytes as `put` takes them."""
    return int.from_bytes(text, "little")


NULL, _TRUE, _FALSE = fixed(b"null"), fixed(b"true"), fixed(b"false")
_CONTROL, _NEWLINE, _BASE, _TYPE = fixed(b"u00"), fixed(b"\\n"), fixed(b'"base64'), fixed(b":type")


@part
def write_scalar(buf: Bytes, at: int, most: int, kind: int, bare: int, out: Bytes, to: int) -> tuple[int, int]:
    """(bytes that the value takes of the `most` that there are, next output position or minus a status).

    `bare`: whole doubles are printed without a fraction, as MySQL 5.7 does.
    """
    if kind <= DOUBLE:
        width: int = _WIDTHS[kind]
        return width, _number(buf, at, kind, bare, out, to) if width <= most else -BAD_JSON
    if kind not in (STRING, OPAQUE):
        return 0, -BAD_JSON
    end = at + most
    size, body = _length(buf, at if kind == STRING else at + 1, end)
    if size < 0 or size > end - body:
        return 0, -BAD_JSON
    if kind == STRING:
        return body - at + size, write_quoted(buf, body, size, out, to)
    return body - at + size, _opaque(buf, body, size, np.int64(buf[at]), out, to)


@part
def _length(buf: Bytes, at: int, end: int) -> tuple[int, int]:
    """(length, position after it): 7 bits a byte, the lowest first, in 5 bytes at most; below 0 where it is none."""
    length = np.int64(0)
    for i in range(min(5, end - at)):
        length |= (np.int64(buf[at + i]) & 0x7F) << (7 * i)
        if buf[at + i] < 0x80:
            return length, at + i + 1
    return -1, at


@part
def _number(buf: Bytes, at: int, kind: int, bare: int, out: Bytes, to: int) -> int:
    """A number or a literal."""
    width = _WIDTHS[kind]
    number = little(buf, at, width)  # of 8 bytes, too: its bits
    if kind == LITERAL:
        if number > 2:
            return -BAD_JSON
        return put(out, to, NULL if number == 0 else _TRUE if number == 1 else _FALSE, 5 if number == 2 else 4)
    if kind == DOUBLE:
        if not finite(np.uint64(number)):
            return -BAD_JSON
        to = write_double(np.uint64(number), out, to)
        return to - 2 if bare and out[to - 2] == 0x2E and out[to - 1] == 0x30 else to
    if kind in (INT16, INT32, INT64):
        return write_integer(number, 8 * width, out, to)
    return write_number(np.uint64(number), out, to)


@part
def write_quoted(buf: Bytes, at: int, size: int, out: Bytes, to: int) -> int:
    """A string, with escapes for control characters, quotes and backslashes."""
    out[to] = 0x22
    to += 1
    for i in range(size):
        byte = buf[at + i]
        escape = _ESCAPES[byte]
        if escape == 0:
            out[to] = byte
            to += 1
            continue
        out[to] = 0x5C
        if escape == 0x75:
            to = put(out, to + 1, _CONTROL, 3)
            out[to] = _HEX[byte >> 4]
            out[to + 1] = _HEX[byte & 15]
        else:
            out[to + 1] = escape
        to += 2
    out[to] = 0x22
    return to + 1


@part
def _opaque(buf: Bytes, at: int, size: int, kind: int, out: Bytes, to: int) -> int:
    """A value of one of the server's own types, in `size` bytes."""
    if kind == _DECIMAL:
        return _decimal(buf, at, size, out, to)
    if kind == _VAR_STRING:
        return write_quoted(buf, at, size, out, to)
    if kind not in (_DATE, _TIME, _DATETIME, _TIMESTAMP):
        return _base64(buf, at, size, kind, out, to)
    if size != 8:
        return -BAD_JSON
    out[to] = 0x22
    to = _moment(little(buf, at, 8), kind, out, to + 1)
    if to > 0:
        out[to] = 0x22
        to += 1
    return to


@part
def _decimal(buf: Bytes, at: int, size: int, out: Bytes, to: int) -> int:
    """A precision, a scale, and so many packed digits."""
    if size < 2:
        return -BAD_JSON
    precision, scale = np.int64(buf[at]), np.int64(buf[at + 1])
    if not 0 < precision <= _MAX_DIGITS or scale > precision or size != 2 + packed_size(precision, scale):
        return -BAD_JSON
    to = write_packed(buf, at + 2, precision, scale, out, to)
    return to if to >= 0 else -BAD_JSON


@part
def _moment(packed: int, kind: int, out: Bytes, to: int) -> int:
    """A date, a time or both: year * 13 + month, 5 bits of the day, 5 of the hour (10 of a time's), 6, 6, 24 of
    microseconds."""
    whole = abs(packed)
    micros, clock = whole & 0xFFFFFF, whole >> 24
    second, minute, hour = clock & 63, clock >> 6 & 63, clock >> 12
    date = hour >> 5
    if kind != _TIME:
        hour &= 31
    year, month = (date >> 5) // 13, (date >> 5) % 13
    hours = _MAX_HOURS if kind == _TIME else 23
    if micros > 999_999 or second > 59 or minute > 59 or not 0 <= hour <= hours or (year > 9999 and kind != _TIME):
        return -BAD_JSON
    if packed < 0:
        if kind != _TIME:
            return -BAD_JSON
        out[to] = 0x2D
        to += 1
    if kind != _TIME:
        to = _field(year, 4, 0x2D, out, to)
        to = _field(month, 2, 0x2D, out, to)
        to = _field(date & 31, 2, 0x20, out, to)
        if kind == _DATE:
            return to - 1
    to = _field(hour, 3 if hour > 99 else 2, 0x3A, out, to)
    to = _field(minute, 2, 0x3A, out, to)
    return decimal(micros, 6, out, _field(second, 2, 0x2E, out, to))


@part
def _field(number: int, digits: int, sign: int, out: Bytes, to: int) -> int:
    """That many digits, and a sign after them."""
    to = decimal(number, digits, out, to)
    out[to] = sign
    return to + 1


@part
def _base64(buf: Bytes, at: int, size: int, kind: int, out: Bytes, to: int) -> int:
    """The number of the type, and the bytes, with an escaped newline between lines."""
    to = put(out, put(out, to, _BASE, 7), _TYPE, 5)
    to = write_number(np.uint64(kind), out, to)
    out[to] = 0x3A
    to += 1
    for i in range(0, size, 3):
        if i > 0 and i % _LINE == 0:
            to = put(out, to, _NEWLINE, 2)
        bits = np.int64(0)
        for j in range(3):
            bits = bits << 8 | (np.int64(buf[at + i + j]) if i + j < size else 0)
        for j in range(4):
            out[to + j] = _BASE64[bits >> (18 - 6 * j) & 63] if i + j <= size else 0x3D
        to += 4
    out[to] = 0x22
    return to + 1
