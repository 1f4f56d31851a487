"""The directory of one server: what lies where, which process holds it, and which ports are free."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from lakehouse_cdc.errors import codes
from lakehouse_cdc.runtime.cache import locked
from lakehouse_cdc.testing.versions import Version

# below the ports that systems hand out to clients (Linux: 32768 and up), so that a stopped server's port stays free
_PORTS = range(20000, 32000)


class State(TypedDict):
    """`server.json`: which server this directory is of, with which port and options it was last started."""

    version: Version
    port: int
    options: dict[str, str | None]


@dataclass(frozen=True)
class Place:
    """One server's directory."""

    directory: Path

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def scratch(self) -> Path:
        return self.directory / "tmp"

    @property
    def log(self) -> Path:
        return self.directory / "error.log"

    @property
    def _state(self) -> Path:
        return self.directory / "server.json"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold this directory while a server is made or started in it; makes the directory."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with locked(self.directory / "lock"):
            yield

    def state(self, version: Version) -> State | None:
        """What `write_state` wrote; None before the first start has come that far.

        Raises DefiniteError where the directory is of another server than `version`.
        """
        if not self._state.exists():
            return None
        kept: State = json.loads(self._state.read_text())
        if str(kept["version"]) == "8.0.31":  # as it was written before there were other servers
            kept["version"] = "mysql-8.0"
        if kept["version"] != version:
            raise codes.SERVER_DIRECTORY_UNUSABLE.error(
                f"the directory holds the data of {kept['version']}, not of {version}",
                where=str(self.directory),
                hint="name another directory, or the version that it holds",
            )
        return kept

    def write_state(self, state: State) -> None:
        """Replace the state as a whole."""
        beside = self._state.with_suffix(".new")
        beside.write_text(json.dumps(state))
        beside.replace(self._state)

    def clear(self) -> None:
        """Make room for a first initialisation, over what an interrupted one left.

        Raises DefiniteError where the directory holds anything else.
        """
        ours = {"lock", self.data.name, self.scratch.name, self.log.name}
        if foreign := sorted(entry.name for entry in self.directory.iterdir() if entry.name not in ours):
            raise codes.SERVER_DIRECTORY_UNUSABLE.error(
                f"the directory holds something else: {foreign[0]}",
                where=str(self.directory),
                hint="name a directory that is empty or absent",
            )
        shutil.rmtree(self.data, ignore_errors=True)
        self.scratch.mkdir(exist_ok=True)

    def running_pid(self) -> int | None:
        """The process whose lock InnoDB holds on its first data file, or None."""
        try:
            with open(self.data / "ibdata1", "rb") as handle:
                return _lock_holder(handle.fileno())
        except FileNotFoundError:
            return None


def _lock_holder(descriptor: int) -> int | None:
    """The process that holds a POSIX lock on the file (fcntl(2), F_GETLK); asking takes no lock."""
    import fcntl

    write_lock, whole_file = fcntl.F_WRLCK, (os.SEEK_SET, 0, 0)
    if sys.platform == "darwin":  # struct flock: start, len, pid, type, whence
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack("qqihh", 0, 0, 0, write_lock, os.SEEK_SET))
        _, _, pid, kind, _ = struct.unpack("qqihh", answer)
    else:  # type, whence, start, len, pid
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack("hhqqi4x", write_lock, *whole_file, 0))
        kind, _, _, _, pid = struct.unpack("hhqqi4x", answer)
    return None if kind == fcntl.F_UNLCK else int(pid)


def port_is_free(port: int) -> bool:
    """Whether a server could listen on 127.0.0.1 at that port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # closed connections may linger
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A port on 127.0.0.1 that nothing listens on, and that no client will be given."""
    for port in random.sample(_PORTS, 200):
        if port_is_free(port):
            return port
    raise codes.PORTS_EXHAUSTED.error("no free port was found", where=f"127.0.0.1, {_PORTS.start} to {_PORTS.stop - 1}")


def greeting(port: int) -> str | None:
    """The version that a server at 127.0.0.1 greets with, or None.

    MySQL's client/server protocol, Protocol::HandshakeV10: a packet header of 4 bytes, the number 10, then the version
    as text that ends in NUL. MariaDB 10 puts "5.5.5-" before its own, for replicas that know one digit only.
    """
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            connection.settimeout(2)
            first = connection.recv(256)
    except OSError:
        return None
    if first[4:5] != b"\x0a":
        return None
    return first[5:].split(b"\0")[0].decode("latin1").removeprefix("5.5.5-")
