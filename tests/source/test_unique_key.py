"""Tables without a primary key that have a unique one: which it is, and how it comes, changes and goes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.mysql.catalog import read_tables
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, connect
from lakehouse_cdc.schema.declared_key import with_key
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.source.requests.requests import Signals
from lakehouse_cdc.source.state.state_store import SchemaStore
from lakehouse_cdc.source.test_hooks import Step
from tests.support.servers import row_metadata
from tests.support.source.driver import Driver
from tests.support.source.play import images_of
from tests.support.source.stage import Stage

TABLE = "CREATE TABLE t (a INT NOT NULL, b VARCHAR(9) NOT NULL, v INT{})"
DEFINITIONS = {  # what follows the columns a and b (NOT NULL), v (NULL) and n (NOT NULL)
    "UNIQUE x (v), UNIQUE y (b, a), UNIQUE z (a)": ("y", ["b", "a"]),
    "UNIQUE x (b(3)), UNIQUE y (n)": ("y", ["n"]),
    "UNIQUE x (a, v), UNIQUE y (v)": (None, []),
    "UNIQUE x (b(3))": (None, []),
    "UNIQUE (n, b), UNIQUE a (a)": ("n", ["n", "b"]),
    "KEY k (a), UNIQUE z (n), UNIQUE y (a)": ("z", ["n"]),
    "UNIQUE x (b(9))": ("x", ["b"]),
    "KEY k (a)": (None, []),
}


def schema_of(stage: Stage, driver: Driver) -> TableSchema:
    """As the stream has it."""
    return SchemaStore(driver.options["schemaFolder"]).get(driver.offset["tables"][stage.name()]["schema"])


def catalog(stage: Stage) -> TableSchema:
    """As the server has it now."""
    with connect(ConnectionOptions.from_url(stage.server.url)) as session:
        return with_key(read_tables(session, Selection([stage.name()]))[stage.name()], {})


def same(stage: Stage, driver: Driver) -> None:
    assert Counter(images_of(stage.name(), driver.log)) == stage.images()


def clustered(stage: Stage) -> str:
    """The index by which InnoDB orders the table, as it says itself."""
    new = stage.server.version in ("mysql-8.0", "mysql-9")
    tables, indexes = ("INNODB_TABLES", "INNODB_INDEXES") if new else ("INNODB_SYS_TABLES", "INNODB_SYS_INDEXES")
    sql = (
        f"SELECT i.NAME FROM INFORMATION_SCHEMA.{indexes} i JOIN INFORMATION_SCHEMA.{tables} t USING (TABLE_ID)"
        f" WHERE t.NAME = '{stage.database}/t' AND i.TYPE & 1"
    )
    [(name,)] = stage.run(sql)
    return str(name)


@pytest.mark.parametrize("indexes", DEFINITIONS)
def test_it_is_the_one_that_the_server_orders_the_table_by(any_stage: Stage, indexes: str) -> None:
    stage = any_stage
    name, columns = DEFINITIONS[indexes]
    stage.run(TABLE.format(f", n INT NOT NULL, {indexes}"))
    found = catalog(stage)
    assert (found.unique and found.unique.name, list(found.key)) == (name, columns)
    assert clustered(stage) == (name or "GEN_CLUST_INDEX")


def test_an_index_of_something_else_than_stored_columns_is_none(any_stage: Stage) -> None:
    stage = any_stage
    stage.run(TABLE.format(", g INT AS (a + 1) VIRTUAL, UNIQUE x (g)"))
    assert catalog(stage).key == ()
    if stage.server.version in ("mysql-8.0", "mysql-9"):
        stage.run("ALTER TABLE t ADD UNIQUE y ((a + 1))")
        assert catalog(stage).key == ()
        assert clustered(stage) == "GEN_CLUST_INDEX"
    if stage.server.version.startswith("mariadb"):
        stage.run("ALTER TABLE t ADD c TEXT NOT NULL DEFAULT 'x', ADD UNIQUE y (a, c)")  # it keeps a hash
        assert catalog(stage).key == ()


def test_the_table_is_read_in_chunks(any_stage: Stage, at: Callable[..., None]) -> None:
    stage = any_stage
    stage.run(TABLE.format(", UNIQUE `an``index` (b, a)"))
    stage.run(f"INSERT INTO t VALUES {', '.join(f'({n}, CHAR({65 + n % 26}), NULL)' for n in range(60))}")
    driver = stage.driver(chunkRows="7", chunksPerTrigger="2")
    at(
        Step.AFTER_SELECT,
        lambda: stage.run("UPDATE t SET v = COALESCE(v, 0) + 1, a = a + 100 WHERE a % 3 = 0"),
        times=9,
    )
    driver.batch()
    cursor = driver.offset["tables"][stage.name()]["cursor"]
    assert len(cursor) == 2
    stage.snapshot(driver)
    stage.drain_twice(driver)
    stage.same(driver)
    keys: list[Any] = [c.key for c in driver.log if c.key is not None]
    assert {tuple(name for name, _ in key) for key in keys} == {("a", "b")}


CHANGES = {  # statements, and the key after them
    "it comes": (["ALTER TABLE t DROP INDEX u", "ALTER TABLE t ADD UNIQUE u (b)"], ["b"]),
    "without a name": (["ALTER TABLE t DROP INDEX u", "ALTER TABLE t ADD UNIQUE (b, a)"], ["b", "a"]),
    "as an index": (["DROP INDEX u ON t", "CREATE UNIQUE INDEX w ON t (b)"], ["b"]),
    "as a column": (["ALTER TABLE t DROP INDEX u", "ALTER TABLE t ADD n INT NOT NULL AUTO_INCREMENT UNIQUE"], ["n"]),
    "it goes": (["ALTER TABLE t DROP INDEX u"], []),
    "it may be NULL": (["ALTER TABLE t MODIFY a INT NULL"], []),
    "it may not any more": (["ALTER TABLE t MODIFY a INT", "ALTER TABLE t MODIFY a INT NOT NULL"], ["a"]),
    "one after it": (["ALTER TABLE t ADD UNIQUE w (b)", "ALTER TABLE t DROP KEY U"], ["b"]),
    "one that may be NULL": (["ALTER TABLE t ADD n INT, ADD UNIQUE w (n)"], ["a"]),
    "a primary key": (["ALTER TABLE t ADD PRIMARY KEY (b)"], ["b"]),
    "a primary key that goes": (["ALTER TABLE t ADD PRIMARY KEY (b)", "ALTER TABLE t DROP PRIMARY KEY"], ["a"]),
    "another name": (["ALTER TABLE t RENAME INDEX u TO w", "ALTER TABLE t ADD UNIQUE u (b)"], ["a"]),
    "a column's name": (["ALTER TABLE t CHANGE a c INT NOT NULL", "ALTER TABLE t DROP INDEX U"], []),
    "a column of it": (["ALTER TABLE t DROP INDEX u, ADD UNIQUE u (a, v2)", "ALTER TABLE t CHANGE v2 c INT NOT NULL"],
                       ["a", "c"]),
    "of a prefix": (["ALTER TABLE t DROP INDEX u, ADD PRIMARY KEY (b(2))"], ["b"]),
}  # fmt: skip
BRIEF = {"it comes", "it goes", "it may not any more", "a primary key that goes", "a column's name", "a column of it"}


@pytest.mark.parametrize("metadata", ["FULL", pytest.param("least", marks=pytest.mark.long)])
@pytest.mark.parametrize("live", [pytest.param(True, marks=pytest.mark.long), False])
@pytest.mark.parametrize(
    "change", [pytest.param(name, marks=() if name in BRIEF else pytest.mark.long) for name in CHANGES]
)
def test_another_key(any_stage: Stage, change: str, live: bool, metadata: str) -> None:
    """The rows are read again under it; the key of the backlog is that of the catalog."""
    stage, (statements, key) = any_stage, CHANGES[change]
    with row_metadata(stage.server, metadata):
        stage.run(TABLE.format(", v2 INT NOT NULL DEFAULT 5, UNIQUE u (a)"))
        stage.run(f"INSERT INTO t (a, b) VALUES {', '.join(f'({n}, {10 + n})' for n in range(12))}")
        driver = stage.driver()
        stage.snapshot(driver)
        stage.drain_twice(driver)
        for n, sql in enumerate(statements):
            stage.run("UPDATE t SET v = 1 WHERE b < 14")
            stage.run(sql)
            stage.run("DELETE FROM t ORDER BY b LIMIT 1")
            stage.run(f"UPDATE t SET b = {30 + n} ORDER BY b LIMIT 1")
            if live:
                stage.drain_twice(driver)
        stage.drain_twice(driver)
    assert list(schema_of(stage, driver).key) == key == list(catalog(stage).key)
    same(stage, driver)
    stage.run("UPDATE t SET v = 7")
    stage.drain_twice(driver)
    same(stage, driver)


def test_what_leaves_the_key_alone_reads_nothing_again(any_stage: Stage) -> None:
    stage = any_stage
    stage.run(TABLE.format(", UNIQUE u (a), KEY k (b)"))
    stage.run("INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2)")
    driver = stage.driver()
    stage.snapshot(driver)
    stage.drain(driver)  # else the first statement puts its cursor back
    for live in (True, False):
        for sql in (
            "ALTER TABLE t ADD UNIQUE w (v)", "ALTER TABLE t RENAME INDEX w TO x", "ALTER TABLE t DROP INDEX x",
            "ALTER TABLE t ADD COLUMN c INT", "ALTER TABLE t DROP COLUMN c", "ALTER TABLE t RENAME INDEX u TO u2",
            "ALTER TABLE t RENAME INDEX u2 TO u", "CREATE UNIQUE INDEX w ON t (b)", "DROP INDEX w ON t",
        ):  # fmt: skip
            stage.run(sql)
            if live:
                stage.drain_twice(driver)
        stage.run("UPDATE t SET v = v + 5")
        stage.drain_twice(driver)
        stage.same(driver)
    assert Counter(c.op for c in driver.log)[Op.READ] == 2


@pytest.mark.parametrize("earlier", ["a schema without indexes", "a key that is given"])
def test_a_table_that_is_captured_without_it(stage: Stage, earlier: str) -> None:
    """It continues so, until a statement alters it at the end of the log, or the given key is taken away."""
    stage.run(TABLE.format(", UNIQUE u (a)"))
    stage.run("INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2)")
    given = json.dumps({stage.name(): ["b"]})
    driver = stage.driver(keys="{}" if earlier == "a schema without indexes" else given)
    stage.snapshot(driver)
    if earlier == "a schema without indexes":
        restate(stage, driver)
    for sql in ("UPDATE t SET v = 3", "DELETE FROM t WHERE a = 2", "INSERT INTO t VALUES (3, 'z', NULL)"):
        stage.run(sql)
    driver.restart()
    stage.drain_twice(driver)
    wanted = [] if earlier == "a schema without indexes" else ["b"]
    assert list(schema_of(stage, driver).key) == wanted
    Signals(driver.options["schemaFolder"]).request(stage.name())
    stage.drain_twice(driver)
    assert list(schema_of(stage, driver).key) == wanted
    if wanted:
        driver.options["keys"] = "{}"
        driver.restart()
    else:
        stage.run("ALTER TABLE t ADD COLUMN c INT")
    stage.run("UPDATE t SET v = 4")
    stage.drain_twice(driver)
    assert list(schema_of(stage, driver).key) == ["a"]
    assert [c.op for c in driver.log].count(Op.END) == 2
    same(stage, driver)


def restate(stage: Stage, driver: Driver) -> None:
    """Make of the stream's checkpoint and rows what a release had that did not know of unique keys."""
    before = schema_of(stage, driver)
    old = SchemaStore(driver.options["schemaFolder"]).put(replace(before, key=(), unique=None, more_unique=None))
    state: dict[str, Any] = driver.offset["tables"][stage.name()]
    state["schema"] = old
    schemas = [c for c in driver.log if c.op is Op.SCHEMA]
    driver.log = [replace(c, key=None) for c in driver.log if c.op is not Op.SCHEMA]
    driver.log += [replace(c, after=tuple((n, () if n == "key" else v) for n, v in c.after)) for c in schemas]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("exclude", '{"*.t": ["a"]}'), ("masks", '{"*.t": {"a": null}}'), ("include", '{"*.t": ["b"]}'),
        ("types", '{"*.t": {"a": "text"}}'),
    ],
)  # fmt: skip
def test_a_column_that_is_hidden_or_carried_otherwise_is_part_of_none(stage: Stage, option: str, value: str) -> None:
    """Also where the configuration says so later: the table is read again, as one without a key; and back again."""
    stage.run("CREATE TABLE t (a DECIMAL(5) NOT NULL, b VARCHAR(9) NOT NULL, v INT, UNIQUE u (a))")
    stage.run("INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2), (3, 'y', 2)")
    driver = stage.driver()
    driver.options[option] = value
    driver.restart()
    stage.snapshot(driver)
    assert schema_of(stage, driver).key == ()
    for given, key in (("{}", ("a",)), (value, ()), ("{}", ("a",))):
        driver.options[option] = given
        driver.restart()
        stage.run("UPDATE t SET v = v + 1")
        stage.drain_twice(driver)
        assert schema_of(stage, driver).key == key
    same(stage, driver)


def test_a_masked_column_that_is_renamed_is_part_of_none(stage: Stage) -> None:
    stage.run(TABLE.format(", UNIQUE u (a)"))
    stage.run("INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2)")
    driver = stage.driver(masks=json.dumps({stage.name(): {"a": None}}))
    stage.snapshot(driver)
    stage.run("ALTER TABLE t CHANGE a c INT NOT NULL")
    stage.run("UPDATE t SET v = 4")
    stage.drain_twice(driver)
    assert schema_of(stage, driver).key == ()
    assert "quarantined" not in driver.offset["tables"][stage.name()]
    assert not any(dict(c.after).get("a") or dict(c.after).get("c") for c in driver.log if c.op is Op.READ)


def test_floating_point_values_are_bits(any_stage: Stage) -> None:
    """-0.0 and 0.0 are one key to the server, and two images; a FLOAT is what is stored, whatever the server prints.

    MariaDB 11.8 makes 0.0 of both.
    """
    stage = any_stage
    stage.run("CREATE TABLE t (f FLOAT NOT NULL, d DOUBLE NOT NULL, v INT, UNIQUE (f, d))")
    stage.run("INSERT INTO t VALUES (1.1, -0e0, 1), (5592405.5, 0.1, 2), (-0e0, 5e-324, 3)")
    driver = stage.driver()
    stage.snapshot(driver)
    stage.run("UPDATE t SET d = 0.0 WHERE f > 1 AND f < 2")
    stage.run("UPDATE t SET f = 0.0, v = 4 WHERE v = 3")
    stage.run("DELETE FROM t WHERE d = 0.1")
    stage.drain_twice(driver)
    read = sorted(str(dict(c.after)["f"]) for c in driver.log if c.op is Op.READ)
    zero = "0.0" if stage.server.version == "mariadb-11" else "-0.0"
    assert read == sorted(["1.100000023841858", "5592405.5", zero])
    assert Counter(images_of(stage.name(), driver.log)) == Counter(
        [(("d", 0.0), ("f", 1.100000023841858), ("v", 1)), (("d", 5e-324), ("f", 0.0), ("v", 4))]
    )
