"""`lakehouse-cdc run` as a user has it: by a file, in a process of its own, ended by Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml
from deltalake import DeltaTable

from lakehouse_cdc.testing import MySqlServer

_INTERRUPTED, _LONGEST_SECONDS = 130, 600
_BARE = """
from lakehouse_cdc.runtime.session import local_session
spark = local_session("bare")
assert spark.range(1).count() == 1
spark.stop()
"""


def configured(server: MySqlServer, tables: Sequence[str], folder: Path, engine: str | None = None) -> Path:
    """The file of a pipeline of those tables in a new folder, bronze and silver, by that engine (None: as it comes)."""
    folder.mkdir(parents=True)
    source = {"url": server.url, "tls": "disabled", "tables": list(tables)}
    target = {"path": "lake", "bronze": "bronze", "silver": "silver"} | ({"engine": engine} if engine else {})
    file = folder / "pipeline.yml"
    file.write_text(yaml.safe_dump({"name": "bench", "source": source, "target": target}), encoding="utf-8")
    return file


def run_once(file: Path, environment: Mapping[str, str] | None = None) -> None:
    """All that is there. Raises RuntimeError if it fails."""
    done = subprocess.run(
        [*_run(file), "--once"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, **(environment or {})},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"run --once ended with {done.returncode}\n{done.stdout[-2000:]}")


@contextmanager
def following(file: Path, every_seconds: float = 1.0) -> Iterator[subprocess.Popen[str]]:
    """The pipeline runs until the block ends. Raises RuntimeError if it ended otherwise than by that."""
    path, command = file.with_suffix(".log"), [*_run(file), "--every", str(every_seconds)]
    with path.open("w") as log, subprocess.Popen(command, stdout=log, stderr=log, text=True) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
    if process.returncode != _INTERRUPTED:
        raise RuntimeError(f"run ended with {process.returncode}\n{path.read_text()[-2000:]}")


def until_taken(file: Path, moment: float) -> None:
    """Until silver has what was committed then (seconds since 1970). Raises AssertionError where that takes minutes."""
    ledger = str(file.parent / "lake" / "silver" / "ledger")
    ends = time.monotonic() + _LONGEST_SECONDS
    while max(DeltaTable(ledger).to_pyarrow_table(columns=["commit_ts"])["commit_ts"].to_pylist()).timestamp() < moment:
        assert time.monotonic() < ends, f"silver lacks what was written {_LONGEST_SECONDS} s ago"
        time.sleep(1)


def bare_session() -> None:
    """A process that makes a Spark session, counts to one and ends: what other times are held beside."""
    subprocess.run([sys.executable, "-c", _BARE], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _run(file: Path) -> list[str]:
    return [sys.executable, "-m", "lakehouse_cdc", "run", "-c", str(file)]
