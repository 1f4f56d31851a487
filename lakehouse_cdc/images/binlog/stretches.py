"""How far a buffer of events goes within one file, by event headers alone."""

from __future__ import annotations

from lakehouse_cdc.images.binlog.header import event_size, u32
from lakehouse_cdc.images.binlog.words import FORMAT, HEADER, HEARTBEAT, HEARTBEAT_V2, ROTATE, START_ENCRYPTION
from lakehouse_cdc.images.bytes_io import Bytes
from lakehouse_cdc.images.compiled import compiled


@compiled
def pass_events(data: Bytes, at: int, pos: int, end: int) -> tuple[int, int]:
    """Pass events until `pos` reaches `end` (-1: never), a ROTATE, or the buffer's end; (offset, position)."""
    while at + HEADER <= data.size and (end < 0 or pos < end):
        kind = data[at + 4]
        size = event_size(data, at)
        if kind == ROTATE or size < HEADER or at + size > data.size:
            break
        # sent again in front of a start in mid-file, with no position
        made_up = kind in (FORMAT, START_ENCRYPTION) and u32(data, at + 13) == 0
        if not (made_up or kind in (HEARTBEAT, HEARTBEAT_V2)):
            pos += size
        at += size
    return at, pos
