"""Text of every character set to UTF-8, and labels by their number.

Both wires deliver text in the column's own character set, so one reading of its bytes gives one value. Bytes that
stand for no character become `?`, as when the server converts them. So do bytes that are no UTF-8 in columns of it:
MySQL 5.7 and MariaDB store surrogates there, of which each becomes one `?`, and any byte in columns of ascii.
"""

from __future__ import annotations

import numpy as np

from lakehouse_cdc.images.bytes_io import Bytes, Step, at_offset, big, copy, little, load8, move
from lakehouse_cdc.images.compiled import inlined, part
from lakehouse_cdc.images.opcodes import (
    ARG,
    ARG2,
    ASCII_ALONE,
    ENUM,
    GB18030,
    MULTI3,
    OP,
    REFUSED,
    SINGLE,
    UTF16,
    UTF16LE,
    UTF32,
)
from lakehouse_cdc.images.status import BAD_LABEL, BAD_NUMBER
from lakehouse_cdc.images.strings import LONG_HEADER, headed, text_header
from lakehouse_cdc.images.text.codepages import ENTRY, FIRST_SUPPLEMENTARY, FOURS, PAIRS, SINGLES
from lakehouse_cdc.images.text.json_text import write_json

_QUESTION = 0x3F
_HIGH_BITS = np.int64(-0x7F7F7F7F7F7F7F80)  # the highest bit of each of 8 bytes
_REST = 0x10FFFF - 0xFFFF  # characters from U+10000 on


@inlined
def write_unicode(buf: Bytes, at: int, size: int, limit: int, step: Step, out: Bytes, to: int) -> int:
    """Text that is UTF-8; CHAR (ARG) without its trailing spaces."""
    if step[ARG]:
        while size > 0 and buf[at + size - 1] == 0x20:
            size -= 1
    if not _is_ascii(buf, at, size):
        return _characters(buf, at, size, limit, step, out, to)
    return copy(buf, at, size, limit, out, text_header(size, step, out, to))


@part
def _is_ascii(buf: Bytes, at: int, size: int) -> bool:
    bits = np.int64(0)
    if size < 8:
        for i in range(size):
            bits |= np.int64(buf[at + i])
        return bool(bits & 0x80 == 0)
    for i in range(0, size - 8, 8):
        bits |= load8(buf, at + i)
    return bool((bits | load8(buf, at + size - 8)) & _HIGH_BITS == 0)


@part
def _characters(buf: Bytes, at: int, size: int, limit: int, step: Step, out: Bytes, to: int) -> int:
    """Text of which some is not ASCII."""
    ascii_alone, i = step[ARG2] == ASCII_ALONE, 0
    while i < size and not ascii_alone:
        count = _sequence(buf, at + i, at + size)
        if count == 0:
            break
        i += count
    if i == size:
        return copy(buf, at, size, limit, out, text_header(size, step, out, to))
    if step[ARG2] == REFUSED:
        return -BAD_LABEL
    begin = to + LONG_HEADER
    move(buf, at, size, out, begin)
    return headed(step, out, to, _well_formed(out, begin, begin + size, ascii_alone))


@part
def _well_formed(out: Bytes, at: int, end: int, ascii_alone: bool) -> int:
    """Make out[at:end] well-formed in its place; where it ends then."""
    to = at
    while at < end:
        count = (1 if out[at] < 0x80 else 0) if ascii_alone else _sequence(out, at, end)
        if count == 0:
            surrogate = out[at] == 0xED and at + 3 <= end and out[at + 1] >= 0xA0 and out[at + 2] & 0xC0 == 0x80
            out[to] = _QUESTION
            to += 1
            at += 3 if surrogate and not ascii_alone else 1
            continue
        for i in range(count):
            out[to + i] = out[at + i]
        to += count
        at += count
    return to


@part
def _sequence(buf: Bytes, at: int, end: int) -> int:
    """The bytes of the character that begins at `at`; 0 where none does (The Unicode Standard, table 3-7)."""
    lead = np.int64(buf[at])
    if lead < 0x80:
        return 1
    size = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    if lead < 0xC2 or lead > 0xF4 or at + size > end:
        return 0
    second = np.int64(buf[at + 1])
    least = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
    most = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF
    if second < least or second > most:
        return 0
    for i in range(2, size):
        if buf[at + i] & 0xC0 != 0x80:
            return 0
    return size


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
        end = _single(buf, at, size, masked_page(pool, step), out, begin)
    else:
        end = _multi(buf, at, size, masked_page(pool, step), op, out, begin)
    while step[ARG] and end > begin and out[end - 1] == 0x20:
        end -= 1
    return headed(step, out, to, end)


@part
def write_label(buf: Bytes, at: int, size: int, step: Step, pool: Bytes, out: Bytes, to: int) -> int:
    """The label of an ENUM's number, or those of a SET's bits with commas between."""
    labels = masked_page(pool, step)
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
    begin = to + LONG_HEADER
    end = write_json(buf, at, size, step[ARG], out, begin)
    if end < 0:
        return end
    if not _is_ascii(out, begin, end - begin):
        end = _well_formed(out, begin, end, False)
    return headed(step, out, to, end)


@part
def masked_page(pool: Bytes, step: Step) -> Bytes:
    """Where the step's page begins."""
    page: Bytes = at_offset(pool, step[ARG2])
    return page


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
    """One character; a surrogate alone is none."""
    if code < 0x80 or code > 0x10FFFF or 0xD800 <= code < 0xE000:
        out[to] = code if code < 0x80 else _QUESTION
        return to + 1
    more = 1 if code < 0x800 else 2 if code < 0x10000 else 3
    lead = 0xC0 if more == 1 else 0xE0 if more == 2 else 0xF0
    out[to] = lead | code >> 6 * more
    for i in range(more):
        out[to + 1 + i] = 0x80 | (code >> 6 * (more - 1 - i) & 0x3F)
    return to + 1 + more
