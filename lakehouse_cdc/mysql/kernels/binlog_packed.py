"""Where a buffer of raw events holds packed ones: compressed by the server, to be expanded before they are scanned.

One walk over the headers. It stops at the first one that does not fit into the buffer: that event is the scan's to
refuse, and nothing behind it is looked at. Types: MySQL 8.0.20's TRANSACTION_PAYLOAD, and MariaDB 10.2's compressed
QUERY, rows events of version 1, and rows events of version 2 (writes, updates and deletes each).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lakehouse_cdc.mysql.kernels.compiled import compiled

_HEADER = 19
PAYLOAD = 40
PACKED_QUERY, PACKED_ROWS, LAST_PACKED = 165, 166, 171


@compiled
def find_packed(data: NDArray[np.uint8], at: int, places: NDArray[np.int64]) -> int:
    """How many packed events there are from `at` on; the offsets of the first go to `places`, as many as have room."""
    found = 0
    while data.size - at >= _HEADER:
        kind = data[at + 4]
        size = (
            np.int64(data[at + 9])
            | np.int64(data[at + 10]) << 8
            | np.int64(data[at + 11]) << 16
            | np.int64(data[at + 12]) << 24
        )
        if size < _HEADER or size > data.size - at:
            break
        if kind == PAYLOAD or PACKED_QUERY <= kind <= LAST_PACKED:
            if found < places.size:
                places[found] = at
            found += 1
        at += size
    return found
