"""The lag of a layer after its source, in bytes of binlog and in seconds, also while nothing is written.

Everything that was committed up to two moments is surely in it: the commit of its last transaction, and the last time
at which somebody saw that the log had nothing more. The later one counts. So the seconds do not jump when a source that
was quiet for hours writes again, and they grow while bytes are missing.

The offset knows such a moment itself: all that is after its position was logged after `Bounds.after`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakehouse_cdc.model.commit_note import SourcePoint


@dataclass(frozen=True)
class Lag:
    """Bytes of binlog that are missing, and seconds since all that was committed is there; 0 where none is missing.

    `bytes` is None where the server no longer has the file. `caught_up_seconds`: since when it last had everything,
    0 while it has; None where that is not known.
    """

    bytes: int | None
    seconds: float
    caught_up_seconds: float | None = None

    @property
    def sentence(self) -> str:
        """What a person reads: bronze is at ..."""
        if self.bytes is None:
            return "a file that the source no longer has"
        return (
            f"{self.bytes:,} bytes of binlog ({self.seconds:,.0f} s) behind the source"
            if self.bytes
            else "all there is"
        )


def lag(point: SourcePoint, sizes: Sequence[tuple[str, int]], now: float, *, caught_up_at: float = 0.0) -> Lag:
    """The lag of `point`, where the server has files of these sizes, `now`; both times in seconds since 1970."""
    names = [name for name, _ in sizes]
    missing = None
    if point.file in names:
        missing = max(0, sum(size for _, size in sizes[names.index(point.file) :]) - point.pos)
    caught_up_at = max(caught_up_at, point.after / 1e6)
    since = max(caught_up_at, point.time / 1e6)
    if missing == 0:
        return Lag(0, 0.0, 0.0)
    return Lag(missing, max(0.0, now - since), max(0.0, now - caught_up_at) if caught_up_at else None)
