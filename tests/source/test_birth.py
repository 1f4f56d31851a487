"""Tables that are created while the stream runs: captured from their birth on, row by row, and never read."""

from __future__ import annotations

from typing import Any

import pytest

from lakehouse_cdc.model.changelog import Op
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage

CREATE = "CREATE TABLE u (id INT PRIMARY KEY, s VARCHAR(20))"
LIFE = [
    "INSERT INTO u VALUES (1, 'a'), (2, 'b'), (3, 'c')", "UPDATE u SET s = 'B' WHERE id = 2",
    "DELETE FROM u WHERE id = 1", "INSERT INTO u VALUES (1, 'again')",
]  # fmt: skip


def streaming(stage: Stage, **options: Any) -> Driver:
    """A stream behind its snapshot of `t`."""
    stage.create(rows=3)
    driver = stage.driver(**options)
    stage.snapshot(driver)
    return driver


def life(driver: Driver, stage: Stage, table: str = "u") -> list[Op]:
    return [change.op for change in driver.log if change.table == stage.name(table)]


@pytest.mark.one_server
@pytest.mark.parametrize("when", ["live", "backlog"])
@pytest.mark.parametrize("create", [CREATE, "CREATE TABLE u LIKE model"])
def test_its_whole_life_is_there(any_stage: Stage, create: str, when: str) -> None:
    stage = any_stage
    driver = streaming(stage, tables=f"{stage.database}.*,!{stage.database}.model")
    stage.run(CREATE.replace("u", "model", 1))
    stage.drain(driver)
    for sql in (create, *LIFE):
        stage.run(sql)
        if when == "live":
            driver.batch(between=lambda: None)
    stage.run("FLUSH BINARY LOGS")
    stage.drain_twice(driver)
    stage.same(driver, "t", "u")
    assert life(driver, stage) == [Op.SCHEMA, *[Op.INSERT] * 3, Op.UPDATE, Op.DELETE, Op.INSERT]


def test_without_snapshots(stage: Stage) -> None:
    stage.create(rows=3)
    driver = stage.driver(snapshot="never")
    driver.batch()
    stage.run(CREATE)
    stage.run(LIFE[0])
    stage.drain_twice(driver)
    assert life(driver, stage) == [Op.SCHEMA, *[Op.INSERT] * 3]
    assert driver.offset["tables"][stage.name("u")]["mode"] == "never"


@pytest.mark.parametrize("when", ["live", "backlog"])
def test_again_under_the_same_name(stage: Stage, when: str) -> None:
    """What the table before it held goes at the new one's birth."""
    driver = streaming(stage)
    for sql in (CREATE, *LIFE, "DROP TABLE u", "CREATE TABLE u (n BIGINT PRIMARY KEY, s TEXT)"):
        stage.run(sql)
        if when == "live":
            driver.batch(between=lambda: None)
    stage.drain_twice(driver)
    assert driver.offset["tables"][stage.name("u")]["done"]
    stage.run("INSERT INTO u VALUES (7, 'new')")
    stage.drain_twice(driver)
    stage.same(driver, "t", "u")
    if when == "live":
        assert life(driver, stage)[-4:] == [Op.SCHEMA, Op.SCHEMA, Op.TRUNCATE, Op.INSERT]


@pytest.mark.parametrize(
    ("statements", "read"),
    [
        # altered before anybody could look: the log says what it was born as, and nothing here reads that
        ([CREATE, LIFE[0], "ALTER TABLE u ADD COLUMN n INT"], True),
        ([CREATE, LIFE[0], "CREATE INDEX i ON u (s)"], False),  # that changes nothing of it
        ([CREATE.replace("TABLE", "TABLE IF NOT EXISTS"), LIFE[0]], True),  # it may have been there
        (["CREATE TABLE u (PRIMARY KEY (id)) SELECT id, v FROM t"], True),
        ([CREATE, LIFE[0], "RENAME TABLE u TO w, w TO u"], True),
    ],
)
def test_a_table_of_which_less_is_known_is_read(stage: Stage, statements: list[str], read: bool) -> None:
    driver = streaming(stage)
    for sql in statements:
        stage.run(sql)
    stage.drain_twice(driver)
    stage.run("DELETE FROM u WHERE id > 2")
    stage.drain_twice(driver)
    stage.same(driver, "t", "u")
    assert (Op.READ in life(driver, stage)) == read


def test_many_at_once_are_read_together(stage: Stage) -> None:
    driver = streaming(stage, chunksPerTrigger="100")
    tables = [f"u{n}" for n in range(40)]
    for table in tables:
        stage.run(CREATE.replace("u", table, 1))
        stage.run(LIFE[0].replace("u", table, 1))
    batches = 0
    while driver.batch():
        batches += 1
    assert batches <= 3
    stage.drain(driver)
    stage.same(driver, "t", *tables)
    assert {op for table in tables for op in life(driver, stage, table)} == {Op.SCHEMA, Op.READ}


def test_one_that_cannot_be_captured_is_said(stage: Stage) -> None:
    driver = streaming(stage)
    stage.run("CREATE TABLE u (e ENUM('', 'a') PRIMARY KEY)")
    stage.run("INSERT INTO t VALUES (1, 1)")
    stage.drain(driver)
    stage.same(driver)
    assert "ENUM with an empty label" in driver.offset["tables"][stage.name("u")]["quarantined"]
