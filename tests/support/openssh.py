"""OpenSSH's own server, from Debian's packages, fetched once: it runs by the loader and the libraries among them."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import asyncssh
import pytest

from lakehouse_cdc.mysql.connection.ssh_tunnel import SshServer
from lakehouse_cdc.runtime.cache import cache_directory, locked, publish
from lakehouse_cdc.testing import debian
from lakehouse_cdc.testing.versions import is_linux

_SUITE = "bookworm"  # the last one whose server is a single program, which needs no absolute path
_LIBRARIES = ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu")


@dataclass
class OpenSsh:
    """One that runs, and lets its own user in by `key`."""

    port: int
    user: str
    key: str
    known_hosts: str
    pid: int

    def server(self) -> SshServer:
        """As a session is given it."""
        url = f"ssh://{self.user}@127.0.0.1:{self.port}"
        return SshServer.from_url(url, known_hosts=self.known_hosts, key=self.key)

    def cut(self) -> None:
        """End the processes that serve a connection: one that watches, and one that has the socket."""
        served = _below(self.pid)
        assert served
        for pid in served:
            os.kill(pid, 9)


def _below(pid: int) -> list[int]:
    """The processes that it started, and those that they started."""
    try:
        children = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
    return [one for child in children for one in (child, *_below(child))]


def _program() -> Path:
    if not (is_linux() and shutil.which("apt-get") and shutil.which("dpkg-deb")):
        pytest.skip("OpenSSH's server is made of Debian's packages here, for Linux x86-64 with apt")
    home = cache_directory() / f"openssh-{_SUITE}"
    if not home.exists():
        with locked(home.with_suffix(".lock")):
            publish(home, _fetch)
    return home


def _fetch(home: Path) -> None:
    home.mkdir()
    with debian.downloaded(_SUITE, "openssh-server", "OpenSSH's server") as packages:
        unpacked = packages[0].parent / "unpacked"
        for package in packages:
            subprocess.run(["dpkg-deb", "--extract", str(package), str(unpacked)], check=True)
        shutil.copy(unpacked / "usr/sbin/sshd", home)
        for folder in _LIBRARIES:
            for library in (unpacked / folder).glob("l[di]*.so*"):
                shutil.copy(library, home)


@contextmanager
def openssh(*settings: str) -> Iterator[OpenSsh]:
    """One, for a block, with further lines of its configuration.

    It never runs as root, since it would then want an account of its own: `daemon` takes root's place, for systemd
    calls `nobody` locked.
    """
    root = os.geteuid() == 0
    user = pwd.getpwnam("daemon") if root else pwd.getpwuid(os.geteuid())
    with tempfile.TemporaryDirectory(prefix="lakehouse-cdc-sshd-") as name:
        folder = Path(name)
        shutil.copytree(_program(), folder / "bin")
        host, client = asyncssh.generate_private_key("ssh-ed25519"), asyncssh.generate_private_key("ssh-ed25519")
        (folder / "host_key").touch(0o600)
        host.write_private_key(str(folder / "host_key"))
        client.write_public_key(str(folder / "authorized_keys"))
        with closing(socket.create_server(("127.0.0.1", 0))) as free:
            port = free.getsockname()[1]
        (folder / "sshd_config").write_text("\n".join((
            *settings, f"Port {port}", "ListenAddress 127.0.0.1", f"HostKey {folder / 'host_key'}", "UsePAM no",
            f"AuthorizedKeysFile {folder / 'authorized_keys'}", "StrictModes no", "PidFile none", "",
        )))  # fmt: skip
        if root:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, user.pw_uid, user.pw_gid)
        program = folder / "bin"
        command = [str(program / "ld-linux-x86-64.so.2"), "--library-path", str(program), str(program / "sshd")]
        log = folder / "log"
        with open(log, "wb") as output:
            process = subprocess.Popen(
                [*command, "-r", "-D", "-e", "-f", str(folder / "sshd_config")],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                user=user.pw_uid if root else None,
                group=user.pw_gid if root else None,
                extra_groups=[] if root else None,
            )
        try:
            _wait(port, process, log)
            known = f"[127.0.0.1]:{port} {host.export_public_key().decode().strip()}\n"
            yield OpenSsh(port, user.pw_name, client.export_private_key().decode(), known, process.pid)
        finally:
            served = _below(process.pid)
            process.terminate()
            process.wait(30)
            for pid in served:
                with suppress(ProcessLookupError):
                    os.kill(pid, 9)


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 30
    while True:
        with suppress(OSError), closing(socket.create_connection(("127.0.0.1", port), 1)) as greeted:
            greeted.settimeout(5)
            if greeted.recv(4) == b"SSH-":
                return
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.05)
