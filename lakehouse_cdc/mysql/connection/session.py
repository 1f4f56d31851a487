"""Sessions: how to reach a server, and the state that every session has before its first statement.

A session never relies on the server's defaults, since a global setting may change what a SELECT returns: READ
UNCOMMITTED (rows that never were), sql_select_limit (rows left out, without a word), a secondary engine or
system_versioning_asof (rows of some time ago), PAD_CHAR_TO_FULL_LENGTH, a time zone, a result character set. All are
set when it opens. There are two purposes: `query` sessions speak utf8mb4; `data` sessions have
character_set_results = NULL, so that text columns come in their own character set, as they are in the binlog.

Errors of the client library leave this module as DefiniteError or TransientError, by their number.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import pymysql

from lakehouse_cdc.errors import CdcError, TransientError, codes
from lakehouse_cdc.mysql.connection.server_errors import server_error
from lakehouse_cdc.mysql.connection.tls import MODES, VERIFYING, Tls, authorities, context

Purpose = Literal["query", "data"]
Version = tuple[int, int, int]
_DENIED = 1045  # ER_ACCESS_DENIED_ERROR
_IN_CLEAR = (b"mysql_clear_password", b"dialog")
_UNKNOWN_PLUGIN = "received unknown auth switch request"  # PyMySQL's words, without a number, for old passwords

_STATE = {
    "autocommit": "1",
    "transaction_isolation": "'REPEATABLE-READ'",
    "time_zone": "'+00:00'",
    "sql_mode": "''",
    "sql_select_limit": "18446744073709551615",
    "sql_big_selects": "1",
    "wait_timeout": "28800",  # the driver's session idles between batches
    "net_write_timeout": "600",  # a task's session while Spark is busy with the rows before
    "lock_wait_timeout": "60",  # the only lock we wait for: a metadata lock that DDL holds
}
_SINCE: dict[str, tuple[Version, str]] = {  # MySQL's alone
    "max_execution_time": ((5, 7, 8), "0"),
    "use_secondary_engine": ((8, 0, 20), "'OFF'"),
}
_MARIADB = {"max_statement_time": "0", "system_versioning_asof": "DEFAULT"}


@dataclass(frozen=True)
class ConnectionOptions:
    """How to reach a server. The password is never shown.

    `others` are hosts and ports of further servers of its replication group, for the same user. Time-outs are in
    seconds: `connect_timeout` until a session is open, `read_timeout` for each silence after that.
    `tls` is one of the modes of `tls.Tls`; `tls_ca` is a file of authorities, or their PEM text ('': the system's).
    """

    host: str
    port: int
    user: str
    password: str = field(default="", repr=False)
    tls: Tls = "preferred"
    tls_ca: str = field(default="", repr=False)
    connect_timeout: float = 10.0
    read_timeout: float = 600.0
    others: tuple[tuple[str, int], ...] = ()

    @classmethod
    def from_url(cls, url: str, *, password: str = "", tls: str = "preferred", tls_ca: str = "") -> ConnectionOptions:
        """Read mysql://user@host:port; the user may be percent-encoded, the port is 3306 if left out.

        More hosts of the same user may follow, with commas between: mysql://user@one:3306,two:3306.
        Raises ConfigError for anything else, and for a password in the URL; the error shows no part of the URL.
        """
        scheme, _, rest = url.partition("://")
        user, at, hosts = rest.partition("@")
        first, *more = hosts.rstrip("/").split(",") if at else [rest]
        host, port, name = _server(f"{scheme}://{user}{at}{first}")
        if any("@" in one for one in more):
            raise codes.URL_INVALID.error(
                "the servers in the url of the source are of several users", hint="one user for all servers"
            )
        others = tuple(_server(f"{scheme}://{user}@{one}")[:2] for one in more)
        if tls not in MODES:
            raise codes.TLS_SETTING_INVALID.error(f"tls is '{tls}'", hint=f"one of {', '.join(MODES)}")
        if tls_ca and tls not in VERIFYING:
            raise codes.TLS_SETTING_INVALID.error(
                f"tls_ca is given, and tls: {tls} checks no certificate",
                hint="set tls: verify-ca or verify-identity, or remove tls_ca",
            )
        trusted = authorities(tls_ca)
        return cls(host, port, name, password, tls, trusted, others=others)

    @property
    def where(self) -> str:
        """The server, for errors: user@host:port."""
        return f"{self.user}@{self.host}:{self.port}"


def _server(url: str) -> tuple[str, int, str]:
    """Host, port and user of mysql://user@host:port."""
    try:
        parts = urlsplit(url)
        port = parts.port or 3306
    except ValueError:
        raise codes.URL_INVALID.error("the url of the source cannot be read", hint="mysql://user@host:port") from None
    if parts.password is not None:
        raise codes.PASSWORD_IN_URL.error(
            "a password does not belong in the url",
            hint="remove it there, and set source.password (for the demo, the variable LAKEHOUSE_CDC_PASSWORD)",
        )
    rest = parts.path.strip("/") or parts.query or parts.fragment
    if parts.scheme != "mysql" or not parts.hostname or not parts.username or rest:
        raise codes.URL_INVALID.error("the url of the source is not mysql://user@host:port")
    try:
        parts.hostname.encode("idna")
    except UnicodeError:
        raise codes.URL_INVALID.error(
            "the host in the url of the source is no name of a host", hint="mysql://user@host:port"
        ) from None
    return parts.hostname, port, unquote(parts.username)


class Session:
    """One connection in a known state. Use as a context manager; not thread-safe.

    `server_uuid` is the server's identity, `version` its version's three numbers, `version_text` all of it, and
    `connection` PyMySQL's connection, for those who speak the protocol themselves. `lower_case`: names of databases and
    tables do not depend on case there. `account` is the user's account as a GRANT names it.
    """

    server_uuid: str
    account: str
    version: Version
    version_text: str
    is_mariadb: bool
    lower_case: bool

    def __init__(self, options: ConnectionOptions, purpose: Purpose) -> None:
        self.options, self.purpose = options, purpose
        with translated(options.where):
            self.connection: _Connection = _connected(options)
            try:
                self._identify()
                self._set_state()
                self.connection._read_timeout = options.read_timeout  # type: ignore[attr-defined]
            except BaseException:
                self.close()
                raise

    def _identify(self) -> None:
        self.version_text = str(self._fetch("SELECT VERSION()")[0][0])
        self.is_mariadb = "mariadb" in self.version_text.lower()
        self.version = _version(self.version_text)
        # MariaDB has no uuid; its server_id and its port are the best there is
        uuid = "CONCAT('mariadb-', @@server_id, '-', @@port)" if self.is_mariadb else "@@server_uuid"
        identity, cased, account = self._fetch(f"SELECT {uuid}, @@lower_case_table_names, CURRENT_USER()")[0]
        self.server_uuid, self.lower_case = str(identity), int(cased) != 0
        self.account = self.connection.account = _account(str(account))

    def _set_state(self) -> None:
        state = dict(_STATE)
        if self.is_mariadb:
            state.update(_MARIADB)
        else:
            state.update({name: value for name, (since, value) in _SINCE.items() if self.version >= since})
        if self.purpose == "data":
            state["character_set_results"] = "NULL"
        if self.is_mariadb or self.version < (5, 7, 20):
            state["tx_isolation"] = state.pop("transaction_isolation")
        self._fetch("SET " + ", ".join(f"SESSION {name} = {value}" for name, value in state.items()))

    def query(self, sql: str, args: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """All rows of one statement; `args` take the places of %s. Raises DefiniteError or TransientError."""
        with translated(self.options.where, self.account):
            return self._fetch(sql, args)

    def one(self, sql: str, args: Sequence[Any] | None = None) -> tuple[Any, ...]:
        """The only row. Raises DefiniteError if there is none or another."""
        rows = self.query(sql, args)
        if len(rows) != 1:
            raise codes.SERVER_ANSWER_UNEXPECTED.error(
                f"expected one row, got {len(rows)}: {sql[:100]}", where=self.options.where
            )
        return rows[0]

    def scalar(self, sql: str, args: Sequence[Any] | None = None) -> Any:
        """The first value of the only row."""
        return self.one(sql, args)[0]

    def records(self, sql: str) -> list[dict[str, Any]]:
        """All rows of one statement by the names of their columns. Raises as `query` does."""
        with translated(self.options.where, self.account), self.connection.cursor() as cursor:
            cursor.execute(sql)
            names = [str(column[0]) for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def _fetch(self, sql: str, args: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, args)
            return list(cursor.fetchall())

    def reconnect(self) -> None:
        """A new connection in the same state. Raises DefiniteError if it reaches another server."""
        self.close()
        fresh = Session(self.options, self.purpose)
        if fresh.server_uuid != self.server_uuid:
            fresh.close()
            raise codes.SERVER_CHANGED.error(
                f"reconnecting reached another server: {fresh.server_uuid} instead of {self.server_uuid}",
                where=self.options.where, hint="let source.url name one server, not one of several",
            )  # fmt: skip
        self.connection, self.version, self.version_text = fresh.connection, fresh.version, fresh.version_text

    def close(self) -> None:
        """End the connection; a broken one is dropped."""
        if self.connection.open:
            with suppress(pymysql.err.Error, OSError):
                self.connection.close()
            self.connection._force_close()  # type: ignore[attr-defined]

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect(options: ConnectionOptions, *, purpose: Purpose = "query", server: str = "", only: bool = False) -> Session:
    """Open a session, of several servers to `server` (its uuid), or else to the first that answers.

    `only`: while one of them does not answer, it may be that server, and no other one is taken for it. The session's
    `options` name its server alone. Raises DefiniteError (wrong password, no such host) or TransientError (not
    reachable now).
    """
    hosts = [(options.host, options.port), *options.others]
    if len(hosts) == 1:
        return Session(options, purpose)
    answering: Session | None = None
    failures: list[CdcError] = []
    for host, port in hosts:
        try:
            session = Session(replace(options, host=host, port=port, others=()), purpose)
        except CdcError as error:
            failures.append(error)
            continue
        if not server or session.server_uuid == server:
            if answering is not None:
                answering.close()
            return session
        if answering is None:
            answering = session
        else:
            session.close()
    silent = next((error for error in failures if isinstance(error, TransientError)), None)
    if answering is not None and (silent is None or not only):
        return answering
    if answering is not None:
        answering.close()
    raise silent or failures[0]


def _connected(options: ConnectionOptions) -> _Connection:
    try:
        return _opened(options)
    except ValueError as error:
        raise codes.SERVER_ANSWER_UNEXPECTED.error(
            f"the greeting of the server cannot be read: {error}", where=options.where
        ) from error
    except pymysql.err.OperationalError as error:
        # to an account that requires TLS, too, the server says that the password is wrong
        if error.args[0] != _DENIED or options.tls != "disabled":
            raise
        refused = translate(error, options.where)
        hint = f"{refused.hint} An account with REQUIRE SSL needs source.tls: required"
        raise refused.code.error(refused.what, where=refused.where, hint=hint) from error


def _opened(options: ConnectionOptions) -> _Connection:
    connection = _Connection(
        host=options.host,
        port=options.port,
        user=options.user,
        password=options.password.encode(),  # as text it would be sent in latin1
        charset="utf8mb4",
        connect_timeout=options.connect_timeout,
        read_timeout=options.connect_timeout,  # until the session is open
        write_timeout=options.read_timeout,
        # given neither, the client uses TLS where the server offers it, which is what preferred means
        ssl=None if options.tls in ("preferred", "disabled") else {"mode": options.tls, "authorities": options.tls_ca},
        ssl_disabled=True if options.tls == "disabled" else None,
        defer_connect=True,
    )
    connection.verifies = options.tls in VERIFYING
    connection.connect()
    return connection


class _Connection(pymysql.Connection):
    """Like PyMySQL's, but for two things.

    That loads all of the system's authorities for each connection (60 ms), also where none is asked. And it sends the
    password in clear text to whatever asks for it so (MySQL's `mysql_clear_password`, MariaDB's `dialog`); this one
    only to a server that has proven by its certificate which one it is.
    """

    account = ""  # of the session, once it is open
    verifies = False  # whether the server's certificate is

    def _process_auth(self, plugin_name: bytes, auth_packet: Any, handler: Any = None) -> Any:
        if plugin_name in _IN_CLEAR and not (self.verifies and self._secure):  # type: ignore[attr-defined]
            raise codes.AUTHENTICATION_UNSUPPORTED.error(
                f"the server asks for the password in clear text ({plugin_name.decode()})",
                hint="only a server whose certificate was verified gets it: set source.tls: verify-identity,"
                " and source.tls_ca where its authority is not one of the system's",
            )
        return super()._process_auth(plugin_name, auth_packet, handler)  # type: ignore[misc]

    def _create_ssl_ctx(self, sslp: Mapping[str, Any]) -> ssl.SSLContext:
        return context(sslp.get("mode", "preferred"), sslp.get("authorities", ""))


def _version(text: str) -> Version:
    """8.0.31-log, 9.7.4-2, 5.7.mysql_aurora.2.11: the leading numbers, 0 for those that are missing."""
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    if match is None:
        raise codes.SERVER_ANSWER_UNEXPECTED.error(f"'{text}' is not the version of a MySQL server")
    return int(match[1]), int(match[2]), int(match[3] or 0)


def account_of(connection: pymysql.Connection[Any]) -> str:
    """The account of a session's connection, '' of any other."""
    return connection.account if isinstance(connection, _Connection) else ""


def _account(current_user: str) -> str:
    """'user'@'host', from user@host as CURRENT_USER() has it."""
    user, _, host = current_user.rpartition("@")
    return "@".join("'" + part.replace("'", "''") + "'" for part in (user, host))


@contextmanager
def translated(where: str, account: str = "") -> Iterator[None]:
    """Errors of the client library inside the block leave it as ours; `where` is the server or the table.

    `account` is that of the session, where it is known, for the hints that name a GRANT.
    """
    try:
        yield
    except (pymysql.err.Error, OSError) as error:
        raise translate(error, where, account) from error


def translate(error: BaseException, where: str, account: str = "") -> CdcError:
    """The error of ours for one of PyMySQL's or of a socket's."""
    cause = getattr(error, "original_exception", error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return codes.TLS_FAILED.error(
            f"the server's certificate is not to be trusted: {cause.verify_message}", where=where,
            hint="give its authority as source.tls_ca; the name in source.url must be one of the certificate's",
        )  # fmt: skip
    if isinstance(cause, socket.gaierror) and cause.errno != socket.EAI_AGAIN:
        return server_error(2005, str(error.args[-1]), where)  # no such host
    if isinstance(error, pymysql.err.Error):
        if error.args[:1] == (_UNKNOWN_PLUGIN,):
            return server_error(2059, _UNKNOWN_PLUGIN, where)
        number, text = (*error.args, "", "")[:2]
        if isinstance(number, int) and number:
            return server_error(number, str(text), where, account)
    # a socket's error, or InterfaceError(0, ""): used after it was closed
    return codes.CONNECTION_LOST.error(f"the connection was lost: {error or type(error).__name__}", where=where)
