"""Who writes to the source all the time, whatever is done to the server: a shop, and rows that count their versions.

They have connections of their own, past the relay, as a user without special rights, who can be locked out. A server
that is away, is read only or has no connection left is tried again, as any application does; what was not committed
then was not written.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextlib import closing
from types import TracebackType
from typing import Any

import pymysql

from lakehouse_cdc.testing import MySqlServer, Shop
from tests.faults import counters

_USER, _PASSWORD = "writer", "writes"
_ROWS = 200
_PAUSE = 0.1  # seconds before it is tried again
_FRESH_LOG = 0.002  # of the transactions: the log continues in a new file afterwards


class Writers:
    """Writes between `start` and `stop`, or for a `with` block, so many transactions a second; a `shop` that is there,
    too. `clock`: the time that the counters' writer says it is, and `jumps` how many transactions had one.
    """

    def __init__(self, server: MySqlServer, database: str, *, rate: float, seed: int, shop: bool = False) -> None:
        self._server, self._database, self._rate, self._seed = server, database, rate, seed
        self.clock: int | None = None
        self.jumps = self.transactions = self.failed = 0
        self._stop = threading.Event()
        self._unexpected: BaseException | None = None
        self._threads = [threading.Thread(target=self._patiently, args=(self._count,), daemon=True)]
        if shop:
            self._threads.append(threading.Thread(target=self._patiently, args=(self._buy,), daemon=True))

    def start(self) -> Writers:
        version = self._server.version
        rights = "" if version.startswith("mariadb") or version == "mysql-5.7" else ", SESSION_VARIABLES_ADMIN"
        with closing(self._server.connect(database=self._database)) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE USER {_USER}@'127.0.0.1' IDENTIFIED BY '{_PASSWORD}'")
            cursor.execute(f"GRANT ALL ON {self._database}.* TO {_USER}@'127.0.0.1'")
            cursor.execute(f"GRANT RELOAD{rights} ON *.* TO {_USER}@'127.0.0.1'")  # for its clock, and fresh logs
            cursor.execute(counters.CREATE)
        for thread in self._threads:
            thread.start()
        return self

    def connect(self) -> pymysql.Connection[Any]:
        """A connection to the database of who writes."""
        return self._server.connect(user=_USER, password=_PASSWORD, database=self._database, ssl_disabled=True)

    def stop(self) -> None:
        """Raises what a writer ended with, if it was another error than the server's."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        with closing(self._server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP USER {_USER}@'127.0.0.1'")
        if self._unexpected is not None:
            raise self._unexpected

    def source(self) -> dict[int, int]:
        """The counters as they are now."""
        with closing(self._server.connect(database=self._database)) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT id, n FROM counters")
            return dict(cursor.fetchall())

    def _patiently(self, write: Callable[[], None]) -> None:
        while not self._stop.is_set():
            try:
                write()
            except pymysql.MySQLError:  # noqa: PERF203
                self.failed += 1
                self._stop.wait(_PAUSE)
            except BaseException as error:
                self._unexpected = error
                return

    def _buy(self) -> None:
        shop = Shop(self.connect, self._database, seed=self._seed)
        shop.run(self._stop, rate=self._rate, seed=self.failed)

    def _count(self) -> None:
        rng = random.Random(f"{self._seed}/{self.failed}")
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            while not self._stop.wait(1 / self._rate):
                clock = self.clock
                cursor.execute("SET timestamp = DEFAULT" if clock is None else f"SET timestamp = {clock}")
                counters.count(cursor, rng, _ROWS)
                self.transactions += 1
                self.jumps += clock is not None
                if rng.random() < _FRESH_LOG:
                    cursor.execute("FLUSH BINARY LOGS")

    def __enter__(self) -> Writers:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
