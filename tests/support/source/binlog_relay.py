"""A relay between a stream and a real server, which may change what the server's binlog dumps send on the way."""

from __future__ import annotations

import socket
import zlib
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from types import TracebackType

Change = Callable[[bytes], bytes | None]
_COM_BINLOG_DUMP, _PACKET, _HEADER = 0x12, 4, 19


class BinlogRelay:
    """Listens on `port`, and passes all on to the server's. `change` is given each packet of a dump: what it gives is
    sent instead, and None ends the connection.
    """

    def __init__(self, server: int) -> None:
        self._server = server
        self.change: Change | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listener]
        Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        """Where streams connect to."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> BinlogRelay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in self._sockets:
            _end(one)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                Connection(self, client, socket.create_connection(("127.0.0.1", self._server))).start()

    def keep(self, *sockets: socket.socket) -> None:
        """End these as well in the end."""
        self._sockets += sockets


class Connection:
    """One connection of a client."""

    def __init__(self, relay: BinlogRelay, client: socket.socket, server: socket.socket) -> None:
        self._relay, self._client, self._server = relay, client, server
        self._dumps = False
        relay.keep(client, server)

    def start(self) -> None:
        """Pass bytes on both ways, until either side ends."""
        for way in (self._up, self._down):
            Thread(target=self._until_the_end, args=(way,), daemon=True).start()

    def _until_the_end(self, way: Callable[[], None]) -> None:
        with suppress(OSError):
            way()
        _end(self._client)
        _end(self._server)

    def _up(self) -> None:
        while data := self._client.recv(1 << 16):
            self._dumps = self._dumps or (len(data) > _PACKET and data[_PACKET] == _COM_BINLOG_DUMP)
            self._server.sendall(data)

    def _down(self) -> None:
        while head := self._exactly(_PACKET):
            packet = head + self._exactly(int.from_bytes(head[:3], "little"))
            changed = self._relay.change(packet) if self._dumps and self._relay.change is not None else packet
            if changed is None:
                return
            self._client.sendall(changed)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size and (more := self._server.recv(size - len(data))):
            data += more
        return data


def replacing(old: bytes, new: bytes, *, sealed: bool = False) -> Change:
    """Packets with bytes replaced by as many others; `sealed`: under a checksum that is right again."""
    assert len(old) == len(new)

    def change(packet: bytes) -> bytes:
        if old not in packet:
            return packet
        changed = packet.replace(old, new)
        return sealing(changed) if sealed else changed

    return change


def of_kind(packet: bytes, *kinds: int) -> bool:
    """Whether the packet has one whole event of one of these types."""
    return len(packet) > _PACKET + 1 + _HEADER and packet[_PACKET] == 0 and packet[_PACKET + 5] in kinds


def sealing(packet: bytes) -> bytes:
    """The packet, whose event has four bytes of checksum, with the right ones."""
    event = packet[_PACKET + 1 : -4]
    return packet[: _PACKET + 1] + event + zlib.crc32(event).to_bytes(4, "little")


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
