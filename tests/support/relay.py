"""A server at one address whose answers another one gives: a proxy, or a name that moves between servers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Relay:
    """Listens at `port`, and passes every connection on to `to`, which may be changed between two of them.

    `instead`: what the server says is changed on the way, where it is said in the clear. Both are of one length, so
    that no packet changes its own.
    """

    def __init__(self, to: int, instead: tuple[bytes, bytes] | None = None) -> None:
        self.to, self.instead = to, instead
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):  # closed at the end
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self.to))
                for one, other, changes in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._pass_on, args=(one, other, changes), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket, changes: bool) -> None:
        with suppress(OSError), one, other:
            while data := one.recv(1 << 16):
                other.sendall(data.replace(*self.instead) if changes and self.instead else data)
            other.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listening.close()


@contextmanager
def relay(to: int, instead: tuple[bytes, bytes] | None = None) -> Iterator[Relay]:
    """One that accepts connections until the block ends."""
    made = Relay(to, instead)
    try:
        yield made
    finally:
        made.close()
