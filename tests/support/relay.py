"""A server at one address whose answers another one gives: a proxy, a name that moves, or a network that fails.

What a network does to connections is set while they are in use: they end at once (RST), or after any byte (FIN), rest,
are slow, come in small pieces, or are refused. No byte is lost in the middle of a connection or changed, which TCP does
not do either; but for `instead`.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closed by RST


class _Connection:
    """The two sockets of one connection."""

    def __init__(self, relay: Relay, client: socket.socket, server: socket.socket) -> None:
        self._relay, self._client, self._server = relay, client, server
        self._left: int | None = None
        self._turn = threading.Lock()

    def start(self) -> None:
        for one, other, from_server in ((self._client, self._server, False), (self._server, self._client, True)):
            threading.Thread(target=self._pass_on, args=(one, other, from_server), daemon=True).start()

    def end_after(self, count: int) -> None:
        """Let so many bytes of the server's pass, and end; not more than were said before."""
        with self._turn:
            self._left = count if self._left is None else min(self._left, count)

    def reset(self) -> None:
        """End at once."""
        for one in (self._client, self._server):
            with suppress(OSError):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                one.shutdown(socket.SHUT_RDWR)

    def _pass_on(self, one: socket.socket, other: socket.socket, from_server: bool) -> None:
        with suppress(OSError):
            ends = False
            while not ends and (data := one.recv(1 << 16)):
                self._relay.flows.wait()
                if from_server:
                    data = data.replace(*self._relay.instead) if self._relay.instead else data
                    data, ends = self._allowed(data)
                self._send(other, data)
            self._relay.truncated += ends
        for each in (one, other):  # a socket that is only closed stays open for as long as a thread waits for its bytes
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._relay.forget(self)

    def _allowed(self, data: bytes) -> tuple[bytes, bool]:
        """What of it may pass, and whether that is the end."""
        with self._turn:
            if self._left is None:
                return data, False
            data = data[: self._left]
            self._left -= len(data)
            return data, self._left == 0

    def _send(self, to: socket.socket, data: bytes) -> None:
        piece = self._relay.piece or len(data)
        for at in range(0, len(data), piece):
            if self._relay.delay:
                time.sleep(self._relay.delay)
            to.sendall(data[at : at + piece])
            piece = self._relay.piece or len(data)


class Relay:
    """Listens at `port`, and passes every connection on to `to`, which may be changed between two of them.

    `instead`: what the server says is changed on the way, where it is said in the clear. Both are of one length, so
    that no packet changes its own. While `flows` is not set nothing passes; before each `piece` of so many bytes (None:
    as they come) it waits for `delay` seconds; while it `refuses`, a new connection is reset. `truncated` counts
    connections that `cut(after=...)` has ended.
    """

    def __init__(self, to: int, instead: tuple[bytes, bytes] | None = None) -> None:
        self.to, self.instead = to, instead
        self.flows = threading.Event()
        self.flows.set()
        self.delay, self.refuses, self.refused, self.truncated = 0.0, False, 0, 0
        self.piece: int | None = None
        self.new_end_after: int | None = None
        self._live: set[_Connection] = set()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def connections(self) -> int:
        """How many there are."""
        return len(self._live)

    def cut(self, *, after: int = 0) -> int:
        """End the connections that there are, at once, or when so many further bytes of the server have passed.

        Returns how many these are.
        """
        live = list(self._live)
        for one in live:
            if after:
                one.end_after(after)
            else:
                one.reset()
                self.forget(one)
        return len(live)

    def forget(self, connection: _Connection) -> None:
        """One that has ended."""
        self._live.discard(connection)

    def _accept(self) -> None:
        with suppress(OSError):  # closed at the end
            while True:
                client, _ = self._listening.accept()
                if self.refuses:
                    self.refused += 1
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    client.close()
                    continue
                try:
                    server = socket.create_connection(("127.0.0.1", self.to))
                except OSError:  # it does not run now
                    client.close()
                    continue
                connection = _Connection(self, client, server)
                if self.new_end_after is not None:
                    connection.end_after(self.new_end_after)
                self._live.add(connection)
                connection.start()

    def close(self) -> None:
        """Accept no more."""
        self._listening.close()


@contextmanager
def relay(to: int, instead: tuple[bytes, bytes] | None = None) -> Iterator[Relay]:
    """One that accepts connections until the block ends."""
    made = Relay(to, instead)
    try:
        yield made
    finally:
        made.close()
