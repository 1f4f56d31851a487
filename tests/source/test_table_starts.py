"""Each table's changes begin at its own start: all after it and none before, however the log is cut into batches."""

from __future__ import annotations

import json
import random
from collections import Counter
from contextlib import closing
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from lakehouse_cdc.errors import ConfigError, codes
from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.model.seq import RANK
from lakehouse_cdc.source.options import SourceOptions
from tests.remedies import remedy
from tests.support.servers import connected
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage
from tests.support.source.starts import changed, places, started
from tests.support.source.ways_out import signalled, stopped

pytestmark = pytest.mark.mysql


def starting(stage: Stage, start: Any, starts: dict[str, Any], **more: Any) -> Driver:
    """A stream that begins at `start`, and of some tables at others."""
    return started(stage, start, starts=json.dumps({stage.name(t): place for t, place in starts.items()}), **more)


def of(driver: Driver, name: str) -> list[Change]:
    return [change for change in changed(driver) if change.table == name]


def placed(changes: list[Change]) -> list[Change]:
    """By their places in the log alone: a seq also counts rows of other tables that a stream captures."""
    return [replace(change, seq=change.seq - change.seq % RANK) for change in changes]


def waiting(driver: Driver) -> list[str]:
    return [name for *_, tables in driver.offset["starts"] for name in tables]


def reason(driver: Driver, name: str) -> str:
    return str(driver.offset["tables"][name]["quarantined"])


# ---------------------------------------------------------------- exactness


class History:
    """Random transactions over several tables, and random starts, each with a stream that follows its table live."""

    def __init__(self, stage: Stage, rng: random.Random) -> None:
        self.stage, self.rng, self.prepared, self.numbers = stage, rng, 0, count()
        self.tables = [f"t{n}" for n in range(4)]
        for table in self.tables:
            stage.create(table, rows=6)
        self.marks: dict[str, tuple[Driver, Any]] = {}

    def step(self) -> None:
        stage, rng = self.stage, self.rng
        begun_not = [table for table in self.tables if table not in self.marks]
        match rng.randrange(9):
            case 0:
                stage.run("FLUSH BINARY LOGS")
            case 1 if begun_not:  # what a table was before its start is of no interest
                stage.run(f"ALTER TABLE {rng.choice(begun_not)} ADD COLUMN c{next(self.numbers)} INT")
            case 2:
                self.write_around_a_prepared_one()
            case _:
                self.write(self.tables)
        if rng.random() < 0.15 and begun_not:
            self.mark(rng.choice(begun_not))

    def mark(self, table: str) -> None:
        reference = started(self.stage, "now", tables=self.stage.name(table), url=self.stage.server.url, password="")
        reference.batch()
        self.marks[table] = reference, self.rng.choice([*places(self.stage).values()])

    def write(self, tables: list[str]) -> None:
        table, rng = self.rng.choice, self.rng
        self.stage.transaction(
            *(f"UPDATE {table(tables)} SET v = v + 1 WHERE id % 7 < {rng.randrange(1, 7)}" for _ in range(2)),
            f"REPLACE INTO {table(tables)} (id, v) VALUES ({rng.randrange(30)}, 0)",
        )

    def write_around_a_prepared_one(self) -> None:
        self.prepared += 1
        xid, table = f"'x{self.prepared}'", self.rng.choice(self.tables)
        with closing(connected(self.stage.server, database=self.stage.database)) as other, other.cursor() as cursor:
            cursor.execute(f"XA START {xid}")
            cursor.execute(f"INSERT INTO {table} (id, v) VALUES ({1000 + self.prepared}, 1)")
            cursor.execute(f"XA END {xid}")
            cursor.execute(f"XA PREPARE {xid}")
            self.write([one for one in self.tables if one != table])
            if table not in self.marks and self.rng.random() < 0.5:
                self.mark(table)
            cursor.execute(f"XA {self.rng.choice(['COMMIT', 'COMMIT', 'ROLLBACK'])} {xid}")


@pytest.mark.one_server
def test_random_starts_in_a_random_history(any_stage: Stage, seed: int) -> None:
    """Each table is compared with a stream that followed it alone from its start on, live."""
    stage, rng = any_stage, random.Random(seed)
    history = History(stage, rng)
    begin = places(stage)["position"]
    for _ in range(40):
        history.step()
    driver = starting(
        stage, begin if rng.random() < 0.5 else "now", {t: place for t, (_, place) in history.marks.items()},
        limit=ReadMaxRows(rng.randint(1, 30)), maxRowsPerTrigger=str(rng.randint(1, 30)),
        url=stage.server.url, password="",
    )  # fmt: skip
    while driver.batch(between=(lambda: None) if rng.random() < 0.3 else None):
        if rng.random() < 0.3:
            driver.restart()
    stage.drain(driver)
    assert "starts" not in driver.offset
    for table, (reference, _) in history.marks.items():
        stage.drain(reference)
        assert placed(of(driver, stage.name(table))) == placed(of(reference, stage.name(table))), table
    begun = Counter(change.table for change in driver.log if change.op is Op.SCHEMA and change.before is None)
    assert set(begun.values()) <= {1}


@pytest.mark.one_server
def test_a_start_before_that_of_the_pipeline(any_stage: Stage) -> None:
    stage = any_stage
    for table in "tu":
        stage.create(table, rows=2)
    there = places(stage)["position"]
    stage.run("UPDATE t SET v = 1")
    stage.run("UPDATE u SET v = 1")
    driver = starting(stage, "now", {"t": there})
    driver.batch()
    assert waiting(driver) == [stage.name("u")]
    stage.run("UPDATE u SET v = 2")
    stage.drain_twice(driver)
    assert Counter(c.table for c in changed(driver)) == {stage.name("t"): 2, stage.name("u"): 2}


def test_what_was_prepared_before_a_start_counts_where_it_is_committed(stage: Stage) -> None:
    for table in "tu":
        stage.create(table, rows=1)
    begin = places(stage)["position"]
    stage.run("UPDATE u SET v = 1")
    with closing(connected(stage.server, database=stage.database)) as other, other.cursor() as cursor:
        for sql in ("XA START 'z'", "INSERT INTO t VALUES (1, 1)", "XA END 'z'", "XA PREPARE 'z'"):
            cursor.execute(sql)
    stage.run("UPDATE u SET v = 2")
    there = places(stage)["position"]
    stage.run("XA COMMIT 'z'")
    driver = starting(stage, begin, {"t": there}, url=stage.server.url, password="")
    stage.drain_twice(driver)
    assert [(c.op, c.key) for c in of(driver, stage.name("t"))] == [(Op.INSERT, (("id", 1),))]


@pytest.mark.parametrize("lost", ["TRUNCATE TABLE t", "DROP TABLE t; CREATE TABLE t (id INT PRIMARY KEY, v INT)"])
def test_what_happens_to_a_table_before_its_start(stage: Stage, lost: str) -> None:
    """It is not emitted; nor does it matter what the table was, or whose."""
    for table in "tu":
        stage.create(table, rows=2)
    begin = places(stage)["position"]
    stage.run("UPDATE t SET v = 1")
    for sql in lost.split("; "):
        stage.run(sql)
    stage.run("INSERT INTO t VALUES (5, 5)")
    stage.run("UPDATE u SET v = 1")
    there = places(stage)["position"]
    stage.run("UPDATE t SET v = 2")
    driver = starting(stage, begin, {"t": there})
    stage.drain_twice(driver)
    assert [c.op for c in of(driver, stage.name("t"))] == [Op.UPDATE]
    assert len(of(driver, stage.name("u"))) == 2


def test_a_table_that_is_created_after_its_start(stage: Stage) -> None:
    """Also where one of that name was created between the pipeline's start and its own."""
    stage.create("u", rows=1)
    begin = places(stage)["position"]
    stage.create("t", rows=3)
    stage.run("DROP TABLE t")
    there = places(stage)["position"]
    stage.run("UPDATE u SET v = 1")
    stage.create("t", rows=2)
    driver = starting(stage, begin, {"t": there})
    stage.drain_twice(driver)
    assert [c.op for c in of(driver, stage.name("t"))] == [Op.INSERT] * 2
    stage.same_rows(driver, "t")


def test_the_configuration_hides_a_column_before_its_table_begins(stage: Stage) -> None:
    for table in "tu":
        stage.create(table, rows=1)
    begin = places(stage)["position"]
    for _ in range(3):
        stage.run("UPDATE u SET v = v + 1")
    there = places(stage)["position"]
    stage.run("UPDATE t SET v = 7")
    driver = starting(stage, begin, {"t": there}, maxRowsPerTrigger="1", limit=ReadMaxRows(1))
    driver.batches(2)
    assert waiting(driver) == [stage.name("t")]
    driver.options["exclude"] = json.dumps({stage.name("t"): ["v"]})
    driver.restart()
    stage.drain(driver)
    [change] = of(driver, stage.name("t"))
    assert change.after == (("id", 0),)


# ---------------------------------------------------------------- what cannot be


@pytest.mark.one_server
def test_a_table_that_was_altered_after_its_own_start(any_stage: Stage) -> None:
    stage = any_stage
    for table in "tuw":
        stage.create(table, rows=2)
    begin = places(stage)["position"]
    stage.run("ALTER TABLE t ADD COLUMN n INT")
    there = places(stage)["position"]
    stage.run("ALTER TABLE u ADD COLUMN n INT")
    stage.run("UPDATE t SET v = 1")
    stage.run("UPDATE w SET v = 1")
    driver = starting(stage, begin, {"t": there, "u": there})
    stage.drain_twice(driver)
    why = reason(driver, stage.name("u"))
    assert why.startswith(codes.SCHEMA_NOT_KNOWN.label)
    assert f"tables.{stage.name('u')}.start" in why
    assert Counter(c.table for c in changed(driver)) == {stage.name("t"): 2, stage.name("w"): 2}
    signalled(driver, why)
    stage.drain(driver)
    stage.same_rows(driver, "u")


def test_a_table_that_is_gone_counts_from_its_own_start_on(stage: Stage) -> None:
    for table in "tu":
        stage.create(table, rows=2)
    begin = places(stage)["position"]
    stage.run("UPDATE u SET v = 1")
    there = places(stage)["position"]
    stage.run("UPDATE u SET v = 2")
    stage.run("DROP TABLE u")
    stage.run("UPDATE t SET v = 1")
    later = places(stage)["position"]
    error = stopped(starting(stage, begin, {"u": there}), codes.START_BEFORE_DROP)
    assert f"set tables.{stage.name('u')}.start to" in error.hint
    driver = starting(stage, begin, {"u": later})
    stage.drain(driver)
    assert {c.table for c in changed(driver)} == {stage.name("t")}


def test_a_start_that_the_log_does_not_have(stage: Stage) -> None:
    stage.create()
    error = stopped(starting(stage, "now", {"t": {"position": "no-such-file.000001:4"}}), codes.START_UNAVAILABLE)
    assert error.what.startswith(f"tables.{stage.name()}.start is not in the log")


@remedy(codes.START_OF_ADDED_TABLE)
def test_a_table_that_is_added_to_a_stream_with_a_start_before(stage: Stage) -> None:
    stage.purge()  # of what other tests wrote
    for table in "tu":
        stage.create(table, rows=2)
    driver = starting(stage, "earliest", {"u": "earliest"}, tables=stage.name("t"))
    stage.drain(driver)
    driver.options["tables"] = f"{stage.database}.*"
    driver.restart()
    stage.run("UPDATE t SET v = 1")
    stage.run("UPDATE u SET v = 1")
    stage.drain(driver)
    why = reason(driver, stage.name("u"))
    assert why.startswith(codes.START_OF_ADDED_TABLE.label)
    assert of(driver, stage.name("t"))[-1].op is Op.UPDATE
    signalled(driver, why)
    stage.drain(driver)
    stage.run("DELETE FROM u WHERE id = 0")
    stage.drain(driver)
    stage.same_rows(driver, "u")


def test_a_table_that_is_created_later_is_followed_from_its_birth_whatever_its_start(stage: Stage) -> None:
    stage.purge()  # of what other tests wrote
    stage.create(rows=1)
    driver = starting(stage, "now", {"u": "earliest"})
    driver.batch()
    stage.create("u", rows=2)
    stage.drain_twice(driver)
    stage.same_rows(driver, "u")


def test_a_start_needs_a_stream_without_snapshots() -> None:
    options = {
        "url": "mysql://cdc@db",
        "tables": "shop.*",
        "schemaFolder": "schemas",
        "starts": '{"shop.t": "earliest"}',
    }
    with pytest.raises(ConfigError, match="snapshot: never") as raised:
        SourceOptions.parse(options)
    assert raised.value.code is codes.SETTINGS_CONTRADICT
    assert raised.value.where == "tables.shop.t.start"
    SourceOptions.parse({**options, "snapshot": "never"})
    SourceOptions.parse({**options, "starts": '{"shop.t": "now"}'})


def test_the_last_pattern_says_where_a_table_begins() -> None:
    starts = {"shop.*": "earliest", "shop.t*": "now", "shop.u": {"time": "2026-01-31T12:00:00Z"}}
    options = SourceOptions.parse(
        {
            "url": "mysql://cdc@db", "tables": "*.*", "schemaFolder": "schemas", "snapshot": "never",
            "start": '{"position": "bin.000001:4"}', "starts": json.dumps(starts),
        }
    )  # fmt: skip
    assert [options.start_of(name).kind for name in ("shop.a", "shop.tt", "shop.u", "x.y")] == [
        "earliest", "now", "time", "position",
    ]  # fmt: skip
    assert options.start_named("shop.tt") == "tables.shop.t*.start"
    assert options.start_named("x.y") == "source.start"
