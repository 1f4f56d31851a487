"""A stream without snapshots that begins in the past emits just what one emits that began then."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.source.requests.requests import Signals
from tests.remedies import remedy
from tests.support.servers import connected, start_or_skip
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage, on_stage
from tests.support.source.starts import PLACES, changed, places, started
from tests.support.source.ways_out import signalled, stopped

pytestmark = pytest.mark.mysql


def same(stage: Stage, driver: Driver, reference: Driver) -> None:
    stage.drain(driver)
    stage.drain(reference)
    assert changed(driver) == changed(reference)
    assert driver.offset["gtid"] == reference.offset["gtid"]


@pytest.mark.one_server
@pytest.mark.parametrize("how", PLACES)
def test_it_emits_what_a_stream_emits_that_began_then(any_stage: Stage, how: str) -> None:
    stage = any_stage
    stage.create(rows=5)
    stage.create("u", rows=5)
    stage.run("FLUSH BINARY LOGS")
    stage.run("UPDATE t SET v = v + 1")
    there = places(stage)
    if (place := there.get(how)) is None:
        pytest.skip("this server writes no GTIDs")
    reference = started(stage, "now")
    reference.batch()
    stage.transaction("UPDATE t SET v = v + 1", "DELETE FROM u WHERE id = 10", "UPDATE t SET id = 99 WHERE id = 20")
    stage.run("CREATE INDEX i ON t (v)")
    stage.run("FLUSH BINARY LOGS")
    stage.run("INSERT INTO u VALUES (7, 7)")
    stage.run("TRUNCATE TABLE u")
    stage.run("CREATE TABLE w (id INT PRIMARY KEY)")
    stage.run("INSERT INTO w VALUES (1), (2)")
    driver = started(stage, place)
    driver.batch()
    assert driver.offset["gtid"] == reference.offset["gtid"]
    same(stage, driver, reference)
    assert {change.table for change in changed(driver)} == {stage.name(table) for table in "tuw"}


@pytest.mark.one_server
def test_a_random_place_in_a_random_history(any_stage: Stage, seed: int) -> None:
    stage, rng = any_stage, random.Random(seed)
    stage.create(rows=20)
    marks: list[tuple[Driver, Any]] = []
    for step in range(40):
        action = rng.randrange(8)
        if action == 0:
            stage.run("FLUSH BINARY LOGS")
        elif action == 1:
            stage.run(f"CREATE TABLE t{step} (id INT PRIMARY KEY)")
            stage.run(f"INSERT INTO t{step} VALUES (1)")
        else:
            stage.transaction(*(f"UPDATE t SET v = v + 1 WHERE id % 7 = {rng.randrange(7)}" for _ in range(3)))
        if rng.random() < 0.1 and len(marks) < 3:
            reference = started(stage, "now")
            marks.append((reference, rng.choice([*places(stage).values()])))
            reference.batch()
    for reference, place in marks:
        same(stage, started(stage, place), reference)


@pytest.mark.one_server
def test_the_earliest(any_stage: Stage) -> None:
    stage = any_stage
    stage.purge()  # of what other tests wrote
    stage.create(rows=3)
    stage.run("FLUSH BINARY LOGS")
    stage.create("u", rows=3)
    stage.run("DELETE FROM t WHERE id = 10")
    driver = started(stage, "earliest")
    stage.drain_twice(driver)
    stage.same(driver, "t", "u")
    assert [c.op for c in driver.log if c.table == stage.name()] == [Op.SCHEMA, *[Op.INSERT] * 3, Op.DELETE]


@remedy(codes.SCHEMA_NOT_KNOWN)
@pytest.mark.one_server
def test_a_table_that_was_altered_since_is_quarantined_alone(any_stage: Stage) -> None:
    stage = any_stage
    for table in "tu":
        stage.create(table, rows=3)
    place = places(stage)["position"]
    stage.run("UPDATE t SET v = 1")
    stage.run("ALTER TABLE t ADD COLUMN n INT")
    stage.run("UPDATE u SET v = 1")
    driver = started(stage, place)
    stage.drain(driver)
    why = driver.offset["tables"][stage.name()]["quarantined"]
    assert why.startswith(codes.SCHEMA_NOT_KNOWN.label)
    assert {change.table for change in changed(driver)} == {stage.name("u")}
    signalled(driver, why)
    stage.drain(driver)
    stage.run("UPDATE t SET n = 5 WHERE id = 20")
    stage.drain(driver)
    assert "quarantined" not in driver.offset["tables"][stage.name()]
    stage.same_rows(driver, "t")


def test_a_signal_reads_a_table_later(stage: Stage) -> None:
    stage.create(rows=3)
    place = places(stage)["gtid"]
    stage.run("UPDATE t SET v = 1 WHERE id = 10")
    driver = started(stage, place)
    stage.drain(driver)
    Signals(driver.options["schemaFolder"]).request(stage.name())
    stage.drain(driver)
    stage.run("DELETE FROM t WHERE id = 20")
    stage.drain(driver)
    stage.same_rows(driver, "t")


def test_where_each_table_was_altered_since_nothing_begins(stage: Stage) -> None:
    stage.create(rows=3)
    place = places(stage)["position"]
    stage.run("ALTER TABLE t ADD COLUMN n INT")
    later = places(stage)["position"]
    error = stopped(started(stage, place), codes.SCHEMA_NOT_KNOWN)
    assert later["position"] in error.hint


@remedy(codes.START_BEFORE_DROP)
@pytest.mark.one_server
@pytest.mark.parametrize("lost", ["DROP TABLE u", "RENAME TABLE u TO w", "DROP TABLE u; CREATE TABLE u (n INT)"])
def test_rows_of_a_table_that_is_gone_are_not_passed_over(any_stage: Stage, lost: str) -> None:
    stage = any_stage
    for table in "tu":
        stage.create(table, rows=3)
    place = places(stage)["position"]
    stage.run("UPDATE u SET v = 1")
    for sql in lost.split("; "):
        stage.run(sql)
    stage.run("UPDATE t SET v = 1")
    error = stopped(started(stage, place), codes.START_BEFORE_DROP)
    hint = re.search(r'\{position: (.*)\} or later; or leave them out: ("!.*") under source.tables', error.hint)
    assert hint
    others = f"{stage.database}.*,{hint[2].replace(chr(34), '')}"
    for driver in (started(stage, {"position": hint[1]}), started(stage, place, tables=others)):
        stage.drain(driver)
        assert [(c.table, c.op) for c in changed(driver)] == [(stage.name(), Op.UPDATE)] * 3


def test_a_table_without_rows_may_be_gone(stage: Stage) -> None:
    """As what mysqldump writes in front of each table, whether it is there or not."""
    stage.create(rows=3)
    stage.create("u", rows=3)
    place = places(stage)["position"]
    stage.run("DROP TABLE IF EXISTS u")
    stage.run("CREATE TABLE u (id INT PRIMARY KEY, v INT)")
    stage.run("INSERT INTO u VALUES (1, 1)")
    driver = started(stage, place)
    stage.drain_twice(driver)
    stage.same_rows(driver, "u")


@pytest.mark.one_server
def test_what_was_prepared_before_it_in_an_older_file(any_stage: Stage) -> None:
    stage = any_stage
    stage.create(rows=3)
    with closing(connected(stage.server, database=stage.database)) as other, other.cursor() as cursor:
        for sql in ("XA START 'x'", "INSERT INTO t VALUES (1, 1)", "XA END 'x'", "XA PREPARE 'x'"):
            cursor.execute(sql)
    stage.run("FLUSH BINARY LOGS")
    stage.run("UPDATE t SET v = 1 WHERE id = 10")
    place = places(stage)["position"]
    early = started(stage, place, url=stage.server.url, password="")
    early.batch()  # it is still open
    stage.run("XA COMMIT 'x'")
    late = started(stage, place, url=stage.server.url, password="")
    for driver in (early, late):
        stage.drain_twice(driver)
        assert [(c.op, c.key) for c in changed(driver)] == [(Op.INSERT, (("id", 1),))]


@pytest.mark.one_server
@pytest.mark.parametrize("lost", ["DROP TABLE u", "DROP TABLE u; CREATE TABLE u (id INT PRIMARY KEY, v INT)"])
def test_rows_that_were_prepared_before_it_are_not_passed_over(any_stage: Stage, lost: str) -> None:
    """They are committed after it; in the log they are before it."""
    stage = any_stage
    for table in "tu":
        stage.create(table, rows=3)
    with closing(connected(stage.server, database=stage.database)) as other, other.cursor() as cursor:
        for sql in ("XA START 'y'", "INSERT INTO u VALUES (1, 1)", "XA END 'y'", "XA PREPARE 'y'"):
            cursor.execute(sql)
    stage.run("UPDATE t SET v = 1")
    place = places(stage)["position"]
    stage.run("XA COMMIT 'y'")
    for sql in lost.split("; "):
        stage.run(sql)
    stopped(started(stage, place, url=stage.server.url, password=""), codes.START_BEFORE_DROP)


@pytest.mark.one_server
@pytest.mark.parametrize("lost", ["DROP TABLE u", "DROP TABLE u; CREATE TABLE u (id INT PRIMARY KEY, v INT)"])
def test_rows_in_text_of_a_table_that_is_gone_are_not_passed_over(any_stage: Stage, lost: str) -> None:
    stage = any_stage
    for table in "tu":
        stage.create(table, rows=3)
    place = places(stage)["position"]
    stage.run("SET SESSION binlog_format = 'STATEMENT'")
    stage.run("INSERT INTO u VALUES (1, 1)")
    stage.run("SET SESSION binlog_format = 'ROW'")
    for sql in lost.split("; "):
        stage.run(sql)
    stopped(started(stage, place), codes.START_BEFORE_DROP)


@pytest.mark.one_server
def test_a_table_that_is_created_with_its_rows_is_not_passed_over(any_stage: Stage) -> None:
    """Some servers log CREATE TABLE ... SELECT as one transaction: then it is not followed from there on."""
    stage = any_stage
    if stage.server.version == "mysql-5.7":
        pytest.skip("with GTIDs this server refuses CREATE TABLE ... SELECT")
    stage.create(rows=1)
    place = places(stage)["position"]
    stage.run("CREATE TABLE u (id INT PRIMARY KEY, v INT) SELECT 1 AS id, 2 AS v")
    stage.run("INSERT INTO u VALUES (2, 2)")
    driver = started(stage, place)
    stage.drain_twice(driver)
    if "quarantined" not in driver.offset["tables"][stage.name("u")]:
        stage.same_rows(driver, "u")


def test_many_tables_are_followed_from_their_birth(stage: Stage) -> None:
    stage.create(rows=1)
    place = places(stage)["position"]
    tables = [f"u{n}" for n in range(20)]
    for table in tables:
        stage.create(table, rows=2)
    driver = started(stage, place)
    stage.drain_twice(driver)
    stage.same_rows(driver, *tables)


def test_a_table_that_is_altered_right_after_its_birth(stage: Stage) -> None:
    """Before the stream has come to its birth: no snapshot takes the place of its first rows."""
    stage.create(rows=1)
    driver = started(stage, "now")
    driver.batch()
    stage.create("u", rows=2)
    stage.run("ALTER TABLE u ADD COLUMN n INT")
    stage.run("INSERT INTO u VALUES (1, 1, 1)")
    stage.drain_twice(driver)
    why = driver.offset["tables"][stage.name("u")]["quarantined"]
    assert why.startswith(codes.SCHEMA_NOT_KNOWN.label)
    Signals(driver.options["schemaFolder"]).request(stage.name("u"))
    stage.drain(driver)
    stage.run("INSERT INTO u VALUES (2, 2, 2)")
    stage.drain(driver)
    stage.same_rows(driver, "u")


# ---------------------------------------------------------------- places that are none


@pytest.fixture(params=["mysql-8.0", "mariadb-11"])
def purged(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Stage, dict[str, Any]]]:
    """A server that has purged its first file, and the places where that ended."""
    with start_or_skip(request.param) as server:
        for stage in on_stage(server, "purged", tmp_path):
            stage.create(rows=3)
            there = places(stage)
            stage.run("UPDATE t SET v = 1")
            stage.purge()
            stage.run("UPDATE t SET v = 2")
            yield stage, there


@pytest.mark.long
def test_what_was_purged_cannot_be_begun_at(purged: tuple[Stage, dict[str, Any]]) -> None:
    stage, there = purged
    for place in there.values():
        error = stopped(started(stage, place), codes.START_UNAVAILABLE)
        assert "set it to earliest" in error.hint
    driver = started(stage, "earliest")
    stage.drain_twice(driver)
    assert [c.op for c in changed(driver)] == [Op.UPDATE] * 3
    stage.run("UPDATE t SET v = 3")
    driver.restart()
    stage.drain(driver)
    assert len(changed(driver)) == 6


@remedy(codes.START_UNAVAILABLE)
@pytest.mark.one_server
def test_a_place_inside_a_transaction(any_stage: Stage) -> None:
    stage = any_stage
    stage.create(rows=3)
    place = places(stage)["position"]
    stage.run("UPDATE t SET v = 1")
    file, pos = place["position"].split(":")
    error = stopped(started(stage, {"position": f"{file}:{int(pos) + 1}"}), codes.START_UNAVAILABLE)
    hint = re.search(r"\{position: (.*)\}", error.hint)
    assert hint
    assert hint[1] == place["position"]
    driver = started(stage, {"position": hint[1]})
    stage.drain(driver)
    assert len(changed(driver)) == 3


@pytest.mark.parametrize(
    ("start", "hint"),
    [
        ({"time": "2100-01-01T00:00:00Z"}, "set it to now"),
        ({"position": "no-such-file.000001:4"}, "set it to earliest"),
        ({"gtid": "0-1-42"}, "set it to a position or a time"),
        ({"gtid": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-42"}, "wait for them"),
    ],
)
def test_a_place_that_no_log_has(stage: Stage, start: Any, hint: str) -> None:
    stage.create(rows=3)
    if "3e11" in str(start):
        start = {"gtid": f"{places(stage)['gtid']['gtid']},{start['gtid']}"}
    assert hint in stopped(started(stage, start), codes.START_UNAVAILABLE).hint


def test_a_set_that_the_log_has_in_another_order(stage: Stage) -> None:
    """All of the set but one transaction in the middle: what came after that would be read again, or lost."""
    stage.create(rows=3)
    place = places(stage)
    stage.run("UPDATE t SET v = 1")
    stage.run("UPDATE t SET v = 2")
    whole = places(stage)["gtid"]["gtid"]
    uuid, _, spans = whole.rpartition(":")
    last = int(spans.rpartition("-")[2])
    error = stopped(started(stage, {"gtid": f"{uuid}:1-{last - 2}:{last}"}), codes.START_UNAVAILABLE)
    assert f"{{position: {place['position']['position']}}}" in error.hint


def test_a_start_needs_a_stream_without_snapshots(stage: Stage) -> None:
    with pytest.raises(DefiniteError) as caught:
        stage.driver(start="earliest")
    assert caught.value.code is codes.SETTINGS_CONTRADICT
