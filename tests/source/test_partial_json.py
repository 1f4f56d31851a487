"""Partial JSON updates through the source: bronze has whole documents, those of the server."""

from __future__ import annotations

import json

import pytest

from tests.support.source.stage import Stage


@pytest.mark.long
def test_bronze_is_the_source(stage: Stage) -> None:
    stage.run("CREATE TABLE t (id INT PRIMARY KEY, v INT, j JSON)")
    stage.run("SET SESSION binlog_row_value_options = 'PARTIAL_JSON'")
    document = json.dumps({"long": "x" * 300, "list": [1, {"a": "b"}, None]})
    for i in range(12):
        stage.run("INSERT INTO t VALUES (%s, 0, %s)", (i, document))
    driver = stage.driver()
    assert driver.batch()  # the snapshot goes on among the updates
    for compressed in (0, 1, 0):
        stage.run(f"SET SESSION binlog_transaction_compression = {compressed}")
        stage.run("UPDATE t SET j = JSON_SET(j, '$.new', id, '$.list[last]', v), v = v + 1")
        stage.run("UPDATE t SET j = JSON_REMOVE(j, '$.list[0]') WHERE id % 3 = 0")
        stage.transaction(
            "UPDATE t SET id = id + 100, j = JSON_SET(j, '$.k', 'moved') WHERE id = 5 + v", "DELETE FROM t WHERE id = v"
        )
        driver.batch()
    stage.snapshot(driver)
    stage.run("UPDATE t SET j = JSON_REPLACE(j, '$.list', 'none'), v = -1")
    stage.drain(driver)
    stage.same(driver)
    assert len(stage.images()) == 9
