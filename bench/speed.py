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
import itertools
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench import peers
from bench.logs import write_bulk, write_one, write_small
from bench.machine import machine
from bench.process import Run, run
from bench.report import results, write
from bench.tables import BULK, CUSTOMER, FEW, MANY, ONE, SMALL, TEXT, WARM, WIDE, Workload
from lakehouse_cdc.testing import MySqlServer

Command = Callable[[], list[str]]
_WARM_ROWS = 20_000


@dataclass(frozen=True)
class Plan:
    """How many rows the tables have, and how many changes of the bulk log mysql-replication is given."""

    customer: int = 2_000_000
    wide: int = 20_000
    text: int = 400_000
    bulk: int = 2_500_000
    small: int = 200_000
    replication: int = 50_000
    few: int = 500_000
    many: int = 4_000_000
    one: int = 1_000_000


QUICK = Plan(
    customer=20_000, wide=500, text=2_000, bulk=10_000, small=1_000, replication=1_000, few=1_000, many=5_000, one=2_000
)


@dataclass(frozen=True)
class Contender:
    """Who runs, and how many rows or changes its seconds are for (None: as many as it says)."""

    name: str
    command: Command
    rows: int | None = None
    once: bool = False


@dataclass(frozen=True)
class Bar:
    """`ours` is to be so many times as fast as `theirs`: at least, and as was aimed at."""

    ours: str
    theirs: str
    least: float
    aim: float


@dataclass(frozen=True)
class Contest:
    """One workload."""

    name: str
    about: str
    contenders: Sequence[Contender]
    bars: Sequence[Bar] = ()


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


class Course:
    """The server, its workloads and a folder; contests are set up one by one, since all logs lie in one binlog."""

    def __init__(self, server: MySqlServer, folder: Path, plan: Plan) -> None:
        self._server, self._folder, self._plan = server, folder, plan
        self._cores, self._numbers = os.cpu_count() or 1, itertools.count()
        WARM.create(server, _WARM_ROWS)

    def contests(self, wanted: Sequence[str]) -> list[Callable[[], Contest]]:
        """Those that are wanted, or all."""
        every = {"snapshot": self.snapshot, "bulk": self.bulk, "small": self.small, "memory": self.memory}
        decoding = {f"decode-{w.table}": (lambda w=w, n=n: self.decode(w, n)) for w, n in (
            (CUSTOMER, self._plan.customer), (WIDE, self._plan.wide), (TEXT, self._plan.text),
        )}  # fmt: skip
        return [make for name, make in {**decoding, **every}.items() if not wanted or name in wanted]

    def decode(self, workload: Workload, rows: int) -> Contest:
        """Rows to VARIANT on one connection, without Spark."""
        workload.create(self._server, rows)
        port, name = self._server.port, workload.name
        return Contest(
            f"decode-{workload.table}",
            f"{rows:,} rows of `{workload.table}` decoded on one connection",
            [
                Contender("ours", lambda: peers.python("ours", "decode", port, name)),
                Contender("socket drain", lambda: peers.python("baselines", "drain", port, name)),
                Contender("PyMySQL", lambda: peers.python("baselines", "pymysql", port, name)),
            ],
            [Bar("ours", "socket drain", 0.5, 0.8)] if workload is CUSTOMER else [],
        )

    def snapshot(self) -> Contest:
        """A table as it stands, into Delta; the peers but Spark's own have nothing to write to."""
        rows, port = self._plan.customer, self._server.port
        CUSTOMER.create(self._server, rows)
        return Contest(
            "snapshot",
            f"snapshot of {rows:,} rows of `customer`",
            [
                Contender("ours, bronze", lambda: peers.python("ours", "bronze", port, CUSTOMER.name, self._new())),
                Contender("ours, silver", lambda: peers.python("ours", "silver", port, CUSTOMER.name, self._new())),
                Contender("Flink CDC", lambda: peers.flink_snapshot(port, CUSTOMER, rows, self._cores, tuned=True)),
                Contender("Debezium engine", lambda: peers.debezium(port, CUSTOMER, rows)),
                Contender("Spark JDBC, Delta", self._jdbc),
                Contender(
                    "Flink CDC as it comes",
                    lambda: peers.flink_snapshot(port, CUSTOMER, rows, self._cores, tuned=False),
                    once=True,
                ),
            ],
            [Bar("ours, bronze", "Flink CDC", 4, 7), Bar("ours, silver", "Flink CDC", 2, 3)],
        )

    def bulk(self) -> Contest:
        """A binlog of large statements."""
        start = self._begin(BULK)
        log, port, most = write_bulk(self._server, self._plan.bulk), self._server.port, self._plan.replication
        return Contest(
            "bulk",
            f"binlog of {log.changes:,} changes by bulk statements",
            [
                Contender("ours, bronze", lambda: self._catch_up(start, BULK), log.changes),
                Contender(
                    "ours, decoding alone",
                    lambda: peers.python("ours", "decode-log", port, BULK.name, log.start, log.end),
                    log.changes,
                ),
                Contender("Flink CDC", lambda: peers.flink_log(port, log, self._cores, tuned=True), log.changes),
                Contender("mysql-binlog-connector-java", lambda: peers.binlog_connector(port, log), log.changes),
                Contender(
                    "mysql-replication",
                    lambda: peers.python("baselines", "replication", port, BULK.name, log.start, most),
                ),
            ],
            [Bar("ours, bronze", "Flink CDC", 4, 10), Bar("ours, decoding alone", "mysql-replication", 30, 100)],
        )

    def small(self) -> Contest:
        """A binlog of transactions of a single row."""
        start = self._begin(SMALL)
        log, port = write_small(self._server, self._plan.small), self._server.port
        return Contest(
            "small",
            f"binlog of {log.changes:,} transactions of one row",
            [
                Contender("ours, bronze", lambda: self._catch_up(start, SMALL), log.changes),
                Contender("mysql-binlog-connector-java", lambda: peers.binlog_connector(port, log), log.changes),
                Contender("Flink CDC", lambda: peers.flink_log(port, log, self._cores, tuned=True), log.changes),
            ],
            [Bar("ours, bronze", "mysql-binlog-connector-java", 0.5, 1.0)],
        )

    def memory(self) -> Contest:
        """A small table, a large one, and a single transaction: which take as much memory."""
        port, few, many, one = self._server.port, self._plan.few, self._plan.many, self._plan.one
        FEW.create(self._server, few)
        MANY.create(self._server, many)
        start = self._begin(ONE)
        changes = write_one(self._server, one).changes

        def read(table: Workload) -> Command:
            return lambda: peers.python("ours", "bronze", port, table.name, self._new())

        return Contest(
            "memory",
            "memory, by the size of the table and of the transaction",
            [
                Contender(f"ours, {few:,} rows", read(FEW), once=True),
                Contender(f"ours, {many:,} rows", read(MANY), once=True),
                Contender(
                    f"ours, one transaction of {changes:,}", lambda: self._catch_up(start, ONE), changes, once=True
                ),
            ],
        )

    def _jdbc(self) -> list[str]:
        return peers.python("baselines", "jdbc", self._server.port, CUSTOMER.name, self._new(), peers.mysql_jdbc_jar())

    def _new(self) -> Path:
        """A folder that is not there yet; what the run before left is removed."""
        for old in self._folder.glob("run-*"):
            shutil.rmtree(old)
        return self._folder / f"run-{next(self._numbers)}"

    def _begin(self, workload: Workload) -> Path:
        """A pipeline that stands where the table, made anew, is empty."""
        workload.create(self._server, 0)
        place = self._folder / f"begun-{workload.table}"
        run(peers.python("ours", "begin", self._server.port, workload.name, place))
        return place

    def _catch_up(self, begun: Path, workload: Workload) -> list[str]:
        place = self._new()
        shutil.copytree(begun, place)
        return peers.python("ours", "bronze", self._server.port, workload.name, place)


def hold(contest: Contest, rounds: int) -> list[Measured]:
    """All runs of one contest. Raises RuntimeError if one fails."""
    runs: dict[str, list[Run]] = {one.name: [] for one in contest.contenders}
    for i in range(rounds):
        for one in contest.contenders:
            if i and one.once:
                continue
            found = run(one.command())
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
    parser.add_argument("--only", nargs="+", default=[], help="snapshot, bulk, small, memory, decode-customer, ...")
    parser.add_argument("--write", type=Path, help="a folder for RESULTS.md, speed.json and speed.svg")
    asked = parser.parse_args()
    plan, rounds = (QUICK, 1) if asked.quick else (Plan(), asked.rounds)
    found = []
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, MySqlServer.start(version="mysql-8.0") as server:
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
