"""Compressed events, expanded in front of the scan.

Where the scan meets a packed event it has the rest of its buffer expanded: each packed event is replaced by a marker
and the events that were packed in it. The marker is an event by its header, of the packed event's type and with its
position, and holds three numbers: the packed event's size, how many of these bytes are its checksum, and how many bytes
of events follow. So the scan always knows where in the file it is, and what it meets after a marker is what it would
have met had the server not compressed. A buffer without packed events is not looked at here, nor copied.

What was packed may be thousands of times larger than the event, and is never held whole: once `PIECE` bytes have been
expanded the rest of the buffer waits, and a payload that is itself larger is expanded piece by piece, each of whole
events. The scan goes through the pieces as if they were buffers of the log.

TRANSACTION_PAYLOAD (MySQL 8.0.20: binlog_transaction_compression) begins with fields, each a type, a length and a
number, all length-encoded: 2 the compression (0 zstd, 255 none), 3 the size of what was compressed (where it was), 1
the size of what follows the fields; 0 ends them. Then come whole events, without checksums. Sources: MySQL source
documentation, "Transaction_payload_event" and `codecs::binary::Transaction_payload`, and what 8.0.31 and 9.7.4 write.

MariaDB (10.2: log_bin_compress) compresses single events: in a QUERY the text, in a rows event all after the bitmaps
of present columns. There is a record instead: a byte 0x80 | algorithm << 4 | n, where zlib is algorithm 0, the
size in n bytes, big-endian, and the compressed bytes. Source: MariaDB's `sql/log_event.cc`, and what 10.11 writes.

A size is only a claim, so it is not believed beyond what that many compressed bytes can become: a block of zstd has at
least 4 bytes and becomes at most 128 KiB (RFC 8878), and deflate makes at most 1032 of one. The checksum, which
the scan leaves to the readers of rows elsewhere (see `checksums`), is verified: these streams carry none of their own,
and a bit that flips in one may change many rows.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.images.binlog.packed import find_packed, whole_events
from lakehouse_cdc.images.binlog.words import (
    FAULTY,
    HEADER,
    PACKED_QUERY,
    PACKED_ROWS,
    PAYLOAD,
    QUERY,
    UPDATE_ROWS,
    WRITE_ROWS,
)
from lakehouse_cdc.mysql.binlog.cursor import Cursor

Events = NDArray[np.uint8]
PIECE = 32 << 20  # bytes that are expanded at once, or one event if that is larger
_CRC_BYTES = 4
_COMPRESSION, _SIZE, _PACKED_SIZE, _END = 2, 3, 1, 0  # the fields of a TRANSACTION_PAYLOAD
_ZSTD, _NONE = 0, 255
_FIELDS_ROOM = 64  # more than the fields can take
_ZSTD_GROWTH, _DEFLATE_GROWTH = 32 << 10, 1032
_zstd = pa.Codec("zstd")


@dataclass(frozen=True)
class Expanded:
    """What is in place of a buffer: `data`, and after it, where that is not all, the pieces of `later`.

    A packed event that cannot be expanded ends it, with a marker that says so; `fault` is the reason, to be raised when
    the scan comes to it.
    """

    data: Events
    fault: DefiniteError | None = None
    later: Iterator[Events] | None = None


def expand(data: Events, at: int) -> Expanded:
    """`data`, which holds whole events, with the packed events from `at` on replaced.

    The pieces of `later` are to be asked for in turn, and may raise DefiniteError; the last one ends with raw events of
    `data`, in which others may be packed.
    """
    places = np.empty(find_packed(data, at, np.empty(0, np.int64)), np.int64)
    find_packed(data, at, places)
    view, done, size = data.data, 0, 0
    pieces: list[Any] = []
    for at in places.tolist():
        if size >= PIECE:
            return Expanded(_joined(pieces), later=iter((data[done:],)))
        event = view[at : at + int.from_bytes(view[at + 9 : at + 13], "little")]
        pieces.append(view[done:at])
        done = at + len(event)
        try:
            if event[4] == PAYLOAD:
                payload = _payload(event)
                if payload.size > PIECE:
                    pieces.append(_marker(event, payload.tail, payload.size))
                    return Expanded(_joined(pieces), later=_in_pieces(payload, view[done:]))
                tail, inner = payload.tail, [payload.whole()]
            else:
                tail, inner = _single(event)
        except DefiniteError as fault:
            pieces.append(_marker(event, 0, FAULTY))
            return Expanded(_joined(pieces), fault)
        expanded = sum(map(len, inner))
        pieces += [_marker(event, tail, expanded), *inner]
        size += expanded
    pieces.append(view[done:])
    return Expanded(_joined(pieces))


def _joined(pieces: list[Any]) -> Events:
    return np.frombuffer(bytearray().join(pieces), dtype=np.uint8)


def _marker(event: memoryview, tail: int, size: int) -> bytes:
    numbers = struct.pack("<IIQ", len(event), tail, size)
    return b"".join((event[:9], struct.pack("<I", HEADER + len(numbers)), event[13:HEADER], numbers))


@dataclass(frozen=True)
class _Payload:
    """The content of a TRANSACTION_PAYLOAD: `size` bytes of events, or so it says; `tail` bytes of checksum follow."""

    packed: memoryview
    compressed: bool
    size: int
    tail: int

    def whole(self) -> bytes | memoryview:
        """The events. Raises DefiniteError where they are not what was said."""
        if not self.compressed:
            return self.packed
        try:
            events: bytes = _zstd.decompress(self.packed, self.size, asbytes=True)
        except (pa.ArrowException, OSError) as error:  # also where another size comes out
            raise _broken() from error
        return events

    def read(self) -> Iterator[bytes | memoryview]:
        """The events, some bytes at a time. Raises DefiniteError where they are not what was said."""
        if not self.compressed:
            yield from (self.packed[at : at + PIECE] for at in range(0, self.size, PIECE))
            return
        left = self.size
        with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(self.packed)), "zstd") as stream:
            while True:
                try:
                    piece: bytes = stream.read(min(PIECE, left + 1))
                except (pa.ArrowException, OSError) as error:
                    raise _broken() from error
                left -= len(piece)
                if left < 0 or (left and not piece):
                    raise _broken()
                if not piece:
                    return
                yield piece


def _in_pieces(payload: _Payload, rest: memoryview) -> Iterator[Events]:
    """The events of a payload, whole ones in each piece, and in the last one what is after it in its buffer."""
    kept = bytearray()
    for chunk in payload.read():
        kept += chunk
        whole = whole_events(np.frombuffer(kept, np.uint8))
        if whole:
            yield _joined([memoryview(kept)[:whole]])
            kept = kept[whole:]
    yield _joined([kept, rest])


def _payload(event: memoryview) -> _Payload:
    """What a TRANSACTION_PAYLOAD says that it holds."""
    data = Cursor(bytes(event[HEADER : HEADER + _FIELDS_ROOM]), "")
    room = data.left
    fields: dict[int, int] = {}
    while (field := data.length()) != _END:
        if field not in (_COMPRESSION, _SIZE, _PACKED_SIZE) or field in fields:
            raise data.fail()
        size, left = data.length(), data.left
        fields[field] = data.length()
        if left - data.left != size:
            raise data.fail()
    if not {_COMPRESSION, _PACKED_SIZE} <= set(fields):
        raise data.fail()
    start = HEADER + room - data.left
    tail = _tail(event, start + fields[_PACKED_SIZE])
    packed = event[start : len(event) - tail]
    if fields[_COMPRESSION] == _NONE:
        if fields.get(_SIZE, len(packed)) != len(packed):
            raise data.fail()
        return _Payload(packed, False, len(packed), tail)
    if fields[_COMPRESSION] != _ZSTD:
        raise codes.BINLOG_EVENT_UNKNOWN.error(
            f"a transaction is compressed by a method that is not known: {fields[_COMPRESSION]}"
        )
    if _SIZE not in fields:
        raise data.fail()
    return _Payload(packed, True, _believed(fields[_SIZE], len(packed), _ZSTD_GROWTH), tail)


def _single(event: memoryview) -> tuple[int, list[Any]]:
    """The bytes of checksum and the plain event of MariaDB's compressed QUERY or rows event."""
    packed = event[4]
    start = _query_text(event) if packed == PACKED_QUERY else _first_row(event, packed)
    data = Cursor(bytes(event[start : start + 5]), "")
    head, room = data.byte(), data.left
    if head & 0xF0 != 0x80 or not 1 <= head & 0x0F <= 4:
        raise data.fail()
    size = int.from_bytes(data.take(head & 0x0F), "big")
    stream = event[start + 1 + room - data.left :]
    _believed(size, len(stream), _DEFLATE_GROWTH)
    inflate = zlib.decompressobj()
    try:
        text = inflate.decompress(stream, size + 1)
    except zlib.error as error:
        raise _broken() from error
    if len(text) != size or not inflate.eof:
        raise _broken()
    tail = _tail(event, len(event) - len(inflate.unused_data))
    kind = QUERY if packed == PACKED_QUERY else _rows_kind(packed)
    header = struct.pack("<BII", kind, int.from_bytes(event[5:9], "little"), start + size)
    return tail, [event[:4], header, event[13:start], text]


def _query_text(event: memoryview) -> int:
    """Where the text of a QUERY begins: after the status variables, the database and a zero byte."""
    data = Cursor(bytes(event[HEADER : HEADER + 13]), "")
    data.skip(8)
    database = data.byte()
    data.skip(2)
    return HEADER + 13 + data.u16() + database + 1


def _first_row(event: memoryview, packed: int) -> int:
    """Where the rows of a rows event begin: after its bitmaps of present columns."""
    kind, start = _rows_kind(packed), HEADER + 8
    if kind >= WRITE_ROWS:  # version 2: extra data, its length counts itself
        start += int.from_bytes(event[start : start + 2], "little")
    data = Cursor(bytes(event[start : start + 9]), "")
    room = data.left
    columns = data.length()
    bitmaps = 2 if kind in (UPDATE_ROWS, UPDATE_ROWS - 7) else 1
    return start + room - data.left + bitmaps * ((columns + 7) // 8)


def _rows_kind(packed: int) -> int:
    """The type of the plain event: version 1 is 23 to 25, version 2 from 30 on."""
    which = packed - PACKED_ROWS
    return which + WRITE_ROWS - 7 if which < 3 else which - 3 + WRITE_ROWS


def _tail(event: memoryview, end: int) -> int:
    """How many bytes are after the content, which ends at `end`: those of a right checksum, or none."""
    tail = len(event) - end
    if tail not in (0, _CRC_BYTES):
        raise Cursor(b"", "").fail()
    if tail and zlib.crc32(event[:end]) != int.from_bytes(event[end:], "little"):
        raise codes.BINLOG_CHECKSUM_WRONG.error("the checksum of a compressed binlog event is wrong")
    return tail


def _believed(size: int, packed: int, growth: int) -> int:
    if not 0 < size <= packed * growth:
        raise _broken()
    return size


def _broken() -> DefiniteError:
    return codes.BINLOG_DAMAGED.error(
        "a compressed binlog event does not hold what it says",
    )
