"""`images.binlog.packets.strip_packets` in plain Python, for who wants a dump's first events and no compiled code.

To import numba takes longer than to read them. It gives the same for the same bytes (tests/mysql/binlog/test_dump.py).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MORE, SPECIAL, OUT_OF_ORDER, BAD_SIZE = 0, 1, 2, 3
HEADER = 4  # bytes before each packet: length (3), sequence number (1)
_LARGEST = 0xFFFFFF  # a packet of this length is followed by another one
_EVENT_HEADER = 19
_SIZE = slice(9, 13)  # of an event, in its header


def strip_few(raw: NDArray[np.uint8], filled: int, sequence: int, out: NDArray[np.uint8]) -> tuple[int, int, int, int]:
    """As `strip_packets`; for some KB."""
    data = raw[:filled].tobytes()
    consumed = produced = 0
    while True:
        payload, at, expected, length = b"", consumed, sequence, _LARGEST
        while length == _LARGEST:
            if at + HEADER > filled:
                return MORE, consumed, produced, sequence
            length = int.from_bytes(data[at : at + 3], "little")
            if data[at + 3] != expected:
                return OUT_OF_ORDER, consumed, produced, sequence
            expected = (expected + 1) & 0xFF
            payload += data[at + HEADER : at + HEADER + length]
            at += HEADER + length
            if at > filled:
                return MORE, consumed, produced, sequence
        event = payload[1:]
        if not payload or payload[0]:
            return SPECIAL, consumed, produced, sequence
        if len(event) < _EVENT_HEADER or int.from_bytes(event[_SIZE], "little") != len(event):
            return BAD_SIZE, consumed, produced, sequence
        out[produced : produced + len(event)] = np.frombuffer(event, dtype=np.uint8)
        consumed, produced, sequence = at, produced + len(event), expected
