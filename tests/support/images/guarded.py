"""Arrays that end where the memory ends: one byte read or written behind them kills the process."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

_LIBC = ctypes.CDLL(None, use_errno=True)


def guarded(length: int, dtype: Any = np.uint8) -> Any:
    """An array of `length` elements whose last byte is the last before a page that cannot be touched."""
    size = length * np.dtype(dtype).itemsize
    pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, pages + mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if _LIBC.mprotect(ctypes.c_void_p(address + pages), ctypes.c_size_t(mmap.PAGESIZE), 0):
        raise OSError(ctypes.get_errno(), "mprotect")
    return np.frombuffer(memory, dtype=dtype, count=length, offset=pages - size)


def guarded_copy(array: Any, length: int | None = None) -> Any:
    """A guarded array that begins with `array`."""
    out = guarded(len(array) if length is None else length, array.dtype)
    out[: len(array)] = array[: len(out)]
    return out
