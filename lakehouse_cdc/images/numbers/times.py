"""Dates and moments: MySQL's packed forms and those of the binary protocol, to days or microseconds since 1970.

A TIME is a span of up to 838 hours, which no type of Delta's holds: it becomes the text that the server prints.

The packed forms are those of WL#946 (5.6 and later); the days of a date follow Howard Hinnant's "chrono-Compatible
Low-Level Date Algorithms". What no calendar has (zero dates, the 31st of February) is refused, or becomes NULL or the
text that the server prints, as the step says; it is never moved to a day nearby.
"""

from __future__ import annotations

import numpy as np

from lakehouse_cdc.images.bytes_io import Bytes, Step, big, decimal, little, put
from lakehouse_cdc.images.compiled import part
from lakehouse_cdc.images.opcodes import (
    ARG,
    ARG2,
    AS_TEXT,
    DATE_PACKED,
    DATETIME_PACKED,
    FAIL,
    HEADER,
    MOMENT_WIRE,
    OP,
    TIME_PACKED,
    TIME_WIRE,
    TIMESTAMP_PACKED,
    WIDTH,
)
from lakehouse_cdc.images.status import BAD_DATE, BAD_TIME, UNKNOWN_LENGTH, ZERO_DATE
from lakehouse_cdc.model.variant import NULL, SHORT_STRING

DAY = 86_400_000_000  # microseconds
SECOND = 1_000_000
_MONTH_DAYS = np.array([31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], dtype=np.int64)


@part
def write_time(buf: Bytes, at: int, size: int, step: Step, out: Bytes, to: int) -> int:
    """A date, datetime, timestamp or time of `size` bytes."""
    op = step[OP]
    if op == DATE_PACKED:
        packed = little(buf, at, 3)
        return _civil(packed >> 9, packed >> 5 & 15, packed & 31, 0, step, out, to)
    if op == DATETIME_PACKED:
        return _datetime_packed(buf, at, step, out, to)
    if op == TIMESTAMP_PACKED:
        return _timestamp_packed(buf, at, step, out, to)
    if op == MOMENT_WIRE:
        return _wire(buf, at, size, step, out, to)
    if op == TIME_PACKED:
        return _time_packed(buf, at, step, out, to)
    if op == TIME_WIRE:
        return _time_wire(buf, at, size, step, out, to)
    return -UNKNOWN_LENGTH


@part
def _datetime_packed(buf: Bytes, at: int, step: Step, out: Bytes, to: int) -> int:
    """5 bytes, big-endian: a sign that no stored value lacks, year * 13 + month (17 bits), day (5), clock (5, 6, 6)."""
    packed = big(buf, at, 5) - (1 << 39)
    if packed < 0:
        return -BAD_TIME  # no stored value has the sign
    months = packed >> 22
    clock = _clock(packed >> 12 & 31, packed >> 6 & 63, packed & 63, _fraction(buf, at + 5, step[ARG]))
    return _civil(months // 13, months % 13, packed >> 17 & 31, clock, step, out, to)


@part
def _timestamp_packed(buf: Bytes, at: int, step: Step, out: Bytes, to: int) -> int:
    """Seconds since 1970, big-endian, of which 0 stands for the zero date."""
    seconds, micros = big(buf, at, 4), _fraction(buf, at + 4, step[ARG])
    if micros >= SECOND:
        return -BAD_TIME
    if seconds == 0:
        return _civil(np.int64(0), np.int64(0), np.int64(0), np.int64(0), step, out, to)
    if step[ARG2] == AS_TEXT:
        year, month, day = _date_of(seconds // 86400)
        return _text(year, month, day, seconds % 86400 * SECOND + micros, step, out, to)
    out[to] = step[HEADER]
    return put(out, to + 1, seconds * SECOND + micros, 8)


@part
def _wire(buf: Bytes, at: int, size: int, step: Step, out: Bytes, to: int) -> int:
    """Trailing zeros are left out: 0 bytes are a zero date, 4 a date, 7 have the clock and 11 the microseconds."""
    if size == 0:
        return _civil(np.int64(0), np.int64(0), np.int64(0), np.int64(0), step, out, to)
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
    if clock < 0 or month > 12 or day > 31:
        return -BAD_TIME
    if step[ARG2] == AS_TEXT:
        return _text(year, month, day, clock, step, out, to)
    fault = _fault(year, month, day)
    if fault:
        if step[ARG2] == FAIL:
            return -fault
        out[to] = NULL
        return to + 1
    out[to] = step[HEADER]
    days = _days(year, month, day)
    return put(out, to + 1, days if step[WIDTH] == 4 else days * DAY + clock, step[WIDTH])


@part
def _fault(year: int, month: int, day: int) -> int:
    """Why the calendar has no such day, or 0."""
    if month == 0 or day == 0:
        return ZERO_DATE
    if day > _MONTH_DAYS[month - 1]:
        return BAD_DATE
    if month == 2 and day == 29 and (year % 4 != 0 or (year % 100 == 0 and year % 400 != 0)):
        return BAD_DATE
    return 0


@part
def _text(year: int, month: int, day: int, clock: int, step: Step, out: Bytes, to: int) -> int:
    """As the server prints it: 2024-02-31 23:59:59.000000, with the column's digits of a second."""
    at = decimal(year, 4, out, to + 1)
    out[at] = 0x2D
    at = decimal(month, 2, out, at + 1)
    out[at] = 0x2D
    at = decimal(day, 2, out, at + 1)
    if step[WIDTH] != 4:
        out[at] = 0x20
        seconds, micros = clock // SECOND, clock % SECOND
        at = _clock_text(seconds // 3600, 2, seconds // 60 % 60, seconds % 60, micros, step, out, at + 1)
    out[to] = (at - to - 1) << 2 | SHORT_STRING
    return at


@part
def _date_of(days: int) -> tuple[int, int, int]:
    """The inverse of `_days`, for days since 1970."""
    since = days + 719468
    era = since // 146097
    of_era = since - era * 146097
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    march = (5 * of_year + 2) // 153
    month = march + (3 if march < 10 else -9)
    return year + era * 400 + (month <= 2), month, of_year - (153 * march + 2) // 5 + 1


@part
def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01: years begin in March, so that a leap day is the last; an era has 400 years."""
    y = year - (month <= 2)
    era = y // 400
    of_era = y - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


@part
def _time_packed(buf: Bytes, at: int, step: Step, out: Bytes, to: int) -> int:
    """3 bytes and the fraction's, big-endian, one number around a middle: hours (10 bits), clock (6, 6), fraction."""
    size = (step[ARG] + 1) // 2
    packed = big(buf, at, 3 + size) - (1 << (23 + 8 * size))
    whole = abs(packed)
    clock = whole >> 8 * size
    micros = (whole & ((1 << 8 * size) - 1)) * (10000 if size == 1 else 100 if size == 2 else 1)
    return _time_text(packed < 0, clock >> 12 & 0x3FF, clock >> 6 & 63, clock & 63, micros, step, out, to)


@part
def _time_wire(buf: Bytes, at: int, size: int, step: Step, out: Bytes, to: int) -> int:
    """0 bytes are zero; else a sign, days (4 bytes), hours, minutes, seconds and, in 12 bytes, the microseconds."""
    if size == 0:
        return _time_text(False, np.int64(0), np.int64(0), np.int64(0), np.int64(0), step, out, to)
    if size not in (8, 12):
        return -BAD_TIME
    hours = little(buf, at + 1, 4) * 24 + np.int64(buf[at + 5])
    micros = little(buf, at + 8, 4) if size > 8 else np.int64(0)
    return _time_text(
        buf[at] != 0, hours, np.int64(buf[at + 6]), np.int64(buf[at + 7]), micros, step, out, to
    )  # fmt: skip


@part
def _time_text(
    negative: bool, hours: int, minutes: int, seconds: int, micros: int, step: Step, out: Bytes, to: int
) -> int:
    """As the server prints it: -838:59:59.000000, with the column's digits of a second."""
    if hours > 838 or minutes > 59 or seconds > 59 or micros >= SECOND:
        return -BAD_TIME
    at = to + 1
    if negative:
        out[at] = 0x2D
        at += 1
    at = _clock_text(hours, 3 if hours > 99 else 2, minutes, seconds, micros, step, out, at)
    out[to] = (at - to - 1) << 2 | SHORT_STRING
    return at


@part
def _clock_text(
    hours: int, width: int, minutes: int, seconds: int, micros: int, step: Step, out: Bytes, at: int
) -> int:
    """12:34:56.789, hours in so many digits."""
    digits: int = step[ARG]
    at = decimal(hours, width, out, at)
    out[at] = 0x3A
    at = decimal(minutes, 2, out, at + 1)
    out[at] = 0x3A
    at = decimal(seconds, 2, out, at + 1)
    if digits:
        out[at] = 0x2E
        for _ in range(6 - digits):
            micros //= 10
        at = decimal(micros, digits, out, at + 1)
    return at
