"""`compiled`, `part`, `inlined`: how functions become kernels, by code that was built ahead or by numba.

**What is built ahead** (`images.ahead`) is used where it is of exactly these sources. Then nothing here imports numba,
which alone takes most of a second. Everywhere else numba compiles a kernel at its first call, as it would without
`images.ahead`; the two are made of the same functions, so which of them runs is a matter of time alone.

**numba's cache cannot be stale.** numba files compiled code under the stamp of one source file, but compiles the
functions and constants of other files into it: a kernel whose callee changed elsewhere would be loaded as it was. It
also reuses the names of data files, so that for a moment a new index leads to an old file. Here the name of every cache
file holds a digest of all files that kernels are made of: a change in any of them compiles again, beside the old, and a
cache that was built on one machine serves another (NUMBA_CACHE_DIR). Where no directory can be written the kernels are
compiled in each process.

Guards: tests/images/ahead, and `test_a_cold_process_compiles_once`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from importlib import import_module
from typing import Any, TypeVar

from lakehouse_cdc.images.ahead.library import kernel_ahead
from lakehouse_cdc.images.digest import DIGEST

F = TypeVar("F", bound=Callable[..., Any])
_OPTIONS = {"nogil": True, "error_model": "numpy"}


class Part:
    """A function that only kernels call: compiled into them, without what calls from Python need.

    To numba it is its dispatcher, which is made when a kernel that calls it is compiled.
    """

    def __init__(self, function: Callable[..., Any], **options: str) -> None:
        self.__doc__, self.__module__ = function.__doc__, function.__module__
        self.py_func = function  # these two are what numba looks for where it inlines
        self.targetoptions = options

    def __reduce__(self) -> str:
        return str(self.py_func.__name__)  # what a process is sent is the name, as of any function of a module

    @cached_property
    def dispatcher(self) -> Any:
        """numba's, for its use inside of kernels."""
        options = {**_OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, **self.targetoptions}
        return _numba().njit(**options)(self.py_func)


class Kernel(Part):
    """A kernel that Python calls, without the GIL. It is made ready at its first call."""

    @cached_property
    def run(self) -> Callable[..., Any]:
        """What a call runs: code that was built ahead, or numba's dispatcher with its file cache."""
        return kernel_ahead(f"{self.py_func.__module__}.{self.py_func.__name__}") or self.by_numba

    @cached_property
    def by_numba(self) -> Any:
        """numba's, for calls from Python."""
        numba = _numba()
        try:
            kernel = numba.njit(cache=True, **_OPTIONS)(self.py_func)
        except RuntimeError:  # numba found no directory to write its cache to
            return numba.njit(**_OPTIONS)(self.py_func)
        cached = kernel._cache
        name = f"{cached._impl.filename_base}-{DIGEST}"
        files = import_module("numba.core.caching").IndexDataCacheFile
        cached._cache_file = files(cached.cache_path, name, DIGEST)
        return kernel

    def __call__(self, *arguments: Any) -> Any:
        return self.run(*arguments)


class Intrinsic:
    """The name of an intrinsic of `images.intrinsics`, which numba alone can read."""

    def __init__(self, name: str) -> None:
        self.name = name


def compiled(function: F) -> F:
    """A kernel that Python calls. Its annotations say of which types; see `images.build`."""
    kernel: Any = Kernel(function)
    result: F = kernel
    return result


def part(function: F) -> F:
    """A function that only kernels call."""
    inner: Any = Part(function)
    result: F = inner
    return result


def inlined(function: F) -> F:
    """A part that is written into its callers: for what most values take, where a call costs more than the work."""
    inner: Any = Part(function, inline="always")
    result: F = inner
    return result


@cache
def _numba() -> Any:
    """numba, which from then on knows what the objects of this module are."""
    import numba
    from numba.core import types
    from numba.core.registry import cpu_target
    from numba.extending import typeof_impl

    from lakehouse_cdc.images import intrinsics

    @typeof_impl.register(Part)
    def type_of_part(one: Part, context: Any) -> Any:
        return types.Dispatcher(one.dispatcher)

    @typeof_impl.register(Intrinsic)
    def type_of_intrinsic(named: Intrinsic, context: Any) -> Any:
        return cpu_target.typing_context.resolve_value_type(getattr(intrinsics, named.name))

    return numba
