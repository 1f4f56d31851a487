"""The compiled kernels of a machine: made once, by one process, for which the others wait.

Two processes load them as a session starts: the host of the planners, and the one that Spark copies its workers from.
Where none are there yet, each would make them all, on cores that both need: that takes a second of those that were
built ahead, and about a minute where numba has to compile them (see `images.ahead.library`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lakehouse_cdc.images.ahead.library import usable
from lakehouse_cdc.images.digest import DIGEST
from lakehouse_cdc.runtime.cache import locked


def load() -> None:
    """Have all kernels in this process: from the cache, or compiled into it, where no other process does that now."""
    from lakehouse_cdc.images.warm import warm_up

    with _alone():
        warm_up()


def take_long(cache: Path) -> bool:
    """Whether `load` has all kernels compiled by numba, with that folder as its cache."""
    return usable() is None and not _mark(cache).exists()


def _mark(cache: Path) -> Path:
    return cache / f"all-{DIGEST}-{sys.implementation.cache_tag}"


@contextmanager
def _alone() -> Iterator[None]:
    """Without a cache of this machine, or with kernels that are there, nobody need wait."""
    cache = Path(os.environ.get("NUMBA_CACHE_DIR", ""))
    place = cache if cache.exists() else cache.parent
    if not cache.is_absolute() or _mark(cache).exists() or not os.access(place, os.W_OK):
        yield
        return
    cache.mkdir(exist_ok=True)
    with locked(_mark(cache).with_suffix(".lock")):
        yield
        _mark(cache).touch()
