"""Connections through an SSH server, to a source that cannot be reached from here.

Purpose: `through` gives a socket whose other end is the source's port, as the SSH server reaches it.

How: one SSH connection of this process to the SSH server, and a channel in it for each socket, which is one half of a
pair inside this process. So nothing listens at a port, and no other user of the machine can use the tunnel. The SSH
connection lives in a thread of its own, and is opened again by the next socket after it broke; a socket of before
then is a closed connection, as without a tunnel, and does what it does then.

Invariants, and why they hold:

- The SSH server is the one that is meant: its host key is looked up in `known_hosts`, and there is no way around that.
  Settings of the user's own SSH client, its agent and its keys are not read, so a task elsewhere does the same as here.
- A network that falls silent is noticed, after `_KEEPALIVES` of `_KEEPALIVE_SECONDS`: an SSH server answers those.
- A process that was forked has no tunnel yet: threads are not inherited. What it inherits is left alone, since its
  selector is shared with the parent.

Guards: tests/mysql/test_ssh_tunnel.py.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from lakehouse_cdc.errors import CdcError, codes

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection

_KEEPALIVE_SECONDS, _KEEPALIVES = 15, 3
_PIECE = 256 << 10  # bytes


@dataclass(frozen=True)
class SshServer:
    """How to reach the SSH server: by a private key (PEM or OpenSSH's form), or a password.

    `known_hosts` is the text of a file of that name, in OpenSSH's format.
    """

    host: str
    port: int
    user: str
    known_hosts: str = field(repr=False)
    key: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    @classmethod
    def from_url(
        cls, url: str, *, known_hosts: str, key: str = "", key_password: str = "", password: str = ""
    ) -> SshServer:
        """Read ssh://user@host:port, whose port is 22 if left out. Raises ConfigError, with no part of the URL."""
        try:
            parts = urlsplit(url)
            port = parts.port or 22
        except ValueError:
            raise codes.SSH_SETTING_INVALID.error("source.ssh cannot be read", hint="ssh://user@host:port") from None
        rest = parts.path.strip("/") or parts.query or parts.fragment or parts.password is not None
        if parts.scheme != "ssh" or not parts.hostname or not parts.username or rest:
            raise codes.SSH_SETTING_INVALID.error("source.ssh is not ssh://user@host:port", hint="ssh://user@host:port")
        return cls(parts.hostname, port, unquote(parts.username), known_hosts, key, key_password, password)

    @property
    def where(self) -> str:
        """The SSH server, for errors: ssh://user@host:port."""
        return f"ssh://{self.user}@{self.host}:{self.port}"


def through(server: SshServer, host: str, port: int, seconds: float) -> socket.socket:
    """A socket that is connected to `host` and `port` as the SSH server sees them, within `seconds`.

    Raises ConfigError for a key that cannot be read, DefiniteError for an SSH server that is another one or refuses,
    and TransientError for one that does not answer, or cannot reach that port.
    """
    import asyncssh

    target = f"{host}:{port}"
    try:
        return _HERE.opened(server, host, port, seconds)
    except asyncssh.HostKeyNotVerifiable:
        raise codes.SSH_HOST_KEY_UNKNOWN.error(
            "the SSH server shows a host key that source.ssh_known_hosts does not have for it", where=server.where,
            hint=f"compare what `ssh-keyscan -p {server.port} {server.host}` prints with what its administrator knows,"
            " and add it to that file",
        ) from None  # fmt: skip
    except asyncssh.PermissionDenied as error:
        by = "key" if server.key else "password"
        raise codes.SSH_REFUSED.error(
            f"the SSH server does not let {server.user} in by the {by}: {error.reason}", where=server.where
        ) from None
    except asyncssh.ChannelOpenError as error:
        what = f"the SSH server does not connect to {target}: {error.reason}"
        if error.code == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED:
            hint = "allow it there (AllowTcpForwarding, PermitOpen, and the options of the key in authorized_keys)"
            raise codes.SSH_REFUSED.error(what, where=server.where, hint=hint) from None
        raise codes.SSH_UNREACHABLE.error(what, where=server.where) from error
    except (asyncssh.KeyExchangeFailed, asyncssh.ProtocolNotSupported) as error:
        raise codes.SSH_REFUSED.error(
            f"the SSH server speaks no protocol or cipher that is spoken here: {error.reason}", where=server.where,
            hint="update the SSH server",
        ) from None  # fmt: skip
    except (asyncssh.Error, OSError, asyncio.TimeoutError, concurrent.futures.TimeoutError) as error:
        raise _not_reached(error, server, target, seconds) from error


def fingerprint(server: SshServer) -> str:
    """That of the host key of the SSH server that this process is connected to; '' where it is to none."""
    return _HERE.fingerprint(server)


def _not_reached(error: BaseException, server: SshServer, target: str, seconds: float) -> CdcError:
    if isinstance(error, socket.gaierror) and error.errno != socket.EAI_AGAIN:
        return codes.HOST_UNKNOWN.error(
            "the name of the SSH server cannot be resolved", where=server.where, hint="correct the host in source.ssh"
        )
    reason = str(error) or f"no answer within {seconds:g} s"
    return codes.SSH_UNREACHABLE.error(
        f"no connection to {target} through the SSH server: {reason}", where=server.where
    )


class _Tunnels:
    """The SSH connections of one process, and the thread that they live in."""

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        # these two are of the thread alone
        self._connections: dict[SshServer, SSHClientConnection] = {}
        self._opening: dict[SshServer, asyncio.Lock] = {}
        self._pumps: set[asyncio.Task[None]] = set()

    def opened(self, server: SshServer, host: str, port: int, seconds: float) -> socket.socket:
        channel = asyncio.wait_for(self._channel(server, host, port), seconds)
        return asyncio.run_coroutine_threadsafe(channel, self._running()).result(seconds + 5)

    def fingerprint(self, server: SshServer) -> str:
        connection = self._connections.get(server)
        key = connection.get_server_host_key() if connection else None
        return f"{key.get_algorithm()} {key.get_fingerprint()}" if key else ""

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="lakehouse-cdc-ssh", daemon=True).start()
            return self._loop

    async def _channel(self, server: SshServer, host: str, port: int) -> socket.socket:
        connection = await self._connection(server)
        from_source, to_source = await connection.open_connection(host, port)
        ours, inner = socket.socketpair()
        inner.setblocking(False)
        from_us, to_us = await asyncio.open_connection(sock=inner)
        for one, other in ((from_us, to_source), (from_source, to_us)):
            pump = asyncio.ensure_future(_pump(one, other))
            self._pumps.add(pump)  # a loop keeps no task alive
            pump.add_done_callback(self._pumps.discard)
        return ours

    async def _connection(self, server: SshServer) -> SSHClientConnection:
        async with self._opening.setdefault(server, asyncio.Lock()):
            connection = self._connections.get(server)
            if connection is None or connection.is_closed():
                connection = self._connections[server] = await _connected(server)
            return connection


async def _connected(server: SshServer) -> SSHClientConnection:
    import asyncssh

    keys = []
    if server.key:
        try:
            keys = [asyncssh.import_private_key(server.key, server.key_password or None)]
        except ValueError:  # what the library says of it may quote it
            raise codes.SSH_SETTING_INVALID.error(
                "source.ssh_key holds no private key that can be read", where="source.ssh_key",
                hint="the whole text of the file, by reference; source.ssh_key_password, if it has one",
            ) from None  # fmt: skip
    try:
        known = asyncssh.import_known_hosts(server.known_hosts)
    except ValueError as error:
        raise codes.SSH_SETTING_INVALID.error(
            f"source.ssh_known_hosts is no file of known hosts: {error}", where="source.ssh_known_hosts"
        ) from None
    return await asyncssh.connect(
        server.host,
        server.port,
        username=server.user,
        client_keys=keys or None,
        password=server.password or None,
        known_hosts=known,
        config=None,
        agent_path=None,
        gss_host=None,
        keepalive_interval=_KEEPALIVE_SECONDS,
        keepalive_count_max=_KEEPALIVES,
    )


async def _pump(one: Any, other: Any) -> None:
    """Pass on what comes, as fast as it is taken; where one side has ended, the other one is closed."""
    from asyncssh import Error

    with suppress(OSError, Error):
        while data := await one.read(_PIECE):
            other.write(data)
            await other.drain()
    with suppress(OSError, Error):
        other.close()


_HERE = _Tunnels()
_INHERITED: list[_Tunnels] = []  # kept for ever, so that nothing of it is closed


def _forked() -> None:
    global _HERE
    _INHERITED.append(_HERE)
    _HERE = _Tunnels()


os.register_at_fork(after_in_child=_forked)
