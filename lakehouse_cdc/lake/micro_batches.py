"""A stream whose driver is this process: Spark's protocol of micro-batches, on Spark's own checkpoint.

Purpose: a session of Spark Connect runs the function of a foreachBatch in a process beside the server, where nothing of
this one is; serverless has no other trigger than "all that is there now" either. So there a loop here does what
Spark's `MicroBatchExecution` does: it asks what is new, notes where the batch ends, has it applied, and notes that it
is complete. The batch itself is read and written by ordinary DataFrames.

Invariant: the checkpoint is at any moment one that Spark's own query continues from, and the other way round. A batch
is applied until that has ended once, each time with the same start and end, and the next one begins where it ended.

Why it holds. The files are Spark's, written at the same moments: `metadata` before everything, `offsets/N` before batch
N is applied, `commits/N` after it has ended. Each is created as a whole or not at all, and is never replaced, so of two
loops that plan the same batch one is refused. What a start finds decides, by the rule that Spark has, too:

- the last `offsets/N` has its `commits/N`: the next batch is N + 1, from the end of N on;
- it has none: batch N is applied again, from the end of N - 1 to the end that was noted. Nothing is asked of the
  source before, so what has come since is in no batch yet.

A crash between any two steps leaves one of the two. What a repeated batch may do twice is up to who applies it: bronze
and the sinks know a batch by the id in `metadata` and its number, which stay the same when the driver changes.

Spark adds to an offset the settings that its operators with a state depend on. There are none in these streams, and
Spark takes its defaults for what is missing, but for one (see `checkpoint`). The sums that Hadoop keeps beside its
files (`.N.crc`) are not written; one that is left of a file which has been removed would belie the new file, so it is
removed before.

Guards: tests/lake/test_micro_batches.py (a crash at every step; handed over to Spark and back).
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.checkpoint import Checkpoint

Offset = Mapping[str, Any]
Apply = Callable[[int, Offset, Offset], None]  # of a batch: its number, its start ({} for the first) and its end
_KEPT = 100  # batches whose files stay, as Spark keeps them (spark.sql.streaming.minBatchesToRetain)
_REST_SECONDS = 0.1  # at least, after a look that has found nothing
_log = logging.getLogger(__name__)
_active: set[str] = set()


def active() -> frozenset[str]:
    """The names of all that this process drives now."""
    return frozenset(_active)


class Source(Protocol):
    """What says where the next batch ends. Offsets are plain JSON, as Spark's checkpoint has them."""

    def until_now(self) -> None:
        """From now on there is nothing new but what is there by now."""

    def latest(self, start: Offset) -> Offset | None:
        """The end of the batch that begins at `start`, {} for the first; None where there is nothing to do now."""

    def close(self) -> None:
        """Give up what is held."""


class MicroBatches:
    """One stream, on a thread of its own. What it offers of Spark's `StreamingQuery` means the same.

    Without `every_seconds` it takes what is there now and ends, else it runs until it is stopped.
    """

    def __init__(
        self, checkpoint: str, source: Source, apply: Apply, *, name: str, every_seconds: float | None
    ) -> None:
        self.name = name
        self._place, self._source, self._apply = Checkpoint(checkpoint), source, apply
        self._every = every_seconds
        self._stopping = threading.Event()
        self._failure: Exception | None = None
        self.lastProgress: dict[str, Any] | None = None
        self._thread = threading.Thread(target=self._drive, name=name, daemon=True)

    def start(self) -> MicroBatches:
        """Begin; returns at once."""
        self._thread.start()
        return self

    @property
    def isActive(self) -> bool:
        """Whether it has not ended yet."""
        return self._thread.is_alive()

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        """Wait for its end, at most so many seconds; whether it has ended, where that is limited."""
        self._thread.join(timeout)
        return None if timeout is None else not self.isActive

    def exception(self) -> Exception | None:
        """What ended it, None if nothing has failed."""
        return self._failure

    def stop(self) -> None:
        """Have it end after the batch that it is at, and wait for that."""
        self._stopping.set()
        self._thread.join()

    def _drive(self) -> None:
        _active.add(self.name)
        try:
            if self._every is None:
                self._source.until_now()
            run(self._place, self._source, self._applied, self._rest)
        except Exception as error:
            self._failure = error
        finally:
            _active.discard(self.name)
            try:
                self._source.close()
            except Exception as error:
                _log.warning("%s: what it held could not be given up", self.name, exc_info=error)

    def _applied(self, batch: int, start: Offset, end: Offset) -> None:
        self._apply(batch, start, end)
        self.lastProgress = {"name": self.name, "batchId": batch}

    def _rest(self, began: float, *, nothing_new: bool) -> bool:
        """Wait for the next trigger; False where there is none."""
        if nothing_new:
            self.lastProgress = self.lastProgress or {"name": self.name, "batchId": None}
        if self._every is None:
            return not nothing_new and not self._stopping.is_set()
        left = began + self._every - time.monotonic()
        return not self._stopping.wait(max(left, _REST_SECONDS if nothing_new else 0.0))


class Rest(Protocol):
    """Called after each trigger, which began at that time of the monotonic clock; False ends the loop."""

    def __call__(self, began: float, *, nothing_new: bool) -> bool: ...


def run(place: Checkpoint, source: Source, apply: Apply, rest: Rest) -> None:
    """Batch after batch, from where the checkpoint is, until `rest` says that it is over."""
    if not place.exists:
        place.begin(str(uuid.uuid4()))
    last, planned = place.last_offset(), place.planned
    if planned is not None:
        began = time.monotonic()
        _repeat(place, planned, apply)
        if not rest(began, nothing_new=False):
            return
    batch, start = (0, {}) if last is None else (last + 1, place.offset(last))
    while True:
        began = time.monotonic()
        end = source.latest(start)
        if end is None:
            if not rest(began, nothing_new=True):
                return
            continue
        if not place.plan(batch, end):
            raise codes.LEASE_LOST.error(
                f"another process has planned batch {batch} of this checkpoint", where=place.location
            )
        _apply(place, batch, start, end, apply)
        batch, start = batch + 1, dict(end)
        if not rest(began, nothing_new=False):
            return


def _repeat(place: Checkpoint, batch: int, apply: Apply) -> None:
    """Apply the batch that was planned and is not complete."""
    if batch and place.last_commit() != batch - 1:
        raise codes.CHECKPOINT_DAMAGED.error(
            f"batch {batch} is planned, and the one before it is not complete",
            where=place.location,
            hint="restore the checkpoint, or start with a new one",
        )
    _apply(place, batch, place.offset(batch - 1) if batch else {}, place.offset(batch), apply)


def _apply(place: Checkpoint, batch: int, start: Offset, end: Offset, apply: Apply) -> None:
    apply(batch, start, end)
    place.complete(batch)
    place.forget(batch - _KEPT)
