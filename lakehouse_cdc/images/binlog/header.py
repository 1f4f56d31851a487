"""Numbers in event headers. The caller has seen that the bytes are there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lakehouse_cdc.images.binlog.words import ANNOUNCED, GROUP, MARIADB, POS
from lakehouse_cdc.images.compiled import part


@part
def u32(data: NDArray[np.uint8], at: int) -> int:
    """Four bytes, little-endian."""
    low = np.int64(data[at]) | np.int64(data[at + 1]) << 8
    return int(low | np.int64(data[at + 2]) << 16 | np.int64(data[at + 3]) << 24)


@part
def u48(data: NDArray[np.uint8], at: int) -> int:
    """Six bytes, little-endian."""
    return int(u32(data, at) | np.int64(data[at + 4]) << 32 | np.int64(data[at + 5]) << 40)


@part
def event_size(data: NDArray[np.uint8], at: int) -> int:
    """How many bytes the event at `at` says that it has."""
    return u32(data, at + 9)


@part
def stands_right(data: NDArray[np.uint8], at: int, size: int, state: NDArray[np.int64]) -> bool:
    """Whether an event's header has the position of its end; MariaDB leaves it out inside a transaction (from 11.4)."""
    stated = u32(data, at + 13)
    if stated == 0 and state[MARIADB] and state[GROUP] >= ANNOUNCED:
        return True
    return bool(stated == (state[POS] + size) & 0xFFFFFFFF)
