"""Tables without a primary key by examples: views, keys that the user gives, DDL, many rows and writers."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.multiset import remaining
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.source.reading.log_batch import LogPart
from lakehouse_cdc.source.reading.views_of_rows import Past
from lakehouse_cdc.source.requests.requests import Signals
from lakehouse_cdc.source.settling import consistent_view
from lakehouse_cdc.source.settling.consistent_view import View
from lakehouse_cdc.source.splits import SnapshotSplit
from lakehouse_cdc.source.test_hooks import Step
from tests.support.row_images import buffer
from tests.support.servers import connected, row_metadata
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage


def create(stage: Stage, rows: int = 6, more: str = "") -> None:
    """`t` (a, b), in which rows are alike."""
    stage.run(f"CREATE TABLE t (a INT NOT NULL, b VARCHAR(9){more})")
    if rows:
        stage.run(f"INSERT INTO t (a, b) VALUES {', '.join(f'({n % 2}, NULL)' for n in range(rows))}")


def same(stage: Stage, driver: Driver, table: str = "t") -> None:
    """After `drain`: bronze holds the rows of the source, each as often."""
    assert remaining(c for c in driver.log if c.table == stage.name(table)) == stage.images(table)


def state(stage: Stage, driver: Driver) -> dict[str, Any]:
    found: dict[str, Any] = driver.offset["tables"][stage.name()]
    return found


def ops(driver: Driver) -> Counter[str]:
    return Counter(c.op.value for c in driver.log)


def test_bronze_has_rows_without_a_key(any_stage: Stage) -> None:
    stage = any_stage
    create(stage)
    driver = stage.driver()
    stage.snapshot(driver)
    stage.transaction("INSERT INTO t VALUES (0, 'x'), (0, 'x')", "UPDATE t SET b = 'y' WHERE b = 'x' LIMIT 1")
    stage.run("UPDATE t SET a = 2 WHERE a = 1 LIMIT 1")
    stage.run("DELETE FROM t WHERE a = 0 AND b IS NULL LIMIT 2")
    stage.drain_twice(driver)
    same(stage, driver)
    assert all(c.key is None for c in driver.log)
    assert ops(driver) == {"s": 1, "r": 6, "c": 2, "u": 2, "d": 2}
    assert len({c.seq for c in driver.log if c.op in (Op.INSERT, Op.UPDATE, Op.DELETE)}) == 6


def test_a_unique_index_is_no_key_where_there_is_to_be_none(any_stage: Stage) -> None:
    """Servers log the first one over columns that are not null as if it were, in whole row metadata."""
    stage = any_stage
    with row_metadata(stage.server, "FULL"):
        create(stage, rows=2, more=", c INT NOT NULL DEFAULT 0, UNIQUE (a, c)")
        driver = stage.driver(keys=json.dumps({stage.name(): []}))
        stage.snapshot(driver)
        stage.run("INSERT INTO t (a, c) VALUES (8, 1), (8, 2)")
        stage.run("ALTER TABLE t ADD COLUMN d INT")
        stage.run("UPDATE t SET d = c WHERE a = 8")
        stage.drain_twice(driver)
    same(stage, driver)
    assert all(c.key is None for c in driver.log)


@pytest.mark.parametrize("moment", ["before the view", "behind the view", "after the SELECT"])
def test_a_row_like_others_that_comes_while_they_are_read(
    any_stage: Stage, at: Callable[..., None], monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Whether the view holds it cannot be told from the rows: taken back or not, no count is below zero."""
    stage = any_stage
    create(stage)
    driver = stage.driver(settleSeconds="1")
    moves = iter(["INSERT INTO t VALUES (0, NULL)", "DELETE FROM t WHERE a = 1 LIMIT 1"])

    def act() -> None:
        for sql in moves:
            stage.run(sql)

    def acting(schema: Any) -> str:
        act()
        return f"`{schema.database}`.`{schema.table}`"

    if moment == "behind the view":
        monkeypatch.setattr(consistent_view, "place", acting)
    else:
        at(Step.BEFORE_SELECT if moment == "before the view" else Step.AFTER_SELECT, act)
    before = stage.images()
    stage.snapshot(driver)
    assert Counter(c.after for c in driver.log if c.op is Op.READ) == before
    stage.drain_twice(driver)
    same(stage, driver)


@dataclass
class Part:
    """Stands for a part of the log with one event, without a GTID."""

    at: Position
    changes: Any = field(default_factory=lambda: SimpleNamespace(before=buffer([None]), after=buffer([b"after"])))

    def images(self, chosen: Any) -> list[tuple[bytes, bytes | None, bytes | None, Position]]:
        return [(b"key", None, b"after", self.at)]

    def gtids_at(self, chosen: Any) -> list[str | None]:
        return [None]


def test_a_row_of_which_it_is_not_known_whether_a_view_holds_it_is_in_doubt() -> None:
    """It is not known of an event between the ends of a view without GTIDs."""
    low, high, after = (Position("binlog.000001", pos) for pos in (50, 90, 91))
    split = SimpleNamespace(stamp=SimpleNamespace(position=low), schema=None, lo=None, hi=None, by=None)
    for at, doubt in ((low, False), (Position("binlog.000001", 70), True), (high, True), (after, False)):
        past = Past(cast(SnapshotSplit, split), View(high, low=low, xids=frozenset()))
        past.take(cast(LogPart, Part(at)))
        assert past.doubtful_of(None) == ({b"after": b"after"} if doubt else {})
        assert past.doubtful_of({b"other": b"other"}) == {}


def test_what_a_view_lacks_is_added_and_what_it_has_too_much_is_taken_back() -> None:
    low, between, high = (Position("binlog.000001", pos) for pos in (50, 60, 90))
    split = SimpleNamespace(stamp=SimpleNamespace(position=between), schema=None, lo=None, hi=None, by=None)
    for exact, at, event in (
        (high, between, None),
        (high, high, (None, b"after")),
        (low, between, (b"after", None)),
        (low, high, None),
    ):
        past = Past(cast(SnapshotSplit, split), View(high, low=low, exact=exact, xids=frozenset()))
        past.take(cast(LogPart, Part(at)))
        assert past.doubtful_of(None) == {}
        assert past.part(None, None, {}).events == ([] if event is None else [event])


def test_what_a_view_holds() -> None:
    def at(pos: int) -> Position:
        return Position("binlog.000001", pos)

    uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    from lakehouse_cdc.model.gtid import GtidSet

    gtids = View(at(90), gtids=GtidSet.parse(f"{uuid}:1-7"))
    assert [gtids.holds(at(80), f"{uuid}:{n}", None) for n in (7, 8)] == [True, None]
    assert (gtids.holds(at(80), None, None), gtids.holds(at(91), f"{uuid}:7", None)) == (None, False)
    waited = View(at(90), low=at(50), xids=frozenset("x"))
    assert [waited.holds(at(pos), None, None) for pos in (50, 51, 91)] == [True, None, False]
    assert [waited.holds(at(50), None, xid) for xid in ("y", "x", "")] == [True, None, None]
    assert View(at(90), low=at(50), xids=None).holds(at(50), None, "y") is None
    assert View(at(90), low=at(50), aged=at(50), xids=None).holds(at(50), None, "y") is True
    exact = View(at(90), low=at(50), exact=at(70), xids=frozenset())
    assert [exact.holds(at(pos), None, None) for pos in (70, 71)] == [True, False]
    assert [exact.holds(at(pos), None, "y") for pos in (50, 51, 71)] == [True, None, None]


@pytest.mark.parametrize("settle", ["gtid", "process", "age"])
def test_each_proof_of_mysql(stage: Stage, at: Callable[..., None], settle: str) -> None:
    create(stage)
    driver = stage.driver(
        settle=settle, settleSeconds="0.5", url=f"mysql://root@127.0.0.1:{stage.server.port}", password=""
    )
    at(Step.BEFORE_SELECT, lambda: stage.run("INSERT INTO t VALUES (0, NULL)"))
    stage.snapshot(driver)
    assert ops(driver)["r"] == 6
    stage.drain_twice(driver)
    same(stage, driver)


def test_columns_that_are_left_out(stage: Stage) -> None:
    create(stage, more=", secret INT NOT NULL DEFAULT 7")
    driver = stage.driver(exclude=json.dumps({stage.name(): ["secret"]}))
    stage.snapshot(driver)
    stage.run("UPDATE t SET secret = a + 1")
    stage.run("DELETE FROM t WHERE secret = 1 LIMIT 1")
    stage.drain_twice(driver)
    found = remaining(driver.log)
    assert found == Counter({image: n for image, n in _without(stage.images(), "secret").items() if n})


def _without(images: Counter[Any], name: str) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for image, n in images.items():
        found[tuple(pair for pair in image if pair[0] != name)] += n
    return found


@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL"])
def test_columns_come_and_go_and_a_key_comes(stage: Stage, metadata: str) -> None:
    with row_metadata(stage.server, metadata):
        create(stage)
        driver = stage.driver()
        stage.snapshot(driver)
        stage.drain(driver)  # else the DDL may have been met by what was read
        stage.run("ALTER TABLE t ADD COLUMN c INT NOT NULL DEFAULT 3 FIRST, DROP COLUMN b")
        stage.run("INSERT INTO t VALUES (1, 1), (3, 1)")
        stage.run("DELETE FROM t WHERE a = 0 LIMIT 1")
        stage.drain_twice(driver)
        same(stage, driver)
        stage.run("TRUNCATE TABLE t")
        stage.run("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
        stage.drain_twice(driver)
        same(stage, driver)
        assert driver.offset["tables"][stage.name()]["done"]
        stage.run("ALTER TABLE t ADD PRIMARY KEY (a)")
        stage.run("UPDATE t SET c = 9, a = 12 WHERE a = 2")
        stage.drain_twice(driver)
        rows = [c for c in driver.log if c.key is not None]
        assert {dict(c.after)["a"] for c in rows if c.op is Op.READ} <= {1, 2, 3, 12}
        assert [c.op.value for c in driver.log if c.op is Op.END] == ["x"]
        stage.same_rows(driver)


@pytest.mark.parametrize("ddl", ["ALTER TABLE t ADD COLUMN c INT", "TRUNCATE TABLE t"])
@pytest.mark.parametrize("step", [Step.BEFORE_SELECT, Step.AFTER_SELECT])
def test_ddl_while_the_table_is_read(stage: Stage, at: Callable[..., None], step: Step, ddl: str) -> None:
    """Whether rows came of it or not, they come again, and what came first counts no more, also where none is left."""
    create(stage)
    driver = stage.driver()
    at(step, lambda: [stage.run(sql) for sql in (ddl, "DELETE FROM t WHERE a = 0")])
    stage.snapshot(driver)
    stage.run("DELETE FROM t")
    stage.drain_twice(driver)
    same(stage, driver)
    stage.run("INSERT INTO t (a) VALUES (5), (5)")
    stage.drain_twice(driver)
    same(stage, driver)


def test_a_table_is_read_again(stage: Stage) -> None:
    create(stage)
    driver = stage.driver()
    stage.snapshot(driver)
    for sql in ("INSERT INTO t VALUES (7, 'x'), (7, 'x')", "DELETE FROM t"):
        stage.run(sql)
        stage.drain(driver)
        Signals(driver.options["schemaFolder"]).request(stage.name())
        stage.drain_twice(driver)
        same(stage, driver)
    ends = [c for c in driver.log if c.op is Op.END]
    reads = sorted({c.seq for c in driver.log if c.op is Op.READ})
    assert len(ends) == 2
    assert int(ends[0].after) == reads[1]


@pytest.mark.parametrize("backlog", [False, True])
def test_a_table_that_loses_its_key_is_read_again_without_one(any_stage: Stage, backlog: bool) -> None:
    stage = any_stage
    stage.create(rows=12)
    driver = stage.driver()
    stage.snapshot(driver)
    stage.run("ALTER TABLE t DROP PRIMARY KEY")
    if not backlog:
        stage.drain_twice(driver)
    stage.run("INSERT INTO t VALUES (0, 0), (0, 0)")
    stage.run("DELETE FROM t WHERE id = 0 LIMIT 1")
    if backlog:
        stage.run("ALTER TABLE t ADD COLUMN w INT")
    stage.drain_twice(driver)
    assert "quarantined" not in state(stage, driver)
    last = max(c.seq for c in driver.log if c.op is Op.SCHEMA)
    assert remaining(c for c in driver.log if c.seq > last) == stage.images()


def test_a_key_that_the_user_gives(any_stage: Stage) -> None:
    stage = any_stage
    stage.run("CREATE TABLE t (a INT NOT NULL, b VARCHAR(9) NOT NULL, v INT)")
    stage.run("INSERT INTO t VALUES (1, 'x', 0), (1, 'y', 0), (2, 'x', 0)")
    driver = stage.driver(keys=json.dumps({f"{stage.database}.*": ["b", "A"]}))
    stage.snapshot(driver)
    stage.drain(driver)
    stage.run("UPDATE t SET v = v + 1 WHERE a = 1")
    stage.run("UPDATE t SET a = 3 WHERE a = 2")
    stage.run("ALTER TABLE t ADD COLUMN w INT, ADD INDEX i (v)")
    stage.run("UPDATE t SET w = 5 WHERE a = 3")
    stage.drain_twice(driver)
    stage.same(driver)
    assert ops(driver) == {"s": 2, "r": 3, "u": 3, "d": 1, "c": 1}
    assert {c.key for c in driver.log if c.op is Op.READ} == {
        (("a", 1), ("b", "x")), (("a", 1), ("b", "y")), (("a", 2), ("b", "x"))
    }  # fmt: skip
    stage.run("ALTER TABLE t DROP COLUMN b")
    stage.drain_twice(driver)
    assert "is to hold b, which is no column of it" in state(stage, driver)["quarantined"]


@pytest.mark.parametrize(
    ("columns", "key", "refused"),
    [
        ("a INT, b INT NOT NULL", ["b", "a"], "a, which may be NULL"),
        ("a INT NOT NULL", ["a", "c"], "c, which is no column"),
        ("a INT NOT NULL, b INT NOT NULL, PRIMARY KEY (a)", ["b"], r"primary key \(a\), and is to have another key"),
        ("a INT NOT NULL, b INT", ["a", "A"], "twice"),
    ],
)
def test_a_key_that_is_none_is_refused(stage: Stage, columns: str, key: list[str], refused: str) -> None:
    stage.run(f"CREATE TABLE t ({columns})")
    with pytest.raises(DefiniteError, match=f"of {stage.name()}.*{refused}|{stage.name()} has the {refused}"):
        stage.driver(keys=json.dumps({stage.name(): key})).batch()


def test_the_primary_key_may_be_given_as_well(stage: Stage) -> None:
    stage.create(rows=3)
    driver = stage.driver(keys=json.dumps({stage.name(): ["ID"]}))
    stage.snapshot(driver)
    stage.run("DELETE FROM t LIMIT 1")
    stage.drain_twice(driver)
    stage.same(driver)


@pytest.mark.one_server
def test_many_rows_and_writers(any_stage: Stage) -> None:
    """A view is found while three write; each offset at rest is the source."""
    stage = any_stage
    stage.run("CREATE TABLE t (a INT, b VARCHAR(20))")
    for _ in range(4):
        stage.run(
            f"INSERT INTO t VALUES {', '.join(f'({n % 50}, REPEAT(CHAR(97 + {n % 7}), 20))' for n in range(3000))}"
        )
    driver = stage.driver(settleSeconds="0.2")
    stopped = threading.Event()

    def write(number: int) -> None:
        with closing(connected(stage.server, database=stage.database)) as connection:
            cursor, n = connection.cursor(), 0
            while not stopped.wait(0.03):
                n += 1
                cursor.execute("INSERT INTO t VALUES (%s, NULL), (%s, NULL)", [n % 5, number])
                cursor.execute("UPDATE t SET b = 'new' WHERE a = %s AND b IS NULL LIMIT 1", [n % 5])
                cursor.execute("DELETE FROM t WHERE a = %s LIMIT 1", [n % 50])

    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for writer in writers:
        writer.start()
    try:
        time.sleep(0.2)
        stage.snapshot(driver)
        for _ in range(5):
            driver.batch(between=lambda: None)
        Signals(driver.options["schemaFolder"]).request(stage.name())
        for _ in range(5):
            driver.batch(between=lambda: None)
    finally:
        stopped.set()
        for writer in writers:
            writer.join()
    stage.drain_twice(driver)
    same(stage, driver)
    assert ops(driver)["x"] == 1
