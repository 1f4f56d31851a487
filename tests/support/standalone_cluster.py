"""A standalone cluster of Spark on 127.0.0.1: a master and workers, in processes of their own."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import psutil
import pyspark

from lakehouse_cdc.runtime.java import java_home

HOME = Path(pyspark.__file__).parent
_MASTER, _WORKER = (f"org.apache.spark.deploy.{name}" for name in ("master.Master", "worker.Worker"))
_AT = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Successfully registered with master"
_PATIENCE = 120.0
CONF = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.executor.memory": "700m"}


class Cluster:
    """As a context manager. `url` is that of its master; executors of an application have a core each."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self._folder, self._count = folder, workers
        self.url = ""
        self.workers: list[subprocess.Popen[bytes]] = []
        self._all: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Cluster:
        try:
            log = self._start(_MASTER, "master", "--port", "0", "--webui-port", "0")
            self.url = self._said(log, _AT)[1]
            for _ in range(self._count):
                self.add_worker()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def add_worker(self) -> None:
        """Start one, with a folder of its own; returns when the master knows it."""
        name = f"worker{len(self._all)}"
        place = ("--work-dir", str(self._folder / name), "--webui-port", "0", "--cores", "1", "--memory", "1g")
        log = self._start(_WORKER, name, *place, self.url)
        self.workers.append(self._all[-1])
        self._said(log, re.compile(_REGISTERED))

    @property
    def executors(self) -> int:
        """How many there have been."""
        return len({*self._folder.glob("worker*/app-*/*/stderr")})

    def kill_worker(self) -> None:
        """SIGKILL one and its executors, as where a machine goes."""
        worker = self.workers.pop(0)
        for one in [*psutil.Process(worker.pid).children(recursive=True), psutil.Process(worker.pid)]:
            one.kill()
        worker.wait()

    def _start(self, what: str, name: str, *arguments: str) -> Path:
        log = self._folder / f"{name}.log"
        ours = {"JAVA_HOME": str(java_home()), "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
        command = [str(HOME / "bin" / "spark-class"), what, "--host", "127.0.0.1", *arguments]
        with log.open("wb") as out:
            self._all.append(
                subprocess.Popen(command, env={**os.environ, **ours}, stdout=out, stderr=out, cwd=self._folder)
            )
        return log

    def _said(self, log: Path, what: re.Pattern[str]) -> re.Match[str]:
        until = time.monotonic() + _PATIENCE
        while (found := what.search(log.read_text(errors="replace"))) is None:
            assert time.monotonic() < until, log.read_text(errors="replace")
            time.sleep(0.1)
        return found

    def _end(self) -> None:
        for process in reversed(self._all):
            if process.poll() is None:
                for one in psutil.Process(process.pid).children(recursive=True):
                    one.terminate()
                process.terminate()
                process.wait(_PATIENCE)
