"""Table maps that are known, and the rows events under them: the part of the first pass that knows tables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lakehouse_cdc.images.binlog.header import u48
from lakehouse_cdc.images.binlog.words import (
    BYTES,
    DONE,
    EVENTS,
    HEADER,
    MALFORMED,
    MAP_AT,
    MAP_ID,
    MAP_SERIAL,
    MAP_SIZE,
    MAP_TABLE,
    NO_MAP,
    PARTIAL,
    PARTIAL_UPDATE,
    RARE,
    ROW_END,
    ROW_KIND,
    ROW_POS,
    ROW_START,
    ROW_TABLE,
    ROW_TXN,
    ROWS,
    SERIAL,
    TXNS,
)
from lakehouse_cdc.images.bytes_io import Matrix
from lakehouse_cdc.images.compiled import part


@part
def _find_map(maps: Matrix, places: NDArray[np.int32], table_id: int) -> int:
    """The line of `maps` that holds `table_id`, or -1. `places` is a hash table with a power of two entries."""
    mask = places.size - 1
    place = table_id & mask
    while places[place] >= 0:
        if maps[places[place], MAP_ID] == table_id:
            return int(places[place])
        place = (place + 1) & mask
    return -1


@part
def recall_map(
    data: NDArray[np.uint8],
    at: int,
    end: int,
    state: NDArray[np.int64],
    maps: Matrix,
    places: NDArray[np.int32],
    blob: NDArray[np.uint8],
) -> int:
    """Mark the table map at `at` as seen in this transaction: DONE; RARE if it is not, byte for byte, a known one."""
    start = at + HEADER + 6
    if end < start:
        return MALFORMED
    line = _find_map(maps, places, u48(data, at + HEADER))
    if line < 0 or maps[line, MAP_SIZE] != end - start:
        return RARE
    known = maps[line, MAP_AT]
    for i in range(end - start):
        if blob[known + i] != data[start + i]:
            return RARE
    maps[line, MAP_SERIAL] = state[SERIAL]
    return DONE


@part
def index_rows(
    data: NDArray[np.uint8],
    at: int,
    end: int,
    state: NDArray[np.int64],
    maps: Matrix,
    places: NDArray[np.int32],
    rows: Matrix,
    txns: Matrix,
    position: int,
) -> int:
    """Note the rows event at `at` if its table is captured: DONE, NO_MAP, MALFORMED, or PARTIAL: Python notes it."""
    kind = np.int64(data[at + 4])
    start = at + HEADER + 8
    if end < start + 2:
        return MALFORMED
    line = _find_map(maps, places, u48(data, at + HEADER))
    if line < 0 or maps[line, MAP_SERIAL] != state[SERIAL]:
        return NO_MAP
    table = maps[line, MAP_TABLE]
    if table < 0:
        return DONE
    if kind >= 30:  # version 2: extra data, its length counts itself
        start += np.int64(data[start]) | np.int64(data[start + 1]) << 8
        kind -= 7
    if start < at + HEADER + 8 or start >= end:
        return MALFORMED
    if data[at + 4] == PARTIAL_UPDATE:
        return PARTIAL
    n = state[ROWS]
    txn = state[TXNS] - 1
    rows[n, ROW_START] = start
    rows[n, ROW_END] = end
    rows[n, ROW_KIND] = kind - 23
    rows[n, ROW_TABLE] = table
    rows[n, ROW_TXN] = txn
    rows[n, ROW_POS] = position
    state[ROWS] = n + 1
    txns[txn, EVENTS] += 1
    txns[txn, BYTES] += end - start
    return DONE
