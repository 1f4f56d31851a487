"""`lakehouse-cdc run --once` as a process that stops before and after each commit of some kinds until it is let on.

So a test ends it, or what is around it, at just that moment, by a signal from outside as an operating system does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

import psutil

from lakehouse_cdc.lake.failpoints import Door, Moment, install
from tests.support.processes import runs, tree

_ROOT = Path(__file__).parents[2]
_MARK = "the next moment is "
_ON, _TO_THE_END = "on", "to the end"
_BRIEF = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}  # a JVM that soon ends does not earn what it compiles well


class SteppedRun:
    """For a `with` block, at whose end it has ended. What it prints is in `log`."""

    def __init__(self, config: Path, doors: Iterable[Door], log: Path) -> None:
        command = [sys.executable, "-m", __name__, str(config), *(door.name for door in doors)]
        with open(log, "ab") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=_ROOT,
                start_new_session=True, env=os.environ | _BRIEF,
            )  # fmt: skip
        self._log = log

    def __enter__(self) -> SteppedRun:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill(with_jvm=True)

    def at(self, number: int) -> str:
        """Let it reach the moment of that number, from 0, where it waits; what that is."""
        for left in range(number, -1, -1):
            moment = self._next()
            assert moment, f"it ended {left} moments too early: {self._log.read_text()[-3000:]}"
            if left:
                self._answer(_ON)
        return moment

    def let_on(self) -> None:
        """It stops no more."""
        self._answer(_TO_THE_END)

    def ended(self) -> int:
        """Let it on to its end; the exit code."""
        self._process.communicate(_TO_THE_END + "\n")
        return self._process.returncode

    def kill(self, *, with_jvm: bool) -> int:
        """SIGKILL, which it cannot have ended before; the exit code."""
        assert self._process.poll() is None, self._log.read_text()[-3000:]
        family = tree(psutil.Process(self._process.pid))
        for one in [*(other for other in family[1:] if with_jvm and runs(other, "java")), family[0]]:
            one.kill()
        self._process.communicate()
        return self._process.returncode

    def _next(self) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(_MARK):
                return line.removeprefix(_MARK).strip()
        return ""

    def _answer(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()


class _Asking:
    """Asks by this process's output, and waits for a word on its input."""

    def __init__(self, doors: set[Door]) -> None:
        self._doors, self._turn, self._free = doors, threading.Lock(), False

    def __call__(self, door: Door, moment: Moment, name: str) -> None:
        with self._turn:
            if door in self._doors and not self._free:
                print(f"{_MARK}{moment.value}: {door.value}: {name}", flush=True)
                self._free = sys.stdin.readline().strip() != _ON


def _run(config: str, *doors: str) -> None:
    from lakehouse_cdc.cli.main import main

    install(_Asking({Door[name] for name in doors}))
    sys.argv = ["lakehouse-cdc", "run", "--once", "-c", config]
    main()


if __name__ == "__main__":
    _run(*sys.argv[1:])
