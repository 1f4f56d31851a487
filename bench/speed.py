"""How fast MySQL is read, against what else there is, in one run on one machine.

    uv run python -m bench.speed [--quick] [--json] [--rounds 3] [--only snapshot ...] [--write bench]

A contest has one workload and several contenders, each in a process of its own. In each round everyone runs once, one
after the other, so that what the machine does besides hits all alike; what counts is the median over the rounds of the
ratio of two rates within a round. A contender that takes minutes runs in the first round alone. Every run ends with a
check: ours compares what arrived with what the server holds, the others count.

Needs Java 17 and Maven for the peers in `bench/peers`, which it builds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench import peers
from bench.contests import QUICK, Contest, Course, Plan
from bench.machine import machine
from bench.process import Run, run
from bench.report import results, write
from lakehouse_cdc.testing import MySqlServer

# as a server has it that is to be read: its tables are in memory, and what it wrote is not written again meanwhile
_SERVER = {"innodb_buffer_pool_size": "1G", "innodb_redo_log_capacity": "1G"}


@dataclass(frozen=True)
class Measured:
    """What one contender did in one contest: its runs in the order of the rounds."""

    contest: str
    about: str
    name: str
    runs: tuple[Run, ...]

    @property
    def rate(self) -> float:
        """Rows a second, the median."""
        return statistics.median(one.rate for one in self.runs)


def hold(contest: Contest, rounds: int) -> list[Measured]:
    """All runs of one contest. Raises RuntimeError if one fails."""
    runs: dict[str, list[Run]] = {one.name: [] for one in contest.contenders}
    for i in range(rounds):
        for one in contest.contenders:
            if i and one.once:
                continue
            command = one.command()
            os.sync()  # nobody's run is charged with what was written before it
            found = run(command)
            if one.rows is not None:
                found = replace(found, rows=one.rows)
            runs[one.name].append(found)
            _say(f"{contest.name:18} {one.name:28} {found.rate:12,.0f} /s {found.seconds:8.2f} s {found.peak_mb:6} MB")
    return [Measured(contest.name, contest.about, name, tuple(found)) for name, found in runs.items()]


def ratio(ours: Measured, theirs: Measured) -> float:
    """The median of the ratios within each round that both ran in."""
    return statistics.median(a.rate / b.rate for a, b in zip(ours.runs, theirs.runs, strict=False))


def judged(contest: Contest, measured: Sequence[Measured]) -> list[dict[str, object]]:
    """What became of the contest's bars."""
    by_name = {one.name: one for one in measured}
    return [{**asdict(bar), "ratio": round(ratio(by_name[bar.ours], by_name[bar.theirs]), 2)} for bar in contest.bars]


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(prog="python -m bench.speed", description="How fast MySQL is read.")
    parser.add_argument("--quick", action="store_true", help="small tables and one round, to see that it works")
    parser.add_argument("--json", action="store_true", help="one line of JSON on stdout")
    parser.add_argument("--rounds", type=int, default=3, help="how often each contender runs (3)")
    parser.add_argument("--only", nargs="+", default=[], help="snapshot, catalog, bulk, decode-customer, ...")
    parser.add_argument("--write", type=Path, help="a folder for RESULTS.md, speed.json and its charts")
    asked = parser.parse_args()
    plan, rounds = (QUICK, 1) if asked.quick else (Plan(), asked.rounds)
    found = []
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        MySqlServer.start(version="mysql-8.0", options=_SERVER) as server,
    ):
        for make in Course(server, Path(folder), plan).contests(asked.only):
            contest = make()
            measured = hold(contest, rounds)
            found.append(
                {
                    "contest": contest.name,
                    "about": contest.about,
                    "contenders": [{"name": m.name, "rate": round(m.rate), **_peak(m)} for m in measured],
                    "bars": judged(contest, measured),
                }
            )
        with closing(server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT VERSION()")
            [(version,)] = cursor.fetchall()
    data = {"machine": machine(), "server": version, "peers": peers.versions(), "rounds": rounds, "contests": found}
    if asked.write is not None:
        write(asked.write, "speed", data)
    print(json.dumps(data) if asked.json else results("speed", data), flush=True)


def _peak(measured: Measured) -> dict[str, object]:
    return {
        "runs": len(measured.runs),
        "seconds": round(statistics.median(one.seconds for one in measured.runs), 2),
        "peak_mb": max(one.peak_mb for one in measured.runs),
        "workers_mb": max(one.workers_mb for one in measured.runs),
        "driver_mb": max(one.driver_mb for one in measured.runs),
    }


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
