"""One process at a time, where only that keeps a local table whole.

On a local disk Delta commits a version by a rename that looks first whether the version is there. Within one process
these are in turn, between two they are not: of two commits at the same moment one could vanish. So while a pipeline's
streams run it holds a lock beside its checkpoints, which the system takes back however the process ends, and another
process that would write to its tables asks for it first. So it is for tables in the session's catalog, which may keep
them in a folder. In other catalogs commits are exclusive by themselves; in object stores they are, too, and a lease
beside the tables keeps other machines out (see `lease`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.refused_writes import writable


@dataclass
class _Lock:
    """One that this process holds; the last one that leaves releases it."""

    handle: BinaryIO
    holders: int = 1


_held: dict[Path, _Lock] = {}
_turn = threading.Lock()


@contextmanager
def exclusive(folder: Path, hint: str) -> Iterator[None]:
    """Hold the lock of a folder; this process may do so more than once.

    Raises DefiniteError while another process holds it, and what `writable` does where the folder cannot be written.
    Windows has no flock: there it is up to the user.
    """
    path = folder / "writing"
    with _turn:
        if path in _held:
            _held[path].holders += 1
        else:
            with writable(folder):
                folder.mkdir(parents=True, exist_ok=True)
                _held[path] = _Lock(_locked(path, hint))
    try:
        yield
    finally:
        with _turn:
            _held[path].holders -= 1
            if not _held[path].holders:
                _held.pop(path).handle.close()


def _locked(path: Path, hint: str) -> BinaryIO:
    handle = open(path, "ab")  # noqa: SIM115  closed by the last holder
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        pass
    except BlockingIOError as error:
        handle.close()
        raise codes.TABLES_LOCKED.error(
            "another process writes to these tables", where=str(path.parent), hint=hint
        ) from error
    return handle
