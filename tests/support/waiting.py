"""Wait for something that another thread, process or server does."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(holds: Callable[[], bool], seconds: float = 180.0) -> None:
    """Return when it holds. Raises AssertionError where it does not in that time."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not in {seconds:.0f} s"
        time.sleep(0.1)
