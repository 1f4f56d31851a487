"""The total order of bronze: one DECIMAL(38, 0) per row, made of five numbers.

    epoch (4 digits) | file number (10) | end position (13) | rank (1) | ordinal (10)

Within an epoch the binlog's order is (file number, end position); `rank` puts schema changes and truncations after
the events that end at the same position, snapshot rows after those, and the end of a repeated snapshot last;
`ordinal` counts the rows of a whole transaction (a key update takes two), so rows that share an end position differ; of
snapshot rows it counts the readings of one table at one position.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.position import Position

EPOCH, FILE, POS, RANK, ORDINAL = 10**34, 10**24, 10**11, 10**10, 1
_LIMITS = {"epoch": 10**4, "file": 10**10, "pos": 10**13, "rank": 10, "ordinal": 10**10}


class Rank(IntEnum):
    """What comes first at one and the same position."""

    EVENT = 0
    SCHEMA = 1
    READ = 2
    END = 3


class Seq(NamedTuple):
    """The five parts of a `seq`, each a non-negative number."""

    epoch: int
    file: int
    pos: int
    rank: int
    ordinal: int

    def pack(self) -> int:
        """The number as it is in bronze. Raises DefiniteError if a part has too many digits."""
        for name, value in self._asdict().items():
            if not 0 <= value < _LIMITS[name]:
                raise codes.SEQ_OVERFLOW.error(f"seq: {name} = {value} does not fit its digits")
        return self.epoch * EPOCH + self.file * FILE + self.pos * POS + self.rank * RANK + self.ordinal


def last_at(epoch: int, position: Position) -> int:
    """The last seq, packed, that a row at a position may have."""
    return last_seq_of_position(Seq(epoch, position.number, position.pos, Rank.EVENT, 0).pack())


def last_seq_of_position(seq: int) -> int:
    """The last seq at the position of a packed one."""
    return seq - seq % POS + POS - 1


def unpack(seq: int) -> Seq:
    """The parts of a packed seq."""
    epoch, rest = divmod(seq, EPOCH)
    file, rest = divmod(rest, FILE)
    pos, rest = divmod(rest, POS)
    rank, ordinal = divmod(rest, RANK)
    return Seq(epoch, file, pos, rank, ordinal)
