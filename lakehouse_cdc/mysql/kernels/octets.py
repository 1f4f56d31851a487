"""Bytes and numbers: what all kernels read and write with.

Inside the kernels arrays travel as bare pointers: numba counts references to arrays at every call, which costs more
than the work on a value. Whoever calls a kernel holds the arrays; every position is proven inside before it is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from lakehouse_cdc.mysql.kernels.compiled import part

Bytes = npt.NDArray[np.uint8]
Step = npt.NDArray[np.int64]  # one row of `Program.steps`
Matrix = npt.NDArray[np.int64]


def _make_pointer(typing: Any, array: Any) -> Any:
    """The address of an array's first element, to be indexed like the array."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, values[0]).data

    return types.CPointer(array.dtype)(array), generate  # type: ignore[no-untyped-call]


def _make_behind(typing: Any, start: Any, count: Any) -> Any:
    """The address `count` elements behind another."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.gep(values[0], [values[1]])

    return start(start, types.int64), generate


def _make_memcpy(typing: Any, target: Any, source: Any, size: Any) -> Any:
    """C's memcpy: a loop would be unrolled at every place that it is inlined to, which takes the compiler long."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        cgutils.raw_memcpy(builder, values[0], values[1], values[2], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.none(target, source, types.int64), generate


# numba's decorator has types that callers inside kernels do not fit
pointer: Any = intrinsic(_make_pointer)
behind: Any = intrinsic(_make_behind)
_memcpy: Any = intrinsic(_make_memcpy)


@part
def little(buf: Bytes, at: int, size: int) -> int:
    """An unsigned little-endian number of up to 7 bytes."""
    number = 0
    for i in range(size):
        number |= np.int64(buf[at + i]) << (8 * i)
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
    """`number` little-endian in `size` bytes, two's complement; returns the position behind it."""
    for i in range(size):
        out[to + i] = (number >> (8 * i)) & 0xFF
    return to + size


@part
def decimal(number: int, digits: int, out: Bytes, to: int) -> int:
    """That many last digits of a number, as text; returns the position behind."""
    for i in range(digits - 1, -1, -1):
        out[to + i] = 0x30 + number % 10
        number //= 10
    return to + digits


@part
def move(buf: Bytes, at: int, size: int, out: Bytes, to: int) -> int:
    """Copy; the two do not overlap. Returns the position behind."""
    _memcpy(behind(out, to), behind(buf, at), size)
    return to + size
