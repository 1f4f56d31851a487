"""Tables under one writer, in some of which something goes wrong now and then; the source's state at every position.

A fault is a row or a statement that one table cannot be captured beyond. Of some nothing is left after a moment (a row
that is deleted at once), others stay until they are mended.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lakehouse_cdc.model.changelog import Op, fold
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage

Place = tuple[str, int]
State = dict[str, Counter[Any]]


@dataclass
class FaultyTables:
    """Writes at random into the tables `t0`, `t1`, ... of a stage, and remembers what they hold at each position.

    `altered`: where a table was last changed by what makes reads of it void. `left`: what a table held just before a
    statement that it cannot be followed beyond.
    """

    stage: Stage
    chosen: random.Random
    count: int
    states: dict[Place, State] = field(default_factory=dict)
    altered: dict[str, Place] = field(default_factory=dict)
    left: dict[tuple[str, Place], Counter[Any]] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.tables = [f"t{n}" for n in range(self.count)]
        self.bad: dict[str, set[str]] = {table: set() for table in self.tables}
        self.stage.run("SET SESSION sql_mode = ''")
        for table in self.tables:
            self.stage.run(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT, d DATE)")
            self.stage.run(f"INSERT INTO {table} VALUES {', '.join(f'({n}, 0, NULL)' for n in range(12))}")
        self._remember()

    def some(self, most: int, *, faulty: float = 0.0) -> None:
        """Up to so many transactions, each of which is a fault with that probability."""
        for _ in range(self.chosen.randrange(most + 1)):
            table = self.chosen.choice(self.tables)
            if self.chosen.random() < faulty:
                name, act = self.chosen.choice([*FAULTS.items()])
                act(self, table)
                self.faults[name] += 1
            else:
                self._write(table)

    def mend(self) -> list[str]:
        """Take every fault that is there out of its table; the tables."""
        mended = [table for table in self.tables if self.bad[table]]
        for table in mended:
            if "row" in self.bad[table]:
                self.do(table, f"UPDATE {table} SET d = NULL WHERE d = '0000-00-00'")
            if "column" in self.bad[table]:
                self.alter(table, f"ALTER TABLE {table} DROP COLUMN e")
            self.bad[table] = set()
        return mended

    def do(self, table: str, sql: str) -> None:
        """One transaction."""
        self.stage.run(sql)
        self._remember()

    def alter(self, table: str, sql: str, *, followed: bool = False) -> None:
        """One that makes reads of the table void which began before it; `followed`: and that is always understood."""
        held = self.stage.images(table)
        self.do(table, sql)
        self.altered[self.stage.name(table)] = self.stage.position()
        if not followed:
            self.left[table, self.stage.position()] = held

    def at(self, place: Place) -> State:
        """What the tables held at a position."""
        return self.states[max(known for known in self.states if known <= place)]

    def _remember(self) -> None:
        self.states[self.stage.position()] = {table: self.stage.images(table) for table in self.tables}

    def _write(self, table: str) -> None:
        key, other, value = (self.chosen.randrange(16) for _ in range(3))
        self.do(
            table,
            self.chosen.choice(
                [
                    f"REPLACE INTO {table} (id, v) VALUES ({key}, {value}), ({other}, {value + 1})",
                    f"UPDATE {table} SET v = v + {value + 1} WHERE id % 5 = {value % 5}",
                    f"UPDATE IGNORE {table} SET id = {other} WHERE id = {key}",
                    f"DELETE FROM {table} WHERE id = {key}",
                ]
            ),
        )


def _row(world: FaultyTables, table: str) -> None:
    """A date that cannot be held."""
    world.bad[table].add("row")
    world.do(table, f"REPLACE INTO {table} (id, v, d) VALUES ({world.chosen.randrange(16)}, 1, '0000-00-00')")


def _brief_row(world: FaultyTables, table: str) -> None:
    """The same, deleted at once."""
    world.do(table, f"REPLACE INTO {table} (id, v, d) VALUES (99, 1, '0000-00-00')")
    world.do(table, f"DELETE FROM {table} WHERE id = 99")


def _column(world: FaultyTables, table: str) -> None:
    """A column whose labels have no characters."""
    if "column" not in world.bad[table]:
        world.bad[table].add("column")
        world.alter(table, f"ALTER TABLE {table} ADD COLUMN e ENUM('a') CHARACTER SET binary")


def _text(world: FaultyTables, table: str) -> None:
    """A statement of which the log has no rows: what it may lead to is not known in a first batch."""
    world.stage.run("SET SESSION binlog_format = STATEMENT")
    world.alter(table, f"UPDATE {table} SET v = v + 100 WHERE id < 5")
    world.stage.run("SET SESSION binlog_format = ROW")
    for other in world.tables:
        world.altered[world.stage.name(other)] = world.stage.position()


def _truncate(world: FaultyTables, table: str) -> None:
    """No fault, but it comes between those that are."""
    world.alter(table, f"TRUNCATE TABLE {table}", followed=True)


FAULTS: dict[str, Callable[[FaultyTables, str], None]] = {
    "row": _row, "brief row": _brief_row, "column": _column, "text": _text, "truncate": _truncate,
}  # fmt: skip


@dataclass
class Judge:
    """Compares bronze with the source at each committed offset; `held`: what a table had when it was left."""

    world: FaultyTables
    held: dict[str, Counter[Any]] = field(default_factory=dict)
    quarantined: int = 0
    batches: int = 0
    compared: int = 0

    def check(self, driver: Driver, before: dict[str, Any]) -> None:
        """After a batch that began at the offset `before`."""
        self.batches += 1
        place = (driver.offset["file"], driver.offset["pos"])
        states, rows = self.world.at(place), fold(driver.log)
        for table in self.world.tables:
            name = self.world.stage.name(table)
            state = driver.offset["tables"].get(name)
            got = Counter(image for (full, _), (_, image) in rows.items() if full == name)
            if state is None:
                continue
            if {"quarantined", "dropped"} & state.keys():  # dropped: of what it is now, nothing has been read yet
                self._stays(table, got, driver, before, place)
                continue
            self.held.pop(table, None)
            if "moved_from" in state and self.world.altered.get(name, ("", 0)) > place:
                continue  # its reads may have met what makes them void, and its cursor will be put back
            if state.get("mode") == "again" and not (state["done"] and "moved_from" not in state):
                continue  # rows are what they were before, until they have been read again
            want = states[table]
            self.compared += 1
            if state["done"]:
                assert got == want, f"{name} at {place}: {got - want} is not there, {want - got} is missing"
            else:
                assert not got - want, f"{name} at {place}, cursor {state['cursor']}: {got - want} is not there"

    def _stays(self, table: str, got: Counter[Any], driver: Driver, before: dict[str, Any], place: Place) -> None:
        """A table that is not followed keeps what it had, which is what the source had before the fault."""
        name = self.world.stage.name(table)
        self.compared += 1
        if table in self.held:
            assert got == self.held[table], f"{name} has changed while it was not followed"
            return
        self.held[table] = got
        self.quarantined += "quarantined" in driver.offset["tables"][name]
        was = before.get("tables", {}).get(name)
        if was is None or not was["done"] or {"moved_from", "quarantined", "dropped"} & was.keys():
            return  # not all of it had been read
        if ["again", name] in driver.offset.get("ddl", ()):
            return  # a text before the fault changed rows that are in no log
        want = self.world.left.get((table, place), self.world.at(place)[table])
        assert got == want, f"{name} was left at {place} with {got - want} more and {want - got} less"


def quarantines(driver: Driver, name: str) -> list[str]:
    """The reasons that bronze has for a table, in order; '' where it was taken up again or changed."""
    rows = [c for c in driver.log if c.op is Op.SCHEMA and c.before is not None and c.table == name]
    return [dict(row.after).get("quarantined", "") for row in rows]
