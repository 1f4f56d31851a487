"""`compiled`: numba's njit for the kernels of this package, with a cache that cannot be stale.

numba files compiled code under the stamp of one source file, but compiles the functions and constants of other files
into it: a kernel whose callee changed elsewhere would be loaded as it was. It also reuses the names of data files, so
that for a moment a new index leads to an old file. Here the name of every cache file holds a digest of all files that
kernels are made of: a change in any of them compiles again, beside the old, and a cache that was built on one machine
serves another (NUMBA_CACHE_DIR). Where no directory can be written the kernels are compiled in each process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit
from numba.core.caching import IndexDataCacheFile

from lakehouse_cdc.images.digest import DIGEST

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """A kernel that Python calls: compiled at the first call, without the GIL, through numba's file cache."""
    try:
        kernel: Any = njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:  # numba found no directory to write its cache to
        kernel = njit(nogil=True, error_model="numpy")(function)
    else:
        cache = kernel._cache
        name = f"{cache._impl.filename_base}-{DIGEST}"
        cache._cache_file = IndexDataCacheFile(cache.cache_path, name, DIGEST)  # type: ignore[no-untyped-call]
    result: F = kernel
    return result


def part(function: F) -> F:
    """A function that only kernels call: compiled into them, without what calls from Python need."""
    return _part(function)


def inlined(function: F) -> F:
    """A part that is written into its callers: for what most values take, where a call costs more than the work."""
    return _part(function, inline="always")


def _part(function: F, **more: str) -> F:
    options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **more}
    inner: F = njit(nogil=True, error_model="numpy", **options)(function)
    return inner
