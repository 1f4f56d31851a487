"""What the pipeline costs its source: for a snapshot, for changes caught up with, and while nothing happens.

    uv run python -m bench.cost [--quick] [--idle 3600] [--json] [--write bench]

The server's own counters are read before and after each run of `lakehouse-cdc run`, and nobody else uses the server.
A first start reads the file of binlog that it begins in from its beginning, so one begins behind the rows that it then
reads, and one with a new file.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench.command import configured, following, run_once
from bench.logs import file_mb, new_file, write_small
from bench.machine import machine
from bench.report import results, write
from bench.tables import SMALL, Workload
from lakehouse_cdc.testing import MySqlServer

_COUNTERS = ("Questions", "Connections", "Innodb_rows_read", "Bytes_sent")
_BEGIN_SECONDS = 30  # until a run follows


@dataclass(frozen=True)
class Plan:
    """Rows of the table, rows that then come one by one, and seconds without a change."""

    rows: int = 1_000_000
    small: int = 50_000
    idle: int = 120


QUICK = Plan(rows=5_000, small=500, idle=10)


@dataclass(frozen=True)
class Cost:
    """`rows` rows, or changes, of `size` bytes (of data, or of binlog), and what the server counted meanwhile."""

    what: str
    seconds: float
    rows: int
    size: int
    queries: int
    connections: int
    rows_read: int
    bytes_sent: int


class Counted:
    """The server's counters since they were last read."""

    def __init__(self, server: MySqlServer) -> None:
        self._server = server
        before, self._last = self._read(), self._read()
        self._own = {name: self._last[name] - before[name] for name in _COUNTERS}  # what it takes to read them
        self._began = time.perf_counter()

    def cost(self, what: str, rows: int, size: int) -> Cost:
        """What was counted since, without the reading of the counters itself."""
        now, seconds = self._read(), time.perf_counter() - self._began
        queries, connections, rows_read, sent = (now[n] - self._last[n] - self._own[n] for n in _COUNTERS)
        self._last, self._began = now, time.perf_counter()
        return Cost(what, round(seconds, 1), rows, size, queries, connections, rows_read, sent)

    def _read(self) -> dict[str, int]:
        with closing(self._server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SHOW GLOBAL STATUS WHERE Variable_name IN %s", (_COUNTERS,))
            return {name: int(value) for name, value in cursor.fetchall()}


def measure(server: MySqlServer, folder: Path, plan: Plan) -> list[Cost]:
    """All of these."""
    SMALL.create(server, plan.rows)
    size, behind = _data_bytes(server, SMALL), file_mb(server)
    first = configured(server, [SMALL.name], folder / "behind")
    found = [_run(server, first, f"snapshot, {behind:,.0f} MB of binlog before", plan.rows, size)]
    new_file(server)
    file = configured(server, [SMALL.name], folder / "pipeline")
    found.append(_run(server, file, "snapshot", plan.rows, size))
    log = write_small(server, plan.small, after=plan.rows)
    found.append(_run(server, file, "changes, one a transaction", log.changes, log.size))
    with following(file):
        time.sleep(_BEGIN_SECONDS)
        counted = Counted(server)
        time.sleep(plan.idle)
        found.append(counted.cost("nothing", 0, 0))
    return found


def _run(server: MySqlServer, file: Path, what: str, rows: int, size: int) -> Cost:
    counted = Counted(server)
    run_once(file)
    return counted.cost(what, rows, size)


def _data_bytes(server: MySqlServer, workload: Workload) -> int:
    """The bytes of the table's values as text: what any reader has to be sent, but for lengths and NULLs."""
    lengths = " + ".join(f"COALESCE(LENGTH({name}), 0)" for name, *_ in workload.columns)
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT SUM({lengths}) FROM {workload.name}")
        [(size,)] = cursor.fetchall()
    return int(size)


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(prog="python -m bench.cost", description="What the pipeline costs its source.")
    parser.add_argument("--quick", action="store_true", help="a small table and ten idle seconds, to see that it works")
    parser.add_argument("--idle", type=int, help=f"seconds without a change ({Plan.idle})")
    parser.add_argument("--json", action="store_true", help="one line of JSON on stdout")
    parser.add_argument("--write", type=Path, help="a folder for RESULTS.md and cost.json")
    asked = parser.parse_args()
    plan = QUICK if asked.quick else Plan()
    plan = replace(plan, idle=plan.idle if asked.idle is None else asked.idle)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, MySqlServer.start(version="mysql-8.0") as server:
        found = measure(server, Path(folder), plan)
    data = {"machine": machine(), "idle": plan.idle, "costs": [asdict(one) for one in found]}
    if asked.write is not None:
        write(asked.write, "cost", data)
    print(json.dumps(data) if asked.json else results("cost", data), flush=True)


if __name__ == "__main__":
    main()
