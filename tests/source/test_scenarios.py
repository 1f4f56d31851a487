"""Every kind of DDL, on every server, with whole row metadata and without: bronze is the source, and as it must be.

`live` reads behind each statement, `backlog` finds all of them in the log at once; every batch is executed twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any

import pymysql
import pytest

from lakehouse_cdc.model.changelog import Op, fold
from lakehouse_cdc.testing import VERSIONS
from tests.scenarios import SCENARIOS, Scenario, image
from tests.support.servers import require_generated_columns_in_the_log, row_metadata
from tests.support.source.stage import Stage

WAYS = [way for way in product(VERSIONS, ("FULL", "MINIMAL"), ("live", "backlog")) if way[:2] != ("mysql-5.7", "FULL")]
ALWAYS = 2  # ways of each scenario with every run of the tests, over all scenarios all ways; the others on demand


def cases() -> Iterator[Any]:
    """Every scenario in every way that it has."""
    for n, scenario in enumerate(SCENARIOS):
        ways = [way for way in WAYS if way[0] in scenario.servers]
        chosen = {(5 * n + i * len(ways) // ALWAYS) % len(ways) for i in range(ALWAYS)}
        for i, way in enumerate(ways):
            name = "-".join((*way, scenario.name)).lower()
            yield pytest.param(*way, scenario, id=name, marks=() if i in chosen else pytest.mark.long)


@pytest.mark.one_server
@pytest.mark.parametrize(("any_server", "metadata", "when", "scenario"), [*cases()], indirect=["any_server"])
def test_bronze(any_stage: Stage, metadata: str, when: str, scenario: Scenario) -> None:
    stage = any_stage
    if scenario.name == "column_added_that_is_generated":
        require_generated_columns_in_the_log(stage.server)
    with row_metadata(stage.server, metadata):
        for sql in scenario.schema:
            stage.run(sql)
        driver = stage.driver()
        stage.snapshot(driver)
        for sql in scenario.changes:
            stage.run(sql.replace("{database}", stage.database))
            if when == "live":
                driver.batch(between=lambda: None)
        stage.drain_twice(driver)
    folded = fold(driver.log)
    there = {str(name) for (name,) in stage.run("SHOW TABLES")}
    states = {name.partition(".")[2]: state for name, state in driver.offset["tables"].items()}
    assert set(states) == set(scenario.tables)
    assert {name for name, state in states.items() if state.get("dropped")} == set(scenario.tables) - there
    for table, held in scenario.tables.items():
        images = [dict(found) for (name, _), (_, found) in folded.items() if name == stage.name(table)]
        columns = [c for c in held.columns if all(c in found for found in images)]
        if table in there:
            with stage.connection.cursor(pymysql.cursors.DictCursor) as cursor:
                cursor.execute(f"SELECT * FROM {table}")
                rows = list(cursor.fetchall())
            assert columns == [c for c in held.columns if c in rows[0]]
            assert Counter(image(row, columns) for row in rows) == held.images(columns)
        assert Counter(image(found, columns) for found in images) == held.images(columns)
    again = {change.table.partition(".")[2] for change in driver.log if change.op is Op.END}
    assert again == scenario.read_again
