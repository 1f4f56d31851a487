"""One row of a PARTIAL_UPDATE_ROWS event: where its parts are.

A row is its image before, a byte of options, with option 1 a bit for each JSON column of the table, and its image
after. There a JSON column whose bit is set holds the changes of its document instead of the document; both have a
length in front. Images are whole: who calls has seen that no column is left out. JSON columns are the marked ones (see
`extents`). Source: MySQL source documentation, `unpack_row` in `sql/rpl_record.h`; the length that it puts
in front of an image is not written.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lakehouse_cdc.images.bytes_io import Matrix
from lakehouse_cdc.images.compiled import compiled, part
from lakehouse_cdc.images.extents import CUT_OFF, MARKED, value_at

OTHER_OPTIONS = -2
# `spots`: where the image before ends, the bits are (0: there are none), the image after begins; then for each JSON
# column where its value is in both images, after its length, and how long (-1: NULL)
OPTIONS, BITS, AFTER, FIRST_JSON = range(4)
OLD_AT, OLD_SIZE, NEW_AT, NEW_SIZE, JSON_FIELDS = range(5)
_PARTIAL_JSON = 1


@part
def _image(data: NDArray[np.uint8], at: int, end: int, columns: Matrix, spots: NDArray[np.int64], place: int) -> int:
    """The position after the image at `at`, or CUT_OFF; where JSON values are goes to `place` and the one after."""
    bitmap, n = at, columns.shape[0]
    at += (n + 7) >> 3
    if at > end:
        return CUT_OFF
    spot = FIRST_JSON + place
    for column in range(n):
        size, start = np.int64(-1), at
        if not (data[bitmap + (column >> 3)] >> (column & 7)) & 1:
            size, start = value_at(data, at, end, columns, column)
            if size < 0:
                return CUT_OFF
            at = start + size
        if columns[column, MARKED]:
            spots[spot], spots[spot + 1] = start, size
            spot += JSON_FIELDS
    return at


@compiled
def find_parts(data: NDArray[np.uint8], at: int, columns: Matrix, documents: int, spots: NDArray[np.int64]) -> int:
    """Fill `spots` for a row of a table with that many JSON columns; the position after it, or what is wrong."""
    end = data.size
    at = _image(data, at, end, columns, spots, OLD_AT)
    if at < 0 or at >= end:
        return CUT_OFF
    spots[OPTIONS], spots[BITS] = at, 0
    options = data[at]
    at += 1
    if options == _PARTIAL_JSON:
        spots[BITS] = at
        at += (documents + 7) >> 3
    elif options != 0:
        return OTHER_OPTIONS
    spots[AFTER] = at
    return int(_image(data, at, end, columns, spots, NEW_AT))
