"""What is prepared once on a machine, and takes long: a listener hears that it begins, how far it is, and its end.

The command line listens (`heard_by`). Without a listener nothing is said.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_listeners: list[tuple[Callable[[str], None], Callable[[str], None]]] = []
_PAUSE = 5.0  # seconds between two lines


@contextmanager
def heard_by(say: Callable[[str], None], passing: Callable[[str], None]) -> Iterator[None]:
    """Have both called with a line at a time, from any thread of this process, until the end of the block.

    `passing` gets what the next line replaces: how far something is, and "" when it has ended.
    """
    _listeners.append((say, passing))
    try:
        yield
    finally:
        _listeners.remove((say, passing))


def announce(line: str) -> None:
    """Say one line to the last listener."""
    if _listeners:
        say, _ = _listeners[-1]
        say(line)


def _announce_passing(line: str) -> None:
    if _listeners:
        _, passing = _listeners[-1]
        passing(line)


@contextmanager
def preparing(what: str, folder: Path) -> Iterator[None]:
    """Say `what` is fetched into `folder` by the block, and every few seconds how much of it is there."""
    announce(f"fetching {what}, once on this machine")
    began, done = time.monotonic(), threading.Event()

    def watch() -> None:
        while not done.wait(_PAUSE):
            _announce_passing(f"fetching {what}: {_size(folder) / 1e6:,.0f} MB after {time.monotonic() - began:.0f} s")

    watching = threading.Thread(target=watch, daemon=True) if _listeners else None
    if watching is not None:
        watching.start()
    try:
        yield
    finally:
        done.set()
        if watching is not None:
            watching.join()
            _announce_passing("")
    announce(f"fetched {what} in {time.monotonic() - began:.0f} s")


def _size(folder: Path) -> int:
    """Bytes of all files below; those that vanish meanwhile have none."""
    size = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += os.stat(os.path.join(where, name)).st_size
    return size
