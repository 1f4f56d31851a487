"""The rules of the offset: `{}` comes first, cursors are half-open, the last chunk has no end, tables come and stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakehouse_cdc.errors import CdcError, DefiniteError
from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.model.seq import Rank, unpack
from lakehouse_cdc.source.splits import BinlogSplit, SnapshotSplit
from lakehouse_cdc.source.test_hooks import Step
from tests.support.source.driver import Driver, changes, exact_bytes
from tests.support.source.stage import Stage


def of(driver: Driver, table: str, *ops: Op) -> list[Change]:
    return [c for c in driver.log if c.table == table and (not ops or c.op in ops)]


# ---------------------------------------------------------------- the first offset


def test_the_initial_offset_is_the_empty_one_for_ever(stage: Stage) -> None:
    stage.create(rows=20)
    driver = stage.driver()
    assert driver.reader.initialOffset() == {}
    driver.batch()
    stage.run("UPDATE t SET v = 1")
    assert driver.reader.initialOffset() == {}
    driver.restart()
    assert driver.reader.initialOffset() == {}


def test_batch_0_is_a_function_of_its_end_alone(stage: Stage) -> None:
    """Planned, not committed, the process dies, the source goes on: the same batch again, to the byte."""
    stage.create(rows=30)
    driver = stage.driver()
    assert driver.plan()
    first = driver.read()
    for change in ("UPDATE t SET v = v + 1", "DELETE FROM t WHERE id < 50", "INSERT INTO t VALUES (5, 5)"):
        stage.run(change)
    driver.restart()
    assert exact_bytes(driver.read()) == exact_bytes(first)
    assert [c.after for c in changes(first) if c.op is Op.READ] == [(("id", 10 * i), ("v", 0)) for i in range(10)]


def test_the_first_batch_has_no_binlog_range(stage: Stage, at: Callable[..., None]) -> None:
    stage.create(rows=30)
    driver = stage.driver()
    at(Step.AFTER_POSITION, lambda: stage.run("UPDATE t SET v = 7"))
    assert driver.plan()
    assert driver.planned is not None
    parts = driver.reader.partitions(*driver.planned)
    assert not any(isinstance(p, BinlogSplit) for p in parts)
    assert sum(isinstance(p, SnapshotSplit) for p in parts) == 2
    driver.batch()
    stage.drain(driver)
    stage.same(driver)


# ---------------------------------------------------------------- cursors


def test_a_chunk_of_large_rows_has_few_of_them(stage: Stage) -> None:
    stage.run("CREATE TABLE large (id INT PRIMARY KEY, b LONGBLOB)")
    stage.run("INSERT INTO large WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) "
              "SELECT i, REPEAT('x', 500000) FROM n")  # fmt: skip
    stage.run("ANALYZE TABLE large")
    options = stage.options(chunkBytes="4000000", chunksPerTrigger="64")
    del options["chunkRows"]
    driver = Driver(options)
    stage.drivers.append(driver)
    assert driver.plan()
    assert driver.planned is not None
    parts = [p for p in driver.reader.partitions(*driver.planned) if isinstance(p, SnapshotSplit)]
    assert 5 <= len(parts) <= 10, "about eight rows each"
    driver.batch()
    stage.drain(driver)
    stage.same(driver, "large")


def test_an_empty_cursor_passes_nothing_and_done_passes_everything(stage: Stage) -> None:
    stage.create("a", rows=20)
    stage.create("b", rows=3)
    driver = stage.driver(chunksPerTrigger="1")
    driver.batch()
    tables = driver.offset["tables"]
    assert tables[stage.name("b")]["cursor"] == []
    assert not tables[stage.name("b")]["done"]
    stage.run("UPDATE b SET v = 1")
    stage.run("INSERT INTO b VALUES (-5, 1)")
    driver.batch()
    assert not of(driver, stage.name("b"))
    stage.snapshot(driver)
    assert not of(driver, stage.name("b"), Op.INSERT, Op.UPDATE, Op.DELETE)
    stage.run("INSERT INTO b VALUES (-100, 2), (2000000000, 2)")
    stage.drain(driver)
    assert len(of(driver, stage.name("b"), Op.INSERT)) == 2
    stage.same(driver, "a", "b")


def test_the_row_at_the_cursor_waits_for_its_chunk(stage: Stage) -> None:
    """[lo, hi): events of keys below the cursor pass, the cursor's own key does not."""
    stage.create(rows=30)
    driver = stage.driver(chunksPerTrigger="1")
    driver.batch()
    bound = int(driver.offset["tables"][stage.name()]["cursor"][0])
    below = max(row[0] for row in stage.run("SELECT id FROM t") if row[0] < bound)
    stage.run(f"INSERT IGNORE INTO t VALUES ({bound}, 0)")
    stage.run(f"UPDATE t SET v = 1 WHERE id IN ({below}, {bound})")
    driver.batch()
    updated = [dict(c.after)["id"] for c in of(driver, stage.name(), Op.UPDATE, Op.INSERT)]
    assert updated == [below]
    stage.drain(driver)
    stage.same(driver)


ENDS: dict[str, Callable[[Stage], Any]] = {
    "the greatest rows go": lambda s: s.run("DELETE FROM t ORDER BY id DESC LIMIT 3"),
    "all rows go": lambda s: s.run("DELETE FROM t"),
    "rows come beyond the greatest": lambda s: s.run(
        "INSERT INTO t SELECT COALESCE(MAX(id), 0) + 1000, 9 FROM t HAVING COALESCE(MAX(id), 0) < 2000000000"
    ),
}


@pytest.mark.parametrize("step", [*Step, None])
@pytest.mark.parametrize("what", ENDS)
def test_the_last_chunk_reaches_to_infinity(
    stage: Stage, at: Callable[..., None], step: Step | None, what: str
) -> None:
    """At each moment of each batch (or between batches) the end of the table moves."""
    stage.create(rows=25)
    stage.run("CREATE TABLE chars (k VARCHAR(20) PRIMARY KEY)")  # no arithmetic on its keys
    stage.run("INSERT INTO chars VALUES ('a'), ('b'), ('c'), ('d'), ('e'), ('f'), ('g')")

    def act() -> None:
        ENDS[what](stage)
        stage.run("DELETE FROM chars ORDER BY k DESC LIMIT 1")
        stage.run("INSERT IGNORE INTO chars VALUES ('zz')")

    driver = stage.driver()
    if step is not None:
        at(step, act, times=10)
    for _ in range(30):
        driver.batch()
        if step is None:
            act()
        if all(s["done"] for s in driver.offset["tables"].values()):
            break
    at(Step.AFTER_HIGH, lambda: None, times=0)
    stage.drain(driver)
    stage.same(driver, "t", "chars")


# ---------------------------------------------------------------- keys


def test_another_spelling_of_a_key_is_another_row(stage: Stage) -> None:
    stage.run("CREATE TABLE t (k VARCHAR(9) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, v INT)")
    stage.run("INSERT INTO t VALUES ('a', 1)")
    driver = stage.driver()
    stage.snapshot(driver)
    stage.run("UPDATE t SET k = 'A'")
    stage.drain(driver)
    events = of(driver, stage.name(), Op.INSERT, Op.UPDATE, Op.DELETE)
    assert [(c.op, dict(c.key)["k"]) for c in events] == [(Op.DELETE, "a"), (Op.INSERT, "A")]  # type: ignore[call-overload]
    assert events[0].seq < events[1].seq
    stage.same(driver)


def test_the_server_decides_which_keys_lie_below(stage: Stage) -> None:
    """In bytes B < C < a < é; in the column's collation a < B < C < é < F."""
    stage.run("CREATE TABLE t (k VARCHAR(9) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, v INT)")
    stage.run("INSERT INTO t VALUES ('a', 0), ('B', 0), ('C', 0), ('é', 0), ('F', 0), ('g', 0), ('H', 0)")
    driver = stage.driver(chunkRows="2", chunksPerTrigger="1")
    driver.batch()
    assert driver.offset["tables"][stage.name()]["cursor"] == ["C"]
    stage.run("UPDATE t SET v = 1")
    driver.batch()
    passed = [dict(c.after)["k"] for c in of(driver, stage.name(), Op.UPDATE)]
    assert passed == ["a", "B"]
    assert driver.offset["tables"][stage.name()]["cursor"] == ["F"]
    read = [c for c in of(driver, stage.name(), Op.READ) if dict(c.after)["v"] == 1]
    assert {dict(c.after)["k"] for c in read} == {"C", "é"}
    stage.drain(driver)
    stage.same(driver)


def test_ten_updates_of_one_key_in_one_transaction_keep_their_order(stage: Stage) -> None:
    stage.create(rows=3)
    driver = stage.driver()
    stage.snapshot(driver)
    stage.transaction(*(f"UPDATE t SET v = {n} WHERE id = 10" for n in range(1, 11)))
    stage.drain(driver)
    updates = sorted(of(driver, stage.name(), Op.UPDATE), key=lambda c: c.seq)
    assert [dict(c.after)["v"] for c in updates] == list(range(1, 11))
    assert [unpack(c.seq).ordinal for c in updates] == list(range(10))
    stage.same(driver)


# ---------------------------------------------------------------- tables that come and go


def test_a_table_added_at_a_restart_gets_its_snapshot_and_loses_nothing(stage: Stage, at: Callable[..., None]) -> None:
    stage.create("a", rows=12)
    stage.create("b", rows=23)
    driver = stage.driver(tables=stage.name("a"))
    stage.snapshot(driver)
    stage.transaction("UPDATE b SET v = 1", "UPDATE a SET v = 1")
    driver.options["tables"] += "," + stage.name("b")
    for step in (Step.BEFORE_POSITION, Step.AFTER_POSITION, Step.BEFORE_SELECT, Step.AFTER_SELECT):
        at(step, lambda: stage.transaction("UPDATE b SET v = v + 1", "UPDATE a SET v = v + 1"), times=20)
    driver.restart()
    for _ in range(4):
        driver.batch(between=lambda: stage.run("UPDATE b SET v = v + 1 LIMIT 9"))
        driver.restart()
    for step in Step:
        at(step, lambda: None, times=0)
    stage.drain(driver)
    stage.same(driver, "a", "b")
    schemas = [unpack(c.seq) for c in of(driver, stage.name("b"), Op.SCHEMA)]
    assert [s.rank for s in schemas] == [Rank.SCHEMA]
    assert min(c.seq for c in of(driver, stage.name("b"))) == schemas[0].pack()


def test_the_floor_of_an_added_table_is_behind_its_birth(stage: Stage) -> None:
    """Nothing newer than the offset's floor is proven at a restart; a table created since then has its own."""
    stage.create("a", rows=3)
    driver = stage.driver(tables=stage.name("a"), settle="age", settleSeconds="2")
    stage.snapshot(driver)
    stage.create("b", rows=23)
    stage.drain(driver)
    driver.options["tables"] += "," + stage.name("b")
    driver.restart()
    while not driver.offset["tables"].get(stage.name("b"), {}).get("done"):
        assert driver.batch(between=lambda: stage.run("UPDATE b SET v = v + 1"))
    stage.drain(driver)
    stage.same(driver, "a", "b")


def test_rows_of_an_added_table_are_counted_from_its_birth_on(stage: Stage) -> None:
    """Else they would be taken for writes elsewhere, and wait."""
    stage.create("a", rows=3)
    stage.create("b", rows=3)
    driver = stage.driver(tables=stage.name("a"))
    stage.snapshot(driver)
    driver.options.update(tables=f"{stage.database}.*", idleSeconds="1000")
    driver.restart()
    stage.snapshot(driver)
    stage.run("UPDATE b SET v = 1")
    assert driver.batch()
    stage.same(driver, "a", "b")


@pytest.mark.parametrize(
    ("ddl", "says"),
    [
        ("CREATE TABLE other (id INT PRIMARY KEY) ENGINE=BLACKHOLE", "BLACKHOLE"),
        ("CREATE TABLE other (e ENUM('', 'a') PRIMARY KEY)", "empty label"),
        ("CREATE TABLE other (id INT PRIMARY KEY, e ENUM('a') CHARACTER SET binary)", "binary"),
    ],
)
def test_what_cannot_be_captured_is_refused_before_the_first_row(stage: Stage, ddl: str, says: str) -> None:
    """Where it is all that there is; beside others it is quarantined (see test_quarantine)."""
    stage.run(ddl)
    driver = stage.driver()
    with pytest.raises(DefiniteError, match=says) as refused:
        driver.plan()
    assert stage.name("other") in str(refused.value)
    assert not list(stage.folder.glob("*.json"))  # nothing was begun


def test_a_table_that_does_not_exist_is_refused(stage: Stage) -> None:
    stage.create(rows=3)
    with pytest.raises(CdcError, match=stage.name("nowhere")):
        stage.driver(tables=f"{stage.name()},{stage.name('nowhere')}").plan()
