"""The files of a table's log by name, in a folder here or in a bucket: read, and put there once or as a whole.

Purpose: one reading of Delta's log, and one way to commit on top of it (`direct.newest_version`), for both.

Invariant: of several that create a file of one name, one does; and who reads a file that was put as a whole gets the
whole of it, or nothing that can be taken for it.

Why it holds: in a folder a file is written under another name, and linked to its own, or renamed, each in one step of
the file system. In a bucket an object appears as a whole, and is created on the condition that there is none, by a
client that knows its own object again where an answer was lost (`runtime/java_store/ObjectStore.java`). One that is
replaced while it is read may come out torn there: what is replaced is JSON, and torn JSON counts as missing.

Guards: tests/lake/test_two_writers.py, test_creation.py, tests/object_store/test_direct_commits.py.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Protocol

from lakehouse_cdc.lake.cleanup.unfinished_tables import LOG
from lakehouse_cdc.lake.file_systems import asking, file_system, names_at, put_new, put_whole
from lakehouse_cdc.model.place import is_url

MAKING = ".making-"  # how the name begins of a file of the log, or of a folder, that is not finished


class LogFiles(Protocol):
    """The files of one log. Raises OSError, or, of a bucket, TransientError."""

    def read(self, name: str) -> str:
        """All of a file. Raises FileNotFoundError where there is none."""

    def lines(self, name: str) -> Iterator[str]:
        """The lines of a file, none of them empty. Raises FileNotFoundError where there is none."""

    def open(self, name: str) -> Any:
        """A file to be read by pyarrow, as a context manager. Raises FileNotFoundError where there is none."""

    def exists(self, name: str) -> bool:
        """Whether the file is there."""

    def names(self) -> list[str]:
        """Of all files, in no order; none where there is no log."""

    def create(self, name: str, text: str) -> bool:
        """Put a file there, durably; False, and nothing is done, where there is one."""

    def replace(self, name: str, text: str) -> None:
        """Put a file there, in the place of one that may be."""

    def delete(self, name: str) -> None:
        """Delete a file; one that is gone is fine."""


def log_at(location: str) -> LogFiles:
    """The log of the table in a folder of this machine, or at a URL."""
    return BucketLog(f"{location}/{LOG}") if is_url(location) else FolderLog(os.path.join(location, LOG))


@dataclass(frozen=True)
class FolderLog:
    """See `LogFiles`."""

    folder: str

    def read(self, name: str) -> str:
        """See `LogFiles`."""
        with open(self._path(name), encoding="utf-8") as file:
            return file.read()

    def lines(self, name: str) -> Iterator[str]:
        """See `LogFiles`."""
        with open(self._path(name), encoding="utf-8") as file:
            yield from (line for line in file if line != "\n")

    def open(self, name: str) -> Any:
        """See `LogFiles`."""
        return open(self._path(name), "rb")

    def exists(self, name: str) -> bool:
        """See `LogFiles`."""
        return os.path.exists(self._path(name))

    def names(self) -> list[str]:
        """See `LogFiles`."""
        try:
            return os.listdir(self.folder)
        except FileNotFoundError:
            return []

    def create(self, name: str, text: str) -> bool:
        """See `LogFiles`."""
        temporary = self._path(f"{MAKING}{uuid.uuid4()}")
        try:
            with open(temporary, "x", encoding="utf-8") as out:
                out.write(text)
                out.flush()
                os.fsync(out.fileno())
            try:
                os.link(temporary, self._path(name))
            except FileExistsError:
                return False
        finally:
            with suppress(OSError):  # such as that it could not be made; what stays, `checksum.remove_old` deletes
                os.unlink(temporary)
        handle = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        return True

    def replace(self, name: str, text: str) -> None:
        """See `LogFiles`."""
        temporary = self._path(f"{MAKING}{uuid.uuid4()}")
        try:
            with open(temporary, "x", encoding="utf-8") as out:
                out.write(text)
            os.replace(temporary, self._path(name))
        finally:
            with suppress(OSError):
                os.unlink(temporary)

    def delete(self, name: str) -> None:
        """See `LogFiles`."""
        with suppress(FileNotFoundError):
            os.unlink(self._path(name))

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)


@dataclass(frozen=True)
class BucketLog:
    """See `LogFiles`. To create a file takes a process that puts objects on a condition (`file_systems.reach`)."""

    url: str

    def read(self, name: str) -> str:
        """See `LogFiles`."""
        return self._bytes(name).decode()

    def lines(self, name: str) -> Iterator[str]:
        """See `LogFiles`."""
        return filter(None, self.read(name).split("\n"))

    def open(self, name: str) -> Any:
        """See `LogFiles`."""
        return BytesIO(self._bytes(name))

    def exists(self, name: str) -> bool:
        """See `LogFiles`."""
        files, path = file_system(self.url)
        with asking(self.url), suppress(FileNotFoundError), files.open_input_file(f"{path}/{name}"):
            return True  # one request; to ask for its kind is two
        return False

    def _bytes(self, name: str) -> bytes:
        files, path = file_system(self.url)
        with asking(self.url), files.open_input_file(f"{path}/{name}") as file:
            return bytes(file.read())

    def names(self) -> list[str]:
        """See `LogFiles`."""
        return names_at(self.url)

    def create(self, name: str, text: str) -> bool:
        """See `LogFiles`."""
        return put_new(f"{self.url}/{name}", text.encode())

    def replace(self, name: str, text: str) -> None:
        """See `LogFiles`."""
        put_whole(f"{self.url}/{name}", text.encode())

    def delete(self, name: str) -> None:
        """See `LogFiles`."""
        files, path = file_system(self.url)
        with asking(self.url), suppress(FileNotFoundError):
            files.delete_file(f"{path}/{name}")
