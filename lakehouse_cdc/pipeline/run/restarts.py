"""Start the streams again when what stopped them lies outside and may pass: a full disk, a server that restarts.

A run that starts its queries again does what the next run would: what Spark had planned is in the checkpoint, a batch
is a function of its offsets, and bronze and silver take each batch once. So no row can be lost or doubled by it. Short
outages do not come here: `source.retry` waits them out. Pauses grow, for what is busy now is busy in a second, too, and
a part of each is left to chance, so that many pipelines do not all come back in the same moment. Nothing is hidden:
each time is logged, with when it ends, counted in the run's report, and `status` shows it.

One cause is Spark's own: it gives a Python process that it starts ten seconds to call back (PythonWorkerFactory, not
configurable), which on a machine with much else to do is a matter of luck. Such a process has done nothing yet.

Any other failure ends the run.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import NamedTuple, TypeVar

from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.lake.spark_errors import as_cdc_error

MAY_PASS = frozenset(
    {
        codes.CONNECTION_LOST,
        codes.SERVER_OVERLOADED,
        codes.SERVER_RESTARTING,
        codes.SERVER_MOVED,
        codes.SERVER_LAGS,
        codes.STATEMENT_INTERRUPTED,
        codes.DUMP_ENDED,
        codes.DUMP_SILENT,
        codes.DUMP_OUT_OF_STEP,
        codes.WORKSPACE_FAILED,
        codes.PYTHON_WORKER_LATE,
        codes.KAFKA_UNAVAILABLE,
        codes.SCHEMA_REGISTRY_UNAVAILABLE,
        codes.OBJECT_STORE_UNAVAILABLE,
        codes.DISK_REFUSES,
        codes.PLANNER_ENDED,
    }
)
_PAUSES = (1, 2, 4, 8, 16, 32, 60)  # seconds before each further try; the last one is repeated
_log = logging.getLogger(__name__)
T = TypeVar("T")


class Clock(NamedTuple):
    """The time, in seconds since any moment, and a way to wait."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


MACHINE = Clock()


def persistently(
    streams: Callable[[], T],
    *,
    batches: Callable[[], int],
    retry_seconds: float,
    waits: Callable[[CdcError, int, datetime], None],
    clock: Clock = MACHINE,
) -> T:
    """The result of `streams`, which is called again, after a pause, when it fails for what may pass by itself.

    `batches` counts those that were done: only failures that none lies between are counted together, and
    `retry_seconds` after the first of them the error is raised. `waits` is called in front of each pause: with the
    error, how many tries have failed, and until when there will be others.
    """
    failures, since = 0, 0.0
    while True:
        before = batches()
        try:
            return streams()
        except Exception as failure:
            error = as_cdc_error(failure)
            if not failures or batches() > before:
                failures, since = 0, clock.now()
            failures += 1
            left = since + retry_seconds - clock.now()
            if error.code not in MAY_PASS or left <= 0:
                raise
        pause = min(_PAUSES[min(failures, len(_PAUSES)) - 1] * random.uniform(0.75, 1), left)
        until = datetime.now(timezone.utc) + timedelta(seconds=left)
        _log.warning(
            "streams start again in %.1f s (%d tries failed, others until %s UTC): %s",
            pause, failures, f"{until:%T}", error,
        )  # fmt: skip
        waits(error, failures, until)
        clock.sleep(pause)
