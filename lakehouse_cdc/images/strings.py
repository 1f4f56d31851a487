"""Strings in VARIANT: short ones have one byte in front, long ones five; which it is shows when one is written."""

from __future__ import annotations

from lakehouse_cdc.images.bytes_io import Bytes, Step, put
from lakehouse_cdc.images.compiled import part
from lakehouse_cdc.images.opcodes import HEADER
from lakehouse_cdc.model.variant import MAX_SHORT_STRING, SHORT_STRING

LONG_HEADER = 5  # bytes before a long string: its type and its length


@part
def text_header(size: int, step: Step, out: Bytes, to: int) -> int:
    """The header of a string of that size; the position after it."""
    if size <= MAX_SHORT_STRING:
        out[to] = size << 2 | SHORT_STRING
        return to + 1
    out[to] = step[HEADER]
    return put(out, to + 1, size, 4)


@part
def headed(step: Step, out: Bytes, to: int, end: int) -> int:
    """Put the header before the text in out[to + LONG_HEADER:end], which moves down if the header is short."""
    size = end - to - LONG_HEADER
    begin = text_header(size, step, out, to)
    if begin < to + LONG_HEADER:
        for i in range(size):
            out[begin + i] = out[to + LONG_HEADER + i]
    return begin + size
