"""Where the values of row images lie, by the extents of their columns alone (see `layout.extent`).

Every extent is checked against the end before it is read.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lakehouse_cdc.images.bytes_io import ByteMatrix, Matrix
from lakehouse_cdc.images.compiled import compiled, part

CUT_OFF = -1
# of a column: its bytes, or -1 and the bytes of the length in front; whether its values are asked for
FIXED, PREFIX, MARKED, COLUMN_FIELDS = range(4)
COLUMN, VALUE_AT, VALUE_SIZE, SPOT_FIELDS = range(4)  # of a value that was asked for


@part
def value_at(data: NDArray[np.uint8], at: int, end: int, columns: Matrix, column: int) -> tuple[int, int]:
    """(bytes of the value, where they begin) of a column that is not NULL; the first is CUT_OFF if that is wrong."""
    size = columns[column, FIXED]
    if size < 0:
        prefix = columns[column, PREFIX]
        if prefix > end - at:
            return CUT_OFF, at
        size = 0
        for i in range(prefix):
            size |= np.int64(data[at + i]) << (8 * i)
        at += prefix
    return (CUT_OFF if size < 0 or size > end - at else size), at


@compiled
def find_values(
    data: NDArray[np.uint8],
    at: int,
    columns: Matrix,
    present: ByteMatrix,
    spots: Matrix,
) -> int:
    """How many values of marked columns, other than NULL, the images from `at` to the end hold; or CUT_OFF.

    `present[i, c]`: whether the i-th image of a row has column c. The first values go to `spots`, as many as have room.
    """
    end, n, count, image = data.size, columns.shape[0], 0, 0
    while at < end:
        bitmap, bit = at, 0
        for column in range(n):
            bit += present[image, column]
        at += (bit + 7) >> 3
        if at > end:
            return CUT_OFF
        bit = -1
        for column in range(n):
            if not present[image, column]:
                continue
            bit += 1
            if (data[bitmap + (bit >> 3)] >> (bit & 7)) & 1:
                continue
            size, at = value_at(data, at, end, columns, column)
            if size < 0:
                return CUT_OFF
            if columns[column, MARKED]:
                if count < spots.shape[0]:
                    spots[count, COLUMN], spots[count, VALUE_AT], spots[count, VALUE_SIZE] = column, at, size
                count += 1
            at += size
        image = (image + 1) % present.shape[0]
    return count
