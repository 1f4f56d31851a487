"""One value from the wire's bytes to VARIANT's bytes: the only place that knows how values are written.

Every function takes a position whose bytes the caller has proven to be inside the buffer, and an output with room for
the step's worst case, and returns the next output position, or minus a status. Source: MySQL's documentation of the
binary protocol's values ("Binary Protocol Value") and of its row events.
"""

from __future__ import annotations

import numpy as np

from lakehouse_cdc.images.bytes_io import Bytes, Step, decimal, little, load8, move, put, store8
from lakehouse_cdc.images.compiled import inlined, part
from lakehouse_cdc.images.numbers.decimals import write_decimal, write_long_decimal
from lakehouse_cdc.images.numbers.times import write_time
from lakehouse_cdc.images.opcodes import (
    ADDRESS,
    ARG,
    BITS,
    DATE_PACKED,
    DECIMAL_PACKED,
    DECIMAL_TEXT,
    ENUM,
    GB18030,
    HEADER,
    JSON_BINARY,
    LONG_PACKED,
    LONG_TEXT,
    NULLED,
    NUMBER,
    OP,
    SET,
    TEXT,
    VECTOR,
    WIDE,
    WIDTH,
    YEAR,
)
from lakehouse_cdc.images.status import BAD_NUMBER
from lakehouse_cdc.images.text.addresses import write_address
from lakehouse_cdc.images.text.charsets import write_document, write_label, write_text, write_unicode
from lakehouse_cdc.model.variant import ARRAY, FALSE, SHORT_STRING, TRUE, header

_TRUE, _FALSE = header(TRUE), header(FALSE)


@inlined
def write_value(buf: Bytes, at: int, size: int, limit: int, step: Step, pool: Bytes, out: Bytes, to: int) -> int:
    """The value of `size` bytes at `at`, as the step says; the buffer ends at `limit`."""
    op = step[OP]
    if op == NUMBER:
        return _number(buf, at, size, limit, step, out, to)
    if op == TEXT:
        return write_unicode(buf, at, size, limit, step, out, to)
    return _rarer(buf, at, size, step, pool, out, to)


@part
def _rarer(buf: Bytes, at: int, size: int, step: Step, pool: Bytes, out: Bytes, to: int) -> int:
    """All but numbers and UTF-8."""
    op = step[OP]
    if op <= GB18030:
        return write_text(buf, at, size, step, pool, out, to)
    if op >= DATE_PACKED:
        return write_time(buf, at, size, step, out, to)
    if op in (DECIMAL_PACKED, DECIMAL_TEXT):
        return write_decimal(buf, at, size, step, out, to)
    if op in (LONG_PACKED, LONG_TEXT):
        return write_long_decimal(buf, at, size, step, out, to)
    if op in (ENUM, SET):
        return write_label(buf, at, size, step, pool, out, to)
    return _plain(buf, at, size, step, out, to)


@part
def _plain(buf: Bytes, at: int, size: int, step: Step, out: Bytes, to: int) -> int:
    op = step[OP]
    if op == BITS:
        return _bits(buf, at, size, step, out, to)
    if op == JSON_BINARY:
        return write_document(buf, at, size, step, out, to)
    if op == ADDRESS:
        return write_address(buf, at, size, step, out, to)
    if op == VECTOR:
        return _vector(buf, at, size, step, out, to)
    if op == YEAR:
        return _year(buf, at, size, step, out, to)
    out[to] = step[HEADER]
    if op == NULLED:
        return to + 1
    if op == WIDE:
        out[to + 1] = 0
        move(buf, at, 8, out, to + 2)
        return put(out, to + 10, 0, 8)
    padded: int = max(size, step[WIDTH])
    to = put(out, to + 1, padded, 4)
    to = move(buf, at, size, out, to)
    for i in range(padded - size):
        out[to + i] = 0
    return to + padded - size


@part
def _year(buf: Bytes, at: int, size: int, step: Step, out: Bytes, to: int) -> int:
    """Of one byte since 1900, 0 aside."""
    year = little(buf, at, size)
    if size == 1 and year:
        year += 1900
    if step[ARG]:
        out[to] = 4 << 2 | SHORT_STRING
        return decimal(year, 4, out, to + 1)
    out[to] = step[HEADER]
    return put(out, to + 1, year, 2)


@part
def _bits(buf: Bytes, at: int, size: int, step: Step, out: Bytes, to: int) -> int:
    """A big-endian number as true or false, or in WIDTH bytes: 8, or 16 of a decimal."""
    width: int = step[WIDTH]
    if width == 0:
        out[to] = _TRUE if buf[at + size - 1] else _FALSE
        return to + 1
    out[to] = step[HEADER]
    to += 1
    if width == 16:
        out[to] = 0
        to += 1
    for i in range(width):
        out[to + i] = buf[at + size - 1 - i] if i < size else 0
    return to + width


@part
def _vector(buf: Bytes, at: int, size: int, step: Step, out: Bytes, to: int) -> int:
    """Floats of 4 bytes as an array, whose offsets have the fewest bytes that hold its size."""
    if size % 4:
        return -BAD_NUMBER
    count = size // 4
    total = count * 5
    width = 1 if total < 1 << 8 else 2 if total < 1 << 16 else 3
    large = 1 if count > 255 else 0
    out[to] = (width - 1 | large << 2) << 2 | ARRAY
    to = put(out, to + 1, count, 4 if large else 1)
    for i in range(count + 1):
        to = put(out, to, 5 * i, width)
    for i in range(count):
        out[to] = step[HEADER]
        to = move(buf, at + 4 * i, 4, out, to + 1)
    return to


@inlined
def _number(buf: Bytes, at: int, size: int, limit: int, step: Step, out: Bytes, to: int) -> int:
    """Of 1 to 8 bytes: what is read beside them is shifted out, what is written after WIDTH is overwritten."""
    out[to] = step[HEADER]
    number = load8(buf, at) if at + 8 <= limit else _last_number(buf, at, size)
    shift = (64 - 8 * size) & 63
    number <<= shift
    store8(out, to + 1, number >> shift if step[ARG] else np.int64(np.uint64(number) >> np.uint64(shift)))
    end: int = to + 1 + step[WIDTH]
    return end


@part
def _last_number(buf: Bytes, at: int, size: int) -> int:
    """Where the buffer ends within 8 bytes."""
    return little(buf, at, size)
