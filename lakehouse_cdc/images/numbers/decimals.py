"""Decimals, packed (binlog) or text (result sets), to VARIANT's little-endian two's complement.

Those of more than 38 digits, which VARIANT and Delta do not have, become text.

The packed form is that of MySQL's decimal2bin: groups of 9 digits in 4 bytes, big-endian, whole digits and fraction
apart, the first bit inverted so that bytes sort as numbers, all bits inverted below zero. Both forms are summed in
128 bits, 9 digits at a time.
"""

from __future__ import annotations

import numpy as np

from lakehouse_cdc.images.bytes_io import Bytes, Step, move
from lakehouse_cdc.images.compiled import part
from lakehouse_cdc.images.numbers.packed_decimals import write_packed
from lakehouse_cdc.images.opcodes import ARG, ARG2, DECIMAL_PACKED, HEADER, LONG_TEXT, OP, WIDTH
from lakehouse_cdc.images.status import BAD_NUMBER
from lakehouse_cdc.images.strings import LONG_HEADER, headed

_POWERS = np.array([10**n for n in range(10)], dtype=np.uint64)
_DIGIT_BYTES = np.array([0, 1, 1, 2, 2, 3, 3, 4, 4, 4], dtype=np.int64)
_HALF = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_0, _1, _8, _63 = np.uint64(0), np.uint64(1), np.uint64(8), np.uint64(63)


@part
def write_decimal(buf: Bytes, at: int, size: int, step: Step, out: Bytes, to: int) -> int:
    if step[OP] == DECIMAL_PACKED:
        good, negative, low, high = _packed(buf, at, step[ARG], step[ARG2])
    else:
        good, negative, low, high = _digits(buf, at, size, step[ARG], step[ARG2])
    if not good:
        return -BAD_NUMBER
    if negative:  # two's complement of 128 bits
        low, high = ~low + _1, ~high
        if low == _0:
            high += _1
    out[to] = step[HEADER]
    out[to + 1] = step[ARG2]
    to += 2
    width: int = step[WIDTH]
    for i in range(width):
        out[to + i] = (low if i < 8 else high) >> ((_8 * np.uint64(i)) & _63)
    return to + width


@part
def _append(low: int, high: int, digits: int, group: int) -> tuple[int, int]:
    """(high:low) * 10^digits + group, 128 bits unsigned; at most 9 digits at once, so that no half overflows."""
    factor = _POWERS[digits]
    a = (low & _HALF) * factor + group
    b = (low >> _32) * factor + (a >> _32)
    return (a & _HALF) | (b << _32), high * factor + (b >> _32)


@part
def _packed(buf: Bytes, at: int, precision: int, scale: int) -> tuple[bool, bool, int, int]:
    """Groups of 9 digits, big-endian; the outer groups hold the rest. The first bit is set unless it is negative."""
    low, high = _0, _0
    whole = precision - scale
    negative = buf[at] & 0x80 == 0
    last = 1 + whole // 9 + scale // 9
    first = at
    for g in range(last + 1):
        digits = whole % 9 if g == 0 else scale % 9 if g == last else 9
        group = _0
        for _ in range(_DIGIT_BYTES[digits]):
            byte = np.uint64(buf[at] ^ (0xFF if negative else 0)) ^ np.uint64(0x80 if at == first else 0)
            group = group << _8 | byte & np.uint64(0xFF)
            at += 1
        if group >= _POWERS[digits]:
            return False, False, low, high
        low, high = _append(low, high, digits, group)
    return True, negative, low, high


@part
def _digits(buf: Bytes, at: int, size: int, precision: int, scale: int) -> tuple[bool, bool, int, int]:
    """Text: a sign, digits, a point, exactly `scale` digits."""
    low, high = _0, _0
    end = at + size
    negative = size > 0 and buf[at] == 0x2D
    if negative:
        at += 1
    point = end - scale - 1 if scale else end
    group, held, significant = _0, 0, 0
    good = point > at - (scale > 0)
    for i in range(at, end):
        if i == point:
            good = good and buf[i] == 0x2E
            continue
        good = good and 0x30 <= buf[i] <= 0x39
        group = group * np.uint64(10) + np.uint64(buf[i] - 0x30)
        held += 1
        significant += significant > 0 or buf[i] != 0x30
        if held == 9:
            low, high = _append(low, high, 9, group)
            group, held = _0, 0
    low, high = _append(low, high, held, group)
    return good and significant <= precision, negative, low, high


@part
def write_long_decimal(buf: Bytes, at: int, size: int, step: Step, out: Bytes, to: int) -> int:
    """A decimal as text: all digits of its scale, no zeros in front but one before the point."""
    body = to + LONG_HEADER
    if step[OP] == LONG_TEXT:
        end = _plain_digits(buf, at, size, step[ARG], step[ARG2], out, body)
    else:
        end = write_packed(buf, at, step[ARG], step[ARG2], out, body)
    return headed(step, out, to, end) if end >= 0 else -BAD_NUMBER


@part
def _plain_digits(buf: Bytes, at: int, size: int, precision: int, scale: int, out: Bytes, to: int) -> int:
    """The text that a server sent, without zeros that ZEROFILL has put in front; below 0 if it is no such number."""
    end = at + size
    if size > 0 and buf[at] == 0x2D:
        out[to] = 0x2D
        at += 1
        to += 1
    point = end - scale - 1 if scale else end
    if point <= at or end - at > precision + 2:
        return -1
    for i in range(at, end):
        if (buf[i] != 0x2E) if i == point else not 0x30 <= buf[i] <= 0x39:
            return -1
    while at < point - 1 and buf[at] == 0x30:
        at += 1
    return move(buf, at, end - at, out, to)
