"""Named moments of the algorithm, at which a test may act on the source.

A test that writes at exactly the moment between a chunk's SELECT and its high watermark proves more than one that
hopes to. Nothing is installed in production; `reached` is then one comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum


class Step(str, Enum):
    """The moments, in the order in which one batch meets them."""

    BEFORE_POSITION = "before the position W is read"
    AFTER_POSITION = "after the position W is read"
    BEFORE_SELECT = "before a chunk's SELECT"
    AFTER_SELECT = "after a chunk's SELECT"
    AFTER_HIGH = "after the high watermark H is read"


_hook: Callable[[Step, str], None] | None = None


def install(hook: Callable[[Step, str], None] | None) -> None:
    """Call `hook(step, table)` at every moment in this process; None takes it out. For tests."""
    global _hook
    _hook = hook


def reached(step: Step, table: str = "") -> None:
    """The algorithm is at `step` (for `table`, where it is a chunk's)."""
    if _hook is not None:
        _hook(step, table)
