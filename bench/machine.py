"""What the numbers of a benchmark depend on."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

_PACKAGES = ("lakehouse-cdc", "pyspark", "delta-spark", "pyarrow", "numba", "pymysql", "mysql-replication")


def machine() -> dict[str, str]:
    """Processor, memory, versions and the day (UTC), by name."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    found = {"date": f"{datetime.now(timezone.utc):%Y-%m-%d}", "cores": str(os.cpu_count())}
    found |= {"processor": _processor(), "memory": f"{memory / 2**30:.0f} GiB"}
    return {**found, "python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


def told(machine: Mapping[str, str]) -> str:
    """The same in one line."""
    versions = ", ".join(f"{name} {machine[name]}" for name in ("python", "pyspark", "delta-spark"))
    return f"{machine['date']}, {machine['cores']} cores of {machine['processor']}, {machine['memory']}; {versions}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not on Linux
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
