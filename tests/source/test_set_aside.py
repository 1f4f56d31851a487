"""A row that cannot be held quarantines its table where it is, everybody else continues, and reading again is exact."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from itertools import pairwise

import pytest

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.model.changelog import Op, fold
from lakehouse_cdc.source.requests.set_aside import Note, SetAside
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage

OTHERS = ("u", "w")


def prepared(stage: Stage) -> Driver:
    stage.run("SET SESSION sql_mode = ''")
    stage.run("CREATE TABLE t (id INT PRIMARY KEY, d DATE)")
    stage.run("INSERT INTO t VALUES (1, '2026-01-01'), (3, '2026-01-03')")
    for table in OTHERS:
        stage.create(table, rows=12)
    return stage.driver()


def drain(stage: Stage, driver: Driver, digest: str = "one") -> list[DefiniteError]:
    """Batches until the stream is at the end, each executed twice; what failed on the way, and was set aside."""
    failures: list[DefiniteError] = []
    while (failure := failed(stage, driver)) is not None:
        assert SetAside(driver.options["schemaFolder"]).note(failure, digest)
        failures.append(failure)
        assert len(failures) < 5, failures
        driver.restart()  # and the planned batch, which was not committed, is gone
    return failures


def failed(stage: Stage, driver: Driver) -> DefiniteError | None:
    try:
        stage.drain_twice(driver)
    except DefiniteError as error:
        return error
    return None


def note(stage: Stage, driver: Driver) -> Note:
    return SetAside(driver.options["schemaFolder"]).notes()[stage.name()]


def reasons(stage: Stage, driver: Driver) -> list[str]:
    rows = [c for c in driver.log if c.op is Op.SCHEMA and c.before is not None and c.table == stage.name()]
    return [dict(row.after).get("quarantined", "") for row in rows]


@pytest.mark.every_server
def test_a_row_that_is_gone_by_now_costs_one_reading_of_its_table(any_stage: Stage) -> None:
    stage = any_stage
    driver = prepared(stage)
    drain(stage, driver)
    stage.run("UPDATE t SET d = '2026-02-01' WHERE id = 1")
    stage.run("UPDATE u SET v = 1")
    stage.run("INSERT INTO t VALUES (2, '0000-00-00')")
    stage.run("UPDATE w SET v = 1")
    stage.run("DELETE FROM t WHERE id = 2")
    stage.run("INSERT INTO t VALUES (4, '2026-01-04')")
    [failure] = drain(stage, driver)
    assert failure.code is codes.ZERO_DATE
    assert failure.table == stage.name()
    stage.same_rows(driver, "t", *OTHERS)
    [quarantined, taken_up] = reasons(stage, driver)
    assert failure.code.label in quarantined
    assert not taken_up
    # the rows before it are exact there: the update was before, the delete was not
    left = next(c.seq for c in driver.log if c.op is Op.SCHEMA and c.before is not None and c.table == stage.name())
    then = {
        image
        for (table, _), (_, image) in fold([c for c in driver.log if c.seq <= left]).items()
        if table == stage.name()
    }
    assert {(dict(image)["id"], dict(image)["d"]) for image in then} == {(1, date(2026, 2, 1)), (3, date(2026, 1, 3))}
    assert note(stage, driver).state == "over"
    stage.run("DELETE FROM t WHERE id = 4")
    assert drain(stage, driver) == []
    stage.same_rows(driver, "t", *OTHERS)


def test_a_table_may_fail_at_its_last_row_first(stage: Stage) -> None:
    """The tasks of a batch end in any order; what was noted of a later one does not end the stream."""
    driver = prepared(stage)
    drain(stage, driver)
    stage.run("INSERT INTO t VALUES (2, '0000-00-00')")
    stage.run("UPDATE u SET v = 1")
    stage.run("UPDATE t SET d = '0000-00-00' WHERE id = 1")
    first, notes = failed(stage, driver), SetAside(driver.options["schemaFolder"])
    assert first is not None
    later = first.about(first.table, ":".join(map(str, stage.position())))  # as of the last row
    assert notes.note(later, "one")
    assert not notes.note(later, "one")
    driver.restart()
    again = failed(stage, driver)
    assert again is not None
    assert again.position == first.position
    assert notes.note(again, "one")
    assert not notes.note(again, "one")
    assert not notes.note(later, "one")
    driver.restart()
    stage.run("UPDATE t SET d = NULL WHERE id < 3")
    assert drain(stage, driver) == []
    assert note(stage, driver).state == "over"
    stage.same_rows(driver, "t", *OTHERS)


def test_a_row_that_stays_keeps_its_table_quarantined_until_it_is_mended(stage: Stage) -> None:
    driver = prepared(stage)
    drain(stage, driver)
    stage.run("INSERT INTO t VALUES (2, '0000-00-00')")
    stage.run("UPDATE u SET v = 1")
    assert [failure.table for failure in drain(stage, driver)] == [stage.name()] * 2  # in the log, then as it is read
    stage.same_rows(driver, *OTHERS)
    assert driver.offset["tables"][stage.name()]["quarantined"]
    stage.run("UPDATE t SET d = NULL WHERE id = 2")
    driver.restart()
    assert drain(stage, driver) == []
    assert driver.offset["tables"][stage.name()]["quarantined"]  # its next try is not due yet
    SetAside(driver.options["schemaFolder"]).under("one")  # the same configuration
    assert drain(stage, driver) == []
    assert driver.offset["tables"][stage.name()]["quarantined"]
    SetAside(driver.options["schemaFolder"]).under("another")
    assert drain(stage, driver) == []
    stage.same_rows(driver, "t", *OTHERS)


def test_a_first_snapshot_continues_without_the_table(stage: Stage) -> None:
    driver = prepared(stage)
    stage.run("INSERT INTO t VALUES (2, '0000-00-00')")
    assert {failure.table for failure in drain(stage, driver)} == {stage.name()}
    stage.same_rows(driver, *OTHERS)
    assert driver.offset["tables"][stage.name()]["quarantined"]


def marks(stage: Stage, driver: Driver, table: str = "t") -> list[tuple[str, int]]:
    """The seqs of the table's reads, once each, and of its s rows, in order; `left` is where it is quarantined."""
    mine = [c for c in driver.log if c.table == stage.name(table) and c.op in (Op.READ, Op.SCHEMA)]
    left = {c.seq for c in mine if c.op is Op.SCHEMA and "quarantined" in dict(c.after)}
    kinds = {(c.seq, "left" if c.seq in left else c.op.name.lower()) for c in mine if c.op is Op.READ}
    met = [(c.seq, "left" if "quarantined" in dict(c.after) else "schema") for c in mine if c.op is Op.SCHEMA]
    return [(kind, seq) for seq, kind in sorted([*kinds, *met])]


def test_a_table_is_left_after_its_schema_came_where_the_next_row_fails(stage: Stage) -> None:
    driver = prepared(stage)
    drain(stage, driver)
    stage.run("ALTER TABLE t ADD COLUMN more INT")
    stage.run("INSERT INTO t (id, d) VALUES (2, '0000-00-00')")
    stage.run("DELETE FROM t WHERE id = 2")
    [failure] = drain(stage, driver)
    assert failure.code is codes.ZERO_DATE
    met = marks(stage, driver)
    assert [kind for kind, _ in met] == ["schema", "read", "schema", "left", "schema", "read"]
    seqs = [seq for _, seq in met]
    assert len(set(seqs)) == len(seqs)
    stage.same_rows(driver, "t", *OTHERS)


def test_a_table_is_left_after_what_was_read_where_the_log_rests(stage: Stage) -> None:
    stage.run("SET SESSION sql_mode = ''")
    stage.run("CREATE TABLE t (id INT PRIMARY KEY, d DATE)")
    days = [*((n, "2026-01-01") for n in range(10)), (20, "0000-00-00")]
    stage.run(f"INSERT INTO t VALUES {', '.join(map(repr, days))}")
    stage.create("u", rows=12)
    driver = stage.driver()
    assert [failure.table for failure in drain(stage, driver)] == [stage.name()] * 2
    assert [kind for kind, _ in marks(stage, driver)] == ["schema", "read", "left", "schema", "read", "left"]


def test_a_table_whose_birth_is_not_followed_again_is_not_quarantined(stage: Stage) -> None:
    """It failed in the batch in which it was born, and the next plan reads it, as it is by then."""
    driver = prepared(stage)
    drain(stage, driver)
    stage.run("CREATE TABLE n (id INT PRIMARY KEY, d DATE)")
    stage.run("INSERT INTO n VALUES (1, '2026-01-01'), (2, '0000-00-00')")
    failure = failed(stage, driver)
    assert failure is not None
    assert failure.table == stage.name("n")
    assert SetAside(driver.options["schemaFolder"]).note(failure, "one")
    driver.restart()
    stage.run("DELETE FROM n WHERE id = 2")
    stage.run("ALTER TABLE n ADD COLUMN more INT")  # so that the catalog does not say any more what was born
    assert drain(stage, driver) == []
    assert [kind for kind, _ in marks(stage, driver, "n")] == ["schema", "read"]
    stage.same_rows(driver, "t", "n", *OTHERS)


def test_pauses_between_re_reads_grow() -> None:
    one = Note("shop.t", "binlog.000001", 4, "reason", "digest")
    times = []
    for now in range(0, 4 * 3600, 30):
        if one.reread_due(float(now + 100_000)):
            times.append(now)
            one = replace(one, rereads=(*one.rereads, float(now + 100_000)))
    assert [later - before for before, later in pairwise(times)][:4] == [60, 300, 900, 3600]
