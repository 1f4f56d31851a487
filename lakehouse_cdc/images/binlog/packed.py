"""Events that are compressed by the server: where a buffer has them, and how the scan goes through them.

`find_packed` is one walk over the headers of raw events, before they are expanded. It stops at the first one that does
not fit into the buffer: that event is the scan's to refuse, and nothing after it is looked at. Types: MySQL 8.0.20's
TRANSACTION_PAYLOAD, and MariaDB 10.2's compressed QUERY, rows events of version 1, and rows events of version 2
(writes, updates and deletes each). `whole_events` cuts what was expanded. `enter` and `leave` are for what is in
their place then.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lakehouse_cdc.images.binlog.header import event_size, stands_right, u32
from lakehouse_cdc.images.binlog.words import (
    ANNOUNCED,
    AT,
    BROKEN,
    CHECKSUM,
    DONE,
    FAULTY,
    GROUP,
    HEADER,
    INNER_END,
    LAST_PACKED,
    MALFORMED,
    MARKER,
    MISPLACED,
    NOT_ONE,
    OUTSIDE,
    PACKED_QUERY,
    PAYLOAD,
    POS,
    WHOLE,
    WITHIN,
    WRONG_POSITION,
)
from lakehouse_cdc.images.compiled import compiled, part


@compiled
def find_packed(data: NDArray[np.uint8], at: int, places: NDArray[np.int64]) -> int:
    """How many packed events there are from `at` on; the offsets of the first go to `places`, as many as have room."""
    count = 0
    while data.size - at >= HEADER:
        kind = data[at + 4]
        size = event_size(data, at)
        if size < HEADER or size > data.size - at:
            break
        if kind == PAYLOAD or PACKED_QUERY <= kind <= LAST_PACKED:
            if count < places.size:
                places[count] = at
            count += 1
        at += size
    return count


@compiled
def whole_events(data: NDArray[np.uint8]) -> int:
    """The bytes of whole events that `data` begins with; all of it, if one has an impossible size: it is refused."""
    at = 0
    while data.size - at >= HEADER:
        size = event_size(data, at)
        if size < HEADER:
            return int(data.size)
        if size > data.size - at:
            break
        at += size
    return at


@part
def enter(data: NDArray[np.uint8], at: int, state: NDArray[np.int64]) -> int:
    """Go in after the marker at `at`: DONE, or what is wrong with it."""
    size, inner = u32(data, at + HEADER), u32(data, at + HEADER + 8) | u32(data, at + HEADER + 12) << 32
    if not stands_right(data, at, size, state):
        return WRONG_POSITION
    whole = data[at + 4] == PAYLOAD
    if whole and state[GROUP] != ANNOUNCED:
        return MISPLACED
    if inner == FAULTY:
        return BROKEN
    if u32(data, at + HEADER + 4) != state[CHECKSUM]:
        return MALFORMED
    state[AT] = at + MARKER
    state[WITHIN], state[INNER_END], state[WHOLE] = size, at + MARKER + inner, whole
    return DONE


@part
def leave(state: NDArray[np.int64]) -> int:
    """After the last event of a compressed one; DONE, or NOT_ONE."""
    if state[WHOLE] and state[GROUP] != OUTSIDE:
        return NOT_ONE
    state[POS] += state[WITHIN]
    state[WITHIN] = 0
    return DONE
