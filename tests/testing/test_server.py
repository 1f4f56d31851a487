"""MySqlServer on the real server: what it offers, keeps, refuses and leaves behind."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pymysql
import pytest

from lakehouse_cdc.errors import DefiniteError, TransientError, codes
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, connect
from lakehouse_cdc.testing import MySqlServer, place
from lakehouse_cdc.testing.place import free_port
from tests.remedies import remedy
from tests.support.servers import gone

pytestmark = [pytest.mark.mysql, pytest.mark.every_server]


def ask(server: MySqlServer, query: str, **settings: Any) -> Any:
    with closing(server.connect(autocommit=True, **settings)) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchone()


def holds(condition: Callable[[], bool], seconds: float = 60) -> bool:
    """Whether the condition comes true within that time."""
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)
    return condition()


def test_the_defaults_are_those_of_a_source(mysql: MySqlServer) -> None:
    settings = (
        "@@version, @@binlog_format, @@binlog_row_image, @@binlog_row_metadata, @@gtid_mode, @@bind_address, "
        "@@character_set_server, @@log_bin, @@innodb_use_native_aio"
    )
    assert ask(mysql, f"SELECT {settings}") == (
        "8.0.31",
        "ROW",
        "FULL",
        "FULL",
        "ON",
        "127.0.0.1",
        "utf8mb4",
        1,
        0,
    )
    assert mysql.url == f"mysql://root@127.0.0.1:{mysql.port}"


def test_it_listens_on_the_loopback_address_alone(any_server: MySqlServer) -> None:
    table = Path("/proc/net/tcp")
    if not table.exists():
        pytest.skip("/proc/net/tcp is Linux's")
    listening = [line.split()[1] for line in table.read_text().splitlines()[1:] if line.split()[3] == "0A"]
    port = f":{any_server.port:04X}"
    assert [where for where in listening if where.endswith(port)] == ["0100007F" + port]


def test_the_reader_account_has_what_a_reader_needs_and_no_more(mysql: MySqlServer, database: str) -> None:
    reader: Any = {"user": "cdc", "password": "cdc-secret"}
    assert ask(mysql, "SHOW MASTER STATUS", **reader)[0].startswith("mysql-bin.")
    [grant] = ask(mysql, "SHOW GRANTS", **reader)
    assert grant.startswith("GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT, SHOW VIEW, TRIGGER ON *.*")
    with pytest.raises(pymysql.MySQLError):
        ask(mysql, f"CREATE TABLE {database}.t (id INT)", **reader)


@pytest.mark.long
def test_a_kept_directory_restarts_where_it_was(tmp_path: Path) -> None:
    home = tmp_path / ("a rather long name " * 6) / "server"
    with MySqlServer.start(home, options={"gtid_mode": "OFF", "max_connections": "33"}) as server:
        port = server.port
        ask(server, "CREATE DATABASE kept")
        with MySqlServer.start(home) as joined:  # in the same process: the running one is used, and left running
            assert (joined.port, joined.pid, joined.started_here) == (port, server.pid, False)
        with pytest.raises(DefiniteError, match="other options"):
            MySqlServer.start(home, options={"gtid_mode": "ON"})
        with pytest.raises(DefiniteError, match="another process"):
            joined.kill()
        pid = server.pid
        assert pid is not None
        assert not gone(pid)
    assert server.pid is None
    assert gone(pid)
    with MySqlServer.start(home) as server:
        assert server.port == port
        assert ask(server, "SELECT @@gtid_mode, @@max_connections") == ("OFF", 33)
        assert ask(server, "SHOW DATABASES LIKE 'kept'") == ("kept",)
        # a crash loses nothing that was committed
        ask(server, "CREATE TABLE kept.t (id INT PRIMARY KEY)")
        for n in range(20):
            ask(server, f"INSERT INTO kept.t VALUES ({n})")
        server.kill()
        assert server.pid is None
        server.restart({"max_connections": "44"})
        assert server.port == port
        assert ask(server, "SELECT COUNT(*), @@max_connections, @@gtid_mode FROM kept.t") == (20, 44, "ON")


def test_a_temporary_directory_is_removed_even_after_a_crash() -> None:
    server = MySqlServer.start(options={"disable_log_bin": None})
    assert ask(server, "SELECT @@log_bin") == (0,)
    server.kill()
    assert server.directory.exists()
    server.stop()
    assert not server.directory.exists()


@remedy(codes.PORT_TAKEN, codes.SERVER_START_FAILED, codes.SERVER_DIRECTORY_UNUSABLE)
def test_refusals_are_definite_and_leave_nothing_running(tmp_path: Path, mysql: MySqlServer) -> None:
    with pytest.raises(DefiniteError, match="port is taken") as taken:
        MySqlServer.start(tmp_path / "taken", port=mysql.port)
    assert taken.value.code is codes.PORT_TAKEN
    assert taken.value.hint.startswith("give another port")
    with pytest.raises(DefiniteError, match=r"does not start.*no_such_option") as failed:
        MySqlServer.start(tmp_path / "taken", port=free_port(), options={"no_such_option": "1"})
    assert failed.value.code is codes.SERVER_START_FAILED
    assert failed.value.hint == "See the server's log, which the error names."
    assert "no_such_option" in Path(failed.value.where).read_text()
    with MySqlServer.start(tmp_path / "taken", options={}) as server:  # what was initialised is not lost
        assert server.pid is not None
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("the only copy")
    with pytest.raises(DefiniteError, match=r"something else: thesis\.tex") as other:
        MySqlServer.start(tmp_path / "other")
    assert other.value.code is codes.SERVER_DIRECTORY_UNUSABLE
    assert other.value.hint == "name a directory that is empty or absent"
    assert [entry.name for entry in (tmp_path / "other").iterdir() if entry.name != "lock"] == ["thesis.tex"]
    with MySqlServer.start(tmp_path / "absent") as server:
        assert ask(server, "SELECT 1") == (1,)


@pytest.mark.one_server
@remedy(codes.PORTS_EXHAUSTED)
def test_a_port_is_free_when_what_listens_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a few ports are taken, in place of the twelve thousand that there are."""
    monkeypatch.setattr(place, "_PORTS", few := range(11_000, 11_200))
    with ExitStack() as listening:
        for port in few:
            if place.port_is_free(port):
                listening.enter_context(socket.create_server(("127.0.0.1", port)))
        with pytest.raises(TransientError) as exhausted:
            free_port()
    assert exhausted.value.code is codes.PORTS_EXHAUSTED
    assert exhausted.value.hint == "Stop servers that listen on these ports, and try again."
    assert free_port() in few


@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "kept"), [("exit", True), ("exception", False), ("SIGKILL", True), ("SIGKILL", False), ("SIGTERM", False)]
)
def test_no_server_outlives_the_process_that_started_it(tmp_path: Path, how: str, kept: bool) -> None:
    home = repr(str(tmp_path / "server")) if kept else ""
    script = (
        "import time; from pathlib import Path; from lakehouse_cdc.testing import MySqlServer\n"
        f"s = MySqlServer.start({f'Path({home})' if kept else ''}); print(s.pid, s.directory, flush=True)\n"
        f"how = {how!r}\n"
        "if how == 'exception': raise SystemExit(3)\n"
        "if how != 'exit': time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, directory = parent.stdout.readline().split()
        if how.startswith("SIG"):
            parent.send_signal(getattr(signal, how))
        parent.wait(60)
    assert holds(lambda: gone(int(pid)))
    assert holds(lambda: Path(directory).exists() == kept)


def test_two_starts_at_once_share_one_server(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from lakehouse_cdc.testing import MySqlServer\n"
        f"s = MySqlServer.start(Path({str(tmp_path / 'server')!r})); print(s.pid, s.started_here, flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script]
    both = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = [process.stdout.readline().split() for process in both if process.stdout]
    for process in both:
        process.communicate()
    assert told[0][0] == told[1][0]
    assert sorted(started for _, started in told) == ["False", "True"]
    assert holds(lambda: gone(int(told[0][0])))


@pytest.mark.long
def test_each_server_is_another_though_their_directories_are_copies(any_server: MySqlServer) -> None:
    with MySqlServer.start(version=any_server.version) as server:
        sessions = [connect(ConnectionOptions.from_url(each.url)) for each in (server, any_server)]
        uuids = [session.server_uuid for session in sessions]
        for session in sessions:
            session.close()
    assert len(set(uuids)) == 2


def test_what_an_interrupted_first_start_left_is_redone(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "ibdata1").write_bytes(b"half of a copy")
    with MySqlServer.start(tmp_path) as server:
        assert ask(server, "SELECT 1") == (1,)
