"""Effective commit times: which prefix of the log a time stands for, whatever clocks and sessions did.

The stamp of a transaction (`commit_ts`) is no proof. Before MySQL 8.0 and on MariaDB it is the time of a statement's
start, and a session may set it to any time (`SET timestamp`); a server's clock may be wrong and be put right. Two
things are certain: the order of the log, and what the driver saw. When it asked where the log ends, it read the
server's clock before and after, in a session of its own. So of a position that the driver knows (a batch's end) there
are *bounds*: every transaction up to it was logged by `by`, every later one after `after`.

    boundaries W_0 < W_1 < ..., each with its bounds
    transactions i = 1, 2, ... in the order of the log; k(i): the first boundary that is not before i
    stamp t_i is *credible* if t_i <= by[k(i)]
    e_i = max(after[k(i) - 1], every credible t_j with j <= i)

`Bounds.later` makes both series non-decreasing, with after <= by at each boundary. Then

1. e is non-decreasing: both terms of the maximum are. So {i: e_i <= T} is a prefix of the log, and grows with T.
2. after[k(i) - 1] <= e_i <= by[k(i)]: each credible t_j is at most by[k(j)] <= by[k(i)], as j <= i; and
   after[k - 1] <= by[k - 1] <= by[k]. So a batch's bounds are the largest error that any set of stamps can cause.
3. Where clocks are sane (stamps non-decreasing and between the bounds), e_i = t_i.
4. A stamp that is beyond its `by`, or below the e before it, changes no other e: it is in no maximum, or does not win.
5. An answer is stable: T is answered only if T < e_i for some i, or T < after of the last boundary. By 1 and 2 all
   later transactions are above T, too.

A stamp precedes the moment at which its transaction is in the log, by the time of a flush (8.0) or of a whole
statement (5.7, MariaDB). `after` is therefore `SLACK` before the clock that was read, so that sane stamps stay as they
are. A server's clock that is more than a day ahead of the driver's is not believed; the driver's is taken.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SLACK = 10_000_000  # microseconds
_DAY = 86_400_000_000


@dataclass(frozen=True)
class Bounds:
    """Of a position: all transactions up to it were logged by `by`, all later ones after `after`.

    Both in microseconds since 1970. `by` 0: not known, as in what earlier releases wrote.
    """

    after: int = 0
    by: int = 0

    def later(self, *, by: int, after: int, stamp: int = 0) -> Bounds:
        """Those of a later position. `stamp` is of the last transaction up to it: it counts where it is credible."""
        by = max(self.by, by)
        credible = stamp if stamp <= by else 0
        return Bounds(min(max(self.after, after, credible), by), by)

    def time(self, stamp: int) -> int:
        """The time of the transaction that ends at the position: its stamp, or what is known in its place."""
        return stamp if not self.by or stamp <= self.by else self.after


@dataclass(frozen=True)
class Mark:
    """The bounds of the position at which `seq` is the last one (see `model.seq.last_at`)."""

    seq: int
    bounds: Bounds


class Timeline:
    """Marks in order. Those with unknown bounds are left out: the next one's `by` holds for what is before it, too."""

    def __init__(self, marks: Iterable[Mark]) -> None:
        self.marks: Sequence[Mark] = sorted((m for m in set(marks) if m.bounds.by), key=lambda m: m.seq)
        self._seqs = [mark.seq for mark in self.marks]

    def mark_of(self, seq: int) -> Mark | None:
        """The first mark that is not before a seq."""
        at = bisect_left(self._seqs, seq)
        return self.marks[at] if at < len(self.marks) else None

    def window(self, time: int) -> tuple[Mark | None, Mark | None]:
        """The last mark all before which is at or before `time`, and the first one all after which is later."""
        low = [mark for mark in self.marks if mark.bounds.by <= time]
        high = [mark for mark in self.marks if mark.bounds.after > time]
        return (low[-1] if low else None), (high[0] if high else None)


def believable(server: int, driver: int) -> int:
    """What a server's clock says, unless it is more than a day ahead of the driver's: then that."""
    return server if server <= driver + _DAY else driver


def effective(timeline: Timeline, stamps: Sequence[tuple[int, int]]) -> list[int]:
    """The definition above, for transactions (seq, stamp) in order: e of each. What answers a time is tested by it."""
    times, best = [], 0
    for seq, stamp in stamps:
        mark = timeline.mark_of(seq)
        before = [m.bounds.after for m in timeline.marks if m.seq < seq]
        best = max(best, before[-1] if before else 0, stamp if mark is None or stamp <= mark.bounds.by else 0)
        times.append(best)
    return times
