"""Emulators of stores that are no packages of Python: they are used where they are found.

Azurite (`npm install azurite@3.37.0`) is `azurite-blob` at PATH, or what AZURITE_BLOB names. Older ones do not know the
lists that deltalake asks for, and have it see a log's beginning for its end.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
import uuid
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyarrow.fs import FileSelector

from lakehouse_cdc.lake import file_systems
from lakehouse_cdc.model.place import Kind, Storage
from lakehouse_cdc.testing.place import free_port, port_is_free

# the account and the key that Azurite has, which its documentation names
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_SECONDS = 60.0


class Emulator(ABC):
    """A store on 127.0.0.1, as a context manager; each test has a bucket of its own."""

    kind: Kind
    program: str
    variable: str
    how_to_get: str

    def __init__(self) -> None:
        self.port = free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.storage = Storage(endpoint=self.endpoint)
        self._folder = tempfile.mkdtemp(prefix="lakehouse-cdc-emulator-")
        self._log = Path(self._folder, "log")
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def path(cls) -> str | None:
        """Where the program is, None where it is not installed."""
        return os.environ.get(cls.variable) or shutil.which(cls.program)

    @classmethod
    def lacking(cls) -> str:
        """Why a test of it is skipped."""
        return f"{cls.program} is not at PATH, and {cls.variable} does not name it: {cls.how_to_get}"

    @abstractmethod
    def arguments(self) -> list[str]:
        """Of the program."""

    @abstractmethod
    def section(self) -> dict[str, str]:
        """`target.storage` of a pipeline."""

    @abstractmethod
    def place(self) -> str:
        """The URL of a place in a bucket that is made now."""

    def names(self, url: str) -> list[str]:
        """Of the objects below a place, in order, relative to it."""
        file_systems.reach(url, self.storage)
        files, path = file_systems.file_system(url)
        there = files.get_file_info(FileSelector(path, recursive=True, allow_not_found=True))
        return sorted(one.path.removeprefix(f"{path}/") for one in there if one.is_file)

    def _make(self, url: str) -> str:
        file_systems.reach(url, self.storage)
        files, path = file_systems.file_system(url)
        files.create_dir(path.partition("/")[0])
        return url

    def __enter__(self) -> Emulator:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(self.path()), *self.arguments()], cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True,
            )  # fmt: skip
        until = time.monotonic() + _SECONDS
        while port_is_free(self.port):
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < until, self._log.read_text()
            time.sleep(0.1)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


class Azurite(Emulator):
    """Of Azure's store, which knows its protocol of blobs alone."""

    kind: Kind = "abfs"
    program = "azurite-blob"
    variable = "AZURITE_BLOB"
    how_to_get = "npm install azurite@3.37.0"

    def __init__(self) -> None:
        super().__init__()
        self.storage = Storage(endpoint=self.endpoint, account_key=ACCOUNT_KEY)

    def arguments(self) -> list[str]:
        """See `Emulator.arguments`."""
        listening = ["--blobHost", "127.0.0.1", "--blobPort", str(self.port)]
        return [*listening, "--inMemoryPersistence", "--skipApiVersionCheck", "--silent", "--disableTelemetry"]

    def section(self) -> dict[str, str]:
        """See `Emulator.section`."""
        return {"endpoint": self.endpoint, "account_key": "${env:STORE_SECRET}"}

    def place(self) -> str:
        """See `Emulator.place`."""
        return self._make(f"abfs://lake-{uuid.uuid4().hex[:12]}@{ACCOUNT}.dfs.core.windows.net/a/lake")


EMULATORS: dict[str, type[Emulator]] = {"azurite": Azurite}


def installed() -> list[type[Emulator]]:
    """Those that are there."""
    return [one for one in EMULATORS.values() if one.path()]


def environment(monkeypatch: Any) -> None:
    """The secrets that sections refer to."""
    monkeypatch.setenv("STORE_SECRET", ACCOUNT_KEY)
