"""Where a stretch of binlog ends inside a buffer of events.

What is after the end of a batch must not be looked at: a replay may find DDL there that the first attempt did not,
and the batch must be finished all the same. So buffers are cut before they are scanned, by event headers alone. A file
that ends is followed by a ROTATE, real or made up by the server, which is read here to know the next file's name.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lakehouse_cdc.errors import codes
from lakehouse_cdc.images.binlog.stretches import pass_events
from lakehouse_cdc.images.binlog.words import HEADER, ROTATE
from lakehouse_cdc.model.position import Position

_ARTIFICIAL = 0x20


class Cutter:
    """Cuts buffers, fed in order from `start` on, at `end`: a position between two events."""

    def __init__(self, start: Position, end: Position) -> None:
        self.position, self._end = start, end

    @property
    def done(self) -> bool:
        """Whether the end has been reached. (The end of a file is reached where the next one begins, at the latest.)"""
        return self.position >= self._end

    def cut(self, buffer: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The part of the buffer that lies at or before the end. Raises DefiniteError for malformed sizes."""
        at = 0
        while at < buffer.size and not self.done:
            in_last_file = self.position.number == self._end.number
            at, pos = pass_events(buffer, at, self.position.pos, self._end.pos if in_last_file else -1)
            self.position = Position(self.position.file, pos)
            if at < buffer.size and not self.done:
                at += self._rotate(buffer[at:])
        return buffer[:at]

    def _rotate(self, data: NDArray[np.uint8]) -> int:
        """Follow the ROTATE at the beginning of `data`; its size."""
        size = int.from_bytes(data[9:13].tobytes(), "little")
        if data.size < HEADER or int(data[4]) != ROTATE or not HEADER + 8 <= size <= data.size:
            raise codes.BINLOG_DAMAGED.error("a binlog event is malformed", where=str(self.position))
        here = self.position
        if not int(data[17]) & _ARTIFICIAL:
            self.position = Position(here.file, here.pos + size)
            if not self.done:
                self.position = here.next_file
            return size
        name = data[HEADER + 8 : size].tobytes()  # a checksum may follow the name
        if not name.startswith(here.file.encode()):
            self.position = here.next_file
        return size
