"""`lakehouse-cdc run` as a service manager has it: whenever it ends, it is started again after a second.

What it prints is kept in a file, and how it ended is counted.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import psutil

from tests.support.processes import planners, runs, tree, workers

_PAUSE, _PATIENCE = 1.0, 300.0  # seconds


class Supervised:
    """From `start` to `stop`, or for a `with` block. `ended`: how often a process ended so, by its exit code."""

    def __init__(self, config: Path, output: Path, environment: dict[str, str]) -> None:
        self._command = [sys.executable, "-m", "lakehouse_cdc", "run", "-c", str(config), "--every", "0.3"]
        self._output, self._environment = output, {**os.environ, **environment}
        self._process: subprocess.Popen[bytes] | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep)
        self.ended: Counter[int] = Counter()
        self.starts = 0

    def _keep(self) -> None:
        with open(self._output, "ab") as output:
            while not self._over.is_set():
                self.starts += 1
                self._process = subprocess.Popen(
                    self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self._environment,
                    start_new_session=True,
                )  # fmt: skip
                self.ended[self._process.wait()] += 1
                self._over.wait(_PAUSE)

    def stop(self) -> None:
        """Ctrl-C, and nothing is started any more. Raises AssertionError where it does not end."""
        self._over.set()
        if self._process is not None and self._process.poll() is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGINT)
        self._thread.join(_PATIENCE)
        if self._thread.is_alive():
            self.kill(with_jvm=True)
            raise AssertionError(f"it does not end {_PATIENCE:.0f} s after a Ctrl-C")

    # ------------------------------------------------ its processes, as far as there are any now

    def _all(self) -> list[psutil.Process]:
        process = self._process
        if process is None or process.poll() is not None:
            return []
        try:
            return tree(psutil.Process(process.pid))
        except psutil.Error:
            return []

    def driver(self) -> list[psutil.Process]:
        """The process itself."""
        return self._all()[:1]

    def jvm(self) -> list[psutil.Process]:
        """Spark's."""
        return [one for one in self._all()[1:] if runs(one, "java")]

    def planners(self) -> list[psutil.Process]:
        """Those that plan streams."""
        return [one for driver in self.driver() for one in planners(driver)]

    def workers(self) -> list[psutil.Process]:
        """Those that tasks run in."""
        return [one for driver in self.driver() for one in workers(driver)]

    def kill(self, *, with_jvm: bool) -> bool:
        """SIGKILL of the process, and with it of Spark's JVM, which ends by itself else; whether there was any."""
        victims = [*(self.jvm() if with_jvm else []), *self.driver()]
        for one in victims:
            with suppress(psutil.Error):
                one.kill()
        return bool(victims)

    def __enter__(self) -> Supervised:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
