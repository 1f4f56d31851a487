"""Keys read again by themselves: exactly those, exactly as of W, whatever is written, dies or is altered meanwhile."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.model.changelog import Change, Op, fold
from lakehouse_cdc.model.key_repair import Repair
from lakehouse_cdc.model.seq import Rank, unpack
from lakehouse_cdc.model.table_state import (
    CaughtUp,
    Complete,
    FirstPass,
    Repaired,
    RepairPending,
    RepeatedPass,
    TableState,
)
from lakehouse_cdc.source.requests.repairs import pending
from lakehouse_cdc.source.requests.requests import Signals
from lakehouse_cdc.source.state.state_store import SchemaStore
from lakehouse_cdc.source.test_hooks import Step
from lakehouse_cdc.testing import MySqlServer
from tests.support.source.driver import Driver
from tests.support.source.passes import passes
from tests.support.source.play import kinds_of, play
from tests.support.source.stage import Stage
from tests.support.source.world import World


def ask(driver: Driver, table: str, keys: Iterable[dict[str, Any]]) -> str:
    """Request those keys, as they were found at the driver's offset; the request's name."""
    folder, state = driver.options["schemaFolder"], driver.offset["tables"][table]
    repair = Repair.of(table, state["schema"], int(state.get("since", 0)), keys)
    fingerprint = SchemaStore(folder).put_repair(repair)
    Signals(folder).request_repair(table, fingerprint)
    return fingerprint


def ids(*values: int) -> list[dict[str, Any]]:
    return [{"id": value} for value in values]


def as_values(key: Any) -> dict[str, Any]:
    return dict(key)


def asked(driver: Driver) -> dict[str, Any]:
    return Signals(driver.options["schemaFolder"]).repairs()


def read_since(driver: Driver, begin: int) -> list[tuple[str, int]]:
    """(op, id) of what was read, or not found, behind the first `begin` changes."""
    found = [c for c in driver.log[begin:] if c.op is Op.READ or c.missed]
    return sorted((c.op.value, as_values(c.key)["id"]) for c in found)


def spoil(driver: Driver, table: str) -> None:
    """Bronze that lost the row 10, holds another one as 20, and 999 that never was."""
    damaged = [(("id", key),) for key in (10, 20, 999)]
    driver.log[:] = [c for c in driver.log if c.table != table or c.key not in damaged]
    for key in (20, 999):
        driver.log.append(Change(1, Op.INSERT, table, (("id", key),), None, (("id", key), ("v", -1))))


@pytest.mark.one_server
@pytest.mark.parametrize("restarts", [False, True])
def test_what_differs_is_read_and_nothing_else(any_stage: Stage, restarts: bool) -> None:
    stage = any_stage
    stage.create(rows=40)
    stage.create("other", rows=3)
    driver = stage.driver()
    stage.snapshot(driver)
    spoil(driver, stage.name())
    begin, chance = len(driver.log), random.Random(3)
    ask(driver, stage.name(), ids(10, 20, 999, 30))

    def write() -> None:
        stage.run("UPDATE t SET v = v + 1 WHERE id IN (20, %s)", [10 * chance.randrange(4, 40)])
        stage.run("REPLACE INTO t VALUES (%s, 7)", [10 * chance.randrange(4, 60)])
        stage.run("DELETE FROM t WHERE id = %s", [10 * chance.randrange(4, 40)])

    for _ in range(12):
        write()
        driver.batch(between=write)
        if restarts:
            driver.restart()
    stage.drain(driver)
    assert read_since(driver, begin) == [("d", 999), ("r", 10), ("r", 20), ("r", 30)]
    assert asked(driver) == {}
    assert "repair" not in driver.offset["tables"][stage.name()]
    stage.same_rows(driver, "t", "other")


def test_an_idle_run_takes_it_up_once_each_time_behind_the_last(stage: Stage) -> None:
    stage.create(rows=12)
    driver = stage.driver(available_now=True)
    stage.drain(driver)
    for reading in (1, 2):
        spoil(driver, stage.name())
        begin = len(driver.log)
        ask(driver, stage.name(), ids(10, 20, 999))
        for _ in range(2):
            driver.restart()
            while driver.batch():
                pass
        assert read_since(driver, begin) == [("d", 999), ("r", 10), ("r", 20)]
        assert {(unpack(c.seq).rank, unpack(c.seq).ordinal) for c in driver.log[begin:]} == {(Rank.READ, reading)}
        stage.same_rows(driver)
    Signals(driver.options["schemaFolder"]).request(stage.name())
    driver.restart()
    while driver.batch():
        pass
    assert {unpack(c.seq).ordinal for c in driver.log[begin + 3 :] if c.op is Op.READ} == {3}
    assert len(passes(driver)) == 1
    stage.same_rows(driver)


def test_an_offset_that_was_never_kept_takes_nothing_up(stage: Stage) -> None:
    stage.create(rows=12)
    driver = stage.driver()
    stage.snapshot(driver)
    stage.drain(driver)
    begin = len(driver.log)
    ask(driver, stage.name(), ids(10, 999))
    for _ in range(3):
        assert driver.plan()  # offered, and then the process dies
        stage.run("UPDATE t SET v = v + 1 LIMIT 1")
        driver.restart()
    assert asked(driver)
    stage.drain(driver)
    assert read_since(driver, begin) == [("d", 999), ("r", 10)]
    assert not asked(driver)
    stage.same(driver)


def test_as_of_w_though_the_select_sees_what_came_behind(stage: Stage, at: Callable[..., None]) -> None:
    stage.create(rows=5)
    driver = stage.driver()
    stage.snapshot(driver)
    stage.drain(driver)
    begin = len(driver.log)
    ask(driver, stage.name(), ids(0, 10, 20, 999))

    def change() -> None:
        stage.transaction("UPDATE t SET v = 5 WHERE id = 0", "DELETE FROM t WHERE id = 10")
        stage.run("INSERT INTO t VALUES (999, 1)")

    at(Step.BEFORE_SELECT, change)
    assert driver.batch()
    assert read_since(driver, begin) == [("d", 999), ("r", 0), ("r", 10), ("r", 20)]
    assert {c.after for c in driver.log[begin:] if c.op is Op.READ} == {
        (("id", i), ("v", 0)) for i in (0, 10, 20)
    }  # as of W
    stage.drain(driver)
    stage.same(driver)


@pytest.mark.parametrize(
    "statement",
    ["TRUNCATE TABLE t", "ALTER TABLE t ADD COLUMN w INT", "ALTER TABLE t MODIFY id BIGINT"],
)
def test_a_read_that_meets_ddl_is_made_up_for(stage: Stage, at: Callable[..., None], statement: str) -> None:
    stage.create(rows=12)
    driver = stage.driver()
    stage.snapshot(driver)
    stage.drain(driver)
    spoil(driver, stage.name())
    begin = len(driver.log)
    ask(driver, stage.name(), ids(10, 20, 999))
    at(Step.BEFORE_SELECT, lambda: stage.run(statement))
    assert driver.batch()
    assert read_since(driver, begin) == []
    for _ in range(8):
        driver.batch()
        driver.restart()
    stage.drain(driver)
    assert "repair" not in driver.offset["tables"][stage.name()]
    if "ADD" in statement:
        assert read_since(driver, begin) == [("d", 999), ("r", 10), ("r", 20)]
        assert passes(driver) == []
    if "MODIFY" in statement:  # the key is another one: no list of its keys is worth anything
        assert len(passes(driver)) == 1
    if "ADD" not in statement:
        stage.same_rows(driver)


@pytest.mark.parametrize("times", [1, 3])
def test_ddl_again_and_again(stage: Stage, at: Callable[..., None], times: int) -> None:
    stage.create(rows=12)
    driver = stage.driver()
    stage.snapshot(driver)
    stage.drain(driver)
    begin = len(driver.log)
    ask(driver, stage.name(), ids(10, 999))
    columns = iter("abcdef")
    at(Step.BEFORE_SELECT, lambda: stage.run(f"ALTER TABLE t ADD COLUMN {next(columns)} INT"), times)
    for _ in range(4 * times):
        driver.batch(between=lambda: None)
    stage.drain(driver)
    assert read_since(driver, begin) == [("d", 999), ("r", 10)]
    assert next(columns) == "abcdef"[times]


def test_a_request_is_void_for_a_table_that_is_gone_or_was_read_since(stage: Stage) -> None:
    stage.create(rows=12)
    stage.create("gone", rows=2)
    driver = stage.driver()
    stage.snapshot(driver)
    stage.drain(driver)
    ask(driver, stage.name("gone"), ids(10))
    ask(driver, stage.name(), ids(10, 999))
    Signals(driver.options["schemaFolder"]).request(stage.name())  # a pass finds all that the list can name
    stage.run("DROP TABLE gone")
    begin = len(driver.log)
    for _ in range(10):
        driver.batch()
    stage.drain(driver)
    assert len(passes(driver)) == 1
    assert [op for op, _ in read_since(driver, begin)] == ["r"] * 12
    assert asked(driver) == {}


def test_a_key_that_is_another_one_by_now(stage: Stage) -> None:
    stage.create(rows=12)
    driver = stage.driver()
    stage.snapshot(driver)
    stage.drain(driver)
    spoil(driver, stage.name())
    ask(driver, stage.name(), ids(10, 20, 999))
    stage.run("ALTER TABLE t DROP PRIMARY KEY, ADD COLUMN n INT AUTO_INCREMENT PRIMARY KEY")
    for _ in range(10):
        driver.batch()
    stage.drain(driver)
    assert asked(driver) == {}
    assert not [c for c in driver.log if c.missed]
    assert len(passes(driver)) >= 1


def test_the_request_cannot_be_changed_behind_the_back_of_an_offset(stage: Stage) -> None:
    stage.create(rows=3)
    driver = stage.driver()
    stage.snapshot(driver)
    stage.drain(driver)
    fingerprint = ask(driver, stage.name(), ids(10))
    assert driver.plan()
    path = Path(driver.options["schemaFolder"]) / f"repair-{fingerprint}.json"
    path.write_text(path.read_text().replace(stage.name(), "x.y"))
    driver.restart()
    with pytest.raises(DefiniteError, match=f"the file of repair {fingerprint} was changed"):
        driver.read()


def test_pending_until_silver_holds_what_was_read() -> None:
    rest = TableState("s", Complete(FirstPass()))
    read = replace(rest, repair=Repaired(7))
    assert not pending([], rest, rest)
    assert pending([""], rest, rest)  # asked for
    assert pending(["7"], rest, read)  # taken up, and not in silver yet
    assert pending([], rest, read)
    assert not pending(["7"], read, read)  # its file has just not gone yet
    assert pending([], read, replace(rest, repair=RepairPending("x")))
    again = TableState("s", CaughtUp(RepeatedPass(5), []))
    assert pending([], again, again)


@dataclass
class Asking:
    """Asks for keys at random, there or not, in this spelling or that, and remembers what became of it."""

    asked: dict[str, int] = field(default_factory=dict)
    readings: dict[tuple[str, int], str] = field(default_factory=dict)

    def __call__(self, driver: Driver, world: World) -> None:
        for name, state in driver.offset.get("tables", {}).items():
            if "repaired" in state and "repair" in state:
                self.readings[name, int(state["repaired"])] = state["repair"]
        for table in world.tables:
            state = driver.offset.get("tables", {}).get(table.full)
            if state is None or "dropped" in state or world.rng.random() > 0.3:
                continue
            there = [as_values(key) for name, key in fold(driver.log) if name == table.full]
            keys = world.rng.sample(there, min(len(there), world.rng.randrange(9)))
            random_keys = (table.random_key(world.rng) for _ in range(5))
            keys += [dict(zip(table.keys, key, strict=True)) for key in random_keys]
            unlike = {tuple(key[name] for name in table.keys): key for key in keys}
            self.asked[ask(driver, table.full, unlike.values())] = len(unlike)

    def check(self, driver: Driver, *, altered: bool = False) -> None:
        """Each reading gave each of its keys once; one that met DDL gave nothing."""
        assert len(self.readings) > 5
        for (table, seq), name in self.readings.items():
            rows = [c for c in driver.log if c.table == table and c.seq == seq and c.op is not Op.END]
            assert len(rows) == len({c.key for c in rows})
            assert len(rows) == self.asked[name] or (altered and not rows)
        assert any(c.missed for c in driver.log)


@pytest.mark.long
@pytest.mark.one_server
def test_random_keys_on_every_server(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    random_keys_of(any_server, tmp_path, random.Random(seed).sample(kinds_of(any_server), 6), seed)


@pytest.mark.long
def test_keys_of_every_kind_on_every_server(any_server: MySqlServer, tmp_path: Path) -> None:
    kinds = kinds_of(any_server)
    for i in range(0, len(kinds), 6):
        random_keys_of(any_server, tmp_path, kinds[i : i + 6], seed=i)


def random_keys_of(server: MySqlServer, folder: Path, kinds: list[str], seed: int) -> None:
    """Three tables with a key of one of those kinds, and one with the others together."""
    asking = Asking()
    shapes = [*((kind,) for kind in kinds[:3]), tuple(kinds[3:] or ["few"])]
    asking.check(play(server, folder, shapes, seed=seed, ask=asking))


@pytest.mark.long
@pytest.mark.one_server
def test_random_keys_of_tables_that_are_altered(any_server: MySqlServer, tmp_path: Path) -> None:
    asking = Asking()
    often = {"alter": 0.1, "truncate": 0.03, "replace": 0.03}
    asking.check(play(any_server, tmp_path, [("int",), ("few", "general_ci")], 4, often, ask=asking), altered=True)


@pytest.mark.long
@pytest.mark.one_server
def test_random_keys_with_xa_transactions(any_server: MySqlServer, tmp_path: Path) -> None:
    asking = Asking()
    asking.check(play(any_server, tmp_path, [("int",), ("few", "general_ci")], 5, xa=True, ask=asking))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(500, 504))
def test_random_keys_many_times(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    asking = Asking()
    often = {"alter": 0.1, "truncate": 0.03, "replace": 0.03, "create": 0.03} if seed % 2 else None
    shapes: list[tuple[str, ...]] = [("int",), ("few", "general_ci"), ("bin",)]
    asking.check(play(any_server, tmp_path, shapes, seed, often, xa=seed % 4 < 2, ask=asking), altered=seed % 2 > 0)
