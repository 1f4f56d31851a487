"""A real MySQL or MariaDB server in one directory, for demos and tests: `with MySqlServer.start() as server: ...`.

What may be trusted:

- *Which server runs from a directory* is known by the lock that InnoDB holds on `ibdata1` as long as it lives: a pid
  file could name a process that has nothing to do with us.
- *What is stopped* is only what this very process started. A server that another process started from the directory is
  used, and left running.
- *Nothing is left behind.* It is the child of a small guard (see `guard`) that ends it when this process is gone, or
  asks it to.
- *A directory is initialised or not.* `server.json` is written last; what an interrupted initialisation left is redone.

The settings give up durability against a crash of the machine, for speed; a killed server (`kill`) recovers every
committed transaction, since each one is handed to the system before it is acknowledged.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import pymysql

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.testing import datadir, guard
from lakehouse_cdc.testing.distribution import Distribution, complaint, install
from lakehouse_cdc.testing.place import Place, State, free_port, greeting, port_is_free
from lakehouse_cdc.testing.settings import ROOT, service, storage
from lakehouse_cdc.testing.versions import RELEASES, Version

_START_SECONDS = 120.0


class MySqlServer:
    """A running server; made by `start`. As a context manager it stops the server at the end of the block."""

    def __init__(self, place: Place, version: Version, distribution: Distribution, *, temporary: bool) -> None:
        self._place = place
        self._version = version
        self._distribution = distribution
        self._temporary = temporary
        self._port = 0
        self._options: dict[str, str | None] = {}
        self._guard: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()
        self._stopping = threading.Lock()

    @classmethod
    def start(
        cls,
        directory: Path | None = None,
        *,
        version: Version = "mysql-8.0",
        port: int | None = None,
        options: Mapping[str, str | None] | None = None,
    ) -> MySqlServer:
        """Start a server from `directory`, or use the one that already runs from it.

        Without a directory, a temporary one is used, and removed by `stop`. A kept directory is started again on the
        port it had and with the options it had, unless others are given. `options` are the server's own settings by
        name (`{"gtid_mode": "OFF"}`) and win over the defaults; None stands for an option without a value
        (`{"disable_log_bin": None}`).

        Raises DefiniteError (SERVER_BUILD_MISSING) where this platform cannot run that version, TransientError where it
        cannot be fetched, and DefiniteError where the port is taken, the directory is not one of ours or of another
        version, a server already runs from it with another port or other options, or the server refuses to start (with
        its own words).
        """
        if directory is not None:
            Place(directory.absolute()).state(version)  # refused before anything is fetched
        distribution = install(version)
        temporary = directory is None
        home = Path(tempfile.mkdtemp(prefix="lakehouse-cdc-mysql-")) if directory is None else directory.absolute()
        server = cls(Place(home), version, distribution, temporary=temporary)
        try:
            with server._place.locked():
                server._start(port, None if options is None else dict(options))
        except BaseException:
            server._discard()
            raise
        atexit.register(server.stop)
        return server

    @property
    def version(self) -> Version:
        """Which of the servers this is."""
        return self._version

    @property
    def port(self) -> int:
        """The TCP port, on 127.0.0.1."""
        return self._port

    @property
    def directory(self) -> Path:
        """Where the data, the logs and the state of this server lie."""
        return self._place.directory

    @property
    def url(self) -> str:
        """`mysql://root@127.0.0.1:PORT`: the account root, without a password."""
        return f"mysql://{ROOT}@127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process id of the server; None when it does not run."""
        return self._place.running_pid()

    @property
    def started_here(self) -> bool:
        """Whether this process started the server (and so will stop it)."""
        return self._guard is not None

    def connect(self, *, user: str = ROOT, password: str = "", **settings: Any) -> pymysql.Connection[Any]:
        """A new connection, as root unless told otherwise; `settings` are PyMySQL's (database, autocommit, ...)."""
        return pymysql.connect(host="127.0.0.1", port=self.port, user=user, password=password, **settings)

    def stop(self) -> None:
        """Shut the server down, if this process started it; else leave it alone. A temporary directory is removed."""
        self._end()
        self._discard()
        atexit.unregister(self.stop)

    def kill(self) -> None:
        """End the server at once (SIGKILL), as a crash would; `restart` brings it back.

        Raises DefiniteError for a server that another process started.
        """
        self._must_be_ours()
        self._end(at_once=True)

    def restart(self, options: Mapping[str, str | None] | None = None) -> None:
        """Stop the server if it runs, and start it on the same port; `options` replace those given before.

        Raises DefiniteError for a server that another process started.
        """
        if self._place.running_pid() is not None:
            self._must_be_ours()
        self._end()
        with self._place.locked():
            self._start(self._port, None if options is None else dict(options))

    def __enter__(self) -> MySqlServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"MySqlServer({self.url!r}, version={self.version!r}, directory={str(self.directory)!r})"

    def _start(self, port: int | None, options: dict[str, str | None] | None) -> None:
        kept = self._place.state(self._version)
        if kept is None:
            self._place.clear()
            datadir.create(self._place.data, self._version, self._distribution)
            kept = State(version=self._version, port=port or free_port(), options={})
        self._options = kept["options"] if options is None else options
        if self._place.running_pid() is not None:
            self._join(kept, port)
            return
        self._port = port or kept["port"]
        if not port_is_free(self._port):
            raise codes.PORT_TAKEN.error(
                "the port is taken",
                where=f"127.0.0.1:{self._port}",
                hint="give another port, or stop what listens there",
            )
        self._place.write_state(State(version=self._version, port=self._port, options=self._options))
        self._run()

    def _join(self, kept: State, port: int | None) -> None:
        """Use the server that runs from the directory already, if it is the one that was asked for."""
        if port not in (None, kept["port"]) or self._options != kept["options"]:
            raise codes.SERVER_DIRECTORY_UNUSABLE.error(
                "a server with another port or other options runs from this directory",
                where=f"{self.directory}, port {kept['port']}",
                hint="stop it first, or leave port and options out",
            )
        self._port = kept["port"]
        self._wait_until_ready()

    def _run(self) -> None:
        place = self._place
        place.scratch.mkdir(exist_ok=True)
        settings = {
            **storage(self._version),
            **service(self._version),
            "log_error": str(place.log),
            "port": str(self._port),
            "socket": "mysql.sock",  # relative to the data directory: a socket's path holds 107 bytes at most
            "pid_file": "mysqld.pid",
            **{name.replace("-", "_"): value for name, value in self._options.items()},
        }
        command = self._distribution.arguments(place.data, place.scratch, settings)
        temporary = str(place.directory) if self._temporary else ""
        with open(place.log, "ab") as log:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", guard.__file__, temporary, *command],
                env=self._distribution.environment(),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=place.directory,
                start_new_session=True,  # the user's Ctrl-C is for this process, which then stops the server
            )
        try:
            self._wait_until_ready()
        except BaseException:
            self._end(at_once=True)
            raise

    def _wait_until_ready(self) -> None:
        until = time.monotonic() + _START_SECONDS
        while not (self._place.running_pid() and (greeting(self._port) or "").startswith(RELEASES[self._version])):
            if self._guard is not None and self._guard.poll() is not None:
                raise self._refusal("does not start")
            if time.monotonic() > until:
                raise self._refusal(f"did not answer within {_START_SECONDS:.0f} s")
            time.sleep(0.02)

    def _refusal(self, what: str) -> DefiniteError:
        text = self._place.log.read_text(errors="replace") if self._place.log.exists() else ""
        return codes.SERVER_START_FAILED.error(f"{self._version} {what}: {complaint(text)}", where=str(self._place.log))

    def _must_be_ours(self) -> None:
        if self._guard is None:
            raise codes.SERVER_DIRECTORY_UNUSABLE.error(
                "this server was started by another process", where=str(self.directory), hint="stop it there"
            )

    def _end(self, *, at_once: bool = False) -> None:
        """End mysqld and wait until it is gone. In a forked child, and for another's server, this does nothing."""
        with self._stopping:
            if self._guard is None or self._owner != os.getpid():
                return
            # a guard that is gone already closes the pipe from its side
            with suppress(BrokenPipeError):
                self._guard.communicate(guard.KILL if at_once else guard.STOP, timeout=guard.PATIENCE + 30)
            self._guard = None

    def _discard(self) -> None:
        if self._temporary and self._owner == os.getpid():
            shutil.rmtree(self._place.directory, ignore_errors=True)
