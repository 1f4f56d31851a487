"""The connection under a session: PyMySQL's, by the way, the login and the encryption that the options say.

It differs from the library's in this:

- The password goes in clear text (MySQL's `mysql_clear_password`, MariaDB's `dialog`) only to a server that has proven
  by its certificate which one it is; the library sends it to whatever asks for it so.
- A password that a command prints is asked for as the connection is opened. One that was printed some seconds ago and
  is refused is asked for again, once.
- MariaDB's `parsec` is known (see `parsec`).
- Through an SSH server it gets a socket that is connected already. The library would take a UNIX socket for safe, and
  send passwords in clear text over it; this one it takes for a network, which it is from the SSH server on.
- The system's authorities are loaded once, and not for each connection (60 ms).
"""

from __future__ import annotations

import ssl
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pymysql

from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.mysql.connection import parsec
from lakehouse_cdc.mysql.connection.client_errors import translate
from lakehouse_cdc.mysql.connection.tls import VERIFYING, context

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehouse_cdc.mysql.connection.session import ConnectionOptions

_DENIED = 1045  # ER_ACCESS_DENIED_ERROR
_IN_CLEAR = (b"mysql_clear_password", b"dialog")
_ED25519, _PARSEC = b"client_ed25519", b"parsec"
_ALERTS = (
    "TLSV1_ALERT_UNKNOWN_CA", "TLSV1_ALERT_DECRYPT_ERROR", "TLSV1_ALERT_ACCESS_DENIED", "SSLV3_ALERT_BAD_CERTIFICATE",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED", "SSLV3_ALERT_CERTIFICATE_REVOKED", "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE", "TLSV13_ALERT_CERTIFICATE_REQUIRED",
)  # fmt: skip
_EXTRA_DATA = 1  # the first byte of a packet that belongs to the login


def opened(options: ConnectionOptions) -> Connection:
    """A connection to the first server of the options, logged in. Raises CdcError, or an error of the library's."""
    try:
        return _logged_in(options)
    except ValueError as error:
        raise codes.SERVER_ANSWER_UNEXPECTED.error(
            f"the greeting of the server cannot be read: {error}", where=options.where
        ) from error
    except pymysql.err.OperationalError as error:
        cause = error.__context__
        if isinstance(cause, ssl.SSLError) and cause.reason in _ALERTS:  # the library calls it a lost connection
            raise codes.TLS_FAILED.error(
                f"the server refuses the client's certificate: {cause.reason}", where=options.where,
                hint="source.tls_cert is to be one that the server's own authorities (its ssl_ca) have signed",
            ) from error  # fmt: skip
        if error.args[0] != _DENIED:
            raise
        raise _denied(error, options) from error


def _logged_in(options: ConnectionOptions) -> Connection:
    command = options.password_command
    if command is None:
        return _tried(options, options.password)
    server = options.host, options.port, options.user
    password = command.password(*server)
    while True:
        try:
            return _tried(options, password.text)
        except pymysql.err.OperationalError as error:
            if error.args[0] != _DENIED:
                raise
            if password.fresh:
                command.forget(*server)
                raise
        password = command.password(*server, renewed=True)


def _tried(options: ConnectionOptions, password: str) -> Connection:
    connection = Connection(options, password)
    if options.ssh is None:
        connection.connect()
        return connection
    from lakehouse_cdc.mysql.connection.ssh_tunnel import through

    connection.connect(through(options.ssh, options.host, options.port, options.connect_timeout))
    return connection


def _denied(error: pymysql.err.OperationalError, options: ConnectionOptions) -> CdcError:
    """The error for a login that was refused. The server says the same whatever was the reason."""
    refused = translate(error, options.where)
    reasons = [refused.hint]
    if options.password_command is not None:
        reasons.append(
            f"The password is what source.password_command ({options.password_command.program}) has just printed: it"
            " may be for another host, port or user, or this account may have no such login"
        )
    if options.ssh is not None:
        reasons.append(
            f"To the server the connection comes from {options.ssh.host}, from where the account must be allowed"
        )
    if options.tls == "disabled":
        reasons.append("An account with REQUIRE SSL needs source.tls: required")
    elif options.certificate is None:
        reasons.append("An account with REQUIRE X509, ISSUER or SUBJECT needs source.tls_cert and source.tls_key")
    else:
        reasons.append("Of a client's certificate, the server must trust the authority, and the account the subject")
    hint = ". ".join(one.removesuffix(".") for one in reasons)
    return codes.ACCESS_DENIED.error(refused.what, where=refused.where, hint=hint)


class Connection(pymysql.Connection):
    """PyMySQL's, not connected yet. `account` is that of the session, once it is open."""

    account = ""
    _switched_to = ""

    def __init__(self, options: ConnectionOptions, password: str) -> None:
        self._options = options
        self._verifies = options.tls in VERIFYING
        super().__init__(
            host=options.host,
            port=options.port,
            user=options.user,
            password=password.encode(),  # as text it would be sent in latin1
            charset="utf8mb4",
            connect_timeout=options.connect_timeout,
            read_timeout=options.connect_timeout,  # until the session is open
            write_timeout=options.read_timeout,
            # given neither, the client uses TLS where the server offers it, which is what preferred means
            ssl=None if options.tls in ("preferred", "disabled") else {"required": True},
            ssl_disabled=True if options.tls == "disabled" else None,
            defer_connect=True,
        )

    @property
    def login_plugin(self) -> str:
        """The plugin by which the user was let in: the server's default, or the account's own."""
        return self._switched_to or str(self._auth_plugin_name)  # type: ignore[attr-defined]

    def _process_auth(self, plugin_name: bytes, auth_packet: Any, handler: Any = None) -> Any:
        self._switched_to = plugin_name.decode()
        if plugin_name in _IN_CLEAR and not (self._verifies and self._secure):  # type: ignore[attr-defined]
            raise codes.AUTHENTICATION_UNSUPPORTED.error(
                f"the server asks for the password in clear text ({plugin_name.decode()})",
                hint="only a server whose certificate was verified gets it: set source.tls: verify-identity,"
                " and source.tls_ca where its authority is not one of the system's",
            )
        if plugin_name == _ED25519 and find_spec("nacl") is None:
            raise codes.PACKAGE_MISSING.error(
                f"{self._options.user} authenticates by ed25519, which needs the package pynacl",
                where=self._options.where, hint="pip install pynacl, on every machine that reads the source",
            )  # fmt: skip
        if plugin_name == _PARSEC:
            return self._by_parsec(auth_packet.read_all())
        return super()._process_auth(plugin_name, auth_packet, handler)  # type: ignore[misc]

    def _by_parsec(self, scramble: bytes) -> Any:
        inside: Any = self
        inside.write_packet(b"")  # asks for the salt
        salt: bytes = inside._read_packet().get_all_data()
        if salt[:1] == bytes([_EXTRA_DATA]):
            salt = salt[1:]
        inside.write_packet(parsec.signed(inside.password, scramble, salt))
        return inside._read_packet()

    def _create_ssl_ctx(self, sslp: Mapping[str, Any]) -> ssl.SSLContext:
        options = self._options
        return context(options.tls, options.tls_ca, options.certificate)


def account_of(connection: pymysql.Connection[Any]) -> str:
    """The account of a session's connection, '' of any other."""
    return connection.account if isinstance(connection, Connection) else ""
