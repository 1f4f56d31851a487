"""Text of every character set to UTF-8, and labels by their number.

Both wires deliver text in the column's own character set, so one reading of its bytes gives one value. Bytes that
stand for no character become `?`, as when the server converts them.
"""

from __future__ import annotations

import numpy as np

from lakehouse_cdc.mysql.kernels.codepages import ENTRY, FIRST_SUPPLEMENTARY, FOURS, PAIRS, SINGLES
from lakehouse_cdc.mysql.kernels.compiled import inlined, part
from lakehouse_cdc.mysql.kernels.json_text import write_json
from lakehouse_cdc.mysql.kernels.octets import Bytes, Step, behind, big, copy, little, move
from lakehouse_cdc.mysql.kernels.ops import (
    ARG,
    ARG2,
    ENUM,
    GB18030,
    MULTI3,
    OP,
    SINGLE,
    UTF16,
    UTF16LE,
    UTF32,
)
from lakehouse_cdc.mysql.kernels.status import BAD_NUMBER
from lakehouse_cdc.mysql.kernels.strings import LONG_HEADER, headed, text_header

_QUESTION = 0x3F
_REST = 0x10FFFF - 0xFFFF  # characters from U+10000 on


@inlined
def write_unicode(buf: Bytes, at: int, size: int, limit: int, step: Step, out: Bytes, to: int) -> int:
    """Text that is UTF-8; CHAR (ARG) without its trailing spaces."""
    if step[ARG]:
        while size > 0 and buf[at + size - 1] == 0x20:
            size -= 1
    return copy(buf, at, size, limit, out, text_header(size, step, out, to))


@part
def write_text(buf: Bytes, at: int, size: int, step: Step, pool: Bytes, out: Bytes, to: int) -> int:
    """Text in the step's character set; CHAR (ARG) without its trailing spaces."""
    op = step[OP]
    begin = to + LONG_HEADER
    if op in (UTF16, UTF16LE):
        end = _utf16(buf, at, size, op == UTF16LE, out, begin)
    elif op == UTF32:
        end = _utf32(buf, at, size, out, begin)
    elif op == SINGLE:
        end = _single(buf, at, size, behind_page(pool, step), out, begin)
    else:
        end = _multi(buf, at, size, behind_page(pool, step), op, out, begin)
    while step[ARG] and end > begin and out[end - 1] == 0x20:
        end -= 1
    return headed(step, out, to, end)


@part
def write_label(buf: Bytes, at: int, size: int, step: Step, pool: Bytes, out: Bytes, to: int) -> int:
    """The label of an ENUM's number, or those of a SET's bits with commas between."""
    labels = behind_page(pool, step)
    count = little(labels, 0, 4)
    begin = end = to + LONG_HEADER
    if step[OP] == ENUM:
        number = little(buf, at, size)
        if number > count:
            return -BAD_NUMBER
        if number > 0:  # 0 stands for a value that was refused, and is the empty text
            end = _label(labels, count, number - 1, out, begin)
        return headed(step, out, to, end)
    for bit in range(8 * size):
        if buf[at + (bit >> 3)] >> (bit & 7) & 1:
            if bit >= count:
                return -BAD_NUMBER
            if end > begin:
                out[end] = 0x2C
                end += 1
            end = _label(labels, count, bit, out, end)
    return headed(step, out, to, end)


@part
def write_document(buf: Bytes, at: int, size: int, step: Step, out: Bytes, to: int) -> int:
    """Binary JSON as the text that the server prints; ARG: one that prints whole doubles without a fraction."""
    end = write_json(buf, at, size, step[ARG], out, to + LONG_HEADER)
    return end if end < 0 else headed(step, out, to, end)


@part
def behind_page(pool: Bytes, step: Step) -> Bytes:
    """Where the step's page begins."""
    found: Bytes = behind(pool, step[ARG2])
    return found


@part
def _label(labels: Bytes, count: int, label: int, out: Bytes, to: int) -> int:
    first, last = little(labels, 4 + 4 * label, 4), little(labels, 8 + 4 * label, 4)
    return move(labels, 8 + 4 * count + first, last - first, out, to)


@part
def _entry(page: Bytes, at: int, out: Bytes, to: int) -> int:
    """The character at that entry of the page, or `?`."""
    size: int = page[at]
    if size == 0:
        out[to] = _QUESTION
        return to + 1
    for i in range(size):
        out[to + i] = page[at + 1 + i]
    return to + size


@part
def _single(buf: Bytes, at: int, size: int, page: Bytes, out: Bytes, to: int) -> int:
    for i in range(at, at + size):
        to = _entry(page, np.int64(buf[i]) * ENTRY, out, to)
    return to


@part
def _multi(buf: Bytes, at: int, size: int, page: Bytes, op: int, out: Bytes, to: int) -> int:
    end = at + size
    while at < end:
        lead = np.int64(buf[at])
        if page[lead * ENTRY] or at + 1 == end:
            to = _entry(page, lead * ENTRY, out, to)
            at += 1
        elif op == GB18030 and at + 3 < end and 0x30 <= buf[at + 1] <= 0x39:
            to = _four(buf, at, page, out, to)
            at += 4
        elif op == MULTI3 and lead == 0x8F and at + 2 < end:
            pair = (np.int64(buf[at + 1]) & 0x7F) << 8 | np.int64(buf[at + 2])
            to = _entry(page, SINGLES + PAIRS + pair * ENTRY, out, to)
            at += 3
        else:
            pair = (lead & 0x7F) << 8 | np.int64(buf[at + 1])
            to = _entry(page, SINGLES + pair * ENTRY, out, to)
            at += 2
    return to


@part
def _four(buf: Bytes, at: int, page: Bytes, out: Bytes, to: int) -> int:
    rank = (np.int64(buf[at]) - 0x81) * 10 + np.int64(buf[at + 1]) - 0x30
    rank = (rank * 126 + np.int64(buf[at + 2]) - 0x81) * 10 + np.int64(buf[at + 3]) - 0x30
    if 0 <= rank < FOURS:
        return _entry(page, SINGLES + PAIRS + rank * ENTRY, out, to)
    if FIRST_SUPPLEMENTARY <= rank < FIRST_SUPPLEMENTARY + _REST:
        return _utf8(rank - FIRST_SUPPLEMENTARY + 0x10000, out, to)
    out[to] = _QUESTION
    return to + 1


@part
def _utf16(buf: Bytes, at: int, size: int, reverse: bool, out: Bytes, to: int) -> int:
    end = at + size - 1
    while at < end:
        code = little(buf, at, 2) if reverse else big(buf, at, 2)
        at += 2
        if 0xD800 <= code < 0xDC00 and at < end:
            low = little(buf, at, 2) if reverse else big(buf, at, 2)
            if 0xDC00 <= low < 0xE000:
                code = 0x10000 + ((code - 0xD800) << 10) + low - 0xDC00
                at += 2
        to = _utf8(code, out, to)
    return to


@part
def _utf32(buf: Bytes, at: int, size: int, out: Bytes, to: int) -> int:
    for i in range(at, at + size - 3, 4):
        to = _utf8(big(buf, i, 4), out, to)
    return to


@part
def _utf8(code: int, out: Bytes, to: int) -> int:
    """One character; a surrogate that stands alone is none."""
    if code < 0x80 or code > 0x10FFFF or 0xD800 <= code < 0xE000:
        out[to] = code if code < 0x80 else _QUESTION
        return to + 1
    more = 1 if code < 0x800 else 2 if code < 0x10000 else 3
    lead = 0xC0 if more == 1 else 0xE0 if more == 2 else 0xF0
    out[to] = lead | code >> 6 * more
    for i in range(more):
        out[to + 1 + i] = 0x80 | (code >> 6 * (more - 1 - i) & 0x3F)
    return to + 1 + more
