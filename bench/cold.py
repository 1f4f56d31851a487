"""What the first run on a machine takes more than later ones, because its kernels are not there yet.

    uv run python -m bench.cold [--quick] [--json] [--pairs 5] [--numba] [--write bench]

`run --once` over a new table of one row, in a process of its own, by turns with the machine code of earlier runs and
with none: what counts is the difference of the two, in bare Spark sessions that are started between them. With
`--numba` the same again with kernels that numba compiles, as it does where the library of kernels cannot be used.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.command import bare_session, configured, run_once
from bench.machine import machine
from bench.report import results, write
from bench.tables import ONE
from lakehouse_cdc.images.ahead.library import SWITCH
from lakehouse_cdc.testing import MySqlServer

LIBRARY, NUMBA = "built ahead", "compiled by numba"


@dataclass(frozen=True)
class Run:
    """Seconds of `run --once`, medians: with machine code that is there, without; the difference; it in sessions."""

    kernels: str
    warm: float
    cold: float
    more: float
    sessions: float


def measure(server: MySqlServer, folder: Path, kernels: str, pairs: int) -> tuple[Run, float]:
    """So many pairs of runs, after one that is not counted; and the seconds of a bare session."""
    ONE.create(server, 1)
    count = 0

    def once(cache: str) -> float:
        nonlocal count
        count += 1
        file = configured(server, [ONE.name], folder / f"run-{count}")
        environment = {"NUMBA_CACHE_DIR": str(folder / cache), SWITCH: "numba" if kernels == NUMBA else ""}
        seconds = _timed(lambda: run_once(file, environment))
        _say(f"{kernels}, {cache}: {seconds:.1f} s")
        return seconds

    once("warm")
    warm, cold, sessions = list[float](), list[float](), list[float]()
    for i in range(pairs):
        sessions.append(_timed(bare_session))
        warm.append(once("warm"))
        cold.append(once(f"cold-{i}"))
    more = statistics.median(c - w for w, c in zip(warm, cold, strict=True))
    session = statistics.median(sessions)
    seconds = (round(one, 2) for one in (statistics.median(warm), statistics.median(cold), more, more / session))
    return Run(kernels, *seconds), round(session, 2)


def _timed(step: Callable[[], None]) -> float:
    began = time.monotonic()
    step()
    return time.monotonic() - began


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(prog="python -m bench.cold", description="The first run on a machine.")
    parser.add_argument("--quick", action="store_true", help="one pair, to see that it works")
    parser.add_argument("--json", action="store_true", help="one line of JSON on stdout")
    parser.add_argument("--pairs", type=int, default=5, help="so many runs of each kind")
    parser.add_argument("--numba", action="store_true", help="with kernels that numba compiles, too")
    parser.add_argument("--write", type=Path, help="a folder for RESULTS.md and cold.json")
    asked = parser.parse_args()
    pairs, runs, sessions = 1 if asked.quick else asked.pairs, list[Run](), list[float]()
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch, MySqlServer.start() as server:
        for i, kernels in enumerate((LIBRARY, NUMBA) if asked.numba else (LIBRARY,)):
            run, session = measure(server, Path(scratch) / str(i), kernels, pairs)
            runs.append(run)
            sessions.append(session)
    data = {
        "machine": machine(), "session": statistics.median(sessions), "runs": [asdict(run) for run in runs],
        "asked": f"--pairs {pairs}" + (" --numba" if asked.numba else ""),
    }  # fmt: skip
    if asked.write is not None:
        write(asked.write, "cold", data)
    print(json.dumps(data) if asked.json else results("cold", data), flush=True)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
