"""Which batches are offered, and when there are no more: the stream's end, where it has one, and its rest."""

from __future__ import annotations

from collections.abc import Callable

from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.source.ddl.transitions import with_cursors_put_back
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.requests.requests import Signals


class Pace:
    """The pace of one stream, which is fed as it runs."""

    def __init__(self, options: SourceOptions, signals: Signals, clock: Callable[[], float]) -> None:
        self._options, self._signals, self._clock = options, signals, clock
        self._available_now = False
        self._target: Position | None = None
        self._offered_at = -float("inf")

    def available_now(self) -> None:
        """Stop at what is there when the last chunk has been planned."""
        self._available_now, self._target = True, None

    def moved(self) -> None:
        """The stream continues on another server: where this one's log ends is not known yet."""
        self._target = None

    def over(self, start: Offset) -> bool:
        """Whether there is nothing left of existing rows, and they are all that is wanted."""
        done = all(s.done for s in start.captured.values())
        wanted = self._options.snapshot != "only" or self._signals.wanted(start)
        return done and not wanted and not _unchecked(start)

    def end(self, tip: Position) -> Position:
        """Where the next batch ends at the latest."""
        return tip if self._target is None else min(tip, self._target)

    def finished(self, start: Offset, tip: Callable[[], Position], *, looked: bool) -> bool:
        """True where no further batch may be offered; `tip` says where the log ends.

        `looked`: whether it is known which tables there are at `start`.
        """
        done = all(s.done for s in start.captured.values())
        everything, checked = done and not self._signals.wanted(start), done and not _unchecked(start)
        if self.over(start):
            return True
        if not self._available_now:
            return False
        if not done or any(s.repair_pending for s in start.captured.values()):
            self._target = None  # DDL has put a cursor back, or keys are to be read once more
        elif self._target is None and everything:
            self._target = tip()
        if self._target is None or self._target.base != start.position.base:
            return False
        return start.position >= self._target and checked and looked

    def worth_offering(self, start: Offset, offset: Offset, captured_rows: int) -> bool:
        """A move without captured rows is offered now and then only, so that idle sources make few batches."""
        if offset.tables == with_cursors_put_back(start, ()).tables and captured_rows == 0 and not _unchecked(start):
            if offset.position == start.position:
                return offset.settings != start.settings
            quiet = self._clock() - self._offered_at < self._options.idle_seconds
            if quiet and not self._available_now:
                return False
        self._offered_at = self._clock()
        return True


def _unchecked(start: Offset) -> bool:
    """Whether a batch must follow that says that the last chunks met no DDL."""
    captured = start.captured.values()
    return all(s.done for s in captured) and not all(s.complete and not s.repair_asked for s in captured)
