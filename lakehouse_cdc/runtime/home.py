"""PySpark's own Spark, from which Python processes start twice as fast.

Spark puts the archive `python/lib/pyspark.zip` of its home before all else on the path of its Python processes. What is
imported from an archive is compiled by each process again: 0.45 s of CPU for each that plans a source, and for each
daemon of workers. Where the home has no such archive they import PySpark from where this process did, as it was
compiled when it was installed. So the home is a folder in the cache with links to all of Spark that runs.
"""

from __future__ import annotations

import hashlib
import os
import site
from contextlib import suppress
from pathlib import Path

from lakehouse_cdc.runtime.cache import cache_directory, publish

_RUNS = ("bin", "jars", "sbin")


def spark_home(pyspark: Path) -> Path:
    """A home for the Spark in PySpark's folder: without the archive, if workers find PySpark without it."""
    if not _found_by_workers(pyspark.parent):
        return pyspark
    home = cache_directory() / "spark" / hashlib.sha256(os.fsencode(pyspark)).hexdigest()[:16]
    with suppress(OSError):  # a system without links
        return publish(home, lambda place: _link(pyspark, place))
    return pyspark


def _found_by_workers(folder: Path) -> bool:
    """Whether every process of this interpreter has a folder on its path, or those that inherit our environment."""
    set_paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    always = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    return str(folder) in {*always, *set_paths}


def _link(pyspark: Path, place: Path) -> None:
    place.mkdir()
    for name in _RUNS:
        (place / name).symlink_to(pyspark / name)
