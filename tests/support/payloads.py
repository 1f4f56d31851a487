"""Compressed transactions of our making, out of what a real server wrote."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import pyarrow as pa

from tests.support.binlog_log import Buffer, starts

PAYLOAD = 40
ZSTD, NONE = 0, 255


def length(number: int) -> bytes:
    """A length-encoded integer."""
    if number < 0xFB:
        return bytes([number])
    width, mark = next((w, m) for w, m in ((2, 0xFC), (3, 0xFD), (8, 0xFE)) if number < 1 << 8 * w)
    return bytes([mark]) + number.to_bytes(width, "little")


def fields(*numbers: tuple[int, int]) -> bytes:
    """The fields in front of what was compressed, (type, value) each, and their end."""
    return b"".join(length(kind) + length(len(length(n))) + length(n) for kind, n in numbers) + b"\0"


def sealed(event: Any, *, checksum: int = 4) -> Buffer:
    """An event with its own length in the header and a right checksum, which it does not hold yet."""
    head = bytearray(event)
    head[9:13] = struct.pack("<I", len(head) + checksum)
    tail = zlib.crc32(head).to_bytes(4, "little")[:checksum]
    return np.frombuffer(bytes(head) + tail, dtype=np.uint8)


def packed_event(body: bytes, pos: int, *, kind: int = PAYLOAD, checksum: int = 4) -> Buffer:
    """A compressed event that begins at `pos`."""
    end = (pos + 19 + len(body) + checksum) & 0xFFFFFFFF
    return sealed(struct.pack("<IBIIIH", 1_700_000_000, kind, 1, 0, end, 0) + body, checksum=checksum)


def payload(inner: bytes, pos: int, *, kind: int = ZSTD, size: int | None = None, checksum: int = 4) -> Buffer:
    """A TRANSACTION_PAYLOAD with these events; `size` is what it claims that they take."""
    body = inner if kind == NONE else pa.compress(inner, codec="zstd", asbytes=True)
    claim = ((3, len(inner) if size is None else size),) if kind == ZSTD or size is not None else ()
    return packed_event(fields((2, kind), *claim, (1, len(body))) + body, pos, checksum=checksum)


def inner_events(buffer: Buffer) -> list[bytes]:
    """A buffer's events as they stand in a payload: without checksum, with no position."""
    found = []
    for at, end in zip(starts(buffer), [*starts(buffer)[1:], buffer.size], strict=True):
        event = bytearray(buffer[at : end - 4].tobytes())
        event[9:17] = struct.pack("<II", len(event), 0)
        found.append(bytes(event))
    return found
