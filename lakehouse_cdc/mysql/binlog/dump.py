"""A binlog dump: ask the server for its binlog from a position, receive raw events in large buffers.

The socket is read directly, not through PyMySQL's packet reader: between two commands nothing is in flight, so once
COM_BINLOG_DUMP is sent every byte that arrives belongs to the dump. The dump blocks at the end of the binlog (a
non-blocking one can end before a position that the server has already reported), so heartbeats are asked for, and
silence for several of them is a lost connection. What `read` returns are whole events, byte for byte as they are in
the file, plus the few that the server makes up (see `scanner.BinlogScanner`, which tells them apart).

A request has four bytes for the position to start at, and a transaction may be larger than that: a file that holds one
is ended after it, but what was committed in one group with it still follows in the same file. A dump from past 4 GiB
is requested from the file's beginning and skips the events before its start (see `file_skip`).

Sources: MySQL source documentation, "COM_BINLOG_DUMP" and "Replication Protocol"; the errors' texts as real servers
(8.0.31, 9.7.4) send them.
"""

from __future__ import annotations

import ssl
import struct
import time
import uuid
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import numpy as np
import pymysql
from numpy.typing import NDArray

from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.model.position import FIRST_EVENT, Position
from lakehouse_cdc.mysql.binlog.file_skip import Skip
from lakehouse_cdc.mysql.binlog.framing import BAD_SIZE, HEADER, MORE, OUT_OF_ORDER, SPECIAL, strip_few
from lakehouse_cdc.mysql.connection.client import account_of
from lakehouse_cdc.mysql.connection.server_errors import server_error

COM_BINLOG_DUMP = 0x12
BUFFER_BYTES = 4 << 20
_SILENT_HEARTBEATS = 3
_SEND_ANNOTATE_ROWS = 2
_LINGER = 0.002  # seconds
_NET_WRITE_TIMEOUT = 600  # seconds that the server waits while our reader is busy elsewhere (its default is 60)
_NO_EVENTS: NDArray[np.uint8] = np.empty(0, dtype=np.uint8)
_FATAL_READ = 1236  # ER_SOURCE_FATAL_ERROR_READING_BINLOG
_SAME_ID = 4052  # MariaDB's ER_SLAVE_SAME_ID, for which MySQL has 1236 with the same text
_GAP_HINT = "set source.on_gap: resnapshot, which reads all tables again in a new epoch"


def _compiled() -> Callable[[NDArray[np.uint8], int, int, NDArray[np.uint8]], tuple[int, int, int, int]]:
    """Imported here, for that takes a second."""
    from lakehouse_cdc.images.binlog.packets import strip_packets

    return strip_packets


class BinlogDump:
    """The events from `start` on, over `connection`, which serves nothing else from now on.

    `server_id` must be this reader's own among all replicas and readers of the server. The server sends a heartbeat
    after `heartbeat_seconds` without events. A later dump with the same `replica_uuid` (random, if not given) ends
    this one. `few`: its first events alone are wanted, and compiled code is not loaded for them. Raises DefiniteError
    for an impossible position or server_id.
    """

    def __init__(
        self,
        connection: pymysql.Connection[Any],
        start: Position,
        *,
        server_id: int,
        heartbeat_seconds: float = 10.0,
        replica_uuid: str | None = None,
        few: bool = False,
    ) -> None:
        if start.pos < FIRST_EVENT:
            raise codes.POSITION_INVALID.error(
                f"a binlog dump cannot start at {start}: events begin at {FIRST_EVENT}", where=str(start)
            )
        if not 0 < server_id < 1 << 32:
            # with 0 the server ends the dump where its binlog ends now
            raise codes.SERVER_ID_INVALID.error(f"a server_id is a number from 1 to {(1 << 32) - 1}, not {server_id}")
        self.start = start
        requested = start if start.startable else Position(start.file, FIRST_EVENT)
        self._skip = Skip(requested, start) if requested != start else None
        self._server_id = server_id
        self._strip_packets = strip_few if few else _compiled()
        self._silence = _SILENT_HEARTBEATS * heartbeat_seconds
        self._connection = connection
        self._raw = np.empty(BUFFER_BYTES, dtype=np.uint8)
        self._filled = 0
        self._sequence = 1
        self._heard = time.monotonic()
        self._ended = False
        self._failure: CdcError | None = None
        try:
            self._register(heartbeat_seconds, replica_uuid or str(uuid.uuid4()))
            # MariaDB else leaves out events that are in the file, and a position would not be a sum of sizes
            flags = _SEND_ANNOTATE_ROWS if "MariaDB" in str(connection.get_server_info()) else 0  # type: ignore[no-untyped-call]
            request = struct.pack("<IHI", requested.pos, flags, server_id) + start.file.encode()
            connection._execute_command(COM_BINLOG_DUMP, request)  # type: ignore[attr-defined]
        except (pymysql.err.Error, OSError) as error:
            raise codes.CONNECTION_LOST.error(
                f"the binlog dump could not be requested: {error}", where=str(start)
            ) from error
        self._socket: Any = connection._sock  # type: ignore[attr-defined]

    def _register(self, heartbeat_seconds: float, replica_uuid: str) -> None:
        """Say what a replica says. Both spellings: before 8.0.26 the server reads only the old one.

        The checksum is asked for as CRC32 whatever the server's setting is now: older files may hold checksums that
        a reader who said NONE is refused, and each file's format description says what its events really carry.
        MariaDB's capability 4 keeps that server from rewriting its own events into ones that would be misread.
        """
        period = int(heartbeat_seconds * 1e9)
        values = {
            "master_binlog_checksum": "'CRC32'",
            "source_binlog_checksum": "'CRC32'",
            "master_heartbeat_period": str(period),
            "source_heartbeat_period": str(period),
            "slave_uuid": f"'{replica_uuid}'",
            "replica_uuid": f"'{replica_uuid}'",
            "mariadb_slave_capability": "4",
            "@session.net_write_timeout": str(_NET_WRITE_TIMEOUT),
        }
        with self._connection.cursor() as cursor:
            cursor.execute("SET " + ", ".join(f"@{name} = {value}" for name, value in values.items()))

    def read(self, timeout: float | None = None) -> NDArray[np.uint8]:
        """The whole events that have arrived, one after the other; waits for the first at most `timeout` seconds.

        An empty array after the time-out; None waits as long as the server is heard. Raises TransientError for a
        lost, silent or ended stream and DefiniteError for what the server refuses; after that, again the same error.
        """
        if self._failure is not None:
            raise self._failure
        try:
            return self._read(timeout)
        except CdcError as failure:
            self._failure = failure
            raise

    def _read(self, timeout: float | None) -> NDArray[np.uint8]:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            events = self._strip()
            if self._skip is not None:
                events = self._skip.rest(events)
            if events.size:
                return events
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                return _NO_EVENTS
            patience = max(self._heard + self._silence - now, 0.001)
            if self._receive(patience if deadline is None else min(patience, deadline - now)):
                self._heard = time.monotonic()
            elif time.monotonic() - self._heard >= self._silence:
                raise codes.DUMP_SILENT.error(
                    f"the server has sent neither events nor heartbeats for {self._silence:g} s",
                    where=f"binlog dump from {self.start}",
                )

    def _receive(self, wait: float) -> bool:
        """Wait for the first bytes, then take what follows at once or nearly so; False if none came in `wait` seconds.

        The server sends small events in packets of some KB; the short wait for more makes few large buffers of them.
        """
        if self._filled == self._raw.size:
            self._raw = np.concatenate((self._raw, np.empty_like(self._raw)))
        came, view = False, self._raw.data
        try:
            self._socket.settimeout(max(wait, 0.001))
            until = 0.0
            while count := self._socket.recv_into(view[self._filled :]):
                self._filled += count
                now = time.monotonic()
                until, came = until or now + _LINGER, True
                if self._filled == self._raw.size:
                    return True
                self._socket.settimeout(max(until - now, 0))
        except (BlockingIOError, TimeoutError, ssl.SSLWantReadError):
            return came
        except OSError as error:
            raise codes.CONNECTION_LOST.error(
                "the connection of the binlog dump was lost", where=str(self.start)
            ) from error
        if self._ended:
            raise codes.CONNECTION_LOST.error(
                "the server closed the connection of the binlog dump", where=str(self.start)
            )
        self._ended = True  # what came before is looked at first: it may hold the reason
        return True

    def _strip(self) -> NDArray[np.uint8]:
        """Move the whole events out of the raw buffer; errors only once the events before them are delivered."""
        if self._filled < HEADER:
            return _NO_EVENTS
        out = np.empty(self._filled, dtype=np.uint8)
        why, consumed, produced, self._sequence = self._strip_packets(self._raw, self._filled, self._sequence, out)
        if not produced and why != MORE:
            self._refuse(why)
        left = self._filled - consumed
        if consumed:
            rest = self._raw[consumed : self._filled].copy()
            if self._raw.size > BUFFER_BYTES and left <= BUFFER_BYTES // 2:
                self._raw = np.empty(BUFFER_BYTES, dtype=np.uint8)
            self._raw[:left] = rest
            self._filled = left
        return out[:produced]

    def _refuse(self, why: int) -> None:
        """Raise what the packet at the start of the raw buffer means: it is no event."""
        if why != SPECIAL:
            what = {OUT_OF_ORDER: "out of order", BAD_SIZE: "of another length than their event"}[why]
            raise codes.DUMP_OUT_OF_STEP.error(f"the binlog dump sent packets {what}", where=str(self.start))
        packet = bytes(self._raw[HEADER : self._filled])
        if packet[:1] == b"\xff":
            code = struct.unpack_from("<H", packet, 1)[0]
            text = packet[3:].decode("utf-8", "replace")
            raise self._server_error(code, text[6:] if text.startswith("#") else text)
        if packet[:1] == b"\xfe":
            raise codes.DUMP_ENDED.error(
                "the server ended the binlog dump",
                where=f"binlog dump from {self.start}, server_id {self._server_id}",
            )
        raise codes.DUMP_OUT_OF_STEP.error(
            f"the binlog dump sent a packet of unknown kind {packet[:1].hex()}", where=str(self.start)
        )

    def _server_error(self, code: int, text: str) -> CdcError:
        """What the server's error means for a reader. See tests/mysql/binlog/test_dump.py for each one.

        MySQL has one number for all that keeps it from reading its binlog, and tells the cases apart by text alone.
        """
        where = f"binlog dump from {self.start}, server_id {self._server_id}"
        what = f"the server refused the binlog dump: error {code}: {text}"
        if code == _SAME_ID or (code == _FATAL_READ and "server_uuid/server_id" in text):
            return codes.SERVER_ID_TAKEN.error(
                what, where=where, hint="give each reader its own server_id (source.server_ids)"
            )
        if code != _FATAL_READ:
            return server_error(code, text, where, account_of(self._connection))
        return codes.POSITION_PURGED.error(what, where=where, hint=self._gap_hint(text))

    def _gap_hint(self, text: str) -> str:
        if "binary log is not open" in text.lower():
            return "start the server with log_bin"
        if "Could not find first log file name" in text:
            return f"{self.start.file} is purged or was never there; {_GAP_HINT}"
        return f"{self.start} is no longer, or never was, a position of this binlog; {_GAP_HINT}"

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        """Buffers of events, for ever."""
        while True:
            yield self.read()

    def close(self) -> None:
        """End the dump; the connection cannot be used again."""
        self._connection._force_close()  # type: ignore[attr-defined]

    def __enter__(self) -> BinlogDump:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
