"""Two-phase XA transactions: their rows lie in the log where they were prepared, and take effect elsewhere in it.

An XA PREPARE logs the rows in a group of its own; an XA COMMIT, perhaps files later and by another session, is a group
without rows that makes them true, and an XA ROLLBACK makes them nothing. So the rows are events of the XA COMMIT: with
its position, GTID and time, numbered through the group that was prepared. Their keys are locked from the one to the
other, so no event of any other transaction is between them that they could be out of order with.

A reader of a stretch of the log meets an XA COMMIT and must know where its rows lie. If they were prepared in the
stretch he has seen it himself; else they were open, prepared and not decided on, where the stretch begins. So the
offset lists what is open at its position, and continues listing, with its decision, what was open at any place where a
stretch may still begin: the start of the batch, the files in it, the floor of an as-of read. What was prepared and
decided between two such places is never listed, and offsets stay small however many XA transactions there are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakehouse_cdc.model.position import Position


@dataclass(frozen=True)
class Prepared:
    """One prepared group, and the position where it was decided on, if it was.

    `xid` is its global part, its branch (both in hex) and its format, as the log writes them. `rows` are those of
    captured tables; 1 where they were not counted, since the tables were not known yet, and 0 once it is rolled back.
    `again`, where statements were logged as text in it: the tables that they may change, `*` for every one, which are
    read again where it is committed.
    """

    xid: str
    begin: Position
    end: Position
    rows: int
    decided: Position | None = None
    again: tuple[str, ...] | None = None

    def open_at(self, position: Position) -> bool:
        """Whether it was prepared at or before `position`, and not decided on until then."""
        return self.end <= position and (self.decided is None or self.decided > position)

    def to_json(self) -> list[Any]:
        """Plain data."""
        parts = [self.xid, self.begin.file, self.begin.pos, self.end.pos, self.rows]
        decided = [] if self.decided is None else [self.decided.file, self.decided.pos]
        return [*parts, *decided] if self.again is None else [*parts, *(decided or [None, None]), list(self.again)]

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> Prepared:
        """The inverse of `to_json`; a group never spans two files."""
        xid, file, begin, end, rows, *more = data
        at = Position(more[0], more[1]) if more and more[0] is not None else None
        again = tuple(more[2]) if len(more) > 2 else None
        return cls(xid, Position(file, begin), Position(file, end), rows, at, again)


@dataclass(frozen=True)
class XaEvent:
    """What happened to `xid` at a position: it was prepared, or (None) decided on: committed, or rolled back."""

    position: Position
    xid: str
    prepared: Prepared | None
    committed: bool = False


def open_at(known: Iterable[Prepared], position: Position) -> tuple[Prepared, ...]:
    """Those that a reader which begins at `position` does not find by itself."""
    return tuple(p for p in known if p.open_at(position))


def follow(known: Iterable[Prepared], events: Iterable[XaEvent]) -> list[Prepared]:
    """`known` and all that has happened since.

    An xid may be used again, but not while it is prepared: of one that is prepared twice the first was lost in a crash
    of the server, before its engine had it.
    """
    by_begin = {p.begin: p for p in known}
    undecided = {p.xid: p for p in by_begin.values() if p.decided is None}
    for event in events:
        before = undecided.pop(event.xid, None)
        if event.prepared is not None:
            if before is not None:
                del by_begin[before.begin]
            by_begin[event.prepared.begin] = undecided[event.xid] = event.prepared
        elif before is not None:
            rows = before.rows if event.committed else 0
            again = before.again if event.committed else None
            by_begin[before.begin] = replace(before, decided=event.position, rows=rows, again=again)
    return list(by_begin.values())


def needed(known: Sequence[Prepared], begins: Sequence[Position], floor: Position) -> tuple[Prepared, ...]:
    """Those that are not decided on, or were open at one of the places where a reader may begin.

    And the one that was decided on last, if that is after the floor: as a sign that there was one.
    """
    places = sorted(begins)
    last = max((p.decided for p in known if p.decided is not None), default=floor)

    def is_needed(p: Prepared) -> bool:
        at = bisect_left(places, p.end)
        return p.decided is None or (at < len(places) and places[at] < p.decided) or floor < p.decided == last

    return tuple(filter(is_needed, known))
