"""Small files in a folder of this machine, or in one that is mounted, such as a Databricks volume."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lakehouse_cdc.lake.cleanup import trash
from lakehouse_cdc.lake.failpoints import Door, commit_to

_BYTES = 1 << 20  # a nearly full disk still makes an empty file


@dataclass(frozen=True)
class Folder:
    """See `port.Files`. What it raises is the system's."""

    path: Path
    pause: float = 0.0

    @property
    def where(self) -> str:
        """See `port.Files`."""
        return str(self.path)

    def read(self, name: str) -> str | None:
        """See `port.Files`."""
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str) -> None:
        """See `port.Files`."""
        write_whole(self.path / name, text)

    def create(self, name: str, text: str) -> bool:
        """See `port.Files`."""
        path = self.path / name
        return not path.exists() and write_whole(path, text, replacing=False)

    def delete(self, name: str) -> None:
        """See `port.Files`."""
        (self.path / name).unlink(missing_ok=True)

    def exists(self, name: str) -> bool:
        """See `port.Files`."""
        return (self.path / name).is_file()

    def written_at(self, name: str) -> float:
        """See `port.Files`."""
        return (self.path / name).stat().st_mtime

    def names(self, prefix: str = "") -> list[str]:
        """See `port.Files`."""
        try:
            with os.scandir(self.path) as entries:
                return sorted(one.name for one in entries if one.name.startswith(prefix) and one.is_file())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def glancing(self) -> Folder:
        """See `port.Files`."""
        return self

    def within(self, name: str) -> Folder:
        """See `port.Files`."""
        return Folder(self.path / name)

    @property
    def is_there(self) -> bool:
        """See `port.Files`."""
        return self.path.exists()

    def size(self, name: str) -> int | None:
        """See `port.Files`."""
        folder = self.path / name
        return _bytes(folder) if folder.exists() else None

    def throw_away(self, name: str) -> None:
        """See `port.Files`."""
        trash.throw_away(self.path / name)

    def empty_trash(self) -> None:
        """See `port.Files`."""
        trash.empty_trash(self.path)

    def refusal(self) -> str:
        """See `port.Files`."""
        return refusal(self.path)


def _bytes(folder: Path) -> int:
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)


def write_whole(path: Path, text: str, *, replacing: bool = True) -> bool:
    """Write a file, durably, so that who reads it gets all of it, or what was there before; False if that stays.

    Unless it is `replacing`, a file that is there stays. Where writing fails, as on a full disk, nothing is left of the
    attempt. On a file system without links (many of networks and of FUSE) two that create a file at the very same
    moment both do: there a lock, or a job that does not run twice, keeps them apart.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        with commit_to(Door.FILE, path.name):
            if not replacing and (created := _linked(temporary, path)) is not None:
                return created
            os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    return True


def _linked(temporary: str, path: Path) -> bool | None:
    """Give a file its own name, unless there is one of that name, which is False; None where files have no links."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError:
        return False if path.exists() else None
    finally:
        if path.exists():
            with suppress(OSError):
                os.unlink(temporary)
    return True


def existing(folder: Path) -> Path:
    """The folder, or the first above it that is there."""
    return next(one for one in (folder, *folder.parents) if one.exists())


def refusal(folder: Path) -> str:
    """Why nothing can be written to a folder, or to the one that it would be made in; "" where it can be."""
    try:
        with tempfile.TemporaryFile(dir=existing(folder)) as file:
            file.write(bytes(_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return f"cannot write to {folder}: {error.strerror}"
    return ""
