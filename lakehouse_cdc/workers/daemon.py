"""Spark's Python daemon, with what its workers are going to need already imported.

Spark has a Python process from which it forks its workers, and each of them imports what it is asked to run: for the
source 1.1 s of CPU (NumPy, PyArrow, pandas, Numba), and 0.5 s more to load the kernels. Here the daemon does both
once, before it forks.

For `spark.python.daemon.module`. Daemons of the short-lived processes that plan a source need nothing of it.
"""

from __future__ import annotations

import sys

from pyspark.daemon import manager

from lakehouse_cdc.workers.preload import import_once

_WORKERS = "pyspark.worker"  # what Spark calls them, as the first argument

if __name__ == "__main__":
    if sys.argv[1:] == [_WORKERS]:
        import_once(_WORKERS)
    manager()
