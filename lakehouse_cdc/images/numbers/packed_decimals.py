"""Packed decimals to text, as the server prints them.

The form is that of MySQL's `decimal2bin` (`strings/decimal.cc`): groups of 9 digits in 4 bytes, big-endian, before and
after the point apart, so that the first and the last group have what digits remain, in fewer bytes. The first bit is
inverted, so that bytes sort as numbers, and below zero all bits are.
"""

from __future__ import annotations

import numpy as np

from lakehouse_cdc.images.bytes_io import Bytes, big
from lakehouse_cdc.images.compiled import part

_POWERS = np.array([10**n for n in range(10)], dtype=np.int64)


@part
def packed_size(precision: int, scale: int) -> int:
    """The bytes of a number of `precision` digits, `scale` of them after the point."""
    whole = precision - scale
    return whole // 9 * 4 + (whole % 9 + 1) // 2 + scale // 9 * 4 + (scale % 9 + 1) // 2


@part
def write_packed(buf: Bytes, at: int, precision: int, scale: int, out: Bytes, to: int) -> int:
    """A sign, no zeros in front but one before a point, all digits of the scale; below 0 if a group is no number.

    At most `precision` + 3 bytes; the precision is not 0.
    """
    negative = buf[at] & 0x80 == 0
    if negative:
        out[to] = 0x2D
        to += 1
    first, begin = at, to
    point = 1 + (precision - scale) // 9  # the group in front of which it is
    last = point + scale // 9
    for g in range(last + 1):
        if g == point:
            if to == begin:
                out[to] = 0x30
                to += 1
            if scale > 0:
                out[to] = 0x2E
                to += 1
        digits = (precision - scale) % 9 if g == 0 else scale % 9 if g == last else 9
        size = min(4, (digits + 1) // 2)
        inverted = (1 << 8 * size) - 1 if negative else 0
        if at == first and size > 0:
            inverted ^= 1 << (8 * size - 1)
        group = big(buf, at, size) ^ inverted
        at += size
        if group >= _POWERS[digits]:
            return -1
        to = _significant(group, digits, begin, out, to)
    return to


@part
def _significant(number: int, digits: int, begin: int, out: Bytes, to: int) -> int:
    """That many digits, but none of the zeros that are the first since `begin`."""
    for i in range(digits - 1, -1, -1):
        digit = number // _POWERS[i] % 10
        if digit > 0 or to > begin:
            out[to] = 0x30 + digit
            to += 1
    return to
