"""The cache directory: what was fetched once and is never changed again.

A name in the cache is either absent or complete: `publish` builds the content beside its final place and renames it
there, which is atomic on one file system, and `locked` lets one process at a time build, so that others wait and then
find it. The whole directory may be deleted at any time when nothing runs from it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lakehouse_cdc.errors import DefiniteError, codes

ENVIRONMENT = "LAKEHOUSE_CDC_CACHE"


def cache_directory() -> Path:
    """The cache: `$LAKEHOUSE_CDC_CACHE`, else `~/.cache/lakehouse-cdc`; made if it is absent.

    Raises DefiniteError where it cannot be written.
    """
    given = os.environ.get(ENVIRONMENT)
    where = Path(given or "~/.cache/lakehouse-cdc").expanduser().absolute()
    try:
        where.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(where, error.strerror) from error
    if not os.access(where, os.W_OK | os.X_OK):
        raise _unusable(where, "permission denied")
    return where


def _unusable(where: Path, why: str | None) -> DefiniteError:
    return codes.CACHE_UNUSABLE.error(
        f"the cache directory cannot be used: {why}",
        where=str(where),
        hint=f"set the environment variable {ENVIRONMENT} to a directory that you may write to",
    )


@contextmanager
def locked(lock: Path) -> Iterator[None]:
    """Hold a lock file, across threads and processes; the system frees it when a holder dies.

    Windows has no flock: there two processes may build the same content, and `publish` keeps the first.
    """
    with open(lock, "a") as handle:
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def publish(target: Path, build: Callable[[Path], None]) -> Path:
    """Make `target` (a file or a directory) by `build(beside)` and a rename; one that exists is left as it is."""
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        build(scratch / target.name)
        try:
            os.rename(scratch / target.name, target)
        except OSError:
            if not target.exists():  # else another process was first, with the same content
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target
