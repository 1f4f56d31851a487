"""A server that asks for the password in clear text gets it only where its certificate was verified."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, connect
from lakehouse_cdc.mysql.connection.tls import Tls
from lakehouse_cdc.testing import MySqlServer

_PASSWORD = "not for everybody"
_PLUGINS = ("mysql_clear_password", "dialog")
_SSL, _CAPABILITIES = 1 << 11, 1 << 9 | 1 << 15 | 1 << 19  # protocol 4.1, secure connection, plugins
_SWITCH = b"\xfe"  # AuthSwitchRequest


class _Asking:
    """One connection's worth of a server that wants the password by that plugin, and keeps what it receives."""

    def __init__(self, plugin: str, certificates: Path | None) -> None:
        self._plugin, self._certificates = plugin.encode(), certificates
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(30)
        self.port: int = self._listening.getsockname()[1]
        self.received = bytearray()

    def serve(self) -> None:
        connection, _ = self._listening.accept()
        connection.settimeout(30)
        with closing(self._listening), connection, _until_it_leaves():
            offered = _CAPABILITIES | (_SSL if self._certificates else 0)
            low, high = struct.pack("<H", offered & 0xFFFF), struct.pack("<H", offered >> 16)
            greeting = b"\x0a8.0.31\0" + struct.pack("<I", 7) + b"12345678\0" + low + b"\xff\x02\0" + high
            _send(connection, 0, greeting + b"\x15" + b"\0" * 10 + b"123456789012\0mysql_native_password\0")
            if self._certificates:
                self._read(connection)  # what asks for TLS
                tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
                tls.load_cert_chain(self._certificates / "server-cert.pem", self._certificates / "server-key.pem")
                connection = tls.wrap_socket(connection, server_side=True)
            self._read(connection)
            question = _SWITCH + self._plugin + b"\0" + (b"\x03Password: " if self._plugin == b"dialog" else b"")
            _send(connection, 3 if self._certificates else 2, question)
            while _PASSWORD.encode() not in self.received and self._read(connection):
                pass

    def _read(self, connection: socket.socket) -> bytes:
        """A packet; where the client has left, nothing."""
        head = _exactly(connection, 4)
        data = _exactly(connection, int.from_bytes(head[:3], "little")) if head else b""
        self.received += data
        return data


def _exactly(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length and (more := connection.recv(length - len(data))):
        data += more
    return data


@contextmanager
def _until_it_leaves() -> Iterator[None]:
    with suppress(ConnectionError, ssl.SSLError):
        yield


def _send(connection: socket.socket, number: int, payload: bytes) -> None:
    connection.sendall(struct.pack("<I", len(payload))[:3] + bytes([number]) + payload)


def asked(plugin: str, tls: Tls, certificates: Path | None) -> tuple[CdcError, bytes]:
    """How a session with such a server ends, and what that has received."""
    server = _Asking(plugin, certificates)
    thread = threading.Thread(target=server.serve)
    thread.start()
    ca = str(certificates / "ca.pem") if certificates and tls == "verify-ca" else ""
    url = f"mysql://cdc@127.0.0.1:{server.port}"
    options = ConnectionOptions.from_url(url, password=_PASSWORD, tls=tls, tls_ca=ca)
    with pytest.raises(CdcError) as ended:
        connect(options)
    thread.join()
    return ended.value, bytes(server.received)


@pytest.mark.parametrize("plugin", _PLUGINS)
@pytest.mark.parametrize(("tls", "offers"), [("disabled", False), ("preferred", False), ("required", True)])
def test_a_server_that_may_be_any(mysql: MySqlServer, plugin: str, tls: Tls, offers: bool) -> None:
    error, received = asked(plugin, tls, mysql.directory / "data" if offers else None)
    assert error.code is codes.AUTHENTICATION_UNSUPPORTED
    assert plugin in error.what
    assert "source.tls: verify-identity" in error.hint
    assert received
    assert _PASSWORD.encode() not in received


@pytest.mark.parametrize("plugin", _PLUGINS)
def test_one_that_has_proven_who_it_is(mysql: MySqlServer, plugin: str) -> None:
    error, received = asked(plugin, "verify-ca", mysql.directory / "data")
    assert _PASSWORD.encode() in received
    assert error.code is codes.CONNECTION_LOST  # it hangs up
