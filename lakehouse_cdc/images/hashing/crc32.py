"""The CRC32 of events, sixteen bytes at a step (slicing-by-16); to call zlib's for each event costs more than that.

`TABLES` are sixteen tables of 256: the n-th has what a byte becomes after which n more have been taken in.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lakehouse_cdc.images.binlog.header import event_size, u32
from lakehouse_cdc.images.binlog.words import FORMAT, HEADER, HEARTBEAT, HEARTBEAT_V2, ROTATE
from lakehouse_cdc.images.bytes_io import Bytes, at_offset, little, pointer
from lakehouse_cdc.images.compiled import compiled, part

Table = NDArray[np.int64]
_POLYNOMIAL, _ALL = 0xEDB88320, 0xFFFFFFFF
_SUM_BYTES, _STEP, _WORD_TABLES = 4, 16, 4 * 256
_ARTIFICIAL = 0x20  # in the low byte of an event's flags


def _tables() -> NDArray[np.uint32]:
    tables = np.zeros((_STEP, 256), np.uint32)
    first = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        first = np.where(first & 1, first >> 1 ^ np.uint32(_POLYNOMIAL), first >> 1)
    tables[0] = first
    for n in range(1, _STEP):
        tables[n] = tables[n - 1] >> 8 ^ first[tables[n - 1] & 0xFF]
    return tables.reshape(-1)


TABLES = _tables()


@part
def _word(word: int, table: Table) -> int:
    """Four bytes, after which as many have been taken in as tables are before this one."""
    high = table[word >> 24] ^ table[256 + (word >> 16 & 0xFF)]
    return int(high ^ table[512 + (word >> 8 & 0xFF)] ^ table[768 + (word & 0xFF)])


@part
def _crc32(data: Bytes, at: int, end: int, table: Table) -> int:
    crc = np.int64(_ALL)
    while end - at >= _STEP:
        first = _word(crc ^ little(data, at, 4), at_offset(table, 3 * _WORD_TABLES))
        second = _word(little(data, at + 4, 4), at_offset(table, 2 * _WORD_TABLES))
        third = _word(little(data, at + 8, 4), at_offset(table, _WORD_TABLES))
        crc = np.int64(first ^ second ^ third ^ _word(little(data, at + 12, 4), table))
        at += _STEP
    while at < end:
        crc = np.int64(table[(crc ^ data[at]) & 0xFF]) ^ crc >> 8
        at += 1
    return int(crc ^ _ALL)


@compiled
def pass_right(data: NDArray[np.uint8], at: int, written: bool, tables: NDArray[np.uint32]) -> int:
    """Go from `at` over events whose CRC32, if it is `written` after them, is right, and those made up by the server.

    The position of the first other one: of a FORMAT, of one that does not fit into the buffer, or of a wrong sum.
    """
    source, table = pointer(data), pointer(tables)
    least = HEADER + _SUM_BYTES if written else HEADER
    while data.size - at >= HEADER:
        kind, size = data[at + 4], event_size(data, at)
        if kind == FORMAT or size < least or size > data.size - at:
            break
        made_up = kind in (HEARTBEAT, HEARTBEAT_V2) or (kind == ROTATE and data[at + 17] & _ARTIFICIAL)
        end = at + size - _SUM_BYTES
        if written and not made_up and _crc32(source, at, end, table) != u32(data, end):
            break
        at += size
    return at
