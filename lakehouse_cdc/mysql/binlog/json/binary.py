"""Binary JSON, taken apart one level at a time and put together again.

Only an object or array that is to be changed is opened. What is in it keeps its bytes, which mean the same wherever
they are, since offsets count from the beginning of their own object or array. One is written in the small form if it
fits, as MySQL does, and members in MySQL's order: by the length of their keys, then by their bytes. For the format see
`kernels.json_text`.

Damaged bytes: an element is taken only from within its object or array, after the entries, and all elements together
may not be larger than that is, so that nothing grows by standing in many places.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from lakehouse_cdc.errors import DefiniteError, codes

_LARGE, _ARRAY = 1, 2  # the bits of the types of objects and arrays, which are those below _LITERAL
_LITERAL, _INT16, _UINT16, _INT32, _UINT32, _INT64, _UINT64, _DOUBLE, _STRING, _OPAQUE = *range(4, 13), 15
_SIZES = {_LITERAL: 1, _INT16: 2, _UINT16: 2, _INT32: 4, _UINT32: 4, _INT64: 8, _UINT64: 8, _DOUBLE: 8}
_INLINE_SMALL = (_LITERAL, _INT16, _UINT16)
_INLINE_LARGE = (*_INLINE_SMALL, _INT32, _UINT32)
_LARGEST_SMALL = 0xFFFF


class Value(NamedTuple):
    """A value as it is in a document: its type, and its bytes."""

    kind: int
    data: bytes


@dataclass
class Opened:
    """An object or (`keys` is None) an array: its elements, in order."""

    keys: list[bytes] | None
    values: list[Node]


Node: TypeAlias = "Value | Opened"


def parsed(document: bytes, where: str) -> Value:
    """A whole document; one of no bytes is JSON's null. Raises DefiniteError for bytes that do not fit."""
    document = document or bytes((_LITERAL, 0))
    size = _size(document, 1, len(document), document[0])
    if size < 0:
        raise _malformed(where)
    return Value(document[0], document[1 : 1 + size])


def opened(value: Value, where: str) -> Opened | None:
    """The elements of an object or array; None for any other value. Raises DefiniteError for bytes that do not fit."""
    if value.kind >= _LITERAL:
        return None
    data, width, array = value.data, 4 if value.kind & _LARGE else 2, bool(value.kind & _ARRAY)
    inline = _INLINE_LARGE if width == 4 else _INLINE_SMALL
    count, size = _number(data, 0, width), _number(data, width, width)
    first = 2 * width + (0 if array else count * (width + 2))  # the values' entries
    values_at = first + count * (1 + width)
    if not values_at <= size <= len(data):
        raise _malformed(where)
    left, keys, values = size - values_at, [], []
    for n in range(0 if array else count):
        entry = 2 * width + n * (width + 2)
        at, length = _number(data, entry, width), _number(data, entry + width, 2)
        left -= length
        if left < 0 or not values_at <= at <= size - length:
            raise _malformed(where)
        keys.append(data[at : at + length])
    for entry in range(first, values_at, 1 + width):
        kind, at = data[entry], _number(data, entry + 1, width)
        if kind in inline:
            values.append(Value(kind, data[entry + 1 : entry + 1 + _SIZES[kind]]))
            continue
        length = _size(data, at, size, kind) if values_at <= at < size else -1
        left -= length
        if length < 0 or left < 0:
            raise _malformed(where)
        values.append(Value(kind, data[at : at + length]))
    return Opened(None if array else keys, [*values])


def _number(data: bytes, at: int, width: int) -> int:
    return int.from_bytes(data[at : at + width], "little")


def _size(data: bytes, at: int, end: int, kind: int) -> int:
    """The bytes of the value at `at`; -1 if they do not lie before `end`, or the type is not known."""
    size = _SIZES.get(kind, -1)
    if kind < _LITERAL:
        width = 4 if kind & _LARGE else 2
        size = _number(data, at + width, width) if at + 2 * width <= end else -1
    elif kind in (_STRING, _OPAQUE):
        size, start = 0, at + (kind == _OPAQUE)
        for n in range(5):  # seven bits in a byte, the last one without the eighth
            byte = data[start + n] if start + n < end else 0x80
            size |= (byte & 0x7F) << 7 * n
            if byte < 0x80:
                size += start + n + 1 - at
                break
        else:
            return -1
    return size if size <= end - at else -1


def written(node: Node) -> Value:
    """A node as it is in a document."""
    if isinstance(node, Value):
        return node
    keys, values = node.keys, [written(value) for value in node.values]
    if keys is not None:
        members = sorted(zip(keys, values, strict=True), key=lambda member: (len(member[0]), member[0]))
        keys, values = [key for key, _ in members], [value for _, value in members]
    for large in (False, True):
        data = _container(keys, values, large)
        if data is not None:
            return Value((_ARRAY if keys is None else 0) | large, data)
    raise codes.VALUE_UNREPRESENTABLE.error("a JSON document of more than 4 GiB")


def _container(keys: list[bytes] | None, values: list[Value], large: bool) -> bytes | None:
    """An object or array in one of the two forms; None if it does not fit."""
    number, width, inline = ("<I", 4, _INLINE_LARGE) if large else ("<H", 2, _INLINE_SMALL)
    most = (1 << 8 * width) - 1
    at = 2 * width + len(values) * (1 + width) + (0 if keys is None else len(keys) * (width + 2))
    entries, content = [], []
    for key in keys or ():
        if at > most:
            return None
        entries.append(struct.pack(number, at) + struct.pack("<H", len(key)))
        content.append(key)
        at += len(key)
    for kind, data in values:
        if at > most:
            return None
        if kind in inline:
            entries.append(bytes((kind,)) + data.ljust(width, b"\0"))
        else:
            entries.append(bytes((kind,)) + struct.pack(number, at))
            content.append(data)
            at += len(data)
    if at > most or len(values) > most:
        return None
    return b"".join((struct.pack(number, len(values)), struct.pack(number, at), *entries, *content))


def _malformed(where: str) -> DefiniteError:
    return codes.BINLOG_DAMAGED.error("a JSON document in the binlog is malformed", where=where)
