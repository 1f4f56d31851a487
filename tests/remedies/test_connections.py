"""Codes of how the source is reached: the SSH server and the command of the password, put right as the error says."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse_cdc.errors import codes
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.settings import READER_PASSWORD
from tests.remedies import remedy
from tests.remedies.conftest import Write
from tests.support.commands import call
from tests.support.ssh_server import Gate, gate

READER_URL = "mysql://cdc@127.0.0.1:{port}"


@pytest.fixture
def bastion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """An SSH server; the key is $SSH_KEY."""
    with gate(tmp_path) as made:
        monkeypatch.setenv("SSH_KEY", made.key)
        monkeypatch.setenv("PASSWORD", READER_PASSWORD)
        yield made


def through(bastion: Gate) -> dict[str, str | None]:
    """The settings of a pipeline that reads through it."""
    return {
        "source.url": READER_URL, "source.password": "${env:PASSWORD}",
        "source.ssh": bastion.url, "source.ssh_key": "${env:SSH_KEY}", "source.ssh_known_hosts": "known_hosts",
    }  # fmt: skip


def refused(code: int, file: Path) -> tuple[str, str]:
    said = call(code, "doctor", "-c", file)
    return said["code"], said["hint"]


@remedy(codes.SSH_UNREACHABLE)
def test_the_ssh_server_is_started(bastion: Gate, write: Write) -> None:
    file = write(through(bastion))
    bastion.close()
    code, hint = refused(3, file)
    assert code == codes.SSH_UNREACHABLE.label
    assert hint.startswith("Check host and port of source.ssh from here")
    bastion.open()
    said = call(0, "doctor", "-c", file)["findings"]
    assert any(one["name"] == "ssh" and one["what"].startswith(f"through {bastion.url}") for one in said)


@remedy(codes.SSH_UNREACHABLE)
def test_the_port_as_the_ssh_server_sees_it(bastion: Gate, write: Write) -> None:
    code, hint = refused(3, write({**through(bastion), "source.url": "mysql://cdc@127.0.0.1:1"}))
    assert code == codes.SSH_UNREACHABLE.label
    assert "those of source.url from the SSH server" in hint
    call(0, "doctor", "-c", write(through(bastion)))


@remedy(codes.SSH_HOST_KEY_UNKNOWN)
def test_the_host_key_is_compared_and_added(bastion: Gate, write: Write) -> None:
    file, known = write(through(bastion)), bastion.known_hosts.read_text()
    for wrong in (bastion.other_key(), ""):
        bastion.known_hosts.write_text(wrong)
        code, hint = refused(3, file)
        assert code == codes.SSH_HOST_KEY_UNKNOWN.label
        assert re.search(rf"`ssh-keyscan -p {bastion.port} 127\.0\.0\.1` .* add it to that file", hint)
        assert bastion.asked == []
        bastion.known_hosts.write_text(wrong + known)
        call(0, "doctor", "-c", file)
        bastion.asked.clear()


@remedy(codes.SSH_REFUSED)
def test_the_ssh_server_lets_in_and_forwards(
    bastion: Gate, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(through(bastion))
    bastion.closed = True
    code, hint = refused(3, file)
    assert code == codes.SSH_REFUSED.label
    assert "AllowTcpForwarding" in hint
    bastion.closed = False
    call(0, "doctor", "-c", file)
    (tmp_path / "other").mkdir()
    with gate(tmp_path / "other") as other:
        monkeypatch.setenv("SSH_KEY", other.key)
        code, hint = refused(3, file)
        assert code == codes.SSH_REFUSED.label
        assert "let the user of source.ssh in by that key" in hint
        bastion.let_in(other)
        call(0, "doctor", "-c", file)


@remedy(codes.SSH_SETTING_INVALID)
def test_a_tunnel_has_a_key_and_known_hosts(bastion: Gate, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    right = through(bastion)
    code, hint = refused(2, write({**right, "source.ssh_key": None}))
    assert (code, hint) == (codes.SSH_SETTING_INVALID.label, "give one of them")
    call(0, "doctor", "-c", write(right))
    code, hint = refused(2, write({**right, "source.ssh_known_hosts": "known"}))
    assert code == codes.SSH_SETTING_INVALID.label
    assert hint.startswith("a file with the SSH server's host key")
    key = bastion.key
    monkeypatch.setenv("SSH_KEY", key[: len(key) // 2])
    code, hint = refused(2, write(right))
    assert code == codes.SSH_SETTING_INVALID.label
    assert hint.startswith("the whole text of the file, by reference")
    monkeypatch.setenv("SSH_KEY", key)
    call(0, "doctor", "-c", write(right))


@remedy(codes.PASSWORD_COMMAND_FAILED)
def test_a_command_is_tried_by_hand(mysql: MySqlServer, write: Write, tmp_path: Path) -> None:
    token = tmp_path / "token"
    command = ["cat", str(token)]
    file = write({"source.url": READER_URL, "source.password_command": command})
    code, hint = refused(3, file)
    assert code == codes.PASSWORD_COMMAND_FAILED.label
    assert hint.startswith("execute it by hand")
    assert b"token" in subprocess.run(command, capture_output=True, check=False).stderr
    token.write_text(READER_PASSWORD)
    said = call(0, "doctor", "-c", file)["findings"]
    assert any(one["name"] == "authentication" and "by a command (cat)" in one["what"] for one in said)
