"""What kernels do that Python has no word for, as numba's intrinsics; `bytes_io` has their names (see `compiled`)."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from lakehouse_cdc.images.sizes import FEW, SPARE


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


def _make_stack_words(typing: Any, words: Any) -> Any:
    """Room for so many numbers, which is a constant, on the stack of the function that asks for it."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        number = context.get_value_type(types.int64)
        return cgutils.alloca_once(builder, number, words.literal_value)  # type: ignore[no-untyped-call]

    return types.CPointer(types.int64)(words), generate  # type: ignore[no-untyped-call]


def _place(context: Any, builder: Any, values: Any, kind: Any) -> Any:
    return builder.bitcast(builder.gep(values[0], [values[1]]), context.get_value_type(kind).as_pointer())


pointer = intrinsic(_make_pointer)
at_offset = intrinsic(_make_at_offset)
load8 = intrinsic(_make_load)
store4 = intrinsic(_make_store(types.int32))
store8 = intrinsic(_make_store(types.int64))
memcpy = intrinsic(_make_memcpy)
copy_few = intrinsic(_make_copy(FEW))
copy_more = intrinsic(_make_copy(SPARE))
stack_words = intrinsic(prefer_literal=True)(_make_stack_words)
