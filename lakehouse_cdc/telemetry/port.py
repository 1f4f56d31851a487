"""Where measurements go, and the promise that no output fails or delays a run.

Each output has a thread of its own and a queue: the run puts what happens there and continues. What an output
raises is logged, at most every minute; while one hangs, its queue fills up to `_MOST` events, and further ones are
lost to it alone. At the end of a run an output has `_LAST_SECONDS` for what is left.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import Full, Queue
from typing import Protocol

from lakehouse_cdc.telemetry.declaration import Measurement
from lakehouse_cdc.telemetry.events import Event
from lakehouse_cdc.telemetry.measuring import Measuring

_MOST = 10_000
_LAST_SECONDS = 5.0
_LOGGED_EVERY = 60.0
_log = logging.getLogger(__name__)


class Output(Protocol):
    """One place where measurements go. Both are called on one thread; what they raise is logged."""

    name: str  # in the log

    def take(self, event: Event, measured: Sequence[Measurement]) -> None:
        """An event, and what it makes of the metrics."""

    def close(self) -> None:
        """There are no more."""


class Telemetry:
    """The outputs of one run. `saw` may be called by any thread, and returns at once."""

    def __init__(self, outputs: Sequence[Output]) -> None:
        self._lock, self._measuring = threading.Lock(), Measuring()
        self._workers = [_Worker(output) for output in outputs]

    @property
    def wanted(self) -> bool:
        """Whether there is any output."""
        return bool(self._workers)

    def saw(self, event: Event) -> None:
        """Measure an event. Nothing is raised."""
        if not self._workers:
            return
        try:
            with self._lock:
                measured = self._measuring.of(event)
                for worker in self._workers:
                    worker.put(event, measured)
        except Exception:
            _log.warning("%s could not be measured", type(event).__name__, exc_info=True)

    def close(self) -> None:
        """Give the outputs a moment for what they have, and end."""
        until = time.monotonic() + _LAST_SECONDS
        for worker in self._workers:
            worker.end()
        for worker in self._workers:
            worker.join(max(0.0, until - time.monotonic()))


class _Worker:
    def __init__(self, output: Output) -> None:
        self._output, self._said, self._lost = output, -float("inf"), 0
        self._queue: Queue[tuple[Event, Sequence[Measurement]] | None] = Queue(_MOST)
        self._thread = threading.Thread(target=self._work, name=f"telemetry {output.name}", daemon=True)
        self._thread.start()

    def put(self, event: Event, measured: Sequence[Measurement]) -> None:
        try:
            self._queue.put_nowait((event, measured))
        except Full:
            self._lost += 1
            self._say(f"{self._lost} events are lost, it hangs")

    def end(self) -> None:
        try:
            self._queue.put_nowait(None)
        except Full:
            self._say("its last events are lost, it hangs")

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._say("it has not taken all by the end of the run")

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            with self._logged_errors():
                self._output.take(*item)
        with self._logged_errors():
            self._output.close()

    @contextmanager
    def _logged_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._say(str(error) or type(error).__name__)

    def _say(self, what: str) -> None:
        if time.monotonic() - self._said >= _LOGGED_EVERY:
            self._said = time.monotonic()
            _log.warning("metrics to %s: %s", self._output.name, what.strip().partition("\n")[0])
