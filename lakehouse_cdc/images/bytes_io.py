"""Bytes and numbers: what all kernels read and write with.

Inside the kernels arrays travel as bare pointers: numba counts references to arrays at every call, which costs more
than the work on a value. The caller of a kernel holds the arrays; every position is proven inside before it is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from lakehouse_cdc.images.compiled import inlined, part

Bytes = npt.NDArray[np.uint8]
Step = npt.NDArray[np.int64]  # one row of `Program.steps`
Matrix = npt.NDArray[np.int64]
FEW, SPARE = 16, 64  # bytes that `copy` writes from `to` on, whatever the size: at most SPARE


def _make_pointer(typing: Any, array: Any) -> Any:
    """The address of an array's first element, to be indexed like the array."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, values[0]).data

    return types.CPointer(array.dtype)(array), generate  # type: ignore[no-untyped-call]


def _make_at_offset(typing: Any, start: Any, count: Any) -> Any:
    """The address `count` elements after another."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.gep(values[0], [values[1]])

    return start(start, types.int64), generate


def _make_memcpy(typing: Any, target: Any, source: Any, size: Any) -> Any:
    """C's memcpy: a loop would be unrolled at every place that it is inlined to, which takes the compiler long."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        cgutils.raw_memcpy(builder, values[0], values[1], values[2], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.none(target, source, types.int64), generate


def _make_load(typing: Any, start: Any, at: Any) -> Any:
    """8 bytes from anywhere as a number; the processors that this runs on are little-endian, too."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.load(_place(context, builder, values, types.int64), align=1)

    return types.int64(start, types.int64), generate


def _make_store(kind: Any) -> Any:
    """The low bytes of a number to anywhere: as many as the type has."""

    def make(typing: Any, start: Any, to: Any, number: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            low = context.cast(builder, values[2], types.int64, kind)
            builder.store(low, _place(context, builder, values, kind), align=1)
            return context.get_dummy_value()

        return types.none(start, types.int64, types.int64), generate

    return make


def _make_copy(size: int) -> Any:
    """So many bytes, all read before one is written; memcpy would be a call again, of one size or another."""

    def make(typing: Any, target: Any, source: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            count = context.get_value_type(types.int64)
            to, at = (builder.bitcast(value, count.as_pointer()) for value in values)
            read = [builder.load(builder.gep(at, [count(i)]), align=1) for i in range(size // 8)]
            for i, word in enumerate(read):
                builder.store(word, builder.gep(to, [count(i)]), align=1)
            return context.get_dummy_value()

        return types.none(target, source), generate

    return make


def _place(context: Any, builder: Any, values: Any, kind: Any) -> Any:
    return builder.bitcast(builder.gep(values[0], [values[1]]), context.get_value_type(kind).as_pointer())


# numba's decorator has types that callers inside kernels do not fit
pointer: Any = intrinsic(_make_pointer)
at_offset: Any = intrinsic(_make_at_offset)
load8: Any = intrinsic(_make_load)
store4: Any = intrinsic(_make_store(types.int32))
store8: Any = intrinsic(_make_store(types.int64))
_memcpy: Any = intrinsic(_make_memcpy)
_copy_few: Any = intrinsic(_make_copy(FEW))
_copy_more: Any = intrinsic(_make_copy(SPARE))


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
