"""The bytes of one response: received into a large buffer, cut into payloads by a kernel.

PyMySQL's reader holds nothing between two commands, so from the moment a command is sent until its response has ended
every byte of the socket is ours, encrypted or not. What has not been consumed stays in the buffer, which is made
larger only for a payload that does not fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pymysql

from lakehouse_cdc.errors import codes
from lakehouse_cdc.images.bytes_io import Bytes, Step
from lakehouse_cdc.images.rows.result_set import find_packets

BUFFER_BYTES = 4 << 20
_MOST = 1 << 16  # payloads found at once


class Payloads:
    """Whole payloads of a response: payload i is `buffer[starts[i]:ends[i]]` for i below `count`, until `more`."""

    def __init__(self, connection: pymysql.Connection[Any], where: str) -> None:
        inside: Any = connection
        self._socket: Any = inside._sock
        self._socket.settimeout(inside._read_timeout)
        self._where = where
        self.buffer: Bytes = np.empty(BUFFER_BYTES, dtype=np.uint8)
        self._begin = self._filled = 0
        self._sequence = 1
        self.starts: Step = np.empty(_MOST, dtype=np.int64)
        self.ends: Step = np.empty(_MOST, dtype=np.int64)
        self.count = 0

    def more(self) -> None:
        """Replace the payloads by the next ones; waits for at least one.

        Raises TransientError for a time-out, a lost connection, or packets out of order.
        """
        self.count = 0
        while not self.count:
            self.count, self._begin, self._sequence = find_packets(
                self.buffer, self._begin, self._filled, self._sequence, self.starts, self.ends
            )
            if self.count < 0:
                raise codes.DUMP_OUT_OF_STEP.error(
                    "the server sent packets out of order", where=self._where, hint="connect again"
                )
            if not self.count:
                self._receive()

    def payload(self, i: int) -> bytes:
        """The bytes of payload i."""
        return self.buffer[self.starts[i] : self.ends[i]].tobytes()

    def _receive(self) -> None:
        left = self._filled - self._begin
        if self._begin:
            self.buffer[:left] = self.buffer[self._begin : self._filled]
            self._begin, self._filled = 0, left
        if left == len(self.buffer):
            self.buffer = np.concatenate((self.buffer, np.empty_like(self.buffer)))
        try:
            count = self._socket.recv_into(self.buffer.data[self._filled :])
        except OSError as error:  # time-outs and TLS errors are among these
            raise codes.CONNECTION_LOST.error(
                f"the connection was lost while rows were read: {error}", where=self._where, hint="connect again"
            ) from error
        if not count:
            raise codes.CONNECTION_LOST.error(
                "the server closed the connection while rows were read", where=self._where
            )
        self._filled += count
