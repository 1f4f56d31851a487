"""Equal rows of a table without a key as a stack: a row that comes is put on top, one that goes is taken from there.

Which of several equal rows goes is ours to choose; see `silver.forms.writers.multiset` for why it is the topmost.
"""

from __future__ import annotations

from collections.abc import Sequence


def settled(steps: Sequence[int]) -> tuple[list[int], int]:
    """What steps (+1: a row comes, -1: one goes) do to a stack that is high enough.

    The places of the steps whose rows are there afterwards, the lowest row first; and how many of the rows go that were
    there before.
    """
    on_top: list[int] = []
    gone = 0
    for place, step in enumerate(steps):
        if step > 0:
            on_top.append(place)
        elif on_top:
            on_top.pop()
        else:
            gone += 1
    return on_top, gone
