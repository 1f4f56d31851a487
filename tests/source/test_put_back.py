"""Chunks that were read before DDL, and are read again: rows that are gone by then are not kept."""

from __future__ import annotations

from tests.support.source.stage import Stage


def test_a_row_that_is_deleted_before_its_chunk_is_read_again(stage: Stage) -> None:
    """The first read emitted the row, the second does not see it: the delete between them must pass."""
    stage.create(rows=30)
    driver = stage.driver()
    driver.batch()
    assert driver.offset["tables"][stage.name()]["cursor"] == [100]
    stage.run("ALTER TABLE t ADD COLUMN note INT")
    stage.run("DELETE FROM t WHERE id = 10")
    stage.drain_twice(driver)
    stage.same_rows(driver)
