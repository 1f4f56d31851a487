"""A batch that passes DDL has just the rows that a batch for each stretch of the log between two DDLs would have."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.source.planning import stretches
from lakehouse_cdc.source.splits import BinlogSplit
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage

TABLES = ("a", "b", "c")


class History:
    """Random statements on a few tables, each of which is always understood; some are followed, some not."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self._stage, self._chosen = stage, random.Random(seed)
        self._columns: dict[str, list[str]] = {}
        self._made = 0
        for table in TABLES[:2]:
            self._create(table)

    def write(self, statements: int) -> None:
        acts: list[Callable[[str], None]] = [self._rows, self._rows, self._rows, self._alter, self._alter, self._other]
        for _ in range(statements):
            table = self._chosen.choice(TABLES)
            if table in self._columns:
                self._chosen.choice(acts)(table)
            else:
                self._create(table)

    def _create(self, table: str) -> None:
        self._stage.run(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)")
        self._columns[table] = ["v"]
        self._stage.run(f"INSERT INTO {table} VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6)")

    def _rows(self, table: str) -> None:
        n = self._chosen.randrange(12)
        column = self._chosen.choice(self._columns[table])
        self._stage.run(
            self._chosen.choice(
                [
                    f"REPLACE INTO {table} (id, {column}) VALUES ({n}, {n}), ({n + 1}, 7)",
                    f"UPDATE {table} SET {column} = {n} WHERE id % 3 = {n % 3}",
                    f"DELETE FROM {table} WHERE id = {n}",
                ]
            )
        )

    def _alter(self, table: str) -> None:
        columns = self._columns[table]
        self._made += 1
        new, old = f"c{self._made}", self._chosen.choice(columns)
        match self._chosen.randrange(5):
            case 0 if len(columns) > 1:
                self._stage.run(f"ALTER TABLE {table} DROP COLUMN {old}")
                columns.remove(old)
            case 1:
                self._stage.run(f"ALTER TABLE {table} CHANGE {old} {new} BIGINT")
                columns[columns.index(old)] = new
            case 2 if not self._chosen.randrange(3):
                self._stage.run(f"ALTER TABLE {table} MODIFY {old} VARCHAR(30)")  # is read again
                self._stage.run(f"UPDATE {table} SET {old} = '8' WHERE id = 2")
                columns.remove(old)
                self._stage.run(f"ALTER TABLE {table} ADD COLUMN {new} INT")
                columns.append(new)
            case _:
                self._stage.run(f"ALTER TABLE {table} ADD COLUMN {new} INT NOT NULL DEFAULT {self._made}")
                columns.append(new)

    def _other(self, table: str) -> None:
        match self._chosen.randrange(6):
            case 0:
                self._stage.run(f"DROP TABLE {table}")
                del self._columns[table]
            case 1:
                free = [other for other in TABLES if other not in self._columns]
                if free:
                    self._stage.run(f"RENAME TABLE {table} TO {free[0]}")
                    self._columns[free[0]] = self._columns.pop(table)
            case 2:
                self._stage.run("SET SESSION binlog_format = STATEMENT")
                self._stage.run(f"UPDATE {table} SET {self._columns[table][0]} = 9 WHERE id < 3")
                self._stage.run("SET SESSION binlog_format = ROW")
            case _:
                self._stage.run(f"TRUNCATE TABLE {table}")

    @property
    def tables(self) -> list[str]:
        return sorted(self._columns)


@contextmanager
def one_statement_a_batch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setattr(stretches, "MOST", 1)
        yield


def batches(stage: Stage, driver: Driver) -> int:
    """Batches until the stream stands where the source does, each executed twice; how many."""
    n = 0
    while driver.batch(between=lambda: None):
        n += 1
    stage.drain(driver)
    return n


def emitted(driver: Driver, since: int) -> list[Any]:
    """The rows from there on but for their order in a batch; what a snapshot read, without where it was read."""
    return sorted(
        (repr((c.op, c.table, c.key, c.before, c.after, None if c.op in (Op.READ, Op.END) else c.seq)))
        for c in driver.log[since:]
    )


def compared(stage: Stage, monkeypatch: pytest.MonkeyPatch, write: Callable[[], Any]) -> tuple[Driver, int, int]:
    """Two streams over the same backlog, of which one has a batch for each statement; how many batches each had."""
    drivers = [stage.driver(schemaFolder=f"{stage.folder}-{n}") for n in range(2)]
    for driver in drivers:
        stage.snapshot(driver)
        stage.drain(driver)
        driver.stop()
    begun = [len(driver.log) for driver in drivers]
    write()
    several = batches(stage, drivers[0])
    drivers[0].stop()
    with one_statement_a_batch(monkeypatch):
        single = batches(stage, drivers[1])
    drivers[1].stop()
    rows = [emitted(driver, since) for driver, since in zip(drivers, begun, strict=True)]
    assert rows[0] == rows[1]
    return drivers[0], several, single


@pytest.mark.one_server
def test_twenty_alters_of_a_backlog_are_one_batch(any_stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = any_stage
    stage.create(rows=12)
    stage.create("other", rows=3)

    def write() -> None:
        for n in range(20):
            stage.run(f"ALTER TABLE t ADD COLUMN c{n} INT")
            stage.run(f"UPDATE t SET v = v + 1, c{n} = {n} WHERE id > {n}")
            stage.run(f"INSERT INTO other VALUES ({n + 100}, 0)")

    driver, several, single = compared(stage, monkeypatch, write)
    assert several <= 2 < 20 <= single
    assert len(driver.offset["tables"]) == 2
    stage.same(driver, "t", "other")


@pytest.mark.one_server
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 12))])
def test_random_backlogs(any_stage: Stage, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    history = History(any_stage, seed)
    driver, several, single = compared(any_stage, monkeypatch, lambda: history.write(40))
    assert several < single
    any_stage.same_rows(driver, *history.tables)


def test_each_stretch_is_shared_among_tasks(stage: Stage) -> None:
    stage.create()
    driver = stage.driver(splitBytes="1000")
    stage.snapshot(driver)
    stage.drain(driver)
    for ddl in ("ADD COLUMN w INT", "ADD COLUMN x INT"):
        for n in range(20):
            stage.run(f"REPLACE INTO t (id, v) VALUES ({n}, {len(ddl) + n})")
            stage.run(f"DELETE FROM t WHERE id = {n}")
        stage.run(f"ALTER TABLE t {ddl}")
    assert driver.plan()
    assert driver.planned is not None
    parts = [part for part in driver.reader.partitions(*driver.planned) if isinstance(part, BinlogSplit)]
    by_shape = Counter(part.schemas[0].id for part in parts)
    assert len(by_shape) == 2
    assert min(by_shape.values()) > 3
    stage.drain_twice(driver)
    stage.same(driver)


def test_a_batch_ends_where_a_table_is_to_be_read_again(stage: Stage) -> None:
    stage.create(rows=3)
    driver = stage.driver()
    stage.snapshot(driver)
    stage.drain(driver)
    for ddl in ("ADD COLUMN w INT", "MODIFY v VARCHAR(20)", "ADD COLUMN x INT"):
        stage.run(f"ALTER TABLE t {ddl}")
    ends = []
    while driver.batch(between=lambda: None):
        ends.append([effect[0] for effect in driver.offset.get("ddl", ())])
    assert ends[0] == ["alter"]
    assert "again" in {state.get("mode") for state in driver.offset["tables"].values()} or len(ends) > 1
    stage.drain(driver)
    stage.same_rows(driver)


def limits(rows: list[Change]) -> int:
    return sum(change.op in (Op.INSERT, Op.UPDATE, Op.DELETE) for change in rows)


def test_a_batch_of_stretches_keeps_to_its_limit_of_rows(stage: Stage) -> None:
    stage.create()
    driver = stage.driver(limit=ReadMaxRows(10), maxRowsPerTrigger="10")
    stage.snapshot(driver)
    stage.drain(driver)
    for n in range(12):
        stage.run(f"INSERT INTO t (id, v) VALUES ({3 * n}, 0), ({3 * n + 1}, 0), ({3 * n + 2}, 0)")
        stage.run(f"ALTER TABLE t ADD COLUMN c{n} INT")
    seen, before = [], len(driver.log)
    while driver.batch():
        seen.append(limits(driver.log[before:]))
        before = len(driver.log)
    assert sum(seen) == 36
    assert max(seen) <= 12  # the transaction at which the limit is met is whole
    stage.same(driver)
