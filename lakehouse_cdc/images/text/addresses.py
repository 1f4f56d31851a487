"""MariaDB's UUID, INET4 and INET6 to text, as the server prints them; in the binlog they are binary strings.

The log leaves out trailing zero bytes, as it does for BINARY. An IPv6 address loses its first longest run of zero
words, also one of a single word, and one that holds an IPv4 address (in front of it zeros, or zeros and ffff) ends as
that. Source: MariaDB documentation, "INET6", "UUID"; compared with what 10.11 and 11.4 print.
"""

from __future__ import annotations

from lakehouse_cdc.images.bytes_io import Bytes, Step
from lakehouse_cdc.images.compiled import part
from lakehouse_cdc.images.opcodes import ARG
from lakehouse_cdc.images.status import BAD_NUMBER
from lakehouse_cdc.model.variant import SHORT_STRING

UUID, INET4, INET6 = 16, 4, 6  # a step's ARG
_DASHES = (4, 6, 8, 10)  # bytes of a UUID that none follows
_COLON, _DOT, _DASH = 0x3A, 0x2E, 0x2D


@part
def write_address(buf: Bytes, at: int, size: int, step: Step, out: Bytes, to: int) -> int:
    """At most 45 bytes of text, so that a string's short header always does."""
    kind = step[ARG]
    if size > (4 if kind == INET4 else 16):
        return -BAD_NUMBER
    if kind == UUID:
        end = _uuid(buf, at, size, out, to + 1)
    elif kind == INET4:
        end = _inet4(buf, at, 0, size, out, to + 1)
    else:
        end = _inet6(buf, at, size, out, to + 1)
    out[to] = (end - to - 1) << 2 | SHORT_STRING
    return end


@part
def _byte(buf: Bytes, at: int, i: int, size: int) -> int:
    return int(buf[at + i]) if i < size else 0


@part
def _hex(digit: int, out: Bytes, to: int) -> int:
    out[to] = 0x30 + digit if digit < 10 else 0x57 + digit
    return to + 1


@part
def _uuid(buf: Bytes, at: int, size: int, out: Bytes, to: int) -> int:
    for i in range(16):
        if i in _DASHES:
            out[to] = _DASH
            to += 1
        byte = _byte(buf, at, i, size)
        to = _hex(byte & 15, out, _hex(byte >> 4, out, to))
    return to


@part
def _inet4(buf: Bytes, at: int, first: int, size: int, out: Bytes, to: int) -> int:
    """The four bytes from the `first` on."""
    for i in range(4):
        if i:
            out[to] = _DOT
            to += 1
        byte = _byte(buf, at, first + i, size)
        if byte > 99:
            out[to] = 0x30 + byte // 100
            to += 1
        if byte > 9:
            out[to] = 0x30 + byte // 10 % 10
            to += 1
        out[to] = 0x30 + byte % 10
        to += 1
    return to


@part
def _word(buf: Bytes, at: int, i: int, size: int) -> int:
    return _byte(buf, at, 2 * i, size) << 8 | _byte(buf, at, 2 * i + 1, size)


@part
def _inet6(buf: Bytes, at: int, size: int, out: Bytes, to: int) -> int:
    gap, length, run = -1, 0, 0
    for i in range(8):
        run = run + 1 if _word(buf, at, i, size) == 0 else 0
        if run > length:
            gap, length = i - run + 1, run
    i = 0
    while i < 8:
        if i == gap:
            if i == 0:
                out[to] = _COLON
                to += 1
            i += length
            out[to] = _COLON
            to += 1
            continue
        if i == 6 and gap == 0 and (length == 6 or (length == 5 and _word(buf, at, 5, size) == 0xFFFF)):
            return _inet4(buf, at, 12, size, out, to)
        word = _word(buf, at, i, size)
        for shift in (12, 8, 4, 0):
            if word >> shift or shift == 0:
                to = _hex(word >> shift & 15, out, to)
        i += 1
        if i < 8:
            out[to] = _COLON
            to += 1
    return to
