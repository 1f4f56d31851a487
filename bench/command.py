"""`lakehouse-cdc run` as a user has it: by a file, in a process of its own, ended by Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from lakehouse_cdc.testing import MySqlServer

_INTERRUPTED = 130


def configured(server: MySqlServer, tables: Sequence[str], folder: Path, engine: str | None = None) -> Path:
    """The file of a pipeline of those tables in a new folder, bronze and silver, by that engine (None: as it comes)."""
    folder.mkdir(parents=True)
    source = {"url": server.url, "tls": "disabled", "tables": list(tables)}
    target = {"path": "lake", "bronze": "bronze", "silver": "silver"} | ({"engine": engine} if engine else {})
    file = folder / "pipeline.yml"
    file.write_text(yaml.safe_dump({"name": "bench", "source": source, "target": target}), encoding="utf-8")
    return file


def run_once(file: Path) -> None:
    """All that is there. Raises RuntimeError if it fails."""
    done = subprocess.run([*_run(file), "--once"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(f"run --once ended with {done.returncode}\n{done.stdout[-2000:]}")


@contextmanager
def following(file: Path, every_seconds: float = 1.0) -> Iterator[None]:
    """The pipeline runs until the block ends. Raises RuntimeError if it ended otherwise than by that."""
    path, command = file.with_suffix(".log"), [*_run(file), "--every", str(every_seconds)]
    with path.open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)
    if process.returncode != _INTERRUPTED:
        raise RuntimeError(f"run ended with {process.returncode}\n{path.read_text()[-2000:]}")


def _run(file: Path) -> list[str]:
    return [sys.executable, "-m", "lakehouse_cdc", "run", "-c", str(file)]
