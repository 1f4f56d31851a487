"""What DDL does to the values of columns, also of those that it does not name: live, and found in a backlog.

Each statement is run as one session would run it: the server reads the rows otherwise in another time zone, and changes
them in another sql_mode.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timezone

import pytest
from pymysql.constants import FIELD_TYPE

from lakehouse_cdc.model.changelog import Op, fold
from lakehouse_cdc.source.state.state_store import SchemaStore
from lakehouse_cdc.testing import VERSIONS, MySqlServer
from lakehouse_cdc.testing.versions import MARIADB
from tests.support.servers import connected, require_generated_columns_in_the_log
from tests.support.source.driver import Driver, hashable
from tests.support.source.stage import Stage

ZONE = "Test/Clock_set_back"
NUMBER = 4242  # of the zone in the system's tables


@pytest.fixture
def clock_set_back(any_server: MySqlServer) -> Iterator[None]:
    """A time zone in which 00:30 and 01:30 UTC of 25 October 2020 are both 02:30."""
    with closing(connected(any_server, database="mysql")) as connection, connection.cursor() as cursor:
        for sql in (
            "SET sql_log_bin = 0", f"INSERT INTO time_zone VALUES ({NUMBER}, 'N')",
            f"INSERT INTO time_zone_name VALUES ('{ZONE}', {NUMBER})",
            f"INSERT INTO time_zone_transition_type VALUES ({NUMBER}, 0, 3600, 0, 'W'), ({NUMBER}, 1, 7200, 1, 'S')",
            f"INSERT INTO time_zone_transition VALUES ({NUMBER}, 1585443600, 1), ({NUMBER}, 1603587600, 0)",
        ):  # fmt: skip
            cursor.execute(sql)
        yield
        for table in ("", "_name", "_transition_type", "_transition"):
            cursor.execute(f"DELETE FROM time_zone{table} WHERE Time_zone_id = {NUMBER}")


def as_source(stage: Stage, driver: Driver) -> None:
    """Bronze is the source; moments are compared as such."""
    stage.run("SET time_zone = '+00:00'")
    with closing(stage.server.connect(database=stage.database)) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES'")
        cursor.execute("SELECT * FROM t LIMIT 1")
        names = [column[0] for column in cursor.description]
        # text shows a rounded number, whatever is stored
        floats = [column[0] for column in cursor.description if column[1] in (FIELD_TYPE.FLOAT, FIELD_TYPE.DOUBLE)]
        shown = [f"{name} + 0e0" if name in floats else name for name in names]
        cursor.execute(f"SELECT {', '.join(shown)} FROM t")
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    for row in rows:
        if isinstance(row.get("ts"), datetime):
            row["ts"] = row["ts"].replace(tzinfo=timezone.utc)
    assert Counter(image for _, (_, image) in fold(driver.log).items()) == Counter(hashable(row) for row in rows)


def read_again(driver: Driver) -> int:
    return [change.op for change in driver.log].count(Op.END)


def follow(stage: Stage, driver: Driver, when: str, *statements: str) -> None:
    """Run the statements; `live` reads after each one."""
    for sql in statements:
        stage.run(sql)
        if when == "live":
            driver.batch(between=lambda: None)
    stage.run("SET sql_mode = DEFAULT, time_zone = DEFAULT")
    stage.drain_twice(driver)


def made(stage: Stage, columns: str, rows: str, types: str = "{}") -> Driver:
    """A table `t`, and a stream that has read it."""
    stage.run("SET time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES'")
    stage.run(f"CREATE TABLE t (id INT PRIMARY KEY, {columns})")
    stage.run(f"INSERT INTO t (id, {columns.split()[0]}) VALUES {rows}")
    stage.run("SET time_zone = DEFAULT, sql_mode = DEFAULT")
    driver = stage.driver(types=types)
    stage.snapshot(driver)
    return driver


@pytest.mark.parametrize("when", ["live", "backlog"])
@pytest.mark.usefixtures("clock_set_back")
def test_timestamps_of_a_table_that_is_copied_where_a_clock_is_set_back(any_stage: Stage, when: str) -> None:
    stage = any_stage
    driver = made(stage, "ts TIMESTAMP NULL", "(1, '2020-10-25 00:30:00'), (2, '2020-10-25 01:30:00')")
    follow(stage, driver, when, f"SET time_zone = '{ZONE}'", "ALTER TABLE t MODIFY id BIGINT NOT NULL")
    as_source(stage, driver)
    before = read_again(driver)
    assert before or stage.server.version in MARIADB
    follow(stage, driver, when, "SET time_zone = '+02:00'", "ALTER TABLE t ADD w INT, ALGORITHM=COPY")
    as_source(stage, driver)
    assert read_again(driver) == before


@pytest.mark.parametrize("when", ["live", "backlog"])
def test_a_stored_generated_column_of_a_table_that_is_copied(any_stage: Stage, when: str) -> None:
    """Its value depends on the time zone of the session that computed it last; so does one of a statement's kind."""
    stage = any_stage
    require_generated_columns_in_the_log(stage.server)
    driver = made(stage, "ts TIMESTAMP NULL, h INT AS (HOUR(ts)) STORED", "(1, '2020-10-25 00:30:00')")
    for zone, sql in (
        ("+05:00", "ALTER TABLE t ADD w INT, ALGORITHM=COPY"),
        ("+07:00", "ALTER TABLE t ADD INDEX (w), ALGORITHM=COPY"),
        ("+09:00", "CREATE INDEX i ON t (w, id) ALGORITHM=COPY"),
    ):
        follow(stage, driver, when, f"SET time_zone = '{zone}'", sql)
        as_source(stage, driver)
    assert read_again(driver) == 3


@pytest.mark.parametrize("when", ["live", "backlog"])
def test_a_generated_column_whose_base_has_another_type(any_stage: Stage, when: str) -> None:
    stage = any_stage
    require_generated_columns_in_the_log(stage.server)
    driver = made(stage, "n INT, s VARCHAR(20) AS (CONCAT(n, '!')) STORED", "(1, 7)")
    follow(stage, driver, when, "ALTER TABLE t MODIFY n BIGINT")
    as_source(stage, driver)
    follow(stage, driver, when, "ALTER TABLE t ADD w INT, ALGORITHM=COPY")
    as_source(stage, driver)
    assert read_again(driver) == 1


@pytest.mark.parametrize("when", ["live", "backlog"])
@pytest.mark.parametrize("mode", ["NO_ZERO_IN_DATE,NO_ZERO_DATE", "STRICT_TRANS_TABLES"])
def test_dates_that_no_calendar_has_in_a_table_that_is_copied(any_stage: Stage, when: str, mode: str) -> None:
    stage = any_stage
    rows = "(1, '2020-02-31'), (2, '2020-00-00'), (3, '2020-01-01')"
    driver = made(stage, "d DATE", rows, types='{"*.t": {"d": "text"}}')
    follow(stage, driver, when, f"SET sql_mode = '{mode}'", "DELETE FROM t WHERE id = 1 AND @@sql_mode LIKE 'STRICT%'",
           "ALTER TABLE t ADD w INT, ALGORITHM=COPY")  # fmt: skip
    with closing(stage.server.connect(database=stage.database)) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES'")
        cursor.execute("SELECT id, CAST(d AS CHAR) FROM t")
        rows_now = dict(cursor.fetchall())
    held = [dict(image) for _, (_, image) in fold(driver.log).items()]
    assert {row["id"]: row["d"] for row in held} == rows_now
    assert read_again(driver) == (mode != "STRICT_TRANS_TABLES")


@pytest.mark.parametrize("when", ["live", "backlog"])
def test_labels_that_are_equal_in_the_new_collation(any_stage: Stage, when: str) -> None:
    """Without strict mode a server takes them; the value is then the first of them."""
    stage = any_stage
    stage.run("SET sql_mode = ''")
    driver = made(stage, "e ENUM('a', 'A') CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "(1, 'a'), (2, 'A')")
    follow(stage, driver, when, "SET sql_mode = ''", "ALTER TABLE t MODIFY e ENUM('a', 'A', 'b') CHARACTER SET utf8mb4")
    as_source(stage, driver)


@pytest.mark.parametrize("when", ["live", "backlog"])
@pytest.mark.parametrize("charset", ["latin1", "utf16", "utf8mb4"])
def test_labels_that_the_server_spoils(any_stage: Stage, when: str, charset: str) -> None:
    """Some servers lose values of SET and ENUM as they convert the labels, and say so with a warning at most."""
    stage = any_stage
    driver = made(stage, "s SET('é', 'b') CHARACTER SET utf8mb4, e ENUM('é', 'b') CHARACTER SET utf8mb4",
                  "(1, 'é'), (2, 'é,b'), (3, '')")  # fmt: skip
    stage.run("UPDATE t SET e = 'é'")
    follow(stage, driver, when, "SET sql_mode = ''", f"ALTER TABLE t CONVERT TO CHARACTER SET {charset}",
           "INSERT INTO t VALUES (9, '', '')")  # fmt: skip
    [(_, definition)] = stage.run("SHOW CREATE TABLE t")
    spoiled = "'é','b'" not in definition
    assert not spoiled or charset != "utf8mb4"
    state = driver.offset["tables"][stage.name()]
    assert bool(state.get("quarantined")) == spoiled, definition
    if not spoiled:
        as_source(stage, driver)


@pytest.mark.parametrize("when", ["live", "backlog"])
@pytest.mark.parametrize("any_server", VERSIONS, indirect=True)
def test_a_stored_schema_that_lacks_the_digits_of_floating_point_numbers(any_stage: Stage, when: str) -> None:
    """As a checkpoint of an earlier release has it: an ALTER of another column is no change of these."""
    stage = any_stage
    driver = made(stage, "d DOUBLE(10,2), f FLOAT(7,1), g DOUBLE", "(1, 1.25), (2, 2.5)")
    store = SchemaStore(driver.options["schemaFolder"])
    state = driver.offset["tables"][stage.name()]
    schema = store.get(state["schema"])
    assert [column.scale for column in schema.columns] == [None, 2, 1, None]
    state["schema"] = store.put(
        replace(schema, columns=tuple(replace(c, precision=None, scale=None) for c in schema.columns))
    )
    driver.restart()
    assert not driver.batch() or not [change for change in driver.log if change.op is Op.SCHEMA and change.before]
    follow(stage, driver, when, "ALTER TABLE t ADD w INT", "ALTER TABLE t CHANGE g g2 DOUBLE, ADD INDEX (w)")
    as_source(stage, driver)
    assert read_again(driver) == 0


ROUNDED = [
    ("DOUBLE", "DOUBLE(10,2)"), ("FLOAT", "FLOAT(7,1)"), ("FLOAT", "DOUBLE(10,2)"), ("DOUBLE(12,4)", "REAL(10,2)"),
]  # fmt: skip


@pytest.mark.one_server
@pytest.mark.parametrize("when", ["live", "backlog"])
def test_floating_point_numbers_that_are_rounded(any_stage: Stage, when: str) -> None:
    """Some when they are altered, others when the table is copied later: always as they are stored."""
    stage = any_stage
    columns = ", ".join(f"c{i} {old}" for i, (old, _) in enumerate(ROUNDED))
    driver = made(stage, columns, "(1, 1.2512), (2, 0)")
    follow(stage, driver, when, "UPDATE t SET c1 = 1.26, c2 = 1.23456, c3 = 1.2345 WHERE id = 1")
    for how in ("", ", ALGORITHM=COPY"):
        for i, (old, new) in enumerate(ROUNDED):
            follow(
                stage, driver, when, f"ALTER TABLE t MODIFY c{i} {new}{how}", f"ALTER TABLE t MODIFY c{i} {old}{how}"
            )
            as_source(stage, driver)
        follow(stage, driver, when, "ALTER TABLE t FORCE, ALGORITHM=COPY")
        as_source(stage, driver)
    assert read_again(driver)
