"""Sessions: how to reach a server, and the state that every session has before its first statement.

A session never relies on the server's defaults, since a global setting may change what a SELECT returns: READ
UNCOMMITTED (rows that never were), sql_select_limit (rows left out, without a word), a secondary engine or
system_versioning_asof (rows of some time ago), PAD_CHAR_TO_FULL_LENGTH, a time zone, a result character set. All are
set when it opens, after the user's own statements (see `init_commands`). There are two purposes: `query` sessions
speak utf8mb4; `data` sessions have character_set_results = NULL, so that text columns come in their own character set,
as they are in the binlog.

Errors of the client library leave this module as DefiniteError or TransientError, by their number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import pymysql

from lakehouse_cdc.errors import CdcError, TransientError, codes
from lakehouse_cdc.mysql.connection.client import Connection, opened
from lakehouse_cdc.mysql.connection.client_certificate import ClientCertificate
from lakehouse_cdc.mysql.connection.client_errors import translate, translated
from lakehouse_cdc.mysql.connection.password_command import PasswordCommand
from lakehouse_cdc.mysql.connection.ssh_tunnel import SshServer
from lakehouse_cdc.mysql.connection.tls import MODES, VERIFYING, Tls, authorities

Purpose = Literal["query", "data"]
Version = tuple[int, int, int]

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
    `certificate` is the client's own. `password_command` prints the password, which then is not given. Each session
    begins with `init_commands`. With `ssh`, host and port are as that server sees them.
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
    password_command: PasswordCommand | None = None
    certificate: ClientCertificate | None = None
    init_commands: tuple[str, ...] = ()
    ssh: SshServer | None = None

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
            self.connection: Connection = opened(options)
            try:
                for statement in options.init_commands:
                    self._initiate(statement)
                self._identify()
                self._set_state()
                self.connection._read_timeout = options.read_timeout  # type: ignore[attr-defined]
            except BaseException:
                self.close()
                raise

    def _initiate(self, statement: str) -> None:
        try:
            self._fetch(statement)
        except pymysql.err.Error as error:
            refused = translate(error, self.options.where)
            if isinstance(refused, TransientError):
                raise refused from error
            where = f"source.init_commands: {statement[:80]}"
            raise codes.INIT_COMMAND_REFUSED.error(refused.what, where=where) from error

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


def _version(text: str) -> Version:
    """8.0.31-log, 9.7.4-2, 5.7.mysql_aurora.2.11: the leading numbers, 0 for those that are missing."""
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    if match is None:
        raise codes.SERVER_ANSWER_UNEXPECTED.error(f"'{text}' is not the version of a MySQL server")
    return int(match[1]), int(match[2]), int(match[3] or 0)


def _account(current_user: str) -> str:
    """'user'@'host', from user@host as CURRENT_USER() has it."""
    user, _, host = current_user.rpartition("@")
    return "@".join("'" + part.replace("'", "''") + "'" for part in (user, host))
