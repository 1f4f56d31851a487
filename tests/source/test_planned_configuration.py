"""A batch is executed under the configuration that planned it, or not at all; what has emitted nothing is free."""

from __future__ import annotations

import json

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.state.offset_codec import restored
from lakehouse_cdc.source.state.planned_configuration import DIGEST, digest
from lakehouse_cdc.source.state.state_store import SchemaStore
from lakehouse_cdc.source.state.stream_start import Beginning
from tests.remedies import remedy
from tests.support.source.driver import Driver, changes
from tests.support.source.stage import Stage

SALT = "a salt that nobody knows"
# options under which a batch has other rows, or is of other tables
OTHERS: list[dict[str, str]] = [
    {"exclude": '{"*.t": ["v"]}'},
    {"include": '{"*.t": ["w"]}'},
    {"masks": '{"*.t": {"v": null}}'},
    {"masks": '{"*.t": {"v": "hash"}}', "maskSecret": SALT},
    {"masks": '{"*.t": {"v": "hash"}}', "maskSecret": SALT + "!"},
    {"masks": '{"*.t": {"v": {"keep_last": 2}}}'},
    {"types": '{"*.t": {"d": "text"}}'},
    {"zeroDates": "null"},
    {"zeroDates": "text"},
    {"typeMap": "lakeflow"},
    {"tables": "shop.t"},
    {"keys": '{"*.u": ["a"]}'},
    {"snapshot": "never"},
    {"schemaChanges": '{"*.t": "stop"}'},
]


def parsed(**more: str) -> SourceOptions:
    return SourceOptions.parse({"url": "mysql://cdc@db:3306", "tables": "shop.*", "schemaFolder": "/x", **more})


def test_the_digest_differs_with_what_a_batch_depends_on() -> None:
    assert len({digest(parsed(**more)) for more in [{}, *OTHERS]}) == len(OTHERS) + 1


def test_the_digest_stays_with_what_a_batch_does_not_depend_on() -> None:
    same = [
        {"password": "p"}, {"chunkRows": "7"}, {"maxBytesPerTrigger": "9"}, {"onGap": "resnapshot"}, {"settle": "age"},
        {"maskSecret": SALT}, {"serverIds": "7-9"}, {"zeroDates": "fail"}, {"exclude": "{}"}, {"url": "mysql://u@other"},
    ]  # fmt: skip
    assert {digest(parsed(**more)) for more in same} == {digest(parsed())}


def planned(stage: Stage) -> Driver:
    """A stream whose first batch is planned, and not executed."""
    stage.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), w INT, d DATE)")
    stage.run("INSERT INTO t VALUES (1, 'clear', 1, '2024-01-01')")
    driver = stage.driver()
    assert driver.plan()
    return driver


def under(driver: Driver, **options: str) -> Driver:
    """The stream as a process with these options as well finds it."""
    driver.options = {**driver.options, **options}
    driver.restart()
    return driver


@remedy(codes.BATCH_PLANNED_OTHERWISE)
def test_a_planned_batch_is_not_executed_under_another_configuration(stage: Stage) -> None:
    driver = planned(stage)
    first, options = changes(driver.read()), driver.options
    assert "clear" in repr(first)
    for other in OTHERS:
        with pytest.raises(DefiniteError, match=r"another configuration.*Hint: put the options back") as caught:
            under(driver, **other).read()
        assert caught.value.code is codes.BATCH_PLANNED_OTHERWISE
        driver.options = options
    assert changes(under(driver).read()) == first


@remedy(codes.BATCH_PLANNED_OTHERWISE)
def test_a_planned_batch_that_was_deleted_is_planned_again_under_the_new_configuration(stage: Stage) -> None:
    stage.create("u", rows=3)
    driver = planned(stage)
    under(driver, exclude='{"*.t": ["v"]}')
    with pytest.raises(DefiniteError) as caught:
        driver.read()
    assert caught.value.code is codes.BATCH_PLANNED_OTHERWISE
    assert "delete from the checkpoint's folder `offsets` the file whose number is missing in `commits`" in (
        caught.value.hint
    )
    driver.planned = None  # which is all that the driver has of that file
    driver.restart()
    stage.drain(driver)
    stage.same_rows(driver, "u")
    assert {name for c in driver.log if c.table == stage.name("t") and c.op is Op.READ for name in dict(c.after)} == {
        "id", "w", "d",
    }  # fmt: skip


@pytest.mark.parametrize("other", [{"masks": '{"*.t": {"v": null}}'}, {"exclude": '{"*.t": ["v"]}'},
                                   {"include": '{"*.t": ["w"]}'}])  # fmt: skip
def test_nor_is_one_that_an_earlier_release_planned_if_it_would_reveal_more(
    stage: Stage, other: dict[str, str]
) -> None:
    driver = planned(stage)
    assert driver.planned is not None
    start, end = driver.planned
    driver.planned = start, {name: value for name, value in end.items() if name != DIGEST}
    first = changes(driver.read())
    assert len(first) == 2
    with pytest.raises(DefiniteError, match=r"column v of \S+ was changed"):
        under(driver, **other).read()
    with pytest.raises(DefiniteError, match="column v"):
        under(driver, **other).read()


def test_a_batch_that_its_table_holds_is_not_read_again(stage: Stage) -> None:
    driver = planned(stage)
    assert driver.planned is not None
    SchemaStore(str(stage.folder)).mark_held(json.loads(json.dumps(driver.planned[1])))
    assert under(driver, zeroDates="null").read() == []


@pytest.mark.parametrize("other", [{"masks": '{"*.t": {"v": null}}'}, {"exclude": '{"*.t": ["v"]}'}])
def test_a_backlog_is_not_read_in_clear_after_a_mask_was_added(stage: Stage, other: dict[str, str]) -> None:
    """Also where the end of the log, at which the tables are looked at, is some batches away."""
    stage.create(rows=2)
    driver = stage.driver()
    stage.drain(driver)
    for i in range(5):
        stage.run(f"INSERT INTO t VALUES ({100 + i}, 77)")
    again = Driver({**driver.options, **other}, limit=ReadMaxRows(1), offset=driver.offset)
    stage.drivers.append(again)
    stage.drain(again)
    assert {dict(c.after).get("v") for c in again.log if c.op.value in "cru"} == {None}
    assert sum(c.op.value == "c" for c in again.log) == 5


def test_a_column_that_was_renamed_in_the_backlog_may_be_masked_by_its_new_name(stage: Stage) -> None:
    stage.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))")
    driver = stage.driver(masks='{"*.t": {"v": null}}')
    stage.drain(driver)
    stage.run("INSERT INTO t VALUES (1, 'clear')")
    stage.run("ALTER TABLE t RENAME COLUMN v TO mail")
    stage.run("INSERT INTO t VALUES (2, 'clear')")
    stage.drain(under(driver, masks='{"*.t": {"mail": null}}'))
    assert "clear" not in repr(driver.log)
    assert {dict(change.after)["id"] for change in driver.log if change.op.value == "c"} == {1, 2}


def test_tables_that_have_emitted_nothing_are_taken_as_they_are_configured_now(stage: Stage) -> None:
    """The first batches read one table; the other one, and one that is left out now, have to wait for their chunks."""
    stage.create(rows=40)
    stage.run("CREATE TABLE u (id INT PRIMARY KEY, v VARCHAR(20), d DATE)")
    stage.run("CREATE TABLE w (id INT PRIMARY KEY)")
    stage.run("SET sql_mode = ''")
    stage.run("INSERT INTO u VALUES (1, 'clear', '0000-00-00'), (2, 'clear', '2024-02-03')")
    driver = stage.driver(chunksPerTrigger="1")
    assert driver.batch()
    states = restored(driver.offset, SchemaStore(str(stage.folder)))
    assert states is not None
    assert [n for n, state in states.tables.items() if not state.begun] == [stage.name("u"), stage.name("w")]
    tables = json.dumps([f"{stage.database}.*", f"!{stage.database}.w"])
    under(driver, masks='{"*.u": {"v": null}}', zeroDates="null", tables=tables)
    stage.run("INSERT INTO u VALUES (3, 'clear', '0000-00-00')")
    stage.snapshot(driver)
    stage.drain(driver)
    stage.same(driver, "t")
    assert "clear" not in repr(driver.log)
    of_u = [dict(c.after) for c in driver.log if c.table == stage.name("u") and c.op.value in "rc"]
    found = {row["id"]: row["d"] for row in of_u}
    assert (found[1], found[3]) == (None, None)
    assert found[2] is not None
    assert stage.name("w") not in {c.table for c in driver.log}


def test_a_new_stream_over_rows_that_there_are_reads_them_again(stage: Stage) -> None:
    """A new checkpoint: what it reads, after what was emitted before, folds to the source; what is gone goes."""
    stage.create(rows=12)
    stage.create("gone", rows=2)
    stage.create("altered", rows=3)
    driver = stage.driver()
    stage.drain(driver)
    before = restored(driver.offset, SchemaStore(str(stage.folder)))
    stage.run("DELETE FROM t WHERE id < 60")
    stage.run("UPDATE t SET v = 9 WHERE id = 80")
    stage.run("DROP TABLE gone")
    stage.run("ALTER TABLE altered ADD COLUMN n INT, DROP COLUMN v")
    stage.run("DELETE FROM altered WHERE id = 10")
    stage.create("born", rows=2)
    Beginning(str(stage.folder)).begin_after(before)
    again = stage.driver()
    again.log.extend(driver.log)
    while again.batch(between=lambda: None):
        pass
    stage.run("INSERT INTO t VALUES (1, 1)")
    stage.drain(again)
    assert again.offset["epoch"] == 2
    assert min(c.seq for c in again.log[len(driver.log) :]) > max(c.seq for c in driver.log)
    stage.same(again, "t", "altered", "born")
    assert stage.name("gone") not in {c.table for c in again.log[len(driver.log) :] if c.op.value != "s"}
