"""The events of a dump from a file's beginning, as a dump from a later position of the file has them.

For a start in mid-file the server sends the file's format description first, with 0 as its end and a checksum that is
right for that; then the events from the start on. Here the file's own format description is kept and changed to that,
and everything else before the start is left out: by its header alone, so that nothing in it needs to be readable.
"""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from lakehouse_cdc.errors import codes
from lakehouse_cdc.images.binlog.words import FORMAT, HEADER
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.mysql.binlog.boundary import Cutter

_END_AT, _CRC_BYTES = 13, 4
Events = NDArray[np.uint8]


class Skip:
    """Takes the buffers of a dump from `begin`, where a file does, in order; gives those of a dump from `start`."""

    def __init__(self, begin: Position, start: Position) -> None:
        self._start = start
        self._cutter = Cutter(begin, start)
        self._head: Events | None = None

    def rest(self, events: Events) -> Events:
        """What a dump from the start has of a buffer. Raises DefiniteError where no event of the file ends there."""
        if self._cutter.done:
            return events
        skipped = self._cutter.cut(events)
        if self._head is None:
            self._head = _head(skipped)
        if not self._cutter.done:
            return events[:0]
        if self._cutter.position != self._start or self._head is None:
            raise codes.POSITION_INVALID.error(
                f"{self._start} is no position between two events: the file continues at {self._cutter.position}",
                where=str(self._start),
            )
        return np.concatenate((self._head, events[skipped.size :]))


def _head(events: Events) -> Events | None:
    """The format description among events, as it is sent in front of a start in mid-file."""
    at = 0
    while at + HEADER <= events.size:
        size = int.from_bytes(events[at + 9 : at + 13].tobytes(), "little")
        if int(events[at + 4]) == FORMAT:
            event = bytearray(events[at : at + size].tobytes())
            event[_END_AT : _END_AT + 4] = bytes(4)
            event[-_CRC_BYTES:] = zlib.crc32(event[:-_CRC_BYTES]).to_bytes(_CRC_BYTES, "little")
            return np.frombuffer(bytes(event), np.uint8)
        at += size
    return None
