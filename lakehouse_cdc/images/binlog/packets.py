"""Packets of a binlog dump in, raw events out: one pass that drops the framing and joins what was split.

The server sends each event as one logical packet: a status byte 0x00 and the event's bytes. A logical packet of 16 MiB
- 1 or more travels as several packets, all but the last exactly 0xffffff bytes long (MySQL source documentation,
"Protocol Basics"). Only a logical packet whose every byte has arrived is copied out, so the output always holds whole
events, and the length in the event's own header must equal the length of its packet, so a slip in the framing cannot
pass as data. Sequence numbers count each packet, modulo 256.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lakehouse_cdc.images.bytes_io import move, pointer
from lakehouse_cdc.images.compiled import compiled

MORE, SPECIAL, OUT_OF_ORDER, BAD_SIZE = 0, 1, 2, 3
HEADER = 4  # bytes before each packet: length (3), sequence number (1)
LARGEST = 0xFFFFFF  # a packet of this length is followed by another one
EVENT_HEADER = 19


@compiled
def strip_packets(  # noqa: C901
    raw: NDArray[np.uint8], filled: int, sequence: int, out: NDArray[np.uint8]
) -> tuple[int, int, int, int]:
    """Copy the whole events of `raw[:filled]` to `out`, which is at least as long as `raw[:filled]`.

    Returns (why it stopped, bytes consumed, bytes produced, next sequence number): MORE, the rest is not a whole
    logical packet yet; SPECIAL, the packet at `consumed` is an error or the end of the stream; OUT_OF_ORDER and
    BAD_SIZE, the packet at `consumed` contradicts the protocol.
    """
    consumed = 0
    produced = 0
    source, target = pointer(raw), pointer(out)
    while True:
        # first walk the packets of one logical packet, and only copy if all of it is here
        at = consumed
        expected = sequence
        total = 0
        length = LARGEST
        while length == LARGEST:
            if at + HEADER > filled:
                return MORE, consumed, produced, sequence
            length = int(raw[at]) | int(raw[at + 1]) << 8 | int(raw[at + 2]) << 16
            if int(raw[at + 3]) != expected:
                return OUT_OF_ORDER, consumed, produced, sequence
            expected = (expected + 1) & 0xFF
            at += HEADER + length
            total += length
            if at > filled:
                return MORE, consumed, produced, sequence
        if total == 0 or raw[consumed + HEADER] != 0:
            return SPECIAL, consumed, produced, sequence
        if total < 1 + EVENT_HEADER:
            return BAD_SIZE, consumed, produced, sequence
        start = produced
        skip = 1  # the status byte
        at = consumed
        while at < filled and produced - start < total - 1:
            length = int(raw[at]) | int(raw[at + 1]) << 8 | int(raw[at + 2]) << 16
            produced = move(source, at + HEADER + skip, length - skip, target, produced)
            at += HEADER + length
            skip = 0
        size = int(out[start + 9]) | int(out[start + 10]) << 8 | int(out[start + 11]) << 16 | int(out[start + 12]) << 24
        if size != total - 1:
            return BAD_SIZE, consumed, start, sequence
        consumed = at
        if length == LARGEST:  # exactly full: an empty packet follows, walked above
            consumed += HEADER
        sequence = expected
