"""Files that cannot be written, as errors of ours: by the system's number, which only Python's own writes have.

Tests: tests/pipeline/test_disk.py (real disks, full and read only).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.file_systems import asking
from lakehouse_cdc.model.place import is_url

_OF_DISK = {errno.ENOSPC, errno.EROFS, errno.EDQUOT}


def refused_by_disk(error: OSError) -> str:
    """Why a disk refused what it may take later, full or read only, in the system's words; "" for any other error."""
    return "" if error.errno is None or error.errno not in _OF_DISK else os.strerror(error.errno)


@contextmanager
def on_disk(folder: str | Path) -> Iterator[None]:
    """While files below a folder are written. Raises TransientError where the disk is full or read only."""
    try:
        yield
    except OSError as error:
        if why := refused_by_disk(error):
            raise codes.DISK_REFUSES.error(f"cannot write to {folder}: {why}") from error
        raise


def writing_to(location: str) -> AbstractContextManager[None]:
    """While files below a folder, or a URL, are written. Raises TransientError as `on_disk` and `asking` do."""
    return asking(location) if is_url(location) else on_disk(location)


@contextmanager
def writable(folder: str | Path) -> Iterator[None]:
    """While files of a pipeline's own folder are written.

    Raises TransientError as `on_disk` does, and ConfigError where the folder cannot be written for another reason, such
    as the rights of this user.
    """
    try:
        with on_disk(folder):
            yield
    except OSError as error:
        raise codes.TARGET_UNWRITABLE.error(f"cannot write to {folder}: {error.strerror}") from error
