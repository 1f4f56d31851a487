"""The password by a command: what it gets, what becomes of what it prints, and how a token that ends is renewed."""

from __future__ import annotations

import os
import stat
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pymysql
import pytest

from lakehouse_cdc.errors import CdcError, ConfigError, DefiniteError, TransientError, codes
from lakehouse_cdc.mysql.binlog.dump import BinlogDump
from lakehouse_cdc.mysql.connection import password_command
from lakehouse_cdc.mysql.connection.password_command import MOST_BYTES, PasswordCommand
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, connect
from lakehouse_cdc.mysql.server import log_position
from lakehouse_cdc.testing import MySqlServer

pytestmark = pytest.mark.process

SECRET = "tok3n-wÿth 'quotes' $and `ticks`"
SERVER = ("db.example", 3306, "cdc")
Script = Callable[[str], Path]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """`script(text)`: a program of Python, to be executed by its path."""

    def written(text: str) -> Path:
        path = tmp_path / "print-token"
        path.write_text(f"#!{sys.executable}\nimport os, sys, time\nSECRET = {SECRET!r}\n{text}\n", encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return written


# ---------------------------------------------------------------- the program and its arguments


def test_no_shell_reads_the_arguments(script: Script, tmp_path: Path) -> None:
    path = script("print('|'.join(sys.argv[1:]))")
    mark = tmp_path / "executed"
    odd = (f"; touch {mark}", f"$(touch {mark})", f"`touch {mark}`", "a  b", "*", "{other}", "--user={user}")
    command = PasswordCommand((str(path), *odd, "{host}:{port}"))
    user = f"x; touch {mark}"
    assert command.password("db", 7, user).text == "|".join((*odd[:-1], f"--user={user}", "db:7"))
    assert not mark.exists()


def test_a_user_that_is_called_like_a_place(script: Script) -> None:
    """What took a place is not looked at again, whichever it was."""
    command = PasswordCommand((str(script("print('|'.join(sys.argv[1:]))")), "{user}", "{port}"))
    assert command.password("h", 7, "{host}{port}").text == "{host}{port}|7"


def test_it_gets_no_input_and_the_environment(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_REGION", "eu-west-1")
    command = PasswordCommand((str(script("print(repr(sys.stdin.read()) + os.environ['SOME_REGION'])")),))
    assert command.password(*SERVER).text == "''eu-west-1"


# ---------------------------------------------------------------- failures, which show nothing of the output


FAILING = {
    "an exit code": ("print(SECRET); print(SECRET, file=sys.stderr); sys.exit(3)", codes.PASSWORD_COMMAND_FAILED),
    "a signal": ("print(SECRET, flush=True); os.kill(os.getpid(), 9)", codes.PASSWORD_COMMAND_FAILED),
    "no end": ("print(SECRET, flush=True); time.sleep(60)", codes.PASSWORD_COMMAND_FAILED),
    "nothing": ("print(SECRET, file=sys.stderr)", codes.PASSWORD_COMMAND_OUTPUT),
    "two lines": ("print(SECRET); print(SECRET)", codes.PASSWORD_COMMAND_OUTPUT),
    "no text": ("sys.stdout.buffer.write(SECRET.encode() + bytes([255, 0]))", codes.PASSWORD_COMMAND_OUTPUT),
    "too much": (f"print(SECRET * {MOST_BYTES})", codes.PASSWORD_COMMAND_OUTPUT),
}


@pytest.mark.parametrize("case", FAILING)
def test_a_failure_shows_nothing_of_the_output(script: Script, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    text, code = FAILING[case]
    monkeypatch.setattr(password_command, "WAIT_SECONDS", 1.0)
    argument = SECRET.upper()
    with pytest.raises(CdcError) as failed:
        PasswordCommand((str(script(text)), argument)).password(*SERVER)
    assert failed.value.code is code
    shown = "".join(traceback.format_exception(failed.value)) + repr(failed.value)
    assert "print-token" in shown
    assert "tok3n" not in shown
    assert argument not in shown
    assert isinstance(failed.value, TransientError if code is codes.PASSWORD_COMMAND_FAILED else DefiniteError)


def test_what_a_hanging_command_started_is_ended(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(password_command, "WAIT_SECONDS", 2.0)
    note = tmp_path / "pid"
    path = script(f"import subprocess\nchild = subprocess.Popen(['sleep', '60'])\nopen({str(note)!r}, 'w').write(str(child.pid))\ntime.sleep(60)")  # fmt: skip  # noqa: E501
    began = time.monotonic()
    with pytest.raises(TransientError):
        PasswordCommand((str(path),)).password(*SERVER)
    assert time.monotonic() - began < 30
    pid = int(note.read_text())
    until = time.monotonic() + 10
    while _runs(pid):
        assert time.monotonic() < until, "the child of the command is still there"
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("program", ["no-such-program", "/etc/hostname", "/", "a\0b"])
def test_a_program_that_is_none(program: str) -> None:
    with pytest.raises(ConfigError) as failed:
        PasswordCommand((program,)).password(*SERVER)
    assert failed.value.code is codes.PASSWORD_COMMAND_MISSING


# ---------------------------------------------------------------- for how long it is used


def test_it_is_used_for_some_seconds_by_server(script: Script, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    path = script(f"open({str(calls)!r}, 'a').write('.')\nprint(sys.argv[1], os.path.getsize({str(calls)!r}))")
    command = PasswordCommand((str(path), "{host}"), seconds=0.5)
    first = command.password("a", 1, "u")
    assert (first.text, first.fresh) == ("a 1", True)
    kept = command.password("a", 1, "u")
    assert (kept.text, kept.fresh) == ("a 1", False)
    assert command.password("b", 1, "u").text == "b 2"
    assert command.password("a", 1, "u", renewed=True).text == "a 3"
    assert command.password("a", 1, "u").text == "a 3"
    time.sleep(0.6)
    assert command.password("a", 1, "u").text == "a 4"


def test_a_forked_process_asks_for_itself(script: Script) -> None:
    command = PasswordCommand((str(script("print(os.getppid())")),), seconds=600)
    assert command.password(*SERVER).text == str(os.getpid())
    read, write = os.pipe()
    with password_command._KEPT.lock:  # as another thread of ours may, while a process is forked
        child = os.fork()
        if child == 0:
            os.write(write, command.password(*SERVER).text.encode())
            os._exit(0)
    os.close(write)
    with open(read, encoding="utf-8") as output:
        assert output.read() == str(child)
    os.waitpid(child, 0)


# ---------------------------------------------------------------- on a server


@pytest.fixture
def account(mysql: MySqlServer, mysql_client: pymysql.Connection[Any]) -> Iterator[Callable[[str], None]]:
    """`account(password)`: from now on the password of the user `tokened`."""
    with mysql_client.cursor() as cursor:
        cursor.execute("CREATE USER tokened@'127.0.0.1' IDENTIFIED BY 'first'")
        cursor.execute("GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO tokened@'127.0.0.1'")
        yield lambda password: cursor.execute("ALTER USER tokened@'127.0.0.1' IDENTIFIED BY %s", (password,))
        cursor.execute("DROP USER tokened@'127.0.0.1'")


def test_a_token_that_has_ended_is_renewed(
    mysql: MySqlServer, account: Callable[[str], None], script: Script, tmp_path: Path
) -> None:
    token, calls = tmp_path / "token", tmp_path / "calls"
    path = script(f"open({str(calls)!r}, 'a').write('.')\nprint(open({str(token)!r}).read())")
    command = PasswordCommand((str(path), "{user}"), seconds=3600)
    options = replace(ConnectionOptions.from_url(f"mysql://tokened@127.0.0.1:{mysql.port}"), password_command=command)
    token.write_text("first")
    with connect(options) as session, connect(options):
        assert calls.read_text() == ".", "the second one uses what is kept"
        start = log_position(session).position
        account(SECRET)
        token.write_text(SECRET, encoding="utf-8")
        assert session.scalar("SELECT 1") == 1  # a session that is open stays
        with connect(options) as another:
            assert calls.read_text() == ".."
            with closing(BinlogDump(another.connection, start, server_id=4711)) as dump:
                dump.read(1)
        token.write_text("wrong")
        connect(options).close()
        assert calls.read_text() == "..", "what works is not asked for again"
        account("another")
        with pytest.raises(DefiniteError) as refused:
            connect(options)
        assert calls.read_text() == "..."
        assert refused.value.code is codes.ACCESS_DENIED
        assert f"source.password_command ({path})" in refused.value.hint
        account("wrong")
        connect(options).close()
        assert calls.read_text() == "....", "one that was refused is not kept"
    assert SECRET not in repr(options)
