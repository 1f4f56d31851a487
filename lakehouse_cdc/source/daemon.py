"""Spark's Python daemon, with what its workers are going to need already imported.

Spark has a Python process from which it forks its workers, and each of them imports what it is asked to run: for the
source 1.1 s of CPU (NumPy, PyArrow, pandas, Numba), and 0.5 s more to load the kernels. Here the daemon does both
once, before it forks. It must begin no thread and open nothing, for a fork copies neither; neither does these. What is
there by then is kept out of the garbage collector's sight: a worker runs it behind each task, which took 80 ms of the
200 ms in which a task reads 50,000 rows and writes them.

For `spark.python.daemon.module`. Daemons of the short-lived processes that plan a source need nothing of it.
"""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from importlib import import_module

from pyspark.daemon import manager

_WORKERS = "pyspark.worker"  # what Spark calls them, as the first argument

if __name__ == "__main__":
    if sys.argv[1:] == [_WORKERS]:
        for module in ("pyspark.worker", "pandas", "lakehouse_cdc.source.stream"):
            with suppress(ImportError):
                import_module(module)  # pandas, since PyArrow looks for it when it makes its first array
        from lakehouse_cdc.mysql.kernels.warm import warm_up

        warm_up()
        gc.freeze()
    manager()
