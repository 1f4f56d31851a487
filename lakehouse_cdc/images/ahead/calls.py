"""A call of a kernel that was built ahead: all of its arguments as one array of 64-bit words, its results in the same.

An array is its address and its length in each dimension; it must be of the declared type, in one piece, in the order of
C. A named tuple is its fields, one after another. Numbers and truths are a word each, and so are the results, which
overwrite the first words. `images.build` compiles the other side of this. The kernel itself has numba's own convention:
where its result and its exception would be put, then its arguments; 0 if it raised nothing, which kernels never do.

The caller's arguments hold the arrays while the kernel runs, without the GIL.

Guards: tests/images/ahead/test_calls.py.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse_cdc.errors import codes

NUMBER = "number"
_PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_FRONT = (0, 0)  # words for the result and the exception
_WORD = 8
_END = "no more arguments"
_KINDS: dict[str, Callable[[int], Any]] = {"NoneType": lambda _: None, "bool": bool, "int": int}


def caller(address: int, arguments: Sequence[str], results: Sequence[str], single: bool) -> Callable[..., Any]:
    """A function that calls the kernel at `address`.

    `arguments`: of each array its type and dimensions, as in `uint8 1`, of all else NUMBER. `results`: NoneType, bool
    or int each; the function returns a tuple of them, or the only one if it is `single`. It raises TypeError for other
    arguments.
    """
    run = _PROTOTYPE(address)
    expected = [None if kind == NUMBER else (np.dtype(kind.split()[0]), int(kind.split()[1])) for kind in arguments]
    kinds = [_KINDS[name] for name in results]
    room = len(_FRONT) + len(kinds)

    def call(*values: Any) -> Any:
        words, leaves = array("q", _FRONT), iter(expected)
        _put(values, leaves, words)
        if next(leaves, _END) is not _END:
            raise TypeError("a kernel got too few arguments")
        words.extend([0] * (room - len(words)))
        base, _ = words.buffer_info()
        if run(base, base + _WORD, base + len(_FRONT) * _WORD):
            raise codes.INVARIANT_BROKEN.error("a kernel raised an exception")
        if single:
            return kinds[0](words[len(_FRONT)])
        return tuple(kind(word) for kind, word in zip(kinds, words[len(_FRONT) :], strict=False))

    return call


def _put(values: Iterable[Any], leaves: Iterator[Any], words: array[int]) -> None:
    for value in values:
        if isinstance(value, np.ndarray):
            kind = next(leaves, _END)
            if kind != (value.dtype, value.ndim) or not value.flags.c_contiguous:
                raise TypeError(f"a kernel got an array of {value.dtype}, {value.ndim} dimensions, where it has {kind}")
            words.append(pa.py_buffer(value).address)  # a seventh of the time that numpy takes to say it
            words.extend(value.shape)
        elif isinstance(value, tuple):
            _put(value, leaves, words)
        else:
            if (kind := next(leaves, _END)) is not None:
                raise TypeError(f"a kernel got a {type(value).__name__} where it has {kind}")
            words.append(value)
