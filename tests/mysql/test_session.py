"""Sessions against the real server: how they are reached, the state they have, the errors they raise."""

from __future__ import annotations

import logging
import pickle
import socket
import time
from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest

from lakehouse_cdc.errors import CdcError, ConfigError, DefiniteError, TransientError
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, Session, connect
from lakehouse_cdc.testing import MySqlServer

_SECRET = "geheim-пароль-密码"


@pytest.fixture
def session(mysql: MySqlServer) -> Iterator[Session]:
    with connect(ConnectionOptions.from_url(mysql.url)) as session:
        yield session


def _user(session: Session, name: str, plugin: str = "caching_sha2_password", password: str = _SECRET) -> None:
    session.query(f"DROP USER IF EXISTS {name}@'127.0.0.1'")
    session.query(f"CREATE USER {name}@'127.0.0.1' IDENTIFIED WITH {plugin} BY '{password}'")


def _options(mysql: MySqlServer, user: str, **more: Any) -> ConnectionOptions:
    return ConnectionOptions("127.0.0.1", mysql.port, user, **more)


# ---------------------------------------------------------------- the url


def test_a_url_is_read() -> None:
    options = ConnectionOptions.from_url("mysql://me%40home@db.example:3307", password="x", tls="required")
    assert (options.host, options.port, options.user, options.tls) == ("db.example", 3307, "me@home", "required")
    assert ConnectionOptions.from_url("mysql://u@[::1]").host == "::1"
    assert ConnectionOptions.from_url("mysql://u@h").port == 3306


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://u:{_SECRET}@h:1", f"mysql://u:a@{_SECRET}@h", "mysql://u:@h", f"mysql://u:x#{_SECRET}@h:1",
        f"mysql://u@h:{_SECRET}", f"mysql://u@h/{_SECRET}", f"mysql://u@h?password={_SECRET}", f"mysql://u@h#{_SECRET}",
        f"postgres://u@{_SECRET}", f"u@{_SECRET}", "mysql://h:3306", "", f"mysql://[{_SECRET}",
    ],
)  # fmt: skip
def test_another_url_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ConnectionOptions.from_url(url)
    assert _SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_an_unknown_tls_mode_is_refused() -> None:
    with pytest.raises(ConfigError, match="tls"):
        ConnectionOptions.from_url("mysql://u@h", tls="sometimes")


def test_the_password_is_not_shown(mysql: MySqlServer, session: Session, caplog: pytest.LogCaptureFixture) -> None:
    options = _options(mysql, "nobody", password=_SECRET)
    assert _SECRET not in repr(options) + str(options) + options.where
    assert pickle.loads(pickle.dumps(options)).password == _SECRET  # it travels, unseen
    with caplog.at_level(logging.DEBUG), pytest.raises(DefiniteError, match="1045") as caught:
        connect(options)
    shown = f"{caught.value!r} {caught.value} {caught.value.__cause__!r} {caplog.text}"
    assert _SECRET not in shown
    assert "source.password" in caught.value.hint


# ---------------------------------------------------------------- who may come in, and how


@pytest.mark.parametrize("plugin", ["caching_sha2_password", "mysql_native_password", "sha256_password"])
@pytest.mark.parametrize("tls", ["preferred", "required", "disabled"])
def test_every_plugin_with_and_without_tls(mysql: MySqlServer, session: Session, plugin: str, tls: Any) -> None:
    _user(session, "pluginned", plugin)
    with connect(_options(mysql, "pluginned", password=_SECRET, tls=tls)) as user:
        cipher = user.one("SHOW SESSION STATUS LIKE 'Ssl_cipher'")[1]
    assert bool(cipher) == (tls != "disabled")  # preferred is TLS where the server offers it
    session.query("DROP USER pluginned@'127.0.0.1'")


def test_a_wrong_password_is_definite(mysql: MySqlServer, session: Session) -> None:
    _user(session, "wronged")
    with pytest.raises(DefiniteError, match="1045"):
        connect(_options(mysql, "wronged", password=_SECRET + "x"))
    session.query("DROP USER wronged@'127.0.0.1'")


def test_an_account_that_wants_tls_says_so(mysql: MySqlServer, session: Session) -> None:
    _user(session, "tlsed")
    session.query("ALTER USER tlsed@'127.0.0.1' REQUIRE SSL")
    connect(_options(mysql, "tlsed", password=_SECRET)).close()
    with pytest.raises(DefiniteError) as refused:
        connect(_options(mysql, "tlsed", password=_SECRET, tls="disabled"))
    assert refused.value.hint.endswith("An account with REQUIRE SSL needs source.tls: required")
    session.query("DROP USER tlsed@'127.0.0.1'")


def test_a_locked_and_an_expired_account_say_what_to_do(mysql: MySqlServer, session: Session) -> None:
    _user(session, "stuck")
    session.query("ALTER USER stuck@'127.0.0.1' ACCOUNT LOCK")
    with pytest.raises(DefiniteError, match="3118") as locked:
        connect(_options(mysql, "stuck", password=_SECRET))
    assert "ACCOUNT UNLOCK" in locked.value.hint
    session.query("ALTER USER stuck@'127.0.0.1' ACCOUNT UNLOCK PASSWORD EXPIRE")
    with pytest.raises(DefiniteError, match=r"1820|1862") as expired:
        connect(_options(mysql, "stuck", password=_SECRET))
    assert "ALTER USER" in expired.value.hint
    session.query("DROP USER stuck@'127.0.0.1'")


# ---------------------------------------------------------------- not reachable


def test_a_closed_port_is_transient(mysql: MySqlServer) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refused, and nobody else's
        with pytest.raises(TransientError, match="2003"):
            connect(ConnectionOptions("127.0.0.1", taken.getsockname()[1], "u"))


def test_an_unknown_host_is_definite() -> None:
    with pytest.raises(DefiniteError, match=r"no-such-host\.invalid") as caught:
        connect(ConnectionOptions("no-such-host.invalid", 3306, "u"))
    assert "source.url" in caught.value.hint


def test_a_silent_server_times_out(mysql: MySqlServer) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        began = time.monotonic()
        with pytest.raises(TransientError):
            connect(ConnectionOptions("127.0.0.1", silent.getsockname()[1], "u", connect_timeout=0.3))
        assert time.monotonic() - began < 5


def test_a_server_of_another_kind_is_an_error(mysql: MySqlServer) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()

        def answer() -> None:
            peer, _ = other.accept()
            peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            peer.close()

        thread = Thread(target=answer)
        thread.start()
        with pytest.raises(CdcError):
            connect(ConnectionOptions("127.0.0.1", other.getsockname()[1], "u", connect_timeout=1))
        thread.join()


# ---------------------------------------------------------------- the state

_STRANGE = {  # global settings that would change what a SELECT returns, or end it
    "transaction_isolation": "'READ-UNCOMMITTED'",
    "sql_select_limit": "1",
    "sql_mode": "'PAD_CHAR_TO_FULL_LENGTH,ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
    "time_zone": "'+05:00'",
    "max_execution_time": "1",
    "autocommit": "0",
    "max_join_size": "1",
    "wait_timeout": "1",
    "net_write_timeout": "1",
}


@pytest.fixture
def strange_globals(session: Session) -> Iterator[None]:
    before = {name: session.scalar(f"SELECT @@GLOBAL.{name}") for name in _STRANGE}
    for name, value in _STRANGE.items():
        session.query(f"SET GLOBAL {name} = {value}")
    yield
    for name, value in before.items():
        session.query(f"SET GLOBAL {name} = %s", [value])


@pytest.mark.usefixtures("strange_globals")
@pytest.mark.parametrize("purpose", ["query", "data"])
def test_global_settings_do_not_leak_in(mysql: MySqlServer, session: Session, database: str, purpose: Any) -> None:
    session.query(f"CREATE TABLE {database}.t (c CHAR(9) PRIMARY KEY, ts TIMESTAMP)")
    session.query(f"INSERT INTO {database}.t VALUES ('a', '2024-01-01 00:00:00'), ('b', '2024-01-01 00:00:00')")
    session.query(f"CREATE TABLE {database}.u SELECT * FROM {database}.t")
    with mysql.connect(autocommit=False) as other, connect(ConnectionOptions.from_url(mysql.url), purpose=purpose) as s:
        other.cursor().execute(f"INSERT INTO {database}.t VALUES ('uncommitted', NOW())")
        found = s.query(f'SELECT LENGTH(c), "x" FROM {database}.t WHERE c < "c" AND SLEEP(0.01) = 0')
        assert found == [(1, "x"), (1, "x")]
        assert s.scalar(f"SELECT COUNT(*) FROM {database}.t") == 2
        assert s.scalar(f"SELECT CAST(ts AS CHAR) FROM {database}.t LIMIT 1") == "2024-01-01 00:00:00"
        assert s.scalar(f"SELECT COUNT(*) FROM {database}.t JOIN {database}.u") == 4  # more than max_join_size
        assert s.one("SELECT @@autocommit, @@wait_timeout, @@net_write_timeout") == (1, 28800, 600)
        session.query(f"INSERT INTO {database}.t VALUES ('c', NOW())")
        assert s.scalar(f"SELECT COUNT(*) FROM {database}.t") == 3  # no snapshot is held between statements
        other.rollback()


def test_the_two_purposes(mysql: MySqlServer, database: str) -> None:
    options = ConnectionOptions.from_url(mysql.url)
    with connect(options) as query, connect(options, purpose="data") as data:
        assert query.scalar("SELECT 'é😀'") == "é😀"
        assert query.scalar("SELECT @@character_set_results") == "utf8mb4"
        assert data.scalar("SELECT @@character_set_results") is None
        assert query.server_uuid == data.server_uuid
        assert query.version == data.version == (8, 0, 31)
        assert not query.is_mariadb


def test_no_metadata_lock_stays_behind(mysql: MySqlServer, session: Session, database: str) -> None:
    session.query(f"CREATE TABLE {database}.t (a INT PRIMARY KEY)")
    with connect(ConnectionOptions.from_url(mysql.url)) as reader:
        reader.query(f"SELECT * FROM {database}.t")
        session.query("SET SESSION lock_wait_timeout = 1")
        session.query(f"ALTER TABLE {database}.t ADD COLUMN b INT")  # would wait for the reader's transaction


# ---------------------------------------------------------------- statements and their errors


def test_rows_and_values(session: Session) -> None:
    assert session.query("SELECT 1, 'a' UNION SELECT 2, 'b'") == [(1, "a"), (2, "b")]
    assert session.one("SELECT %s, %s", ["it's", None]) == ("it's", None)
    assert session.scalar("SELECT '100%'") == "100%"
    for none_or_two in ("SELECT 1 WHERE FALSE", "SELECT 1 UNION SELECT 2"):
        with pytest.raises(DefiniteError, match="expected one row"):
            session.one(none_or_two)


@pytest.mark.parametrize(
    ("sql", "number", "hint"),
    [
        ("SELECT * FROM no_such_database.t", 1049, "database"),
        ("SELECT * FROM mysql.no_such_table", 1146, "dropped"),
        ("SELECT no_such_column FROM mysql.user", 1054, "dropped"),
        ("SELEKT", 1064, ""),
    ],
)
def test_what_is_not_there_is_definite(session: Session, sql: str, number: int, hint: str) -> None:
    with pytest.raises(DefiniteError, match=str(number)) as caught:
        session.query(sql)
    assert hint in caught.value.hint
    assert caught.value.where == session.options.where
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("SELECT * FROM mysql.user", "GRANT SELECT"),
        ("SHOW MASTER STATUS", "REPLICATION CLIENT"),
        ("USE mysql", "SELECT"),
    ],
)
def test_a_missing_right_names_the_grant(mysql: MySqlServer, session: Session, sql: str, hint: str) -> None:
    _user(session, "poor")
    with connect(_options(mysql, "poor", password=_SECRET)) as poor, pytest.raises(DefiniteError) as caught:
        poor.query(sql)
    assert hint in caught.value.hint
    session.query("DROP USER poor@'127.0.0.1'")


def test_what_passes_is_transient(mysql: MySqlServer, session: Session, database: str) -> None:
    session.query(f"CREATE TABLE {database}.t (a INT PRIMARY KEY)")
    with connect(ConnectionOptions.from_url(mysql.url)) as other:
        with pytest.raises(TransientError, match="3024"):
            other.query("SELECT /*+ MAX_EXECUTION_TIME(1) */ SLEEP(1), a.user FROM mysql.user a, mysql.user b")
        session.query(f"LOCK TABLES {database}.t WRITE")
        other.query("SET SESSION lock_wait_timeout = 1")
        with pytest.raises(TransientError, match="1205"):
            other.query(f"SELECT * FROM {database}.t")
        session.query("UNLOCK TABLES")


def test_too_many_connections_are_transient(mysql: MySqlServer, session: Session) -> None:
    _user(session, "limited")
    session.query("ALTER USER limited@'127.0.0.1' WITH MAX_USER_CONNECTIONS 1")
    options = _options(mysql, "limited", password=_SECRET)
    with connect(options), pytest.raises(TransientError, match=r"1226|1203"):
        connect(options)
    session.query("DROP USER limited@'127.0.0.1'")


# ---------------------------------------------------------------- lost and found


def test_a_killed_session_is_transient_and_comes_back(mysql: MySqlServer, session: Session) -> None:
    with connect(ConnectionOptions.from_url(mysql.url), purpose="data") as victim:
        session.query(f"KILL {victim.scalar('SELECT CONNECTION_ID()')}")
        with pytest.raises(TransientError):
            victim.query("SELECT 1")
        with pytest.raises(TransientError):
            victim.query("SELECT 1")  # now that the connection is known to be gone
        victim.reconnect()
        assert victim.scalar("SELECT @@character_set_results") is None


def test_a_read_that_takes_too_long_is_transient(mysql: MySqlServer) -> None:
    options = ConnectionOptions("127.0.0.1", mysql.port, "root", read_timeout=0.5)
    with connect(options) as session, pytest.raises(TransientError):
        session.query("SELECT SLEEP(3)")


def test_a_closed_session_says_so(mysql: MySqlServer) -> None:
    session = connect(ConnectionOptions.from_url(mysql.url))
    session.close()
    session.close()
    with pytest.raises(TransientError):
        session.query("SELECT 1")


def test_reconnecting_to_another_server_is_refused(mysql: MySqlServer) -> None:
    with connect(ConnectionOptions.from_url(mysql.url)) as session:
        session.server_uuid = "another"
        with pytest.raises(DefiniteError, match="another server"):
            session.reconnect()
