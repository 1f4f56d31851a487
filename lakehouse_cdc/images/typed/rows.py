"""Row images back to columns: the inverse of `images` and `values`, and as strict as they are.

A row is read as it was written: the header, then the values in the table's order, each of which must begin where the
one before it ends and where the header says, and the last end where the image does. A value has the one form that the
writer gives its column, or is NULL. So an image that is read is one that the writer could have written, up to what
texts hold, and nothing is ever read outside of it. Any other stops the kernel; its caller then asks Spark.

Values of a fixed width are copied at once. Of texts, binaries and arrays it is noted where they begin and how much
they hold; they are gathered column by column when that is known of all rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lakehouse_cdc.images.bytes_io import Bytes, Matrix, Step, at_offset, little, move, pointer
from lakehouse_cdc.images.compiled import compiled, part
from lakehouse_cdc.model.variant import ARRAY, FALSE, FLOAT, MAX_SHORT_STRING, NULL, OBJECT, SHORT_STRING, TRUE, header

# A column's fields: how it is read, its number in the object, the first byte of a value, its bytes, the scale of a
# decimal, and what its digits stay below: two halves of 64 bits.
FORM, FIELD, FIRST_BYTE, SIZE, PLACES, LIMIT, LIMIT_HIGH = range(7)
COLUMN_FIELDS = 7
PLAIN, FLAG, EXACT, WRITTEN, RAW, FLOATS = range(6)  # EXACT: decimals; WRITTEN: texts
VARYING = WRITTEN  # forms from here on have no fixed width
EXACT_BYTES = 16  # of a decimal as Arrow has it

_TRUE, _FALSE, _FLOAT = header(TRUE), header(FALSE), header(FLOAT)
_32, _63 = np.uint64(32), np.uint64(63)


@compiled
def read_images(
    data: Bytes, ends: Step, chosen: Step, columns: Matrix, places: Step, fixed: Bytes, valid: Bytes, starts: Step,
    sizes: Step,
) -> int:  # fmt: skip
    """Read the images `data[ends[i]:ends[i + 1]]` for each i of `chosen`; how many are as the writer would have them.

    Of row k and column c: `valid[c * rows + k]`; a value of a fixed width in `fixed`, from `places[c]` on, where all
    values of the column lie; of the others, of which the column is the n-th where `places[c]` is n, the start in `data`
    and the content's bytes, or the elements: `starts[n * rows + k]`, `sizes[n * rows + k]`.
    """
    rows, count = len(chosen), len(columns)
    buf, layout, to = pointer(data), pointer(columns), pointer(fixed)
    validity, begins, lengths, where = pointer(valid), pointer(starts), pointer(sizes), pointer(places)
    for k in range(rows):
        at, end = np.int64(ends[chosen[k]]), np.int64(ends[chosen[k] + 1])
        size, offsets = _head(buf, at, end, count)
        if size == 0:
            return k
        body, pos = offsets + (count + 1) * size, np.int64(0)
        for c in range(count):
            column = at_offset(layout, c * COLUMN_FIELDS)
            if little(buf, offsets + column[FIELD] * size, size) != pos or body + pos >= end:
                return k
            form, value = column[FORM], body + pos
            there = buf[value] != NULL
            validity[c * rows + k] = there
            if form >= VARYING:
                begin, length, behind_it = value, np.int64(0), value + 1
                if there:
                    begin, length, behind_it = _varying(buf, value, end, column)
                begins[where[c] * rows + k], lengths[where[c] * rows + k] = begin, length
            else:
                behind_it = _fixed(buf, value, end, column, there, to, where[c], k)
            if behind_it < 0:
                return k
            pos = behind_it - body
        if body + pos != end or little(buf, offsets + count * size, size) != pos:
            return k
    return rows


@part
def _head(buf: Bytes, at: int, end: int, count: int) -> tuple[int, int]:
    """(bytes of an offset, where offsets begin); the first is 0 if it is no header of `count` fields."""
    id_size, large = 1 if count <= 256 else 2, 1 if count > 255 else 0
    counted = 4 if large else 1
    offsets = at + 1 + counted + count * id_size
    if offsets > end:
        return 0, offsets
    first = np.int64(buf[at])
    size = (first >> 2 & 3) + 1
    if first != ((size - 1) | (id_size - 1) << 2 | large << 4) << 2 | OBJECT or little(buf, at + 1, counted) != count:
        return 0, offsets
    good = True
    for field in range(count):
        good = good and little(buf, at + 1 + counted + field * id_size, id_size) == field
    total = end - offsets - (count + 1) * size
    if (
        not good
        or total < 0
        or size != (1 if total < 1 << 8 else 2 if total < 1 << 16 else 3 if total < 1 << 24 else 4)
    ):
        return 0, offsets
    return size, offsets


@part
def _fixed(buf: Bytes, at: int, end: int, column: Step, there: bool, out: Bytes, place: int, row: int) -> int:
    """Copy the value at `at`; the position after it, or -1 where it is none of the column's."""
    form = column[FORM]
    size: int = column[SIZE]
    if form == FLAG:
        out[place + row] = buf[at] == _TRUE
        return at + 1 if not there or buf[at] == _TRUE or buf[at] == _FALSE else -1
    width = EXACT_BYTES if form == EXACT else size
    to = place + row * width
    if not there:
        for i in range(width):
            out[to + i] = 0
        return at + 1
    if form == EXACT:
        return _exact(buf, at, end, column, out, to)
    if buf[at] != column[FIRST_BYTE] or at + 1 + size > end:
        return -1
    # of a width that the compiler knows, it is one instruction
    if size == 4:
        move(buf, at + 1, 4, out, to)
    elif size == 8:
        move(buf, at + 1, 8, out, to)
    elif size == 2:
        move(buf, at + 1, 2, out, to)
    else:
        out[to] = buf[at + 1]
    return at + 1 + size


@part
def _word(buf: Bytes, at: int, size: int) -> Any:
    """A little-endian number of 4 or 8 bytes with its sign, in 64 bits."""
    low = np.uint64(little(buf, at, 4))
    if size == 4:
        return np.uint64(np.int64(np.int32(np.uint32(low))))
    return low | np.uint64(little(buf, at + 4, 4)) << _32


@part
def _exact(buf: Bytes, at: int, end: int, column: Step, out: Bytes, to: int) -> int:
    """A decimal: its scale, then its digits; to 16 bytes, with the sign."""
    size: int = column[SIZE]
    if buf[at] != column[FIRST_BYTE] or at + 2 + size > end or buf[at + 1] != column[PLACES]:
        return -1
    low = _word(buf, at + 2, min(size, 8))
    negative = low >> _63 != 0
    high = ~np.uint64(0) if negative else np.uint64(0)
    if size == 16:
        high = _word(buf, at + 10, 8)
        negative = high >> _63 != 0
    for i in range(8):
        out[to + i] = low >> np.uint64(8 * i)
        out[to + 8 + i] = high >> np.uint64(8 * i)
    if negative:  # what its digits are, without the sign
        low, high = ~low + np.uint64(1), ~high
        if low == np.uint64(0):
            high += np.uint64(1)
    most, most_high = np.uint64(column[LIMIT]), np.uint64(column[LIMIT_HIGH])
    below = high < most_high or (high == most_high and low < most)
    return at + 2 + size if below else -1


@part
def _varying(buf: Bytes, at: int, end: int, column: Step) -> tuple[int, int, int]:
    """(where the content of the value at `at` begins, its bytes or elements, the position after it, or -1)."""
    first, form = np.int64(buf[at]), column[FORM]
    if form == FLOATS:
        return _floats(buf, at, end)
    if form == WRITTEN and first & 3 == SHORT_STRING:
        length = first >> 2
        behind_it = at + 1 + length
        return at + 1, length, behind_it if behind_it <= end else -1
    if first != column[FIRST_BYTE] or at + 5 > end:
        return at, 0, -1
    length = little(buf, at + 1, 4)
    behind_it = at + 5 + length
    good = behind_it <= end and (form == RAW or length > MAX_SHORT_STRING)
    return at + 5, length, behind_it if good else -1


@part
def _floats(buf: Bytes, at: int, end: int) -> tuple[int, int, int]:
    """An array of floats, each after its own first byte; it begins with the first of these."""
    first = np.int64(buf[at])
    width, large = (first >> 2 & 3) + 1, first >> 4 & 1
    counted = 4 if large else 1
    if at + 1 + counted > end or first != (width - 1 | large << 2) << 2 | ARRAY:
        return at, 0, -1
    count = little(buf, at + 1, counted)
    total = count * 5
    begin = at + 1 + counted + (count + 1) * width
    good = begin + total <= end and (large != 0) == (count > 255)
    good = good and width == (1 if total < 1 << 8 else 2 if total < 1 << 16 else 3)
    if not good:
        return at, 0, -1
    for i in range(count + 1):
        good = good and little(buf, at + 1 + counted + i * width, width) == 5 * i
    for i in range(count):
        good = good and buf[begin + 5 * i] == _FLOAT
    return begin, count, begin + total if good else -1


@compiled
def gather(data: Bytes, starts: Step, sizes: Step, out: Bytes) -> None:
    """Put the parts of `data` one after another."""
    buf, to, at = pointer(data), pointer(out), np.int64(0)
    for k in range(len(starts)):
        at = move(buf, starts[k], sizes[k], to, at)


@compiled
def gather_floats(data: Bytes, starts: Step, sizes: Step, out: Bytes) -> None:
    """The same of arrays: the 4 bytes of each element."""
    buf, to, at = pointer(data), pointer(out), np.int64(0)
    for k in range(len(starts)):
        for i in range(sizes[k]):
            at = move(buf, starts[k] + 5 * i + 1, 4, to, at)
