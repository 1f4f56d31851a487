"""The kernels of result sets: find the packets in what a socket delivered, turn row packets into images.

A payload of 0xffffff bytes or more travels in several packets, all but the last of that length; its parts are moved
together in the buffer, so that a row is always in one piece. Sources: MySQL's documentation of "MySQL Packets" and of
"Binary Protocol Resultset Row".
"""

from __future__ import annotations

import numpy as np

from lakehouse_cdc.images.buffers import Sink
from lakehouse_cdc.images.bytes_io import Bytes, Step, little, pointer
from lakehouse_cdc.images.compiled import compiled
from lakehouse_cdc.images.opcodes import COUNT, KEY_COUNT
from lakehouse_cdc.images.program import Program
from lakehouse_cdc.images.rows.image import STEP, Scratch, pointers, scratch_of, table_of, write_image, write_key
from lakehouse_cdc.images.status import BAD_PACKET, DONE, FULL, LEFTOVER

LARGEST = 0xFFFFFF  # a packet of this length is followed by another one
PACKET_HEADER = 4  # length (3), sequence number (1)

PACKET, ROWS = range(2)  # `state` of `read_rows`
NO_ROW = 100  # a status of `read_rows`: the packet at PACKET is not a row, but the end or an error


@compiled
def find_packets(buf: Bytes, at: int, filled: int, sequence: int, starts: Step, ends: Step) -> tuple[int, int, int]:
    """Bounds of the whole payloads in buf[at:filled], as many as there is room for.

    Returns (payloads, position after the last, next sequence number); -1 payloads if a sequence number is wrong.
    """
    count = 0
    while count < starts.size:
        here, expected, length, size = at, sequence, LARGEST, 0
        while length == LARGEST:
            if here + PACKET_HEADER > filled:
                return count, at, sequence
            length = little(pointer(buf), here, 3)
            if buf[here + 3] != expected:
                return -1, at, sequence
            expected = (expected + 1) & 0xFF
            here += PACKET_HEADER + length
            size += length
            if here > filled:
                return count, at, sequence
        begin = at + PACKET_HEADER
        for part in range(LARGEST, size, LARGEST):  # the first part is in its place; move the others to it
            source = begin + part + part // LARGEST * PACKET_HEADER
            for i in range(min(LARGEST, size - part)):
                buf[begin + part + i] = buf[source + i]
        starts[count], ends[count] = begin, begin + size
        count += 1
        at, sequence = here, expected
    return count, at, sequence


@compiled
def read_rows(
    buf: Bytes,
    starts: Step,
    ends: Step,
    packets: int,
    program: Program,
    state: Step,
    key: Sink,
    after: Sink,
    scratch: Scratch,
) -> int:
    """Images of the row packets from PACKET on: DONE, FULL, NO_ROW, or what is wrong at `report[STEP]`."""
    table, notes, source = table_of(program, np.int64(0)), scratch_of(scratch, np.int64(0)), pointer(buf)
    image, room, image_offsets, image_valid = pointers(after)
    keys, key_room, key_offsets, key_valid = pointers(key)
    limit, rows, keyed = buf.size, after.valid.size, table.row[KEY_COUNT] > 0
    bitmap_size = (table.row[COUNT] + 9) >> 3
    while state[PACKET] < packets:
        at, end, row = starts[state[PACKET]], ends[state[PACKET]], state[ROWS]
        if at == end or source[at] != 0:
            return NO_ROW
        if row == rows:
            return FULL
        if end - at < 1 + bitmap_size:
            return BAD_PACKET
        behind_row, pos = write_image(
            source, at + 1 + bitmap_size, end, limit, at + 1, np.int64(2), np.int64(-1), table, image, room,
            image_offsets[row], notes,
        )  # fmt: skip
        if pos < 0:
            return -pos
        if behind_row != end:
            notes.report[STEP] = table.row[COUNT] - 1
            return LEFTOVER
        key_end = key_offsets[row]
        if keyed:
            key_end = write_key(image, room, table, keys, key_room, key_end, notes)
            if key_end < 0:
                return FULL
        key_offsets[row + 1], key_valid[row] = key_end, keyed
        image_offsets[row + 1], image_valid[row] = pos, True
        state[ROWS] += 1
        state[PACKET] += 1
    return DONE
