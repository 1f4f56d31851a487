"""Generated columns: captured where the binlog has them; refused by name, and to be excluded, where it has not."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.model.changelog import Op, fold, invalid
from lakehouse_cdc.model.multiset import remaining
from tests.support.servers import row_metadata
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage

_TABLE = """CREATE TABLE t (
  id INT PRIMARY KEY, a INT, v INT AS (a * 2) STORED, w INT AS (a + 1) VIRTUAL, note VARCHAR(2000){},
  i BIGINT AS (a + 5) VIRTUAL, j BIGINT AS (a + 7) STORED, z INT, doc TEXT, KEY (i), KEY (j)
)"""
_WRITES = (
    "INSERT INTO t (id, a, note, z, doc) VALUES (1, 10, REPEAT('n', 1500), 1, 'd'), (2, 20, NULL, NULL, NULL)",
    "UPDATE t SET a = a + 1",
    "UPDATE t SET z = 7, note = 'short' WHERE w = 12",
    "REPLACE INTO t (id, a, note) VALUES (2, 40, REPEAT('m', 1500))",
    "INSERT INTO t (id, a) VALUES (1, 5) ON DUPLICATE KEY UPDATE a = 60, doc = 'e'",
    "INSERT INTO t (id, a) VALUES (3, 100), (4, 200)",
    "UPDATE t SET id = 5, a = NULL WHERE id = 4",
    "DELETE FROM t WHERE v = 200",
    "UPDATE t SET doc = CONCAT(COALESCE(doc, ''), id), a = a + 1000 ORDER BY id DESC",
)


def driver_of(stage: Stage, folder: str) -> Driver:
    """Without the generated columns."""
    exclude = json.dumps({stage.name(): ["v", "w", "i", "j"]})
    return stage.driver(exclude=exclude, schemaFolder=str(stage.folder / folder))


@pytest.mark.parametrize(("metadata", "keyed"), [("FULL", True), ("least", False)])
def test_the_other_columns_are_the_source(any_stage: Stage, metadata: str, keyed: bool) -> None:
    """Live and as a backlog; with COMPRESSED columns, too, where the server has them."""
    stage = any_stage
    table = _TABLE.format(" COMPRESSED" if stage.server.version.startswith("mariadb") else "")
    stage.run(table if keyed else table.replace("id INT PRIMARY KEY", "id INT NOT NULL"))
    if not keyed:
        stage.run("ALTER TABLE t ADD KEY (id)")
    with row_metadata(stage.server, metadata):
        stage.run("INSERT INTO t (id, a) VALUES (9, 9)")
        live = driver_of(stage, "live")
        stage.snapshot(live)
        behind = driver_of(stage, "behind")
        stage.snapshot(behind)
        for write in _WRITES:
            stage.run(write)
            stage.drain(live)
        stage.drain(behind)
    stage.run("CREATE VIEW seen AS SELECT id, a, note, z, doc FROM t")
    for driver in (live, behind):
        found = (
            Counter(image for _, image in fold(driver.log).values())
            if keyed
            else remaining(c for c in driver.log if c.table == stage.name())
        )
        assert found == stage.images("seen")
        assert not keyed or invalid(driver.log) is None
        assert {change.op for change in driver.log} >= {Op.INSERT, Op.UPDATE, Op.DELETE}


def test_they_are_captured_where_the_log_has_them(any_stage: Stage) -> None:
    stage = any_stage
    stage.run("CREATE TABLE t (id INT PRIMARY KEY, a INT, v INT AS (a * 2) STORED, w INT AS (a + 1) VIRTUAL)")
    stage.run("INSERT INTO t (id, a) VALUES (1, 1)")
    driver = stage.driver()
    stage.snapshot(driver)
    stage.run("UPDATE t SET a = 2")
    stage.drain(driver)
    if stage.server.version == "mariadb-11":
        assert {name for (_, image) in fold(driver.log).values() for name, _ in image} == {"id", "a"}
        with pytest.raises(DefiniteError, match=r"column v of .* that the server leaves out.*exclude the column"):
            stage.driver(generated="fail", schemaFolder=str(stage.folder / "refused")).batch()
        return
    stage.same(driver)


def test_one_that_depends_on_the_session_is_left_out(any_stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """From the first start, and where it comes later; what is stored under the setting `fail` stays so."""
    stage = any_stage
    stage.run("CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP NULL, h INT AS (HOUR(ts)) VIRTUAL, v INT)")
    stage.create("u", rows=2)
    stage.run("CREATE VIEW seen AS SELECT id, ts, v FROM t")
    stage.run("INSERT INTO t (id, ts) VALUES (1, '2020-01-01 10:00:00'), (2, NULL)")
    driver = stage.driver()
    stage.snapshot(driver)
    assert sum("column h is a" in record.message for record in caplog.records) == 1
    for sql in (
        "UPDATE t SET v = 3",
        "ALTER TABLE t ADD COLUMN m INT AS (MINUTE(ts)) VIRTUAL",
        "DELETE FROM t LIMIT 1",
    ):
        stage.run(sql)
    stage.drain_twice(driver)
    of_t = [change for change in driver.log if change.table == stage.name()]
    assert Counter(image for _, image in fold(of_t).values()) == stage.images("seen")
    assert all(c.op is not Op.END for c in driver.log)
    driver.options["generated"] = "fail"  # it is for tables that come from then on
    driver.restart()
    stage.run("CREATE TABLE w (id INT PRIMARY KEY, ts TIMESTAMP NULL, h INT AS (HOUR(ts)) VIRTUAL)")
    stage.run("UPDATE u SET v = 9")
    stage.drain_twice(driver)
    stage.same_rows(driver, "u")
    assert "generated column" in driver.offset["tables"][stage.name("w")]["quarantined"]
