"""Masks on finished values: the VARIANT value that was just written is replaced by its hash, or by part of its text.

What a mask sees is one of few forms, since dates, times and decimals are written as text for it (see
`schema.masks.unmasked`): text, bytes, whole numbers, floating point numbers, true and false. Numbers are printed after
the value, where a row's writer has room. The result lies where the value lay and may be longer (a hash) than it was.

A mask is a page in a program's pool: its kind, then the states of the salt, or two numbers of 4 bytes.
"""

from __future__ import annotations

import numpy as np

from lakehouse_cdc.images.bytes_io import Bytes, Step, at_offset, little, put
from lakehouse_cdc.images.compiled import part
from lakehouse_cdc.images.hashing.sha256 import DIGEST_WORDS, key_states, write_hmac
from lakehouse_cdc.images.numbers.doubles import write_double, write_integer, write_number
from lakehouse_cdc.images.strings import LONG_HEADER
from lakehouse_cdc.model.variant import (
    BINARY,
    DECIMAL16,
    DOUBLE,
    FLOAT,
    INT8,
    INT64,
    LONG_STRING,
    MAX_SHORT_STRING,
    SHORT_STRING,
    TRUE,
    header,
)

MASK_ROOM = 80  # bytes that a mask may need after where a value begins, besides the value's own
_HASHED, _KEPT = 1, 2
_SHORT = 3  # the two low bits of a value's first byte
_LONG, _BINARY, _TRUE = header(LONG_STRING), header(BINARY), header(TRUE)
_FLOAT, _DOUBLE, _WIDE = header(FLOAT), header(DOUBLE), header(DECIMAL16)
_STAR = 0x2A


def hashing(salt: str) -> bytes:
    """The page of a mask that hashes under that salt."""
    return bytes([_HASHED]) + key_states(salt.encode())


def keeping(first: int, last: int) -> bytes:
    """The page of a mask that keeps so many characters at the beginning and at the end."""
    return bytes([_KEPT]) + first.to_bytes(4, "little") + last.to_bytes(4, "little")


@part
def write_masked(out: Bytes, begin: int, end: int, page: Bytes, work: Step) -> int:
    """Mask the value in out[begin:end]; the position after what is there now."""
    at, behind_text = _text(out, begin, end)
    size = behind_text - at
    if page[0] == _HASHED:
        write_hmac(out, at, size, at_offset(page, 1), work, out, begin + LONG_HEADER)
        return _headed(8 * DIGEST_WORDS, out, begin) + 8 * DIGEST_WORDS
    return _write_kept(out, at, size, little(page, 1, 4), little(page, 5, 4), begin)


@part
def _headed(size: int, out: Bytes, to: int) -> int:
    """The header of a text of that size; the position after it."""
    if size <= MAX_SHORT_STRING:
        out[to] = size << 2 | SHORT_STRING
        return to + 1
    out[to] = _LONG
    return put(out, to + 1, size, 4)


@part
def _text(out: Bytes, begin: int, end: int) -> tuple[int, int]:
    """Where the value's text begins and ends: in it, or after it."""
    first = out[begin]
    if first & _SHORT == SHORT_STRING:
        return begin + 1, end
    if first in (_LONG, _BINARY):
        return begin + LONG_HEADER, end
    if first == _DOUBLE:
        return end, write_double(np.uint64(little(out, begin + 1, 8)), out, end)
    if first == _FLOAT:
        single = np.uint32(little(out, begin + 1, 4)).view(np.float32)
        return end, write_double(np.float64(single).view(np.uint64), out, end)
    if first == _WIDE:  # never below zero, and of 64 bits
        return end, write_number(np.uint64(little(out, begin + 2, 8)), out, end)
    if (INT8 << 2) <= first <= (INT64 << 2):
        return end, write_integer(little(out, begin + 1, end - begin - 1), 8 * (end - begin - 1), out, end)
    out[end] = 0x31 if first == _TRUE else 0x30
    return end, end + 1


@part
def _write_kept(out: Bytes, at: int, size: int, first: int, last: int, to: int) -> int:
    """Characters from `first` on, `last` at the end aside, as `*`; or all. The text does not lie before `to`."""
    count = 0
    for i in range(at, at + size):
        count += _begins(out[i])
    if count <= first + last:
        first = last = 0
    hidden, place = 0, 0  # bytes of characters that are not kept, and which character a byte is of
    for i in range(at, at + size):
        place += _begins(out[i])
        hidden += first < place <= count - last
    end = to = _headed(size - hidden + count - first - last, out, to)
    place = 0
    for i in range(at, at + size):
        byte = out[i]
        place += _begins(byte)
        if place <= first or place > count - last:
            out[end] = byte
            end += 1
        elif _begins(byte):
            out[end] = _STAR
            end += 1
    return end


@part
def _begins(byte: int) -> int:
    """1 for the first byte of a character in UTF-8, 0 for one that follows."""
    return 0 if byte & 0xC0 == 0x80 else 1
