"""Bytes and numbers: what all kernels read and write with.

Inside the kernels arrays travel as bare pointers: numba counts references to arrays at every call, which costs more
than the work on a value. The caller of a kernel holds the arrays; every position is proven inside before it is used.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from lakehouse_cdc.images.compiled import Intrinsic, inlined, part
from lakehouse_cdc.images.sizes import FEW as FEW
from lakehouse_cdc.images.sizes import SPARE as SPARE

Bytes = npt.NDArray[np.uint8]
Step = npt.NDArray[np.int64]  # one row of `Program.steps`
Matrix = Annotated[npt.NDArray[np.int64], 2]  # of two dimensions
ByteMatrix = Annotated[npt.NDArray[np.uint8], 2]

pointer: Any = Intrinsic("pointer")
at_offset: Any = Intrinsic("at_offset")
load8: Any = Intrinsic("load8")
store4: Any = Intrinsic("store4")
store8: Any = Intrinsic("store8")
stack_words: Any = Intrinsic("stack_words")
_memcpy: Any = Intrinsic("memcpy")
_copy_few: Any = Intrinsic("copy_few")
_copy_more: Any = Intrinsic("copy_more")


@part
def little(buf: Bytes, at: int, size: int) -> int:
    """An unsigned little-endian number of up to 7 bytes."""
    number = 0
    for i in range(size - 1, -1, -1):  # upwards, compilers make much of it for sizes that never come
        number = number << 8 | np.int64(buf[at + i])
    return number


@part
def big(buf: Bytes, at: int, size: int) -> int:
    """An unsigned big-endian number of up to 7 bytes."""
    number = 0
    for i in range(size):
        number = number << 8 | np.int64(buf[at + i])
    return number


@part
def put(out: Bytes, to: int, number: int, size: int) -> int:
    """`number` little-endian in `size` bytes, two's complement; returns the position after it."""
    for i in range(size):
        out[to + i] = (number >> (8 * i)) & 0xFF
    return to + size


@part
def decimal(number: int, digits: int, out: Bytes, to: int) -> int:
    """That many last digits of a number, as text; returns the position after."""
    for i in range(digits - 1, -1, -1):
        out[to + i] = 0x30 + number % 10
        number //= 10
    return to + digits


@part
def move(buf: Bytes, at: int, size: int, out: Bytes, to: int) -> int:
    """Copy; the two do not overlap. Returns the position after."""
    _memcpy(at_offset(out, to), at_offset(buf, at), size)
    return to + size


@inlined
def copy(buf: Bytes, at: int, size: int, limit: int, out: Bytes, to: int) -> int:
    """As `move`, but by fewer steps for a short value: more bytes than `size` are read, all of them before `limit`, and
    are written, all before to + SPARE, which is room that the next value overwrites."""
    if size <= FEW and at + FEW <= limit:
        _copy_few(at_offset(out, to), at_offset(buf, at))
    elif size <= SPARE and at + SPARE <= limit:
        _copy_more(at_offset(out, to), at_offset(buf, at))
    else:
        _memcpy(at_offset(out, to), at_offset(buf, at), size)
    return to + size
