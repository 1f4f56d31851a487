"""A pipeline as a process that can be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

CONFIG = """\
name: crash
source:
  url: {url}
  tables: ["{database}.*"]
  chunk_rows: {chunk_rows}
  chunks_per_trigger: 8
target:
  path: lakehouse
  bronze: bronze
  silver: silver
"""
_PATIENCE = 600.0  # seconds: a Spark start and a batch on a machine that has other things to do


class Driver:
    """`lakehouse-cdc run`, in a process group of its own."""

    def __init__(self, config: Path) -> None:
        command = [sys.executable, "-m", "lakehouse_cdc.cli.main", "run", "-c", str(config), "--every", "0.2"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        """What is still running after a failed test ends with it."""
        if self.process.poll() is None:
            self.kill(with_jvm=True)

    def children(self) -> list[int]:
        """The processes that it started: Spark's JVM."""
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in listed.read_text().split()] if listed.exists() else []

    def kill(self, *, with_jvm: bool) -> None:
        """SIGKILL. Without its driver, a JVM ends by itself."""
        assert self.process.poll() is None, self.process.communicate()
        victims = [*(self.children() if with_jvm else []), self.process.pid]
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        self.process.communicate()

    def interrupt(self) -> tuple[int, str, str]:
        """Ctrl-C on its terminal; (exit code, stdout, stderr)."""
        os.killpg(self.process.pid, signal.SIGINT)
        out, err = self.process.communicate(timeout=_PATIENCE)
        return self.process.returncode, out, err

    def wait_for(self, folder: Path, more_than: int) -> None:
        """Until Spark has planned batches beyond that one."""
        until = time.monotonic() + _PATIENCE
        while last(folder) <= more_than:
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < until, "no batch"
            time.sleep(0.05)


def last(folder: Path) -> int:
    """The last batch in a checkpoint's offsets."""
    return max((int(p.name) for p in folder.glob("offsets/*") if p.name.isdecimal()), default=-1)
