"""MySQL's binary JSON, as row images hold it, to the very text that the server prints for it.

Format: MySQL's `sql-common/json_binary.h`; the text is that of `Json_wrapper::to_string` in `sql-common/json_dom.cc`.
A document is a type and a value. An object or array begins with the number of its elements and its size, 2 bytes each,
or 4 in the large form. Then come an object's key entries (an offset, 2 bytes of length), then the value entries: a type
and the value itself where it is small enough, else its offset. Offsets count from the beginning of the object or array,
and after an update in place (JSON_SET and the like) there may be bytes between the values that belong to none.

Damaged bytes: a value is looked for only inside of its object or array, after its entries, and there are no more than
100 levels, as on the server. `left` counts the bytes of which no text was made yet: those of a value, its entry and its
key are taken from it before their text is written, and where too few are left the document is refused, since in a sound
one nothing shares bytes. So neither time nor text can outgrow the document, wherever its offsets lead.

The text, and all that is written, is at most `GROWTH` bytes for each of the document's, and `EXTRA` for one of none.
With the ", " in front of an element, the type of a value, and the 2 bytes at least of an offset:

    a string or key of n bytes    4 + 6n, a control character being 6                of at least 2 + n, 4 + n
    a literal                     7                                                  of 2
    a number of 2, 4, 8 bytes     8, 13, 36 (a double's sign, 0., zeros, digits)     of 3, 5, 9
    a decimal of n digits         5 + n                                              of 5 + 4n/9
    a date or time                30                                                 of 11
    base64 of n bytes             19 + 4 * ceil(n / 3) + 2 * floor(n / 57)           of 5 + n; 2 less without ", "
    an object or array            4                                                  of 5

Strings are taken as they are, whether or not they are UTF-8.
"""

from __future__ import annotations

import numpy as np

from lakehouse_cdc.images.bytes_io import Bytes, Step, at_offset, little, put, stack_words
from lakehouse_cdc.images.compiled import part
from lakehouse_cdc.images.status import BAD_JSON
from lakehouse_cdc.images.text.json_scalars import (
    INT16,
    INT32,
    LITERAL,
    NULL,
    UINT16,
    UINT32,
    fixed,
    write_quoted,
    write_scalar,
)

GROWTH, EXTRA = 6, 4
MAX_DEPTH = 100

_LARGE, _ARRAY = 1, 2  # the bits of the types below LITERAL
_BEGIN, _END, _FORM, _COUNT, _NEXT = range(5)  # a level: an object or array that is being written
_LEVEL_FIELDS = 5
_ALL_LEVELS = MAX_DEPTH * _LEVEL_FIELDS
_COMMA, _COLON = fixed(b", "), fixed(b": ")


@part
def write_json(buf: Bytes, at: int, size: int, bare: int, out: Bytes, to: int) -> int:
    """The text of the document of `size` bytes; one of none is JSON's null. For `bare` see `json_scalars`."""
    if size == 0:
        return put(out, to, NULL, 4)
    levels: Step = stack_words(_ALL_LEVELS)
    depth = 0
    kind, at, end, left = np.int64(buf[at]), at + 1, at + size, size - 1
    while True:
        if kind < LITERAL:
            left = (
                _open(buf, at, end, kind, left, at_offset(levels, depth * _LEVEL_FIELDS)) if depth < MAX_DEPTH else -1
            )
            if left < 0:
                return -BAD_JSON
            out[to] = 0x5B if kind & _ARRAY else 0x7B
            to += 1
            depth += 1
        else:
            taken, to = write_scalar(buf, at, min(end - at, left), kind, bare, out, to)
            if to < 0:
                return to
            left -= taken
        depth, to = _close(levels, depth, out, to)
        if depth == 0:
            return to
        level = at_offset(levels, (depth - 1) * _LEVEL_FIELDS)
        kind, at, end, left = _element(buf, level, left)
        if left < 0:
            return -BAD_JSON
        to = _lead(buf, level, out, to)
        level[_NEXT] += 1


@part
def _open(buf: Bytes, at: int, end: int, form: int, left: int, level: Step) -> int:
    """Begin the object or array at `at`, whose entries must all lie in it; what is left then, or below 0."""
    width = _width(form)
    if 2 * width > min(end - at, left):
        return -1
    level[_BEGIN], level[_FORM], level[_NEXT] = at, form, 0
    level[_COUNT], level[_END] = little(buf, at, width), at + little(buf, at + width, width)
    if level[_END] > end or _entry(level, level[_COUNT]) > level[_END]:
        return -1
    return left - 2 * width


@part
def _close(levels: Step, depth: int, out: Bytes, to: int) -> tuple[int, int]:
    """End all objects and arrays that have no further element; (levels that continue, next output position)."""
    while depth > 0:
        level = at_offset(levels, (depth - 1) * _LEVEL_FIELDS)
        if level[_NEXT] < level[_COUNT]:
            break
        out[to] = 0x5D if level[_FORM] & _ARRAY else 0x7D
        to += 1
        depth -= 1
    return depth, to


@part
def _element(buf: Bytes, level: Step, left: int) -> tuple[int, int, int, int]:
    """(type of the next value, where it is, where it must end, what is left without its key and entry or below 0)."""
    width = _width(level[_FORM])
    entry, first, end = _entry(level, level[_NEXT]), _entry(level, level[_COUNT]), level[_END]
    kind = np.int64(buf[entry])
    if not level[_FORM] & _ARRAY:
        key, length = _key(buf, level)
        if key < first or length > end - key:
            return kind, entry, end, -1
        left -= width + 2 + length
    if kind in (LITERAL, INT16, UINT16) or (width == 4 and kind in (INT32, UINT32)):
        return kind, entry + 1, entry + 1 + width, left - 1
    at = level[_BEGIN] + little(buf, entry + 1, width)
    return kind, at, end, left - 1 - width if first <= at <= end else -1


@part
def _lead(buf: Bytes, level: Step, out: Bytes, to: int) -> int:
    """What is in front of the next value: a comma, an object's key."""
    if level[_NEXT] > 0:
        to = put(out, to, _COMMA, 2)
    if level[_FORM] & _ARRAY:
        return to
    key, length = _key(buf, level)
    return put(out, write_quoted(buf, key, length, out, to), _COLON, 2)


@part
def _width(form: int) -> int:
    """The bytes of an offset."""
    return 4 if form & _LARGE else 2


@part
def _entry(level: Step, index: int) -> int:
    """Where a value's entry is; as many as there are end where the entries end."""
    width = _width(level[_FORM])
    keys = 0 if level[_FORM] & _ARRAY else level[_COUNT] * (width + 2)
    position: int = level[_BEGIN] + 2 * width + keys + index * (1 + width)
    return position


@part
def _key(buf: Bytes, level: Step) -> tuple[int, int]:
    """Where the next key is, and its length."""
    width = _width(level[_FORM])
    entry = level[_BEGIN] + 2 * width + level[_NEXT] * (width + 2)
    return level[_BEGIN] + little(buf, entry, width), little(buf, entry + width, 2)
