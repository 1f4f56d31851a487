"""Trying again what may pass by itself: a lost connection, a server that restarts.

Spark in local mode tries a task once, and a planner that raises ends the query, so short outages are waited out here.
It hides nothing: every attempt is logged, a definite error is never tried again, and the last transient one is raised.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from lakehouse_cdc.errors import TransientError

_WAITS = (0.2, 1.0, 3.0, 8.0, 20.0)  # seconds before each further attempt
_log = logging.getLogger(__name__)
T = TypeVar("T")


def patiently(
    call: Callable[[], T],
    *,
    before_next: Callable[[], None] = lambda: None,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """The result of `call`; after a TransientError, `before_next` and a wait, of another attempt, six in all."""
    for wait in _WAITS:
        try:
            return call()
        except TransientError as error:  # noqa: PERF203
            _log.warning("trying again in %g s: %s", wait, error)
            before_next()
            sleep(wait)
    return call()


def read_patiently(open_: Callable[[], Iterator[T]], *, sleep: Callable[[float], None] = time.sleep) -> Iterator[T]:
    """The items of `open_()`; a TransientError before the first item opens it again. Later ones are raised: Spark,
    which has some of the rows already, must discard them and run the task again."""

    def begin() -> tuple[Iterator[T], list[T]]:
        items = open_()
        first = next(items, None)
        return items, [] if first is None else [first]

    rest, first = patiently(begin, sleep=sleep)
    yield from first
    yield from rest
