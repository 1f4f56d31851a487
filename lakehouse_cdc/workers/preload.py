"""What a process imports and loads once, before it gives copies of itself to Spark: Spark's own modules, and ours.

It begins no thread and opens nothing, for a fork copies neither. What is there by then is kept out of the garbage
collector's sight: a worker runs it after each task, which took 80 ms of the 200 ms in which a task read 50,000 rows
and wrote them.
"""

from __future__ import annotations

import gc
from contextlib import suppress
from importlib import import_module


def import_once(module: str) -> None:
    """All that `module`, which is one of Spark's, and the source are going to need."""
    for name in (module, "pandas", "lakehouse_cdc.source.spark.stream"):
        with suppress(ImportError):
            import_module(name)  # pandas, since PyArrow looks for it when it makes its first array
    from lakehouse_cdc.workers.kernels import load

    load()
    gc.freeze()
