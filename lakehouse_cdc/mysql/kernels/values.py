"""One value from the wire's bytes to VARIANT's bytes: the only place that knows how values are written.

Every function takes a position whose bytes the caller has proven to be inside the buffer, and an output with room for
the step's worst case, and returns the next output position, or minus a status. Source: MySQL's documentation of the
binary protocol's values ("Binary Protocol Value") and of its row events.
"""

from __future__ import annotations

import numpy as np

from lakehouse_cdc.model.variant import MAX_SHORT_STRING, SHORT_STRING
from lakehouse_cdc.mysql.kernels.compiled import part
from lakehouse_cdc.mysql.kernels.decimals import write_decimal
from lakehouse_cdc.mysql.kernels.octets import Bytes, Step, move, put
from lakehouse_cdc.mysql.kernels.program import (
    ARG,
    BINARY,
    DECIMAL_PACKED,
    DECIMAL_TEXT,
    HEADER,
    LATIN1,
    NUMBER,
    OP,
    TEXT,
    WIDE,
    WIDTH,
)
from lakehouse_cdc.mysql.kernels.times import write_time


def _latin1() -> Bytes:
    """MySQL's latin1 is cp1252, whose five holes are the control characters of the same number."""
    table = np.zeros((256, 4), dtype=np.uint8)
    for code in range(256):
        text = bytes([code]).decode("cp1252", "ignore") or chr(code)
        table[code, 0] = len(text.encode())
        table[code, 1 : 1 + len(text.encode())] = list(text.encode())
    return table


_LATIN1 = _latin1()


@part
def write_value(buf: Bytes, at: int, size: int, step: Step, out: Bytes, to: int) -> int:
    """The value of `size` bytes at `at`, as the step says."""
    op = step[OP]
    if op == NUMBER:
        return _number(buf, at, size, step, out, to)
    if op in (TEXT, LATIN1):
        if step[ARG]:
            while size > 0 and buf[at + size - 1] == 0x20:
                size -= 1
        return _text(buf, at, size, step, out, to) if op == TEXT else _latin1_text(buf, at, size, step, out, to)
    if op in (DECIMAL_PACKED, DECIMAL_TEXT):
        return write_decimal(buf, at, size, step, out, to)
    if op == BINARY:
        out[to] = step[HEADER]
        padded: int = max(size, step[WIDTH])
        to = put(out, to + 1, padded, 4)
        to = move(buf, at, size, out, to)
        for i in range(padded - size):
            out[to + i] = 0
        return to + padded - size
    if op == WIDE:
        out[to] = step[HEADER]
        out[to + 1] = 0
        move(buf, at, 8, out, to + 2)
        return put(out, to + 10, 0, 8)
    return write_time(buf, at, size, step, out, to)


@part
def _number(buf: Bytes, at: int, size: int, step: Step, out: Bytes, to: int) -> int:
    out[to] = step[HEADER]
    width: int = step[WIDTH]
    move(buf, at, size, out, to + 1)
    fill = 0xFF if step[ARG] and buf[at + size - 1] & 0x80 else 0
    for i in range(size, width):
        out[to + 1 + i] = fill
    return to + 1 + width


@part
def _text_header(size: int, step: Step, out: Bytes, to: int) -> int:
    if size <= MAX_SHORT_STRING:
        out[to] = size << 2 | SHORT_STRING
        return to + 1
    out[to] = step[HEADER]
    return put(out, to + 1, size, 4)


@part
def _text(buf: Bytes, at: int, size: int, step: Step, out: Bytes, to: int) -> int:
    return move(buf, at, size, out, _text_header(size, step, out, to))


@part
def _latin1_text(buf: Bytes, at: int, size: int, step: Step, out: Bytes, to: int) -> int:
    written = 0
    for i in range(size):
        written += _LATIN1[buf[at + i], 0]
    to = _text_header(written, step, out, to)
    for i in range(size):
        code = buf[at + i]
        for k in range(_LATIN1[code, 0]):
            out[to] = _LATIN1[code, 1 + k]
            to += 1
    return to
