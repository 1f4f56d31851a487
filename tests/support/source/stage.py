"""A database of its own for each test, streams over it, and the comparison of what they emitted with the source."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql

from lakehouse_cdc.model.changelog import fold, invalid
from lakehouse_cdc.testing import MySqlServer
from tests.support.positions import binlog_end
from tests.support.servers import connected
from tests.support.source.driver import Driver, hashable


@dataclass
class Stage:
    """A database on `server`, written over `connection`. `drivers` are stopped at the end of the test."""

    server: MySqlServer
    connection: pymysql.Connection[Any]
    database: str
    folder: Path
    drivers: list[Driver] = field(default_factory=list)

    def run(self, sql: str, args: Any = None) -> Any:
        """Execute a statement in the database; its rows."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, args)
            return cursor.fetchall()

    def transaction(self, *statements: str) -> None:
        for sql in ("BEGIN", *statements, "COMMIT"):
            self.run(sql)

    def create(self, table: str = "t", rows: int = 0, first: int = 0) -> None:
        """`table` (id, v) with ids from `first` on, ten apart."""
        self.run(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)")
        if rows:
            self.run(f"INSERT INTO {table} VALUES {', '.join(f'({first + 10 * i}, 0)' for i in range(rows))}")

    def position(self) -> tuple[str, int]:
        return binlog_end(self.connection)

    def dumps(self) -> list[Any]:
        """The server's sessions that are sent its log."""
        return [row for row in self.run("SHOW FULL PROCESSLIST") if "Dump" in str(row[4])]

    def end_dumps(self) -> None:
        """End them: a task that was cancelled in another test may hold one for minutes, and waits for nobody."""
        for row in self.dumps():
            warnings.warn(f"a session of another test is ended: {row}", stacklevel=2)
            with suppress(pymysql.err.OperationalError):  # it has ended by itself
                self.run(f"KILL {row[0]}")

    def purge(self) -> str:
        """All files of the binlog but the newest, which is a new one; the name of the one that was written before."""
        file = self.position()[0]
        if self.server.version == "mariadb-11":
            self.run("SET GLOBAL slave_connections_needed_for_purge = 0")
        self.run("FLUSH BINARY LOGS")
        begun = time.monotonic()
        while file in (row[0] for row in self.run("SHOW BINARY LOGS")):
            waited = time.monotonic() - begun
            assert waited < 60, f"{file} stays in use, by {self.dumps()}"
            if waited > 20:
                self.end_dumps()
            # passes over a file that a dump is sent from, or (MariaDB, for a moment) that a recovery may need
            self.run(f"PURGE BINARY LOGS TO '{self.position()[0]}'")
            time.sleep(0.05)
        return file

    def options(self, **more: str) -> dict[str, str]:
        return {
            "url": f"mysql://cdc@127.0.0.1:{self.server.port}",
            "password": "cdc-secret",
            "tls": "disabled",  # a handshake for each of many short sessions; pipelines encrypt theirs
            "tables": f"{self.database}.*",
            "schemaFolder": str(self.folder),
            "chunkRows": "5",
            "chunksPerTrigger": "2",
            "idleSeconds": "0.001",
            **more,
        }

    def driver(self, *, limit: Any = None, available_now: bool = False, **more: str) -> Driver:
        settings: dict[str, Any] = {} if limit is None else {"limit": limit}
        driver = Driver(self.options(**more), available_now=available_now, **settings)
        self.drivers.append(driver)
        return driver

    def name(self, table: str = "t") -> str:
        return f"{self.database}.{table}"

    def images(self, table: str = "t") -> Counter[Any]:
        """The source's rows, as images."""
        with self.connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute(f"SELECT * FROM {table}")
            return Counter(hashable(row) for row in cursor.fetchall())

    def snapshot(self, driver: Driver) -> None:
        """Batches until every table is done."""
        for _ in range(60):
            assert driver.batch() or driver.offset
            if all(state["done"] for state in driver.offset["tables"].values()):
                return
        raise AssertionError(f"the snapshot does not end: {driver.offset}")

    def drain(self, driver: Driver) -> None:
        """Batches until the stream stands where the (quiet) source does."""
        for _ in range(60):
            if not driver.batch() and (driver.offset["file"], driver.offset["pos"]) == self.position():
                return
        raise AssertionError(f"the stream does not reach {self.position()}: {driver.offset}")

    def drain_twice(self, driver: Driver) -> None:
        """`drain`, with each batch executed twice."""
        while driver.batch(between=lambda: None):
            pass
        self.drain(driver)

    def same(self, driver: Driver, *tables: str) -> None:
        """After `drain`: fold(bronze) is the source, and bronze is a valid changelog."""
        self.same_rows(driver, *tables)
        assert invalid(driver.log) is None

    def same_rows(self, driver: Driver, *tables: str) -> None:
        """The first half of that."""
        folded = fold(driver.log)
        for table in tables or ("t",):
            got = Counter(image for (name, _), (_, image) in folded.items() if name == self.name(table))
            assert got == self.images(table), table


def on_stage(server: MySqlServer, database: str, folder: Path) -> Iterator[Stage]:
    """A stage on any server, until the test ends."""
    with closing(connected(server, charset="utf8mb4")) as connection:
        connection.cursor().execute(f"CREATE DATABASE IF NOT EXISTS {database}")
        connection.select_db(database)
        stage = Stage(server, connection, database, folder / "schemas")
        yield stage
        for driver in stage.drivers:
            driver.stop()
