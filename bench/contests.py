"""The contests of `bench.speed`: who runs what, and which ratios are asked of them."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import peers
from bench.logs import file_mb, new_file, write_bulk, write_one, write_small
from bench.process import run
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
    catalog: int = 1_000_000


QUICK = Plan(
    customer=20_000,
    wide=500,
    text=2_000,
    bulk=10_000,
    small=1_000,
    replication=1_000,
    few=1_000,
    many=5_000,
    one=2_000,
    catalog=5_000,
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


class Course:
    """The server, its workloads and a folder; contests are set up one by one, since all logs lie in one binlog.

    Each begins with a new file of it: a pipeline's first start reads the one that it begins in from its beginning.
    """

    def __init__(self, server: MySqlServer, folder: Path, plan: Plan) -> None:
        self._server, self._folder, self._plan = server, folder, plan
        self._cores, self._numbers = os.cpu_count() or 1, itertools.count()
        WARM.create(server, _WARM_ROWS)

    def contests(self, wanted: Sequence[str]) -> list[Callable[[], Contest]]:
        """Those that are wanted, or all."""
        every = {"snapshot": self.snapshot, "bulk": self.bulk, "small": self.small, "memory": self.memory}
        every["catalog"] = self.catalog
        decoding = {f"decode-{w.table}": (lambda w=w, n=n: self.decode(w, n)) for w, n in (
            (CUSTOMER, self._plan.customer), (WIDE, self._plan.wide), (TEXT, self._plan.text),
        )}  # fmt: skip
        return [make for name, make in {**decoding, **every}.items() if not wanted or name in wanted]

    def decode(self, workload: Workload, rows: int) -> Contest:
        """Rows to VARIANT on one connection, without Spark."""
        self._create(workload, rows)
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
        self._create(CUSTOMER, rows)
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

    def catalog(self) -> Contest:
        """The same into a catalog that keeps its tables in a folder; and all by Spark's writer, as elsewhere."""
        rows, port = self._plan.catalog, self._server.port
        self._create(CUSTOMER, rows)
        return Contest(
            "catalog",
            f"snapshot of {rows:,} rows of `customer` into a catalog",
            [
                Contender("ours, catalog", lambda: peers.python("ours", "catalog", port, CUSTOMER.name, self._new())),
                Contender(
                    "ours, catalog by Spark",
                    lambda: peers.python("ours", "by-spark", port, CUSTOMER.name, self._new()),
                ),
                Contender("Spark JDBC, Delta", self._jdbc),
            ],
            [Bar("ours, catalog", "ours, catalog by Spark", 2, 4)],
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
        """A small table, a large one, and a single transaction: which take as much memory.

        The small one also where the file of binlog that the pipeline begins in has all these rows.
        """
        port, few, many, one = self._server.port, self._plan.few, self._plan.many, self._plan.one
        new_file(self._server)
        FEW.create(self._server, few)
        MANY.create(self._server, many)
        behind = file_mb(self._server)

        def read(table: Workload) -> list[str]:
            return peers.python("ours", "bronze", port, table.name, self._new())

        def read_at_once(table: Workload) -> list[str]:
            new_file(self._server)
            return read(table)

        return Contest(
            "memory",
            "memory, by the size of the table and of the transaction",
            [
                Contender(f"ours, {few:,} rows, {behind:,.0f} MB of binlog before", lambda: read(FEW), once=True),
                Contender(f"ours, {few:,} rows", lambda: read_at_once(FEW), once=True),
                Contender(f"ours, {many:,} rows", lambda: read_at_once(MANY), once=True),
                Contender(f"ours, one transaction of {one:,}", self._one_transaction, one, once=True),
            ],
        )

    def _one_transaction(self) -> list[str]:
        start = self._begin(ONE)
        write_one(self._server, self._plan.one)
        return self._catch_up(start, ONE)

    def _jdbc(self) -> list[str]:
        return peers.python("baselines", "jdbc", self._server.port, CUSTOMER.name, self._new(), peers.mysql_jdbc_jar())

    def _new(self) -> Path:
        """A folder that is not there yet; what the run before left is removed."""
        for old in self._folder.glob("run-*"):
            shutil.rmtree(old)
        return self._folder / f"run-{next(self._numbers)}"

    def _create(self, workload: Workload, rows: int) -> None:
        workload.create(self._server, rows)
        new_file(self._server)

    def _begin(self, workload: Workload) -> Path:
        """A pipeline that stands where the table, made anew, is empty."""
        self._create(workload, 0)
        place = self._folder / f"begun-{workload.table}"
        run(peers.python("ours", "begin", self._server.port, workload.name, place))
        return place

    def _catch_up(self, begun: Path, workload: Workload) -> list[str]:
        place = self._new()
        shutil.copytree(begun, place)
        return peers.python("ours", "bronze", self._server.port, workload.name, place)
