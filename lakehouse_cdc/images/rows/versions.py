"""Whether a row image of a system-versioned table is a row of the table: the rule of `schema.versioning`.

The bytes of the image decide, whether or not the column is captured: a table's program says which column is the end of
its rows' period, and what that is in current rows. An end is refused that is a greatest value, but not this server's.
"""

from __future__ import annotations

from lakehouse_cdc.images.bytes_io import Bytes, Step, at_offset, big
from lakehouse_cdc.images.compiled import part
from lakehouse_cdc.images.opcodes import END, GREATEST, STEP_FIELDS
from lakehouse_cdc.images.rows.image import STEP, Table, is_null, value_extent
from lakehouse_cdc.images.status import OTHER_PERIOD, TRUNCATED
from lakehouse_cdc.schema.versioning import END_BYTES

_LESSER_GREATEST = 0x7FFFFFFF << 24 | 999_999  # 2038-01-19 03:14:07.999999


@part
def pass_over(
    buf: Bytes, at: int, end: int, present: int, nulls: int, columns: int, table: Table, report: Step
) -> tuple[int, int]:
    """The position after the first `columns` columns of an image, and how many of them it has; minus a status."""
    bitmap, bit = at, 0
    at += nulls
    report[STEP] = 0
    if at > end:
        return -TRUNCATED, bit
    for column in range(columns):
        if present >= 0 and not is_null(buf, present, column):
            continue
        if not is_null(buf, bitmap, bit):
            size, at = value_extent(buf, at, end, at_offset(table.steps, column * STEP_FIELDS))
            if size < 0:
                report[STEP] = column
                return size, bit
            at += size
        bit += 1
    return at, bit


@part
def is_current(buf: Bytes, at: int, end: int, present: int, nulls: int, table: Table, report: Step) -> int:
    """1 if the image at `at` is a row of its table, 0 if it is a version that has ended; minus a status."""
    column = table.row[END]
    if column < 0:
        return 1
    place, bit = pass_over(buf, at, end, present, nulls, column, table, report)
    if place < 0:
        return place
    report[STEP] = column
    if place + END_BYTES > end or is_null(buf, at, bit):
        return -TRUNCATED
    ended: int = big(buf, place, END_BYTES)
    if ended == table.row[GREATEST]:
        return 1
    return -OTHER_PERIOD if ended == _LESSER_GREATEST or ended > table.row[GREATEST] else 0
