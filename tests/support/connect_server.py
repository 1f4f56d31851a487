"""A server of open source Spark Connect on 127.0.0.1, as a process of its own, and clients that are processes, too."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lakehouse_cdc.runtime.jars import fetch
from lakehouse_cdc.runtime.java import java_home
from lakehouse_cdc.runtime.java_store import FOLDER_LOG_STORE, JAR
from lakehouse_cdc.runtime.object_store import session_jars, session_settings
from lakehouse_cdc.runtime.session import BRIEF, CATALOG, DELTA, EXTENSION
from tests.support.standalone_cluster import HOME

_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_STARTED = re.compile(r"Spark Connect server started at: \S+:(\d+)")
_PATIENCE = 300.0
_CONF = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.sql.extensions": EXTENSION,
    "spark.sql.catalog.spark_catalog": CATALOG,
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.delta.logStore.file.impl": FOLDER_LOG_STORE,
    "spark.python.daemon.module": "lakehouse_cdc.workers.daemon",
    **BRIEF,
}


class ConnectServer:
    """As a context manager. `url` is what clients are given; it has no token, and listens on 127.0.0.1 alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __enter__(self) -> ConnectServer:
        self._folder.mkdir(parents=True, exist_ok=True)
        log, port = self._folder / "server.log", _free_port()
        jars = ",".join(map(str, dict.fromkeys([*fetch(DELTA), JAR, *session_jars()])))
        here = {
            "spark.sql.warehouse.dir": str(self._folder / "warehouse"),
            "spark.connect.grpc.binding.port": str(port),
        }
        conf = {**_CONF, **session_settings(), **here, "spark.jars": jars}
        command = [str(HOME / "bin" / "spark-submit"), "--master", "local[2]", "--class", _CLASS]
        command += [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
        [connect] = (HOME / "jars").glob("spark-connect_*.jar")
        ours = {"JAVA_HOME": str(java_home()), "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
        environment = {**os.environ, **ours, "PYSPARK_PYTHON": sys.executable}
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [*command, str(connect)], env=environment, stdout=out, stderr=out, cwd=self._folder,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        until = time.monotonic() + _PATIENCE
        while (started := _STARTED.search(log.read_text(errors="replace"))) is None:
            if self._process.poll() is not None or time.monotonic() > until:
                self.__exit__()
                raise AssertionError(log.read_text(errors="replace")[-5000:])
            time.sleep(0.1)
        self.url = f"sc://127.0.0.1:{started[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()


def client(
    *words: str | Path, code: int | None = 0, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A command of `lakehouse-cdc`, in a process that may do what a serverless session may (`serverless_client`)."""
    command = [sys.executable, "-m", "tests.support.serverless_client", *map(str, words)]
    done = subprocess.run(
        command, env={**os.environ, **(environment or {})}, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert code is None or done.returncode == code, done.stdout + done.stderr
    return done


def answer(*words: str | Path, code: int = 0) -> Any:
    """What a command says for programs."""
    return json.loads(client(*words, "--json", code=code).stdout.splitlines()[-1])


def configuration(url: str, server: str, database: str, target: Mapping[str, str], more: Sequence[str] = ()) -> str:
    """A pipeline's file, over all tables of a database, on that server of Spark Connect."""
    lines = ["name: shop", "source:", f"  url: {url}", f'  tables: ["{database}.*"]', "spark:", f"  remote: {server}"]
    lines += ["target:", *(f"  {name}: {value}" for name, value in target.items()), *more]
    return "\n".join(lines) + "\n"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port
