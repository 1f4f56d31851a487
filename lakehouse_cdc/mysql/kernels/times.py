"""Dates and moments: MySQL's packed forms and those of the binary protocol, to days or microseconds since 1970.

The packed forms are those of WL#946 (5.6 and later); the days of a date follow Howard Hinnant's "chrono-Compatible
Low-Level Date Algorithms". What no calendar has (zero dates, the 31st of February) is refused, never moved to a day
nearby.
"""

from __future__ import annotations

import numpy as np

from lakehouse_cdc.mysql.kernels.compiled import part
from lakehouse_cdc.mysql.kernels.octets import Bytes, Step, big, little, put
from lakehouse_cdc.mysql.kernels.program import (
    ARG,
    DATE_PACKED,
    DATETIME_PACKED,
    HEADER,
    OP,
    TIME_WIRE,
    TIMESTAMP_PACKED,
    WIDTH,
)
from lakehouse_cdc.mysql.kernels.status import BAD_DATE, BAD_TIME, UNKNOWN_LENGTH, ZERO_DATE

DAY = 86_400_000_000  # microseconds
SECOND = 1_000_000
_MONTH_DAYS = np.array([31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], dtype=np.int64)


@part
def write_time(buf: Bytes, at: int, size: int, step: Step, out: Bytes, to: int) -> int:
    """A date, datetime or timestamp of `size` bytes."""
    op = step[OP]
    if op == DATE_PACKED:
        packed = little(buf, at, 3)
        return _civil(packed >> 9, packed >> 5 & 15, packed & 31, 0, step, out, to)
    if op == DATETIME_PACKED:
        return _datetime_packed(buf, at, step, out, to)
    if op == TIMESTAMP_PACKED:
        seconds, micros = big(buf, at, 4), _fraction(buf, at + 4, step[ARG])
        if seconds == 0 or micros >= SECOND:
            return -BAD_TIME if seconds else -ZERO_DATE
        out[to] = step[HEADER]
        return put(out, to + 1, seconds * SECOND + micros, 8)
    if op == TIME_WIRE:
        return _wire(buf, at, size, step, out, to)
    return -UNKNOWN_LENGTH


@part
def _datetime_packed(buf: Bytes, at: int, step: Step, out: Bytes, to: int) -> int:
    """5 bytes, big-endian: a sign that no stored value lacks, year * 13 + month (17 bits), day (5), clock (5, 6, 6)."""
    packed = big(buf, at, 5) - (1 << 39)
    if packed < 0:
        return -BAD_TIME
    months = packed >> 22
    clock = _clock(packed >> 12 & 31, packed >> 6 & 63, packed & 63, _fraction(buf, at + 5, step[ARG]))
    return _civil(months // 13, months % 13, packed >> 17 & 31, clock, step, out, to)


@part
def _wire(buf: Bytes, at: int, size: int, step: Step, out: Bytes, to: int) -> int:
    """Trailing zeros are left out: 0 bytes are a zero date, 4 a date, 7 have the clock and 11 the microseconds."""
    if size == 0:
        return -ZERO_DATE
    if size != 4 and (step[WIDTH] == 4 or size not in (7, 11)):
        return -BAD_TIME
    clock = np.int64(0)
    if size > 4:
        micros = little(buf, at + 7, 4) if size > 7 else np.int64(0)
        clock = _clock(np.int64(buf[at + 4]), np.int64(buf[at + 5]), np.int64(buf[at + 6]), micros)
    return _civil(little(buf, at, 2), np.int64(buf[at + 2]), np.int64(buf[at + 3]), clock, step, out, to)


@part
def _clock(hour: int, minute: int, second: int, micros: int) -> int:
    """Microseconds of the day, or -1."""
    if hour > 23 or minute > 59 or second > 59 or micros >= SECOND:
        return -1
    return (hour * 3600 + minute * 60 + second) * SECOND + micros


@part
def _fraction(buf: Bytes, at: int, digits: int) -> int:
    """Microseconds: 1, 2 or 3 bytes hold 2, 4 or 6 digits."""
    size = (digits + 1) // 2
    return big(buf, at, size) * (10000 if size == 1 else 100 if size == 2 else 1)


@part
def _civil(year: int, month: int, day: int, clock: int, step: Step, out: Bytes, to: int) -> int:
    """A moment of the proleptic Gregorian calendar, `clock` in microseconds of the day."""
    if month == 0 or day == 0:
        return -ZERO_DATE
    if month > 12 or day > _MONTH_DAYS[month - 1]:
        return -BAD_DATE
    if month == 2 and day == 29 and (year % 4 != 0 or (year % 100 == 0 and year % 400 != 0)):
        return -BAD_DATE
    if clock < 0:
        return -BAD_TIME
    out[to] = step[HEADER]
    days = _days(year, month, day)
    return put(out, to + 1, days if step[WIDTH] == 4 else days * DAY + clock, step[WIDTH])


@part
def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01: years begin in March, so that a leap day is the last; an era has 400 years."""
    y = year - (month <= 2)
    era = y // 400
    of_era = y - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
