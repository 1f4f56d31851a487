"""A file system of its own for a lake, in memory, which can be full or refuse what is written. Linux, as root."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tests.faults.kinds import Kind, Missed, World, kind

_SIZE = 4 << 30
_GET_FLAGS, _SET_FLAGS, _IMMUTABLE = 0x80086601, 0x40086602, 0x10  # ioctl_iflags(2)
_SLACK, _TRIES = 1 << 16, 20


class Disk:
    """A tmpfs at `path` for the time of a `with` block."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> Disk:
        self.path.mkdir(parents=True)
        _system("mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "faults", str(self.path))
        return self

    def __exit__(self, *_: object) -> None:
        _system("umount", "-l", str(self.path))  # what still uses it keeps it for that long

    def fill(self) -> None:
        """Have it hold what it has, and hardly more."""
        for _ in range(_TRIES):  # it cannot be made smaller than what has been written since we looked
            now = os.statvfs(self.path)
            with suppress(subprocess.CalledProcessError):
                self._resize((now.f_blocks - now.f_bfree) * now.f_frsize + _SLACK)
                return
        raise Missed

    def empty(self) -> None:
        """Have it hold much again."""
        self._resize(_SIZE)

    def _resize(self, size: int) -> None:
        _system("mount", "-o", f"remount,size={size}", str(self.path))

    @property
    def free(self) -> int:
        """In bytes."""
        now = os.statvfs(self.path)
        return now.f_bfree * now.f_frsize

    def folders(self) -> list[Path]:
        """All that there are now."""
        return [Path(at) for at, _, _ in os.walk(self.path)]


def _system(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


@kind("the disk is full", (0.5, 4.0), weight=3)
def full(world: World) -> Iterator[None]:
    disk = world.lake
    disk.fill()
    try:
        yield
        if disk.free > _SLACK // 2:
            raise Missed
    finally:
        disk.empty()


@kind("folders of the lake are read only", (0.5, 4.0), weight=3)
def read_only(world: World) -> Iterator[None]:
    """EROFS for what is opened from now on, in some of them."""
    with ExitStack() as undone:
        refusing = 0
        for folder in _some(world):
            try:
                _system("mount", "--bind", str(folder), str(folder))
                undone.callback(_system, "umount", "-l", str(folder))
                _system("mount", "-o", "remount,bind,ro", str(folder))
            except subprocess.CalledProcessError:  # it is gone, or was opened for writing in between
                continue
            refusing += 1
        if not refusing:
            raise Missed
        yield


@kind("folders of the lake are immutable", (0.5, 4.0), weight=3)
def immutable(world: World) -> Iterator[None]:
    """EPERM for each file that is made, renamed or deleted in some of them."""
    with ExitStack() as undone:
        for folder in _some(world):
            with suppress(FileNotFoundError):
                undone.enter_context(immutably(folder))
        yield


def _some(world: World) -> list[Path]:
    """Up to five, and often the log of bronze, to which each batch has to write."""
    folders = world.lake.folders()
    logs = [folder for folder in folders if folder.name == "_delta_log" and folder.parent.name == "changes"]
    drawn = world.rng.sample(folders, min(len(folders), 4))
    return [*{*drawn, *(logs if world.rng.random() < 0.7 else [])}]


@contextmanager
def immutably(folder: Path) -> Iterator[None]:
    """While nothing can be made in a folder, or removed from it; on file systems with this flag."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        before = struct.unpack("l", fcntl.ioctl(descriptor, _GET_FLAGS, struct.pack("l", 0)))[0]
        fcntl.ioctl(descriptor, _SET_FLAGS, struct.pack("l", before | _IMMUTABLE))
        try:
            yield
        finally:
            fcntl.ioctl(descriptor, _SET_FLAGS, struct.pack("l", before))
    finally:
        os.close(descriptor)


KINDS: tuple[Kind, ...] = (full, read_only, immutable)
