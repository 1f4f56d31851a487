"""A run of something in processes of its own: what it printed, and how much memory they took together at their peak."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psutil

_EVERY_SECONDS = 0.25
_WORKERS = "lakehouse_cdc.workers.daemon"  # the module that they are forked from


@dataclass(frozen=True)
class Run:
    """`rows` rows or changes took `seconds`; `peak_mb` is of the whole process tree, pages that are shared once.

    `workers_mb` is that of Spark's Python workers alone, `driver_mb` that of all else. Of a run that is checked, these
    are those of the check, too, if it took more. `said` is all of the line that it printed.
    """

    rows: int
    seconds: float
    peak_mb: int
    workers_mb: int = 0
    driver_mb: int = 0
    said: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Rows a second."""
        return self.rows / self.seconds


def run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Run:
    """Run a command whose last line is JSON with `rows` and `seconds`. Raises RuntimeError if it fails."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env={**os.environ, **(environment or {})}
        )
        watch = _Watch(process.pid)
        out, _ = process.communicate()
        peaks = watch.end()
        if process.returncode:
            errors.seek(0)
            raise RuntimeError(f"{' '.join(command)[:300]} ended with {process.returncode}\n{errors.read()[-4000:]}")
    said: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
    peak, workers, driver = (round(one / 1e6) for one in peaks)
    return Run(int(said["rows"]), float(said["seconds"]), peak, workers, driver, said)


class _Watch:
    """The most memory that a process and its descendants, the workers among these, and the others had, in bytes."""

    def __init__(self, pid: int) -> None:
        self._process, self._over = psutil.Process(pid), threading.Event()
        self._peaks = (0, 0, 0)
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def end(self) -> tuple[int, int, int]:
        self._over.set()
        self._thread.join()
        return self._peaks

    def _look(self) -> None:
        while not self._over.wait(_EVERY_SECONDS):
            total = workers = 0
            with suppress(psutil.NoSuchProcess):
                for one in [self._process, *self._process.children(recursive=True)]:
                    with suppress(psutil.Error):
                        memory = one.memory_full_info()
                        size = getattr(memory, "pss", memory.uss)
                        total += size
                        workers += size if _WORKERS in one.cmdline() else 0
            most, most_workers, most_others = self._peaks
            self._peaks = max(most, total), max(most_workers, workers), max(most_others, total - workers)
