"""Sessions and binlog dumps through an SSH server: who it must be, how it breaks, and that it is opened again."""

from __future__ import annotations

import os
import socket
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakehouse_cdc.errors import CdcError, ConfigError, DefiniteError, TransientError, codes
from lakehouse_cdc.mysql.binlog.dump import BinlogDump
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, connect
from lakehouse_cdc.mysql.connection.ssh_tunnel import SshServer, fingerprint, through
from lakehouse_cdc.mysql.preflight.connection import connection_findings
from lakehouse_cdc.mysql.server import log_position
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.settings import READER, READER_PASSWORD
from tests.support.openssh import openssh
from tests.support.ssh_server import PASSWORD, Gate, gate

KEY_PASSWORD = "p4ssphrase"


@pytest.fixture
def bastion(tmp_path: Path) -> Iterator[Gate]:
    """An SSH server."""
    with gate(tmp_path) as made:
        yield made


def options(mysql: MySqlServer, bastion: Gate, **changes: Any) -> ConnectionOptions:
    url = f"mysql://{READER}@127.0.0.1:{mysql.port}"
    return replace(ConnectionOptions.from_url(url, password=READER_PASSWORD), ssh=bastion.server(), **changes)


# ---------------------------------------------------------------- what goes through


def test_sessions_share_one_connection(mysql: MySqlServer, bastion: Gate) -> None:
    given = options(mysql, bastion)
    with ThreadPoolExecutor(8) as pool:
        sessions = list(pool.map(lambda _: connect(given), range(24)))
    try:
        ids = {session.scalar("SELECT CONNECTION_ID()") for session in sessions}
        assert len(ids) == 24
        assert bastion.logins == 1
        assert bastion.asked == [("127.0.0.1", mysql.port)] * 24
    finally:
        for session in sessions:
            session.close()


@pytest.mark.parametrize("tls", ["disabled", "required", "verify-ca"])
def test_large_answers_of_both_kinds_of_encryption(mysql: MySqlServer, bastion: Gate, tls: Any) -> None:
    ca = (mysql.directory / "data" / "ca.pem").read_text() if tls == "verify-ca" else ""
    with connect(options(mysql, bastion, tls=tls, tls_ca=ca)) as session:
        assert bool(session.one("SHOW SESSION STATUS LIKE 'Ssl_cipher'")[1]) == (tls != "disabled")
        for megabytes in (1, 13):
            answer = session.scalar(f"SELECT REPEAT('0123456789abcdef', {megabytes << 16})")
            assert answer == "0123456789abcdef" * (megabytes << 16)
        assert session.scalar("SELECT LENGTH(%s)", ["x" * (3 << 20)]) == 3 << 20


def test_a_dump_of_the_binlog(mysql: MySqlServer, bastion: Gate, database: str, run: Any) -> None:
    given = options(mysql, bastion)
    with connect(given) as session, connect(given) as dumping:
        start = log_position(session).position
        run("CREATE TABLE t (v LONGBLOB)", *["INSERT INTO t VALUES (REPEAT('x', 3000000))"] * 5)
        end = log_position(session).position
        read = 0
        with closing(BinlogDump(dumping.connection, start, server_id=4711)) as dump:
            while read < end.pos - start.pos:
                events = dump.read(20)
                assert events.size, "the dump stops"
                read += events.size
        assert read >= end.pos - start.pos


def test_by_a_password_and_by_a_key_with_one(mysql: MySqlServer, tmp_path: Path) -> None:
    with gate(tmp_path, key_password=KEY_PASSWORD) as bastion:
        for server in (bastion.server(), bastion.server(key="", key_password="", password=PASSWORD)):
            with connect(
                options(mysql, bastion) if server.key else replace(options(mysql, bastion), ssh=server)
            ) as one:
                assert one.scalar("SELECT 1") == 1


def test_what_doctor_says(mysql: MySqlServer, bastion: Gate) -> None:
    with connect(options(mysql, bastion, tls="disabled")) as session:
        ssh, tls, _ = connection_findings(session)
    assert ssh.what.startswith(f"through {bastion.url}, whose host key is known: ssh-ed25519 SHA256:")
    assert tls.what == "the connection is encrypted up to the SSH server, and does not leave that machine"


def test_nothing_listens(mysql: MySqlServer, bastion: Gate) -> None:
    """No other process can use the tunnel: this one has no listening socket more than before."""
    before = listening()
    with connect(options(mysql, bastion)):
        assert listening() == before


def listening() -> set[str]:
    """The inodes of listening sockets, by TCP and UNIX, that this process has."""
    own = {os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _there(fd)}
    tcp = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    unix = [line.split() for line in Path("/proc/self/net/unix").read_text().splitlines()[1:]]
    accepting = {row[9] for row in tcp if row[3] == "0A"} | {row[6] for row in unix if row[3] == "00010000"}
    return {inode for inode in accepting if f"socket:[{inode}]" in own}


def _there(fd: str) -> bool:
    return Path(f"/proc/self/fd/{fd}").is_symlink()


# ---------------------------------------------------------------- where it breaks


def test_it_is_opened_again(mysql: MySqlServer, bastion: Gate) -> None:
    given = options(mysql, bastion)
    with connect(given) as session:
        assert session.scalar("SELECT 1") == 1
        bastion.cut()
        with pytest.raises(TransientError) as lost:
            session.query("SELECT 1")
        assert lost.value.code is codes.CONNECTION_LOST
        session.reconnect()
        assert session.scalar("SELECT 1") == 1
        assert bastion.logins == 2
        bastion.close()
        with pytest.raises(TransientError) as away:
            connect(given)
        assert away.value.code is codes.SSH_UNREACHABLE
        bastion.open()
        with connect(given) as later:
            assert later.scalar("SELECT 1") == 1


def test_a_dump_that_is_cut_ends(mysql: MySqlServer, bastion: Gate) -> None:
    with connect(options(mysql, bastion)) as session, connect(options(mysql, bastion)) as dumping:
        start = log_position(session).position
        dump = BinlogDump(dumping.connection, start, server_id=4711)
        dump.read(0.5)
        bastion.cut()
        with pytest.raises(TransientError) as lost:
            list(dump)
        assert lost.value.code is codes.CONNECTION_LOST


def test_a_session_that_is_closed_frees_its_channel(mysql: MySqlServer, bastion: Gate) -> None:
    given = options(mysql, bastion)
    with connect(given) as watching:
        user = f"SELECT COUNT(*) FROM information_schema.processlist WHERE user = '{READER}'"
        before, others = descriptors(), watching.scalar(user)
        for _ in range(20):
            connect(given).close()
        for _ in range(100):
            if watching.scalar(user) <= others and descriptors() <= before + 2:
                return
            time.sleep(0.1)
        left = watching.query("SELECT id, user, host, command, time FROM information_schema.processlist")
        raise AssertionError(f"{descriptors() - before} descriptors are left, and the sessions {left}")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_forked_process_opens_its_own(mysql: MySqlServer, bastion: Gate) -> None:
    given = options(mysql, bastion)
    with connect(given) as session:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with connect(given) as own:
                    code = 0 if own.scalar("SELECT 7") == 7 else 2
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert bastion.logins == 2
        assert session.scalar("SELECT 1") == 1, "the parent's is as it was"


@pytest.mark.one_server
def test_openssh(mysql: MySqlServer) -> None:
    """The server that most have: sessions, a dump, a connection that breaks, and what it refuses."""
    url = f"mysql://{READER}@127.0.0.1:{mysql.port}"
    with openssh() as bastion:
        given = replace(ConnectionOptions.from_url(url, password=READER_PASSWORD), ssh=bastion.server())
        with connect(given) as session, connect(given) as dumping:
            assert session.scalar("SELECT LENGTH(REPEAT('x', 5000000))") == 5000000
            dump = BinlogDump(dumping.connection, log_position(session).position, server_id=4711)
            dump.read(0.5)
            bastion.cut()
            for broken in (lambda: list(dump), lambda: session.query("SELECT 1")):
                with pytest.raises(TransientError):
                    broken()
            session.reconnect()
            assert session.scalar("SELECT 1") == 1
        other = replace(bastion.server(), known_hosts=bastion.known_hosts.replace("127.0.0.1", "127.0.0.2"))
        assert refused(other).code is codes.SSH_HOST_KEY_UNKNOWN
        assert refused(replace(bastion.server(), user="nobody")).code is codes.SSH_REFUSED
        assert refused(bastion.server(), port=1).code is codes.SSH_UNREACHABLE
    with openssh("PermitOpen 127.0.0.1:1") as bastion:
        error = refused(bastion.server(), mysql.port)
        assert error.code is codes.SSH_REFUSED
        assert "PermitOpen" in error.hint


# ---------------------------------------------------------------- who is refused, and by whom


def refused(server: SshServer, port: int = 1, host: str = "127.0.0.1", seconds: float = 10) -> CdcError:
    with pytest.raises(CdcError) as caught:
        through(server, host, port, seconds)
    shown = "".join(traceback.format_exception(caught.value)) + repr(server)
    for secret in (PASSWORD, "not the one", KEY_PASSWORD, *server.key.splitlines()[1:-1]):
        assert secret not in shown
    return caught.value


@pytest.mark.process
def test_another_host_key(bastion: Gate) -> None:
    for known in (bastion.other_key(), "\n", bastion.known_hosts.read_text().replace("127.0.0.1", "127.0.0.2")):
        error = refused(bastion.server(known_hosts=known))
        assert error.code is codes.SSH_HOST_KEY_UNKNOWN
        assert f"ssh-keyscan -p {bastion.port} 127.0.0.1" in error.hint
    revoked = "@revoked " + bastion.known_hosts.read_text()
    assert refused(bastion.server(known_hosts=revoked + bastion.known_hosts.read_text())).code is (
        codes.SSH_HOST_KEY_UNKNOWN
    )
    assert bastion.asked == []
    assert fingerprint(bastion.server()) == ""


@pytest.mark.process
def test_a_login_that_is_refused(bastion: Gate, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with gate(tmp_path / "other") as other:
        stranger = other.key
    for server in (
        bastion.server(key=stranger),
        bastion.server(key="", password="not the one"),
        replace(bastion.server(), user="another"),
    ):
        error = refused(server)
        assert error.code is codes.SSH_REFUSED
        assert isinstance(error, DefiniteError)


@pytest.mark.process
def test_a_port_that_it_does_not_reach(bastion: Gate) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    error = refused(bastion.server(), port)
    assert error.code is codes.SSH_UNREACHABLE
    assert f"127.0.0.1:{port}" in error.what
    bastion.closed = True
    error = refused(bastion.server(), port)
    assert error.code is codes.SSH_REFUSED
    assert "AllowTcpForwarding" in error.hint


@pytest.mark.process
def test_an_ssh_server_that_is_none(bastion: Gate) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        error = refused(replace(bastion.server(), port=silent.getsockname()[1]), seconds=0.5)
        assert error.code is codes.SSH_UNREACHABLE
    error = refused(replace(bastion.server(), host="no-such-host.invalid"))
    assert error.code is codes.HOST_UNKNOWN
    assert error.hint == "correct the host in source.ssh"


@pytest.mark.process
def test_a_key_that_is_none(bastion: Gate, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with gate(tmp_path / "other", key_password=KEY_PASSWORD) as other:
        for server in (
            bastion.server(key="no key"),
            bastion.server(key=bastion.key[: len(bastion.key) // 2]),
            other.server(key_password=""),
            other.server(key_password="not the one"),
        ):
            error = refused(server)
            assert error.code is codes.SSH_SETTING_INVALID
            assert isinstance(error, ConfigError)


@pytest.mark.parametrize(
    "url", ["bastion", "ssh://bastion", "http://u@h", "ssh://u:secret@h", "ssh://u@h/x", "ssh://u@h:x", "ssh://@h"]
)
def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SshServer.from_url(url, known_hosts="")
    assert caught.value.code is codes.SSH_SETTING_INVALID
    assert "secret" not in str(caught.value)


def test_a_url() -> None:
    server = SshServer.from_url("ssh://me%40home@[::1]", known_hosts="", password="x")
    assert (server.user, server.host, server.port) == ("me@home", "::1", 22)
    assert "'x'" not in repr(server)
