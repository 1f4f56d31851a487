"""Start the streams again where Spark did not wait long enough for a process of its own.

Spark gives a Python process that it starts ten seconds to call back (PythonWorkerFactory, not configurable), and ends
the query when it is later: on a machine with much else to do that is a matter of luck. Such a process has read and
written nothing yet. And a run that starts its queries again does what the next run would: what Spark had planned is in
the checkpoint, a batch is a function of its offsets, and bronze and silver take each batch once. So no row can be lost
or doubled by it. Nothing is hidden either: each time is logged, with how often it will still be tried, and counted in
the run's report. A machine that is busy now is busy in a second, too, so the pauses grow; without a batch in between it
is tried for about ten minutes. Any other failure ends the run.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.spark_errors import as_cdc_error

PAUSES = (1, 2, 4, 8, 16, 32, *(60,) * 9)  # seconds before each further try, of which up to a quarter is left to chance
_log = logging.getLogger(__name__)
T = TypeVar("T")


def while_late(
    streams: Callable[[], T],
    done: Callable[[], int],
    again: Callable[[], None],
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """The result of `streams`, which is called again, after `again`, when it fails as a process of Spark's was late.

    `done` counts batches: only those failures that none lies between are counted together.
    """
    late = 0
    while True:
        before = done()
        try:
            return streams()
        except Exception as error:
            late = 1 if done() > before else late + 1
            if as_cdc_error(error).code is not codes.PYTHON_WORKER_LATE or late > len(PAUSES):
                raise
            pause = PAUSES[late - 1] * random.uniform(0.75, 1)
            _log.warning(
                "a Python process took Spark more than 10 s to start; streams start again in %.1f s (try %d of %d): %s",
                pause, late, len(PAUSES), error,
            )  # fmt: skip
            sleep(pause)
            again()
