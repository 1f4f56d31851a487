"""Tables of which some columns are captured: those that are named, and the key, through changes of the schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakehouse_cdc.errors import CdcError, ConfigError, DefiniteError
from lakehouse_cdc.model.changelog import Op, fold, invalid
from lakehouse_cdc.source.options import SourceOptions
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage


def rows(driver: Driver) -> list[dict[str, Any]]:
    return [dict(image) for _, image in fold(driver.log).values()]


def included(stage: Stage, *names: str) -> str:
    return json.dumps({stage.name(): names})


def test_included_columns_and_the_key_alone(any_stage: Stage) -> None:
    stage = any_stage
    stage.run("CREATE TABLE t (name VARCHAR(9), a INT, id INT, b INT, secret INT, PRIMARY KEY (id, b))")
    stage.run("INSERT INTO t VALUES ('one', 1, 1, 1, 777)")
    driver = stage.driver(include=included(stage, "Name", "a", "secret"), exclude=included(stage, "secret"))
    stage.snapshot(driver)
    stage.run("UPDATE t SET a = 2, secret = 777777")
    stage.drain(driver)
    assert rows(driver) == [{"id": 1, "b": 1, "name": "one", "a": 2}]

    # what is new is not included, what is renamed was
    stage.run("ALTER TABLE t ADD c INT DEFAULT 5, CHANGE a z BIGINT, CHANGE secret d INT")
    stage.run("INSERT INTO t (id, b, name, z, c, d) VALUES (2, 2, 'two', 3, 4, 5)")
    stage.drain(driver)
    assert rows(driver)[-1] == {"id": 2, "b": 2, "name": "two", "z": 3}
    assert invalid(driver.log) is None
    assert sum(c.op is Op.READ for c in driver.log) == 1, "nothing had to be read again"

    driver.options |= {"include": included(stage, "name", "a", "b"), "exclude": "{}"}
    driver.restart()
    with pytest.raises(CdcError, match="the included column a does not exist"):
        driver.batch()
    driver.options["include"] = included(stage, "name", "z")
    driver.restart()
    stage.run("UPDATE t SET z = 9 WHERE id = 2")
    stage.drain(driver)
    assert rows(driver)[-1] == {"id": 2, "b": 2, "name": "two", "z": 9}


def test_a_key_column_that_is_excluded_is_refused(stage: Stage) -> None:
    stage.create(rows=1)
    driver = stage.driver(include=included(stage, "id", "v"), exclude=included(stage, "id"))
    with pytest.raises(DefiniteError, match="cannot be excluded"):
        driver.batch()


def test_options_that_are_no_lists(stage: Stage) -> None:
    for option in ("include", "exclude", "masks"):
        with pytest.raises(ConfigError, match=f"option '{option}' is not a JSON object"):
            SourceOptions.parse(stage.options() | {option: '["id"]'})
