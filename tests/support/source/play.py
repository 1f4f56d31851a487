"""Random work on a stage, step by step."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql

from lakehouse_cdc.model.changelog import Change, Op, fold, invalid
from lakehouse_cdc.model.multiset import remaining
from lakehouse_cdc.model.seq import Rank, Seq
from lakehouse_cdc.source import test_hooks
from lakehouse_cdc.testing import MySqlServer
from tests.support.servers import connected
from tests.support.source.driver import Driver, hashable
from tests.support.source.world import KEYS, MARIADB_KEYS, Table, World


def options(server: MySqlServer, database: str, folder: Path, **more: str) -> dict[str, str]:
    return {
        "url": f"mysql://cdc@127.0.0.1:{server.port}",
        "password": "cdc-secret",
        "tls": "disabled",  # as in `stage`
        "tables": f"{database}.*",
        "schemaFolder": str(folder),
        "chunkRows": "7",
        "chunksPerTrigger": "3",
        "idleSeconds": "0.001",
        **more,
    }


def normal(value: Any) -> Any:
    """What MySQL's client gives, as VARIANT has it."""
    return bytes(value) if isinstance(value, bytearray) else value


def check(driver: Driver, world: World) -> None:
    """fold(bronze) at the committed offset = the source there; and bronze is a valid changelog."""
    where = (driver.offset["file"], driver.offset["pos"])
    got: dict[str, dict[Any, Any]] = {table.full: {} for table in world.tables}
    keyless = {table.full for table in world.tables if not table.keyed}
    rekeyed = {table.full for table in world.tables if table.unique}
    for (table, key), (_, image) in fold(c for c in driver.log if c.table not in keyless | rekeyed).items():
        got[table][key] = image
    for table, rows in world.state(where).items():
        state = driver.offset["tables"].get(table)
        if state is None or "dropped" in state:
            continue  # it comes back, and is read again
        if "moved_from" in state and (met := world.altered.get(table, where)) > where:
            world.doubtful.append((table, where, met))
            continue  # its chunk may have met that, and its cursor will be put back
        if state.get("mode") == "again" and not (state["done"] and "moved_from" not in state):
            continue  # rows are what they were before, until they have been read again
        want = {k: hashable({n: normal(v) for n, v in row.items()}) for k, row in rows.items()}
        if table in rekeyed:  # by other columns than the test's, or none
            mine, rows_there = Counter(images_of(table, driver.log)), Counter(want.values())
            assert mine == rows_there if state["done"] else mine <= rows_there, f"{table} at {where}"
        elif table in keyless:  # of one that is not read yet nothing is there
            mine = Counter(remaining(c for c in driver.log if c.table == table))
            assert mine == (Counter(want.values()) if state["done"] else Counter()), f"{table} at {where}"
        elif state["done"]:
            assert got[table] == want, f"{table} at {where}"
        else:  # the keys below the cursor; all others must be absent
            assert {k: want.get(k) for k in got[table]} == got[table], f"{table} at {where}, cursor {state['cursor']}"
    again = {change.table for change in driver.log if change.op is Op.SCHEMA and change.before and not kept(change)}
    if world.ddl.keys() - {"truncate"}:  # keys that a chunk has not emitted may be updated before they come again
        again |= {table for table, _, _ in world.doubtful}
    again |= keyless | {table for table in rekeyed if "key" in world.ddl or not key_in_bronze(table, driver.log)}
    assert invalid(c for c in without_doubtful(driver.log, world) if c.table not in again) is None


def images_of(table: str, log: list[Change]) -> list[Any]:
    """The rows of a table that may have a key or none, as its last schema says."""
    mine = [change for change in log if change.table == table]
    schemas = [change for change in mine if change.op is Op.SCHEMA]
    if schemas and not dict(max(schemas, key=lambda change: change.seq).after).get("key"):
        return [*remaining(mine).elements()]
    return [image for _, image in fold(mine).values()]


def kept(change: Change) -> bool:
    """Whether the rows are said to be what they were."""
    return bool(dict(change.after).get("kept"))


def without_doubtful(log: list[Change], world: World) -> list[Change]:
    """Without events of keys that a chunk may have emitted, or not: a TRUNCATE that it may have met takes them all."""

    def seq(where: tuple[str, int], rank: Rank) -> int:
        return Seq(1, int(where[0].rpartition(".")[2]), where[1], rank, 0).pack()

    spans = [(table, seq(low, Rank.READ), seq(high, Rank.EVENT)) for table, low, high in world.doubtful]
    return [c for c in log if not any(c.table == table and low < c.seq < high for table, low, high in spans)]


def fresh(connection: pymysql.Connection[Any], name: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {name}")
        cursor.execute(f"CREATE DATABASE {name}")


def configure(connection: pymysql.Connection[Any], session: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SET time_zone = '+05:30', sql_mode = '', innodb_lock_wait_timeout = 1{session}")


def writer(server: MySqlServer, session: str) -> pymysql.Connection[Any]:
    connection = connected(server, charset="utf8mb4")
    configure(connection, session)
    return connection


def play(
    server: MySqlServer,
    folder: Path,
    kinds: list[tuple[str, ...]],
    seed: int,
    ddl: Mapping[str, float] | None = None,
    session: str = "",
    xa: bool = False,
    ask: Callable[[Driver, World], None] | None = None,
    engines: Sequence[str] = ("InnoDB",),
    **more: str,
) -> Driver:
    """`session`: settings of the session that writes; `ddl`: how often, out of 1, it does that; or it uses XA, too.

    The tables are of the `engines` in turn.

    `ask` is called in front of each batch.
    """
    database = "exact"
    with closing(connected(server, charset="utf8mb4")) as connection:
        fresh(connection, database)
        configure(connection, session)
        tables = [Table(database, f"t{i}", k, engines[i % len(engines)]) for i, k in enumerate(kinds)]
        second = (lambda: writer(server, session)) if xa else None
        world = World(connection, tables, random.Random(seed), ddl=ddl or {}, second=second)
        world.create()
        for _ in range(5):
            world.transaction()
        world.decide()
        driver = Driver(options(server, database, folder / str(seed), **more))
        if xa:  # MySQL 5.7 lists what changed nothing as prepared; the log has no trace of it, so a start would wait
            driver.batch()
        test_hooks.install(lambda step, table: world.some(1))
        try:
            for n in range(40):
                world.calm = bool(ddl) and n > 20  # so that what is read again has time to end
                if ask is not None:
                    ask(driver, world)
                if driver.batch(between=lambda: world.some(2), altered=lambda: altered(driver, world)):
                    check(driver, world)
                    done = all(t["done"] for t in driver.offset["tables"].values()) and (ask is None or n > 25)
                    if done and world.rng.random() < 0.4:
                        break
                if world.rng.random() < 0.2:
                    driver.restart()
                world.some(2)
        finally:
            test_hooks.install(None)
            driver.stop()
        assert all(t["done"] for t in driver.offset["tables"].values()), "the snapshot did not end"
        finish(driver, world)
        return driver


def finish(driver: Driver, world: World) -> None:
    """All that is there; what is prepared is decided on then, and comes, too."""
    while True:
        final = Driver(driver.options, offset=driver.offset, log=driver.log, available_now=True)
        while final.batch():
            check(final, world)
        driver.offset = final.offset
        if not world.pending:
            break
        final.stop()
        world.decide()
    assert world.is_end((final.offset["file"], final.offset["pos"]))
    assert all(final.offset["tables"][table.full]["done"] for table in world.tables)
    assert not any("dropped" in state for state in final.offset["tables"].values())
    for table in world.tables:
        assert key_in_bronze(table.full, final.log) == key_of(world, table), table.full


def key_in_bronze(table: str, log: list[Change]) -> list[str]:
    """The key's columns as the table's last schema has them; none of a table that is dropped."""
    last = max((c for c in log if c.table == table and c.op is Op.SCHEMA), key=lambda c: c.seq, default=None)
    return [] if last is None else list(dict(last.after).get("key", ()))


def key_of(world: World, table: Table) -> list[str]:
    """The primary key's columns, else those of the first unique index over columns that are NOT NULL, as it is now.

    Without the end of a period, which the server puts into each. A unique index over prefixes is no key.
    """
    found = world.run(f"SHOW INDEX FROM `{table.database}`.`{table.name}` WHERE NON_UNIQUE = 0")
    indexes: dict[str, list[Any]] = {}
    for row in found:
        indexes.setdefault(row[2], []).append(row)
    for name in sorted(indexes, key=lambda name: name != "PRIMARY"):
        if all(row[9] != "YES" and (name == "PRIMARY" or row[7] is None) for row in indexes[name]):
            return [row[4] for row in indexes[name] if row[4] not in table.period]
    return []


def altered(driver: Driver, world: World) -> list[str]:
    """The tables that were truncated or altered behind the planned batch."""
    assert driver.planned is not None
    where = (driver.planned[1]["file"], driver.planned[1]["pos"])
    return [table for table, moved in world.altered.items() if moved > where]


def kinds_of(server: MySqlServer) -> list[str]:
    """The kinds of keys that a server knows."""
    with closing(connected(server)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM INFORMATION_SCHEMA.COLLATIONS WHERE COLLATION_NAME = 'utf8mb4_0900_ai_ci'")
        [(known,)] = cursor.fetchall()
        cursor.execute("SELECT VERSION()")
        [(version,)] = cursor.fetchall()
    return sorted((KEYS | (MARIADB_KEYS if "MariaDB" in version else {})).keys() - (set() if known else {"ai_ci"}))
