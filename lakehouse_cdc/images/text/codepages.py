"""What kernels look up rather than compute: the characters of a character set, the labels of an ENUM or SET.

A character set's page holds one entry of four bytes for each sequence of bytes: the length of the character in UTF-8
and its bytes; length 0 means that more bytes follow (among single bytes) or that there is no such character. It has

    256 entries: single bytes
    128 * 256 entries: two bytes, the first from 0x80 on (character sets of several bytes)
    128 * 256 entries: the two bytes after 0x8F (those of three)
    39420 entries: four bytes, by their rank (gb18030), as far as they are below U+10000

Labels are their count n, n + 1 offsets, and the labels in UTF-8; numbers have four bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from lakehouse_cdc.schema.charsets import MAX_BYTES, character, sequences, singles

ENTRY = 4
SINGLES = 256 * ENTRY
PAIRS = 128 * 256 * ENTRY
FOURS = 39420  # gb18030: ranks below this one are in the page
FIRST_SUPPLEMENTARY = 189000  # and from this one on the rest of Unicode follows in order


@cache
def page(charset: str) -> bytes:
    """The page of a character set that is not UTF-8, UTF-16 or UTF-32."""
    single = singles(charset)
    parts = [b"".join(_entry(text) for text in single)]
    if charset in MAX_BYTES:
        pairs = np.zeros((2 if MAX_BYTES[charset] == 3 else 1, 128, 256, ENTRY), np.uint8)
        for code, text in sequences(charset):
            pairs[len(code) - 2, code[-2] - 0x80, code[-1]] = list(_entry(text))
        parts.append(pairs.tobytes())
    if charset == "gb18030":
        parts.append(b"".join(_entry(_four(rank)) for rank in range(FOURS)))
    return b"".join(parts)


def _entry(text: str | None) -> bytes:
    encoded = (text or "").encode("utf-8", "replace")
    return bytes([len(encoded)]) + encoded.ljust(ENTRY - 1, b"\0")


def _four(rank: int) -> str | None:
    first, second, third, fourth = rank // 12600, rank // 1260 % 10, rank // 10 % 126, rank % 10
    return character("gb18030", bytes([0x81 + first, 0x30 + second, 0x81 + third, 0x30 + fourth]))


def labels(values: Sequence[str]) -> bytes:
    """The labels of an ENUM or SET."""
    encoded = [value.encode() for value in values]
    offsets = np.cumsum([0, *map(len, encoded)], dtype="<u4")
    return np.array([len(encoded)], "<u4").tobytes() + offsets.tobytes() + b"".join(encoded)
