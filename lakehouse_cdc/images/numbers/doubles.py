"""A double as the server prints it in JSON: the fewest digits that are read back as the same double.

Where several of that length are, the nearest; where two are as near, the one with an even last digit: what David Gay's
dtoa gives in its mode 0, which MySQL's `strings/dtoa.cc` calls. Python's `repr` takes the same digits. The form is that
of `my_gcvt` with room for all digits: 15 digits before the point and 14 zeros after it, then an exponent.

The digits are found with integers alone, after Raffaele Giulietti, "The Schubfach way to render doubles" (2021). A
double is c * 2^q, and what rounds to it lies between (4c - 2) * 2^(q-2) (4c - 1 where c is the least of its binade,
below which doubles lie closer) and (4c + 2) * 2^(q-2), these included where c is even. Let 10^k be the largest power
of ten that is not wider than that. Of the two multiples of 10^(k+1) around the number, one at most lies in there, and
then is the answer; else of the two multiples of 10^k one at least does, and the nearer is. So it is enough to know the
three numbers in units of 10^k / 4, and of what is below a unit, whether it is zero: `_scaled`, which multiplies with
10^-k in 128 bits, rounded up. The factors are below 2^60, so that a product is too large by less than 2^-68; and one
that is no integer is never as near to one as 2^-66, which a test proves for each q.
"""

from __future__ import annotations

import numpy as np

from lakehouse_cdc.images.bytes_io import Bytes, put
from lakehouse_cdc.images.compiled import part

LEAST_POWER, MOST_POWER = -292, 324  # the powers of ten that doubles are multiplied with
_WHOLE_DIGITS, _LEADING_ZEROS = 15, 14  # beyond those the server takes an exponent
_FRACTION, _HIDDEN, _EXPONENT = np.uint64((1 << 52) - 1), np.uint64(1 << 52), np.uint64(0x7FF)
_ZERO, _POINT_ZERO = int.from_bytes(b"0.0", "little"), int.from_bytes(b".0", "little")
_0, _1, _2, _4, _10, _40 = (np.uint64(n) for n in (0, 1, 2, 4, 10, 40))
_32, _52, _60, _63, _HALF = (np.uint64(n) for n in (32, 52, 60, 63, 0xFFFFFFFF))


def power(n: int) -> int:
    """10^n times the power of two that makes it 128 bits long, rounded up."""
    over: int = 10 ** max(n, 0)
    under: int = 10 ** max(-n, 0)
    shift = 128 - over.bit_length() if n >= 0 else 127 + under.bit_length()
    return -(-(over << max(shift, 0)) // (under << max(-shift, 0)))


_POWERS = [power(n) for n in range(LEAST_POWER, MOST_POWER + 1)]
_HIGH = np.array([n >> 64 for n in _POWERS], dtype=np.uint64)
_LOW = np.array([n & (1 << 64) - 1 for n in _POWERS], dtype=np.uint64)


@part
def finite(bits: int) -> bool:
    """Whether it is a number: no infinity, no NaN."""
    number: bool = (bits >> _52) & _EXPONENT != _EXPONENT
    return number


@part
def write_double(bits: int, out: Bytes, to: int) -> int:
    """A finite double, given as its 64 bits, in up to 34 bytes."""
    if bits >> _63:
        out[to] = 0x2D
        to += 1
    if bits << _1 == _0:
        return put(out, to, _ZERO, 3)
    digits, exponent = _shortest(bits)
    while digits % _10 == _0:
        digits //= _10
        exponent += 1
    count = count_digits(digits)
    point = count + exponent  # digits before the point, or below 0 the zeros after it
    if point < -_LEADING_ZEROS or (point > _WHOLE_DIGITS and point >= count):
        to = _pointed(digits, count, 1, out, to) if count > 1 else write_digits(digits, 1, out, to)
        out[to] = 0x65
        to += 1
        point -= 1
        if point < 0:
            out[to] = 0x2D
            to += 1
        return write_number(np.uint64(abs(point)), out, to)
    if point <= 0:
        to = put(out, to, _ZERO, 2)
        for _ in range(-point):
            to = put(out, to, 0x30, 1)
        return write_digits(digits, count, out, to)
    if point < count:
        return _pointed(digits, count, point, out, to)
    to = write_digits(digits, count, out, to)
    for _ in range(exponent):
        to = put(out, to, 0x30, 1)
    return put(out, to, _POINT_ZERO, 2)


@part
def _pointed(digits: int, count: int, point: int, out: Bytes, to: int) -> int:
    """All digits, a point after the first `point` of them."""
    write_digits(digits, count, out, to + 1)
    for i in range(point):
        out[to + i] = out[to + i + 1]
    out[to + point] = 0x2E
    return to + count + 1


@part
def write_number(number: int, out: Bytes, to: int) -> int:
    """An unsigned number of 64 bits, in up to 20 bytes."""
    return write_digits(number, count_digits(number), out, to)


@part
def write_integer(number: int, bits: int, out: Bytes, to: int) -> int:
    """The lowest bits of a number, as a signed one."""
    number = number << (64 - bits) >> (64 - bits)
    if number < 0:
        out[to] = 0x2D
        to += 1
        number = -number  # -2^63 stays, and is right without a sign
    return write_number(np.uint64(number), out, to)


@part
def count_digits(number: int) -> int:
    """How many digits an unsigned number of 64 bits has."""
    count = 1
    while number >= _10:
        number //= _10
        count += 1
    return count


@part
def write_digits(number: int, count: int, out: Bytes, to: int) -> int:
    """The last `count` digits of an unsigned number of 64 bits."""
    for i in range(count - 1, -1, -1):
        out[to + i] = 0x30 + np.int64(number % _10)
        number //= _10
    return to + count


@part
def _shortest(bits: int) -> tuple[int, int]:
    """(digits, exponent): the digits times 10^exponent; there may be zeros at the end."""
    fraction, biased = bits & _FRACTION, np.int64((bits >> _52) & _EXPONENT)
    c = fraction | _HIDDEN if biased > 0 else fraction
    q = max(biased, 1) - 1075
    least = fraction == _0 and biased > 1
    k, shift = scale(q, least)
    h = np.uint64(shift)
    high, low = _HIGH[-k - LEAST_POWER], _LOW[-k - LEAST_POWER]
    number = _scaled(high, low, _4 * c << h)
    odd = c & _1
    first = _scaled(high, low, (_4 * c - (_1 if least else _2)) << h) + odd
    last = _scaled(high, low, (_4 * c + _2) << h) - odd
    ten = number // _40
    if first <= _40 * ten or _40 * ten + _40 <= last:
        return (ten if first <= _40 * ten else ten + _1), k + 1
    one = number // _4
    if (first <= _4 * one) != (_4 * one + _4 <= last):
        return (one if first <= _4 * one else one + _1), k
    middle = _4 * one + _2
    return (one + _1 if number > middle or (number == middle and one & _1) else one), k


@part
def scale(q: int, least: bool) -> tuple[int, int]:
    """(k, h): 10^k is the largest power of ten up to 2^q, or 3/4 of it; shifted by h, a factor of the 128 bits of 10^-k
    gives a product whose unit is bit 128."""
    k = (q * 1262611 - (524031 if least else 0)) >> 22
    return k, q + (-k * 1741647 >> 19) + 1


@part
def _scaled(high: int, low: int, factor: int) -> int:
    """factor * (high:low) / 2^128, its last bit set where what lies below it is not zero, but for the surplus."""
    rest, carry = _product(low, factor)
    below, above = _product(high, factor)
    below += carry
    if below < carry:
        above += _1
    return above if below == _0 and rest >> _60 == _0 else above | _1


@part
def _product(a: int, b: int) -> tuple[int, int]:
    """The lower and the higher 64 bits of a product."""
    first = (a & _HALF) * (b & _HALF)
    second = (a >> _32) * (b & _HALF) + (first >> _32)
    third = (a & _HALF) * (b >> _32) + (second & _HALF)
    return (first & _HALF) | (third << _32), (a >> _32) * (b >> _32) + (second >> _32) + (third >> _32)
