"""Run streaming queries to their end, to the first failure or to an interrupt, and leave none of them running.

An interrupt (Ctrl-C) that were raised in the middle of a call into Spark would leave that call's connection half used.
So while streams run it is noted only, and acted upon between two calls; a second one is raised at once.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.lake.spark_errors import failure_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from lakehouse_cdc.lake.micro_batches import MicroBatches

    Query = StreamingQuery | MicroBatches

_POLL_SECONDS = 0.1


class Streams:
    """The queries of one run, as a context manager that stops them all."""

    def __init__(self) -> None:
        self._queries: list[Query] = []
        self._interrupted = False
        self._work = False
        self._before: Any = None

    def add(self, query: Query) -> None:
        """One that was just started."""
        self._queries.append(query)

    def begin_to_work(self) -> bool:
        """Whether every stream has completed a trigger, with or without rows, since this was asked last."""
        before, self._work = self._work, self._work or all(query.lastProgress for query in self._queries)
        return self._work and not before

    def wait(self, until: Callable[[], bool] = lambda: False) -> bool:
        """Until all have ended, which is True, or `until` says so.

        Raises the exception of the first query that fails, KeyboardInterrupt when interrupted.
        """
        from pyspark.errors import StreamingQueryException

        while not until():
            running = [query for query in self._queries if query.isActive]
            if self._interrupted:
                raise KeyboardInterrupt
            for query in self._queries:
                if query not in running and (failure := failure_of(query)) is not None:
                    raise failure
            if not running:
                return True
            with suppress(StreamingQueryException):  # which is met above
                running[0].awaitTermination(_POLL_SECONDS)  # type: ignore[arg-type]  # it takes fractions
        return False

    def __enter__(self) -> Streams:
        if threading.current_thread() is threading.main_thread():  # no other may set a handler, or is interrupted
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for query in self._queries:
                with suppress(Exception):
                    query.stop()
        finally:
            if self._before is not None:
                signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._interrupted:
            raise KeyboardInterrupt
        self._interrupted = True
