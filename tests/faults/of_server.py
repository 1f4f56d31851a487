"""What a server does to its readers, and what is done to a server.

Clock jumps are those that a log can show: sessions that say a time of their own (`SET timestamp`), as a server whose
clock is set would. The machine's clock is everybody's and is left alone.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress

import pymysql
from pymysql.constants import ER

from lakehouse_cdc.testing.certificate import CERTIFICATE, KEY, write_certificate
from lakehouse_cdc.testing.settings import READER_PASSWORD
from tests.faults.kinds import Kind, Missed, World, kind

_BUSY = ("Query", "Execute", "Binlog Dump", "Binlog Dump GTID")
_LOOKS, _FEW = 100, 10  # times that a statement is looked for; the fewest connections that MariaDB may be limited to
_YEARS = 15 * 365 * 86400


def _sessions(world: World, *, busy: bool) -> list[int]:
    of_user = "SELECT id FROM information_schema.processlist WHERE user = %s"
    condition = f" AND command IN {_BUSY}" if busy else ""
    return [int(row[0]) for row in world.ask(of_user + condition, world.user)]


def _kill(world: World, what: str, *, busy: bool) -> None:
    for _ in range(_LOOKS):
        if sessions := _sessions(world, busy=busy):
            try:
                world.ask(f"KILL {what} {world.rng.choice(sessions)}")
            except pymysql.MySQLError as error:
                if error.args[0] != ER.NO_SUCH_THREAD:
                    raise
                continue
            return
        time.sleep(0.005)
    raise Missed


@kind("the server ends a connection", (0, 0), weight=8)
def kill_connection(world: World) -> Iterator[None]:
    _kill(world, "CONNECTION", busy=False)
    yield


@kind("the server ends a statement or a dump", (0, 0), weight=8)
def kill_query(world: World) -> Iterator[None]:
    _kill(world, "QUERY", busy=True)
    yield


@kind("the server is read only", (0.1, 1.0), weight=3)
def read_only(world: World) -> Iterator[None]:
    before = world.writers.failed
    world.ask("SET GLOBAL read_only = ON")
    try:
        yield
    finally:
        world.ask("SET GLOBAL read_only = OFF")
    if world.writers.failed == before:
        raise Missed


@kind("the server has no connection left", (0.5, 2.0), weight=4)
def no_connections(world: World) -> Iterator[None]:
    """What is open is cut, and its place taken, before a new one is asked for."""
    [(before,)] = world.ask("SELECT @@global.max_connections")
    with ExitStack() as taken:
        taken.callback(world.ask, f"SET GLOBAL max_connections = {before}")
        world.ask(f"SET GLOBAL max_connections = {_FEW}")
        _take_all(world, taken)
        world.relay.cut()
        time.sleep(0.02)
        _take_all(world, taken)
        turned_away = _turned_away(world)
        yield
        if _turned_away(world) == turned_away:
            raise Missed


def _turned_away(world: World) -> int:
    [(_, count)] = world.ask("SHOW GLOBAL STATUS LIKE 'Connection_errors_max_connections'")
    return int(count)


def _take_all(world: World, taken: ExitStack) -> None:
    while True:
        try:
            one = world.server.connect(user=world.user, password=READER_PASSWORD, ssl_disabled=True)
        except pymysql.MySQLError as error:
            if error.args[0] in (ER.CON_COUNT_ERROR, ER.TOO_MANY_USER_CONNECTIONS):
                return
            raise
        taken.enter_context(closing(one))


@kind("the server is in offline mode", (0.1, 1.0), weight=3)
def offline(world: World) -> Iterator[None]:
    """Every connection of a user without special rights ends."""
    if not _sessions(world, busy=False):
        raise Missed
    world.ask("SET GLOBAL offline_mode = ON")
    try:
        yield
    finally:
        world.ask("SET GLOBAL offline_mode = OFF")


@kind("all tables are locked", (0.1, 0.8), weight=2)
def locked(world: World) -> Iterator[None]:
    world.ask("FLUSH TABLES WITH READ LOCK")
    try:
        yield
    finally:
        world.ask("UNLOCK TABLES")


@kind("the clock jumps, by years", (0.3, 1.5), weight=4)
def clock(world: World) -> Iterator[None]:
    world.writers.clock = int(time.time() + world.rng.uniform(-_YEARS, _YEARS) / 2)
    before = world.writers.jumps
    try:
        yield
    finally:
        world.writers.clock = None
    if world.writers.jumps == before:
        raise Missed


@kind("the server rests (SIGSTOP)", (0.2, 3.0), weight=2)
def frozen(world: World) -> Iterator[None]:
    pid = world.server.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@kind("the server is killed", (0, 0.5), weight=2)
def killed(world: World) -> Iterator[None]:
    with suppress(pymysql.MySQLError):
        world.admin.close()
    world.server.kill()
    try:
        yield
    finally:
        world.server.restart()
        world.admin.connect()


@kind("the server's certificate is another one", (1.0, 4.0), weight=2)
def certificate(world: World) -> Iterator[None]:
    """One that its readers cannot trust; connections are cut, so that they see it."""
    data = world.server.directory / "data"
    kept = world.server.directory / "kept"
    kept.mkdir(exist_ok=True)
    for name in (CERTIFICATE, KEY):
        shutil.copy2(data / name, kept / name)
    write_certificate(data)
    reload_certificate(world)
    try:
        world.relay.cut()
        yield
    finally:
        for name in (CERTIFICATE, KEY):
            shutil.copy2(kept / name, data / name)
        reload_certificate(world)


def reload_certificate(world: World) -> None:
    """Have the server read its certificate again."""
    mariadb = world.server.version.startswith("mariadb")
    world.ask("FLUSH SSL" if mariadb else "ALTER INSTANCE RELOAD TLS")


# those that a server shared with other tests survives
SHARED: tuple[Kind, ...] = (kill_connection, kill_query, read_only, no_connections, offline, locked, clock)
KINDS: tuple[Kind, ...] = (*SHARED, frozen, killed, certificate)


def of(version: str, kinds: tuple[Kind, ...]) -> tuple[Kind, ...]:
    """Those that this server has: MariaDB has no offline mode, and MySQL 5.7 speaks no TLS of today."""
    left_out = {offline} if version.startswith("mariadb") else {certificate} if version == "mysql-5.7" else set()
    return tuple(one for one in kinds if one not in left_out)
