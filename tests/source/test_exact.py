"""Exactness on a real server: at every committed offset, fold(bronze) is the source at that position.

One connection writes (see `world`), at every named moment of the algorithm and between the batches, and remembers the
whole state at each position. Each batch is executed twice, in two "processes", with more writes in between, and must
give the same bytes. Tables have keys that have hurt others.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lakehouse_cdc.model.changelog import Change, Op, fold, invalid
from lakehouse_cdc.model.multiset import standing
from lakehouse_cdc.model.seq import Rank, Seq
from lakehouse_cdc.source import test_hooks
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.versions import MARIADB
from tests.positions import binlog_end
from tests.source.driver import Driver, hashable
from tests.source.world import KEYLESS, KEYS, MARIADB_KEYS, Table, World

shapes = st.lists(st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=4).map(tuple), min_size=1, max_size=3)


def options(server: MySqlServer, database: str, folder: Path, **more: str) -> dict[str, str]:
    return {
        "url": f"mysql://cdc@127.0.0.1:{server.port}",
        "password": "cdc-secret",
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
    for (table, key), (_, image) in fold(c for c in driver.log if c.table not in keyless).items():
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
        if table in keyless:  # of one that is not read yet nothing is there
            mine = Counter(standing(c for c in driver.log if c.table == table))
            assert mine == (Counter(want.values()) if state["done"] else Counter()), f"{table} at {where}"
        elif state["done"]:
            assert got[table] == want, f"{table} at {where}"
        else:  # the keys below the cursor; all others must be absent
            assert {k: want.get(k) for k in got[table]} == got[table], f"{table} at {where}, cursor {state['cursor']}"
    again = {change.table for change in driver.log if change.op is Op.SCHEMA and change.before and not kept(change)}
    if world.ddl.keys() - {"truncate"}:  # keys that a chunk has not emitted may be updated before they come again
        again |= {table for table, _, _ in world.doubtful}
    again |= keyless
    assert invalid(c for c in without_doubtful(driver.log, world) if c.table not in again) is None


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
    connection = server.connect(autocommit=True, charset="utf8mb4")
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
    **more: str,
) -> Driver:
    """`session`: settings of the session that writes; `ddl`: how often, out of 1, it does that; or it uses XA, too.

    `ask` is called in front of each batch.
    """
    database = "exact"
    with closing(server.connect(autocommit=True, charset="utf8mb4")) as connection:
        fresh(connection, database)
        configure(connection, session)
        tables = [Table(database, f"t{i}", k) for i, k in enumerate(kinds)]
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


def altered(driver: Driver, world: World) -> list[str]:
    """The tables that were truncated or altered behind the planned batch."""
    assert driver.planned is not None
    where = (driver.planned[1]["file"], driver.planned[1]["pos"])
    return [table for table, moved in world.altered.items() if moved > where]


def examples(count: int) -> settings:
    """Without shrinking: an example takes seconds."""
    return settings(
        max_examples=count, deadline=None, database=None, phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip


@examples(12)
@given(shapes, st.integers(0, 2**32))
def test_every_offset_is_exact(
    mysql: MySqlServer, tmp_path_factory: Any, kinds: list[tuple[str, ...]], seed: int
) -> None:
    play(mysql, tmp_path_factory.mktemp("schemas"), kinds, seed)


@pytest.mark.long
@examples(150)
@given(shapes, st.integers(0, 2**32))
def test_every_offset_is_exact_many_times(
    mysql: MySqlServer, tmp_path_factory: Any, kinds: list[tuple[str, ...]], seed: int
) -> None:
    play(mysql, tmp_path_factory.mktemp("schemas"), kinds, seed)


@pytest.mark.parametrize("kind", sorted(KEYS))
def test_each_kind_of_key(mysql: MySqlServer, tmp_path: Path, kind: str) -> None:
    play(mysql, tmp_path, [(kind,), ("few", kind)], seed=len(kind))


def kinds_of(server: MySqlServer) -> list[str]:
    """The kinds of keys that a server knows."""
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM INFORMATION_SCHEMA.COLLATIONS WHERE COLLATION_NAME = 'utf8mb4_0900_ai_ci'")
        [(known,)] = cursor.fetchall()
        cursor.execute("SELECT VERSION()")
        [(version,)] = cursor.fetchall()
    return sorted((KEYS | (MARIADB_KEYS if "MariaDB" in version else {})).keys() - (set() if known else {"ai_ci"}))


@pytest.mark.parametrize("seed", range(1))
def test_every_offset_is_exact_on_every_server(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    kinds = kinds_of(any_server)
    random.Random(seed).shuffle(kinds)
    play(any_server, tmp_path, [(kinds[0],), tuple(kinds[1:3]), tuple(kinds[3:6])], seed)


@pytest.mark.parametrize("seed", range(2))
def test_tables_that_are_truncated(mysql: MySqlServer, tmp_path: Path, seed: int) -> None:
    play(mysql, tmp_path, [("int",), ("few", "general_ci"), ("bin",)], seed, {"truncate": 0.1})


@pytest.mark.long
@examples(100)
@given(shapes, st.integers(0, 2**32))
def test_tables_that_are_truncated_many_times(
    mysql: MySqlServer, tmp_path_factory: Any, kinds: list[tuple[str, ...]], seed: int
) -> None:
    play(mysql, tmp_path_factory.mktemp("schemas"), kinds, seed, {"truncate": 0.1})


@pytest.mark.parametrize("seed", range(1))
def test_tables_that_are_altered(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    play(any_server, tmp_path, [("int",), ("few", "general_ci")], seed, {"alter": 0.2, "truncate": 0.02})


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 130))
def test_tables_that_are_altered_many_times(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    play(any_server, tmp_path, [("int",), ("few", "general_ci"), ("bin",)], seed, {"alter": 0.2, "truncate": 0.02})


@pytest.mark.parametrize("seed", range(1))
def test_tables_that_are_replaced(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    play(any_server, tmp_path, [("int",), ("few", "general_ci")], seed, {"replace": 0.1, "alter": 0.05})


@pytest.mark.long
@pytest.mark.parametrize("seed", range(200, 240))
def test_tables_that_are_replaced_many_times(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    play(
        any_server,
        tmp_path,
        [("int",), ("few", "general_ci"), ("bin",)],
        seed,
        {"replace": 0.1, "alter": 0.1, "truncate": 0.02},
    )


@pytest.mark.parametrize("seed", range(2))
def test_tables_that_are_created(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    play(any_server, tmp_path, [("int",), ("few", "general_ci")], seed, {"create": 0.1, "replace": 0.03})


@pytest.mark.long
@pytest.mark.parametrize("seed", range(300, 330))
def test_tables_that_are_created_many_times(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    often = {"create": 0.1, "replace": 0.05, "alter": 0.05, "truncate": 0.02}
    play(any_server, tmp_path, [("int",), ("few", "general_ci")], seed, often)


@pytest.mark.parametrize("seed", range(1))
def test_xa_transactions(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    play(any_server, tmp_path, [("int",), ("few", "general_ci")], seed, xa=True)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 40))
def test_xa_transactions_many_times(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    play(any_server, tmp_path, [("int",), ("few", "general_ci")], seed, xa=True)


@pytest.mark.parametrize("any_server", MARIADB, indirect=True)
@pytest.mark.parametrize("kind", sorted(MARIADB_KEYS))
def test_the_keys_of_mariadb(any_server: MySqlServer, tmp_path: Path, kind: str) -> None:
    play(any_server, tmp_path, [(kind,), ("few", kind)], seed=len(kind))


@pytest.mark.parametrize("any_server", ["mysql-8.0", "mysql-9", *MARIADB], indirect=True)
def test_compressed_transactions(any_server: MySqlServer, tmp_path: Path) -> None:
    mariadb = any_server.version in MARIADB
    with closing(any_server.connect(autocommit=True)) as connection, connection.cursor() as cursor:
        if mariadb:
            cursor.execute("SET GLOBAL log_bin_compress = ON, log_bin_compress_min_len = 10")
        try:
            begin = binlog_end(connection)
            session = "" if mariadb else ", binlog_transaction_compression = ON"
            play(any_server, tmp_path, [("int",), ("few", "general_ci")], seed=1, session=session, xa=True)
        finally:
            if mariadb:
                cursor.execute("SET GLOBAL log_bin_compress = OFF, log_bin_compress_min_len = DEFAULT")
        cursor.execute("SHOW BINARY LOGS")
        files = [str(row[0]) for row in cursor.fetchall() if row[0] >= begin[0]]
        kinds: Counter[str] = Counter()
        for file in files:
            cursor.execute(f"SHOW BINLOG EVENTS IN '{file}'")
            kinds.update(str(row[2]) for row in cursor.fetchall() if (file, row[1]) >= begin)
    compressed = sum(n for kind, n in kinds.items() if "ompressed" in kind or kind == "Transaction_payload")
    assert compressed >= 10, kinds


@pytest.mark.parametrize("seed", range(2))
def test_tables_without_a_key(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    """As multisets; beside one that has a key."""
    play(any_server, tmp_path, [(KEYLESS, "few"), (KEYLESS, "few", "general_ci"), ("int",)], seed)


@pytest.mark.parametrize("seed", range(1))
def test_tables_without_a_key_that_are_altered(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    play(any_server, tmp_path, [(KEYLESS, "few"), (KEYLESS, "int")], seed, {"alter": 0.1, "truncate": 0.1})
