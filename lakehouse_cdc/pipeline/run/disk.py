"""Whether the folders of a pipeline take what is written to them; asked of the disk where something failed.

A disk that is full, read only or not this user's fails a run in many ways: Spark says it in one exception, Delta in
another, a task in a third, and none of them has a code for it, only the system's words. So the words are not read. What
failed for a reason that nobody knows makes the run write a little to its folders, and what the system answers then is
the reason. A disk that has room again by then leaves the failure as it was, but for those of Python's own writes, which
have the system's number (see `lake.spark_errors`).
Tests: tests/pipeline/test_disk.py (real disks, full and read only).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.files.folder import refusal
from lakehouse_cdc.lake.spark_errors import as_cdc_error

_UNKNOWN = frozenset({codes.SPARK_FAILED, codes.DELTA_FAILED})


@contextmanager
def disks_asked(folders: Callable[[], Iterable[Path]]) -> Iterator[None]:
    """Around a run's streams. Raises TransientError in place of an unknown failure, where a disk refuses to be written.

    `folders` are those that the run writes to.
    """
    try:
        yield
    except Exception as failure:
        if as_cdc_error(failure).code in _UNKNOWN and (refusals := list(filter(None, map(refusal, folders())))):
            raise codes.DISK_REFUSES.error(refusals[0]) from failure
        raise
