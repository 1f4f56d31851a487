"""What the first pass over a buffer of binlog events hands to the second: which rows events there are, and where.

The first pass walks event headers, table maps and transactions; the second (`images.rows.decode.decode_rows`) decodes
row images. They meet in these arrays and in nothing else, so either can be tested alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

WRITE, UPDATE, DELETE = 0, 1, 2  # RowEvents.kind

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RowEvents:
    """The rows events of captured tables in one buffer, in the log's order; all arrays have one entry an event.

    `start` and `end` are offsets into the buffer: of the first byte after the event's post-header (the length-encoded
    count of columns) and of the first byte after its last row (the checksum is outside). `kind` is WRITE, UPDATE or
    DELETE, `table` an index into the `ProgramSet`, `txn` a number that is the same for all events of one transaction
    and differs between neighbours. `ordinal_base` counts the ordinals that the first transaction has used already,
    where an earlier buffer ended inside it.
    """

    start: Ints
    end: Ints
    kind: Bytes
    table: npt.NDArray[np.int32]
    txn: npt.NDArray[np.int32]
    ordinal_base: int = 0

    def __post_init__(self) -> None:
        arrays: tuple[tuple[npt.NDArray[Any], Any], ...] = (
            (self.start, np.int64),
            (self.end, np.int64),
            (self.kind, np.uint8),
            (self.table, np.int32),
            (self.txn, np.int32),
        )
        if any(array.dtype != kind or array.shape != self.start.shape for array, kind in arrays):
            raise TypeError("RowEvents: five arrays of one length: int64, int64, uint8, int32, int32")

    def __len__(self) -> int:
        return len(self.start)

    def where(self, kept: npt.NDArray[np.bool_]) -> RowEvents:
        """Some of them; `kept` has one entry an event."""
        arrays = (self.start[kept], self.end[kept], self.kind[kept], self.table[kept], self.txn[kept])
        return RowEvents(*arrays, self.ordinal_base)
