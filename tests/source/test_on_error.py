"""What becomes of a table whose rows cannot be followed, as the user says: read again, quarantined, or a stop."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.source.requests.requests import Signals
from lakehouse_cdc.source.requests.set_aside import SetAside
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage

FORMAT = "SET SESSION binlog_format = '{}'"
TEXT = (FORMAT.format("STATEMENT"), "UPDATE t SET v = 7 WHERE id < 30", FORMAT.format("ROW"))
BACKLOG = ("ALTER TABLE t ADD COLUMN total TIMESTAMP", "ALTER TABLE t MODIFY v BIGINT")
VIRTUAL = ("ALTER TABLE t ADD COLUMN seen INT AS (v / 2) VIRTUAL",)
ZERO = ("SET SESSION sql_mode = ''", "INSERT INTO t (id, d) VALUES (1, '0000-00-00')", "DELETE FROM t WHERE id = 1")
FAULTS = {"text": TEXT, "backlog": BACKLOG, "virtual": VIRTUAL, "zero": ZERO}


def drain(stage: Stage, driver: Driver) -> DefiniteError | None:
    """Batches until the end; what a row cannot be read for is set aside, as `pipeline.table_failures` does."""
    for _ in range(4):
        try:
            stage.drain_twice(driver)
        except DefiniteError as error:  # noqa: PERF203
            if error.table and driver.reader._options.stops(error.table):
                return error
            if not SetAside(driver.options["schemaFolder"]).note(error, "one"):
                return error
            driver.restart()
        else:
            return None
    raise AssertionError("it fails again and again")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("on_error", ["reread", "quarantine", "stop"])
def test_as_the_user_says(stage: Stage, fault: str, on_error: str) -> None:
    stage.run("CREATE TABLE t (id INT PRIMARY KEY, v INT, d DATE)")
    stage.run("INSERT INTO t (id, v) VALUES (0, 0), (10, 0), (20, 0), (30, 0)")
    stage.create("u", rows=3)
    driver = stage.driver(onError=json.dumps({"*.*": "stop", stage.name(): on_error}), generated="fail")
    stage.drain(driver)
    stage.run("UPDATE u SET v = 1")
    for sql in FAULTS[fault]:
        stage.run(sql)
    stage.run("UPDATE u SET v = 2")
    error = drain(stage, driver)
    state: dict[str, Any] = driver.offset["tables"][stage.name()]
    if on_error == "stop":
        assert error is not None
        assert fault == "zero" or f"set tables.{stage.name()}.on_error to reread or quarantine" in error.hint
        driver.options["onError"] = json.dumps({"*.*": "quarantine"})
        driver.restart()
        error = drain(stage, driver)
        state = driver.offset["tables"][stage.name()]
    assert error is None
    stage.same_rows(driver, "u")
    if on_error == "reread" and fault != "virtual":
        stage.same_rows(driver, "t", "u")
        return
    assert state["quarantined"]
    assert not [c for c in driver.log if c.table == stage.name() and c.op in (Op.UPDATE, Op.INSERT)]
    if fault == "virtual":
        stage.run("ALTER TABLE t DROP COLUMN seen")
    Signals(driver.options["schemaFolder"]).request(stage.name())
    assert drain(stage, driver) is None
    stage.run("UPDATE t SET v = 9 WHERE id = 20")
    stage.drain_twice(driver)
    stage.same_rows(driver, "t", "u")
