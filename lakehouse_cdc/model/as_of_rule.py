"""The as-of rule: from a lock-free SELECT and a stretch of binlog to the rows as they were at a position W.

Let F <= W <= H. Every transaction at or before F was visible to the SELECT, and H was asked for after the SELECT
ended, so every transaction that the SELECT saw lies at or before H. Take a key.

* It has an event in (F, W]: the last such event's after image is the row at W, whatever the SELECT saw.
* It has none there, but one in (W, H]: its row did not change in (F, W], so the before image of its first event in
  (W, H] is the row at W, whatever the SELECT saw.
* It has none in (F, H]: the SELECT saw all up to F and nothing after H, so what it saw is the row at W.

Every case gives the state at W and mentions neither H nor what the SELECT happened to see: any attempt gives the same
rows. (DBLog, Andreakis and Papapanagiotou 2020, and Flink CDC 2 roll forward to H instead, which changes each time.)
A key update is two events, a delete of the old key and an insert of the new one; keys are compared by stored bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Event(NamedTuple):
    """One event of a key. Images are None where there is no row: `before` of an insert, `after` of a delete."""

    key: bytes
    before: bytes | None
    after: bytes | None
    forward: bool  # True in (F, W], False in (W, H]


def truths(events: Iterable[Event]) -> dict[bytes, bytes | None]:
    """The image at W of every key that occurs in (F, H], in log order; None where no row existed then."""
    forward: dict[bytes, bytes | None] = {}
    back: dict[bytes, bytes | None] = {}
    for event in events:
        if event.forward:
            forward[event.key] = event.after
        elif event.key not in forward:
            back.setdefault(event.key, event.before)
    return {**back, **forward}
