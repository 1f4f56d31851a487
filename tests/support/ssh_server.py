"""An SSH server of these tests: asyncssh's own, in a thread, which forwards to whatever it is asked for, or refuses."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import asyncssh

from lakehouse_cdc.mysql.connection.ssh_tunnel import SshServer

T = TypeVar("T")
USER, PASSWORD = "hopper", "p4ssw0rd of the SSH server"


class Gate:
    """It lets `USER` in by the key in `key`, or by `PASSWORD`.

    `asked` are the hosts and ports that it was asked to connect to, `logins` how often it was connected to. It forwards
    nothing while `closed`.
    """

    def __init__(self, folder: Path, *, key_password: str = "") -> None:
        self._host_key, client = asyncssh.generate_private_key("ssh-ed25519"), asyncssh.generate_private_key("ssh-rsa")
        self._trusted = [client.convert_to_public()]
        self.key: str = client.export_private_key(passphrase=key_password or None).decode()
        self.key_password = key_password
        self.port = 0
        self.logins = 0
        self.closed = False
        self.asked: list[tuple[str, int]] = []
        self._connections: list[asyncssh.SSHServerConnection] = []
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.open()
        self.known_hosts = folder / "known_hosts"
        self.known_hosts.write_text(self.line(self._host_key))

    def line(self, key: asyncssh.SSHKey) -> str:
        """A line of known hosts for this server."""
        return f"[127.0.0.1]:{self.port} {key.export_public_key().decode().strip()}\n"

    def other_key(self) -> str:
        """A line that says that this server has another key."""
        return self.line(asyncssh.generate_private_key("ssh-ed25519"))

    @property
    def url(self) -> str:
        return f"ssh://{USER}@127.0.0.1:{self.port}"

    def server(self, **changes: Any) -> SshServer:
        """As a session is given it."""
        values: dict[str, Any] = {"key": self.key, "key_password": self.key_password}
        return SshServer.from_url(self.url, **{"known_hosts": self.known_hosts.read_text(), **values, **changes})

    def let_in(self, other: Gate) -> None:
        """By the key of the other one, too."""
        self._trusted += other._trusted

    def _do(self, coroutine: Awaitable[T]) -> T:
        async def done() -> T:
            return await coroutine

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result(30)

    def open(self) -> None:
        """Listen, at the port of before."""
        gate = self

        class Server(asyncssh.SSHServer):
            def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
                gate.logins += 1
                gate._connections.append(conn)

            def public_key_auth_supported(self) -> bool:
                return True

            def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
                return username == USER and key in gate._trusted

            def password_auth_supported(self) -> bool:
                return True

            def validate_password(self, username: str, password: str) -> bool:
                return (username, password) == (USER, PASSWORD)

            def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
                gate.asked.append((dest_host, dest_port))
                if gate.closed:
                    raise asyncssh.ChannelOpenError(asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, "prohibited")
                return True

        listening = asyncssh.listen("127.0.0.1", self.port, server_factory=Server, server_host_keys=[self._host_key])
        self._listening = self._do(listening)
        self.port = self._listening.get_port()

    def cut(self) -> None:
        """End every connection, in the midst of whatever it carries."""

        async def abort() -> None:
            for connection in self._connections:
                connection.abort()
            self._connections.clear()

        self._do(abort())

    def close(self) -> None:
        """Listen no more, and end every connection."""

        async def stop() -> None:
            self._listening.close()
            await self._listening.wait_closed()

        self.cut()
        self._do(stop())
        self.cut()


@contextmanager
def gate(folder: Path, *, key_password: str = "") -> Iterator[Gate]:
    """One, for a block."""
    made = Gate(folder, key_password=key_password)
    try:
        yield made
    finally:
        made.close()
