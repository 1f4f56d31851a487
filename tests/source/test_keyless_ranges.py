"""Long and busy tables without a key: read in ranges of values, each kind of row from a view that is sure of it."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pymysql
import pytest

from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.multiset import remaining
from lakehouse_cdc.source.reading import views_of_rows
from lakehouse_cdc.source.requests.requests import Signals
from lakehouse_cdc.source.settling import consistent_view
from lakehouse_cdc.source.splits import SnapshotSplit
from lakehouse_cdc.source.test_hooks import Step
from tests.support.servers import connected
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage

ORDERED = {  # a column's type, and some of its values in their order
    "INT": ["-2147483648", "-1", "0", "1", "7", "2147483647"],
    "BIGINT UNSIGNED": ["0", "9223372036854775807", "9223372036854775808", "18446744073709551615"],
    "DECIMAL(6,2)": ["-9999.99", "-10.00", "-2.50", "0.00", "2.50", "10.00"],
    "DECIMAL(40,1)": [f"-{'9' * 39}.9", "-0.1", "0.0", "0.1", f"{'9' * 39}.8", f"{'9' * 39}.9"],
    "DATE": ["'1000-01-01'", "'1999-12-31'", "'2024-02-29'", "'9999-12-31'"],
    "DATETIME(3)": ["'1000-01-01 00:00:00'", "'2024-02-29 12:00:00.001'", "'2024-02-29 12:00:00.002'"],
}


def create(stage: Stage, declared: str, rng: random.Random, rows: int, engine: str = "InnoDB") -> None:
    """`t` (a, b), of which many rows are alike, and in which `a` may be NULL."""
    stage.run(f"CREATE TABLE t (a {declared}, b VARCHAR(9), KEY (a, b)) ENGINE = {engine}")
    if rows:
        stage.run(f"INSERT INTO t VALUES {', '.join(one(declared, rng) for _ in range(rows))}")


def one(declared: str, rng: random.Random) -> str:
    value = rng.choice(["NULL", *ORDERED[declared]])
    return f"({value}, {rng.choice(['NULL', repr('x'), repr('y')])})"


def statement(declared: str, rng: random.Random) -> str:
    """One that moves rows from range to range, and changes one of several copies."""
    a, b = (rng.choice(["NULL", *ORDERED[declared]]) for _ in range(2))
    return rng.choice(
        [
            f"INSERT INTO t VALUES {one(declared, rng)}, {one(declared, rng)}",
            f"UPDATE t SET a = {a} WHERE a <=> {b} LIMIT {rng.randrange(1, 4)}",
            f"UPDATE t SET b = 'z' WHERE a <=> {b} LIMIT 1",
            f"DELETE FROM t WHERE a <=> {a} LIMIT {rng.randrange(1, 4)}",
        ]
    )


def splits(driver: Driver) -> list[SnapshotSplit]:
    """The as-of reads of the batch that is planned."""
    assert driver.planned is not None
    return [p for p in driver.reader.partitions(*driver.planned) if isinstance(p, SnapshotSplit)]


def read(driver: Driver) -> Counter[Any]:
    """The rows of the last read."""
    rows = [c for c in driver.log if c.op is Op.READ]
    return Counter(c.after for c in rows if c.seq == max(c.seq for c in rows))


def in_text(rows: Mapping[Any, int]) -> Counter[Any]:
    """The same, with numbers as text, as an image has decimals of more than 38 digits."""
    texts = Counter[Any]()
    for row, times in rows.items():
        texts[tuple((name, str(value) if isinstance(value, int | Decimal) else value) for name, value in row)] += times
    return texts


def same(stage: Stage, driver: Driver) -> None:
    held = remaining(c for c in driver.log if c.table == stage.name())
    assert in_text(held) == in_text(stage.images())


@pytest.mark.parametrize("seed", range(len(ORDERED)))
def test_each_row_is_in_one_range(any_stage: Stage, at: Callable[..., None], seed: int) -> None:
    """Whatever is written at the moments of the read, and however a replay cuts it."""
    stage, rng, declared = any_stage, random.Random(seed), [*ORDERED][seed]
    create(stage, declared, rng, rows=60)
    driver = stage.driver(settleSeconds="0.3")
    before = stage.images()

    def act() -> None:
        stage.transaction(*(statement(declared, rng) for _ in range(rng.randrange(1, 4))))

    at(Step.BEFORE_SELECT, act, times=40)
    at(Step.AFTER_SELECT, act, times=40)
    assert driver.plan()
    parts = splits(driver)
    assert len(parts) > 2
    assert all(part.by is not None for part in parts)
    rows: list[Any] = []

    def replayed() -> None:
        stage.run("DELETE FROM t WHERE a IS NOT NULL LIMIT 5")
        rows.append(len(splits(driver)))

    driver.batch(between=replayed)
    assert in_text(read(driver)) == in_text(before)
    stage.drain_twice(driver)
    same(stage, driver)


@pytest.mark.parametrize(
    ("column", "index", "ranges"),
    [
        ("a INT", "a", True),
        ("a INT", "b, a", False),  # text is ordered by the server
        ("a INT", "f", False),
        ("a INT", "", False),
        ("a ENUM('x', 'y', 'z')", "a", False),
        ("a INT", "g", True),
    ],
)
def test_which_index_cuts_a_table(stage: Stage, column: str, index: str, ranges: bool) -> None:
    key = f", KEY ({index})" if index else ""
    stage.run(f"CREATE TABLE t ({column}, b VARCHAR(9), f DOUBLE, g INT AS (f) STORED{key})")
    rows = [(n % 3 + 1 if n % 5 else "NULL", n % 9, n % 7) for n in range(50)]
    stage.run(f"INSERT INTO t (a, b, f) VALUES {', '.join(f'({a}, {b}, {f})' for a, b, f in rows)}")
    driver = stage.driver()
    assert driver.plan()
    parts = splits(driver)
    assert (len(parts) > 1) == ranges
    assert [part.by for part in parts] == [parts[0].by if ranges else None] * len(parts)
    stage.drain(driver)
    same(stage, driver)


def test_a_column_that_is_not_carried_as_it_is_cuts_nothing(stage: Stage) -> None:
    stage.run("CREATE TABLE t (a INT, d DATE, m INT, KEY (a), KEY (d), KEY (m))")
    stage.run(f"INSERT INTO t VALUES {', '.join(f'({n}, 20240101 + {n % 28}, {n})' for n in range(40))}")
    stage.run("SET sql_mode = ''")
    stage.run("INSERT INTO t VALUES (1, '0000-00-00', 1), (2, '2024-00-10', 2)")
    driver = stage.driver(
        exclude=f'{{"{stage.name()}": ["a"]}}',
        masks=f'{{"{stage.name()}": {{"m": "null"}}}}',
        zeroDates="null",
    )
    assert driver.plan()
    assert [part.by for part in splits(driver)] == [None]


@pytest.mark.parametrize("engine", ["InnoDB", "MyISAM"])
@pytest.mark.parametrize("ddl", ["DROP INDEX a ON t", "ALTER TABLE t DROP INDEX a, ADD INDEX c (a)", "invisible"])
def test_an_index_that_is_gone_when_a_range_is_read(any_stage: Stage, ddl: str, engine: str) -> None:
    stage = any_stage
    stage.run(f"CREATE TABLE t (a INT, b INT, KEY a (a)) ENGINE = {engine}")
    stage.run(f"INSERT INTO t VALUES {', '.join(f'({n % 30}, {n})' for n in range(40))}")
    before, driver = stage.images(), stage.driver()
    assert driver.plan()
    assert len(splits(driver)) > 2
    if ddl == "invisible":
        with suppress(pymysql.err.ProgrammingError):  # MySQL 5.7 has none
            state = "IGNORED" if stage.server.version.startswith("mariadb") else "INVISIBLE"
            stage.run(f"ALTER TABLE t ALTER INDEX a {state}")
    else:
        stage.run(ddl)
    driver.batch()
    assert read(driver) == before
    stage.drain_twice(driver)
    same(stage, driver)


@pytest.mark.parametrize("index", ["a", "d", "m", ""])
def test_dates_of_the_year_zero(any_stage: Stage, at: Callable[..., None], index: str) -> None:
    """Which Python has not, and MySQL has: as bounds, in rows that are written meanwhile, and in those in doubt."""
    stage = any_stage
    stage.run(f"CREATE TABLE t (a INT, d DATE, m DATETIME(3){f', KEY ({index})' if index else ''})")
    days = ["0000-01-01", "0000-03-01", "0000-12-31", "0001-01-01", "9999-12-31"]
    rows = [f"({n}, '{day}', '{day} 01:02:03.456')" for n, day in enumerate(days * 6)]
    stage.run(f"INSERT INTO t VALUES {', '.join(rows)}")
    driver = stage.driver()

    def act() -> None:
        stage.run("UPDATE t SET a = a + 10, d = '0000-03-02', m = '0000-03-02' ORDER BY RAND() LIMIT 3")

    at(Step.BEFORE_SELECT, act, times=10)
    assert driver.plan()
    assert (len(splits(driver)) > 2) == bool(index)
    assert sum(batch.num_rows for batch in driver.read()) == 30 + 1  # and the schema


@pytest.mark.parametrize("settle", ["gtid", "process", "age"])
@pytest.mark.parametrize("index", [True, False])
def test_a_table_that_is_written_whenever_a_view_is_made(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, settle: str, index: bool
) -> None:
    """By rows that are new, and others like those that are there: each kind of row rests once."""
    monkeypatch.setattr(views_of_rows, "_PATIENCE", 30)
    stage.run(f"CREATE TABLE t (a INT, b VARCHAR(9){', KEY (a)' if index else ''})")
    stage.run(f"INSERT INTO t VALUES {', '.join(f'({n % 8}, NULL)' for n in range(40))}")
    written = 0

    def place(schema: Any) -> str:
        nonlocal written
        written += 1
        stage.run(f"INSERT INTO t VALUES ({written % 8}, NULL), ({written}, 'x')")
        stage.run(f"DELETE FROM t WHERE a = {(written + 3) % 8} AND b IS NULL LIMIT 1")
        return f"`{schema.database}`.`{schema.table}`"

    monkeypatch.setattr(consistent_view, "place", place)
    url = f"mysql://root@127.0.0.1:{stage.server.port}"
    driver = stage.driver(settle=settle, settleSeconds="0.02", chunkRows="1000", url=url, password="")
    before = stage.images()
    driver.batch()
    assert read(driver) == before
    assert written > 8
    monkeypatch.undo()
    stage.drain_twice(driver)
    same(stage, driver)


def test_a_locked_table_that_is_written_before_each_lock(any_stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs no right to LOCK TABLES."""
    stage = any_stage
    stage.run("CREATE TABLE t (a INT, b VARCHAR(9)) ENGINE = MyISAM")
    stage.run(f"INSERT INTO t VALUES {', '.join(f'({n % 8}, NULL)' for n in range(40))}")
    written = 0

    def acting(*_: Any) -> bool:
        nonlocal written
        written += 1
        stage.run(f"INSERT INTO t VALUES ({written % 8}, NULL), ({written}, 'x')")
        return True

    monkeypatch.setattr(views_of_rows, "has_settled", acting)
    monkeypatch.setattr(views_of_rows, "has_locked", lambda *_: False)
    before = stage.images()
    driver = stage.driver()
    driver.batch()
    assert read(driver) == before
    assert written > 1
    monkeypatch.undo()
    stage.drain_twice(driver)
    same(stage, driver)


@pytest.mark.parametrize("engine", ["InnoDB", pytest.param("MyISAM", marks=pytest.mark.long)])
@pytest.mark.parametrize("index", ["KEY (a)", pytest.param("KEY (b)", marks=pytest.mark.long)])
def test_many_write_while_ranges_are_read(any_stage: Stage, tmp_path: Path, index: str, engine: str) -> None:
    """One stream has seen every change since the table was empty; what another one reads is what that has there."""
    stage, declared = any_stage, "INT"
    stage.run(f"CREATE TABLE t (a INT, b VARCHAR(9), {index}) ENGINE = {engine}")
    events = stage.driver(tables=stage.name(), schemaFolder=str(tmp_path / "events"))
    stage.snapshot(events)
    rng = random.Random(7)
    stage.run(f"INSERT INTO t VALUES {', '.join(one(declared, rng) for _ in range(300))}")
    stopped = threading.Event()

    def write(number: int) -> None:
        mine = random.Random(number)
        with closing(connected(stage.server, database=stage.database)) as connection:
            cursor = connection.cursor()
            while not stopped.wait(0.004 * mine.random()):
                with suppress(pymysql.err.OperationalError):  # a deadlock
                    cursor.execute(statement(declared, mine))

    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for writer in writers:
        writer.start()
    reads: list[tuple[dict[str, Any], Counter[Any]]] = []
    try:
        time.sleep(0.2)
        driver = stage.driver(
            tables=stage.name(), schemaFolder=str(tmp_path / "rows"), settleSeconds="0.05", chunkRows="60"
        )
        for _ in range(3):
            driver.batch(between=lambda: None)
            reads.append((dict(driver.offset), read(driver)))
            driver.batch(between=lambda: None)
            Signals(driver.options["schemaFolder"]).request(stage.name())
            driver.batch(between=lambda: None)
    finally:
        stopped.set()
        for writer in writers:
            writer.join()
    stage.drain_twice(driver)
    stage.drain(events)
    same(stage, events)
    same(stage, driver)
    rows = [c for c in driver.log if c.op is Op.READ]
    assert len({c.seq for c in rows}) >= 2
    for seq in {c.seq for c in rows}:
        there = remaining(c for c in events.log if c.seq <= seq)
        assert Counter(c.after for c in rows if c.seq == seq) == there
