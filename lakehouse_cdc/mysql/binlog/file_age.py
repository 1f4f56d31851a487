"""When a binlog file was made, as its first events say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse_cdc.images.binlog.words import FORMAT, HEADER

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def made_at(events: NDArray[np.uint8]) -> int | None:
    """When the file was made whose first events these are, in seconds since 1970; None where that is not among them.

    It is the header time of the format description.
    """
    at = 0
    while at + HEADER <= events.size:
        if int(events[at + 4]) == FORMAT:
            return int.from_bytes(events[at : at + 4].tobytes(), "little")
        at += max(int.from_bytes(events[at + 9 : at + 13].tobytes(), "little"), HEADER)
    return None
