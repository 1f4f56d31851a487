"""Servers that replicate from each other by GTID, and the promotion of one of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pymysql

from lakehouse_cdc.testing import MySqlServer, Version
from tests.support.servers import connected, start_or_skip

_GTIDS = {"gtid_mode": "ON", "enforce_gtid_consistency": "ON"}
_MYSQL_57 = {**_GTIDS, "log_slave_updates": "ON"}
_MARIADB = {"log_slave_updates": "ON", "gtid_strict_mode": "ON"}
_PATIENCE = 60


@dataclass
class Member:
    """One server of a group, and a connection as root."""

    server: MySqlServer
    connection: pymysql.Connection[Any]

    @property
    def is_mariadb(self) -> bool:
        return self.server.version.startswith("mariadb")

    @property
    def url(self) -> str:
        """For the user of the source."""
        return f"mysql://cdc@127.0.0.1:{self.server.port}"

    def run(self, sql: str, *args: Any) -> Any:
        """A statement; its rows."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, args or None)
            return cursor.fetchall()

    @property
    def _has_old_words(self) -> bool:
        return self.is_mariadb or self.server.version == "mysql-5.7"

    @property
    def _word(self) -> str:
        return "SLAVE" if self._has_old_words else "REPLICA"

    def follow(self, source: Member) -> None:
        """Replicate from another one, from now on."""
        if self._has_old_words:
            by_gtid = "MASTER_USE_GTID = slave_pos" if self.is_mariadb else "MASTER_AUTO_POSITION = 1"
            self.run(
                f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {source.server.port},"
                f" MASTER_USER = 'root', {by_gtid}, MASTER_CONNECT_RETRY = 1"
            )
        else:
            self.run(
                f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {source.server.port},"
                " SOURCE_USER = 'root', SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1, SOURCE_CONNECT_RETRY = 1"
            )
        self.resume()

    def resume(self) -> None:
        self.run(f"START {self._word}")

    def pause(self) -> None:
        self.run(f"STOP {self._word}")

    def executed(self) -> str:
        """What it has committed, as it says."""
        names = "@@GLOBAL.gtid_current_pos" if self.is_mariadb else "@@GLOBAL.gtid_executed"
        return str(self.run(f"SELECT {names}")[0][0])

    def caught_up(self, source: Member) -> None:
        """Wait until it has all that `source` has committed."""
        wanted, until = source.executed(), time.monotonic() + _PATIENCE
        while not self._has(wanted):
            assert time.monotonic() < until, f"{self.executed()} does not reach {wanted}"
            time.sleep(0.05)

    def _has(self, gtids: str) -> bool:
        if self.is_mariadb:
            return self.executed() == gtids
        return bool(self.run("SELECT GTID_SUBSET(%s, @@GLOBAL.gtid_executed)", gtids)[0][0])

    def rejoin(self, source: Member) -> None:
        """Come back, after a crash, as a replica of another one."""
        self.server.restart()
        self.connection = connected(self.server, charset="utf8mb4")
        if self.is_mariadb:
            self.run(f"SET GLOBAL gtid_slave_pos = '{self.executed()}'")
        self.follow(source)

    def promoted(self) -> Member:
        """Take what has been received, and replicate no more."""
        self.pause()
        self.run(f"RESET {self._word} ALL")
        return self


@contextmanager
def member(version: Version, number: int, options: Mapping[str, str | None] | None = None) -> Iterator[Member]:
    """A server with an empty log; `number` is its server_id."""
    base = _MARIADB if version.startswith("mariadb") else _MYSQL_57 if version == "mysql-5.7" else _GTIDS
    with (
        start_or_skip(version, options={**base, "server_id": str(number), **(options or {})}) as server,
        closing(connected(server, charset="utf8mb4")) as connection,
    ):
        one = Member(server, connection)
        one.run("RESET BINARY LOGS AND GTIDS" if version == "mysql-9" else "RESET MASTER")
        if one.is_mariadb:
            one.run("SET GLOBAL gtid_slave_pos = ''")
        yield one


@contextmanager
def group(version: Version, count: int = 2, **options: str) -> Iterator[list[Member]]:
    """A primary, and replicas that follow it."""
    with member(version, 1, options) as primary:
        yield from _with_replicas(version, [primary], count, options)


def _with_replicas(
    version: Version, members: list[Member], count: int, options: Mapping[str, str]
) -> Iterator[list[Member]]:
    if len(members) == count:
        yield members
        return
    with member(version, len(members) + 1, options) as replica:
        replica.follow(members[0])
        yield from _with_replicas(version, [*members, replica], count, options)
