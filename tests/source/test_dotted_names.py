"""Tables and databases whose names hold dots: captured as all others, on every server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from lakehouse_cdc.model.changelog import fold
from lakehouse_cdc.model.table_name import join
from lakehouse_cdc.model.table_state import Quarantined, TableState
from lakehouse_cdc.model.table_state_json import to_json
from lakehouse_cdc.source.requests.requests import Signals
from tests.support.source.stage import Stage

TABLES = ("a.b", "b", "a`.b")


@pytest.fixture
def other(any_stage: Stage) -> Iterator[str]:
    """Another database, whose name with a table's could be read as another table of the first."""
    name = f"{any_stage.database}.a"
    any_stage.run(f"CREATE DATABASE `{name}`")
    yield name
    any_stage.run(f"DROP DATABASE IF EXISTS `{name}`")


def in_sql(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@pytest.mark.long
@pytest.mark.every_server
def test_names_with_dots(any_stage: Stage, other: str) -> None:
    stage = any_stage
    places = [(stage.database, table) for table in TABLES] + [(other, "b")]

    def each(statement: str) -> None:
        for database, table in places:
            stage.run(statement.format(f"{in_sql(database)}.{in_sql(table)}"))

    def same(*, but: tuple[str, str] | None = None) -> None:
        folded = fold(driver.log)
        for database, table in places:
            if (database, table) != but:
                rows: Counter[Any] = Counter(i for (n, _), (_, i) in folded.items() if n == join(database, table))
                assert rows == stage.images(f"{in_sql(database)}.{in_sql(table)}"), (database, table)

    each("CREATE TABLE {} (id INT PRIMARY KEY, v INT)")
    each("INSERT INTO {} VALUES (1, 1), (2, 2), (3, 3)")
    left_out = f"!{stage.database}.`a``.b`"
    driver = stage.driver(tables=f"{stage.database}.*,`{other}`.*,{left_out}")
    stage.snapshot(driver)
    names = {join(database, table) for database, table in places}
    unwanted = join(stage.database, "a`.b")
    assert driver.offset["tables"].keys() == names - {unwanted}
    each("UPDATE {} SET v = v + 10 WHERE id < 3")
    each("ALTER TABLE {} ADD COLUMN w INT DEFAULT 7")
    each("DELETE FROM {} WHERE id = 1")
    stage.drain_twice(driver)
    same(but=(stage.database, "a`.b"))
    each("TRUNCATE TABLE {}")
    each("INSERT INTO {} VALUES (5, 5, 5)")
    stage.run("CREATE TABLE `born.later` (id INT PRIMARY KEY, v INT)")
    stage.run("INSERT INTO `born.later` VALUES (1, 1)")
    places.append((stage.database, "born.later"))
    stage.drain_twice(driver)
    same(but=(stage.database, "a`.b"))
    driver.restart()
    Signals(driver.options["schemaFolder"]).request(join(stage.database, "a.b"))
    stage.drain_twice(driver)
    same(but=(stage.database, "a`.b"))
    stage.run("RENAME TABLE `a.b` TO `c.d`")
    stage.run(f"DROP DATABASE `{other}`")
    stage.drain_twice(driver)
    places = [(stage.database, "c.d"), (stage.database, "b"), (stage.database, "born.later")]
    same()
    states = driver.offset["tables"]
    assert all(states[name].get("dropped") for name in (join(stage.database, "a.b"), join(other, "b")))


def test_a_table_that_an_earlier_release_left_out_for_its_dot_is_captured(stage: Stage) -> None:
    stage.create()
    driver = stage.driver()
    stage.snapshot(driver)
    stage.run("CREATE TABLE `a.b` (id INT PRIMARY KEY, v INT)")
    stage.run("INSERT INTO `a.b` VALUES (1, 1)")
    raw = f"{stage.database}.a.b"
    reason = f"{raw} has a dot in its name, which is not supported"
    was = TableState(driver.offset["tables"][stage.name()]["schema"], Quarantined(reason, published=False, since=None))
    driver.offset["tables"][raw] = to_json(was)
    driver.restart()
    stage.drain_twice(driver)
    assert driver.offset["tables"].keys() == {stage.name(), join(stage.database, "a.b")}
    assert [image for (name, _), (_, image) in fold(driver.log).items() if name == join(stage.database, "a.b")]
