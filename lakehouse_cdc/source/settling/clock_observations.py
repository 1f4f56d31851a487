"""What the driver saw of the log's end and of the server's clock, from which a batch's `Bounds` follow.

The clock is read before the log's end is asked for: what is beyond that end was logged later. By when all up to it was
logged is that time and what the driver waited for the two answers, on its own monotonic clock, so one more question is
asked, and not two. A long backlog is read in many batches, and each has the first end that was seen at or beyond its
own, and the last one at or before it. What is seen again after a restart is later, so its bounds are wider, not wrong.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from lakehouse_cdc.model.clock import SLACK, Bounds, believable
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.mysql import server
from lakehouse_cdc.mysql.connection.session import Session


@dataclass(frozen=True)
class Sighting:
    """The log ended at `tip` at some time from `since` to `until`, in microseconds since 1970."""

    tip: Position
    since: int
    until: int


def sight(session: Session) -> Sighting:
    """Read the clock, then where the log ends."""
    began = time.monotonic_ns()
    since = believable(server.clock_us(session), time.time_ns() // 1000)
    tip = server.log_position(session).position
    return Sighting(tip, since, since + (time.monotonic_ns() - began) // 1000 + 1)


class Sightings:
    """Those of one log, in the order in which they were made."""

    def __init__(self) -> None:
        self._seen: list[Sighting] = []

    def saw(self, sighting: Sighting) -> None:
        """One more; of a log that has not grown, the last one replaces what lies between it and the first."""
        if len(self._seen) > 1 and self._seen[-1].tip == self._seen[-2].tip == sighting.tip:
            self._seen.pop()
        self._seen.append(sighting)

    def bounds(self, start: Bounds, position: Position, stamp: int) -> Bounds:
        """Those of a position that a dump has delivered, after one with the bounds `start`. Forgets what is before it.

        `stamp` is that of the last transaction up to there.
        """
        until = [seen.until for seen in self._seen if seen.tip >= position]
        since = [seen.since for seen in self._seen if seen.tip <= position]
        by = min(until, default=max((seen.until for seen in self._seen), default=0))
        return start.later(by=by, after=max(since, default=SLACK) - SLACK, stamp=stamp)

    def forget(self, before: Position) -> None:
        """Drop what no batch that begins at `before` or later needs."""
        past = [seen for seen in self._seen if seen.tip <= before]
        self._seen = past[-1:] + self._seen[len(past) :]

    def clear(self) -> None:
        """Another log is read from now on."""
        self._seen = []
