"""The catalog on a real server: shapes as row images have them, and what cannot be captured, by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pymysql
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import WriteRowsEvent

from lakehouse_cdc.errors import ConfigError, DefiniteError
from lakehouse_cdc.mysql.catalog import read_catalog, read_tables
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, Session, connect
from lakehouse_cdc.mysql.server import log_position
from lakehouse_cdc.schema.column_choice import Choice, left_out
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.testing import MySqlServer

pytestmark = pytest.mark.every_server

_TEXT = {"charset": "utf8mb4", "collation": "utf8mb4_0900_ai_ci"}
DECLARATIONS: list[tuple[str, dict[str, Any]]] = [
    ("tinyint", {"type": "tinyint"}),
    ("tinyint(1)", {"type": "tinyint"}),
    ("bool", {"type": "tinyint"}),
    ("smallint unsigned", {"type": "smallint", "unsigned": True}),
    ("mediumint", {"type": "mediumint"}),
    ("integer(7) unsigned zerofill", {"type": "int", "unsigned": True}),
    ("bigint unsigned", {"type": "bigint", "unsigned": True}),
    ("decimal", {"type": "decimal", "precision": 10, "scale": 0}),
    ("numeric(38,30) unsigned", {"type": "decimal", "precision": 38, "scale": 30, "unsigned": True}),
    ("float", {"type": "float"}),
    ("float(7,3) unsigned", {"type": "float", "unsigned": True, "precision": 7, "scale": 3}),
    ("real", {"type": "double"}),
    ("char", {"type": "char", "length": 1, **_TEXT}),
    ("char(5) charset latin1", {"type": "char", "length": 5, "charset": "latin1", "collation": "latin1_swedish_ci"}),
    ("varchar(20)", {"type": "varchar", "length": 20, **_TEXT}),
    ("varchar(9) collate utf8mb4_bin", {"type": "varchar", "length": 9, **_TEXT, "collation": "utf8mb4_bin"}),
    ("varchar(9) charset ascii", {"type": "varchar", "length": 9, "charset": "ascii", "collation": "ascii_general_ci"}),
    ("text", {"type": "text", **_TEXT}),
    ("longtext", {"type": "longtext", **_TEXT}),
    ("binary(16)", {"type": "binary", "length": 16}),
    ("varbinary(300)", {"type": "varbinary", "length": 300}),
    ("tinyblob", {"type": "tinyblob"}),
    ("mediumblob", {"type": "mediumblob"}),
    ("date", {"type": "date"}),
    ("datetime", {"type": "datetime"}),
    ("datetime(6)", {"type": "datetime", "fraction": 6}),
    ("timestamp(3)", {"type": "timestamp", "fraction": 3}),
    ("time(2)", {"type": "time", "fraction": 2}),
    ("year", {"type": "year"}),
    ("bit(7)", {"type": "bit", "length": 7}),
    ("json", {"type": "json"}),
    ("enum('a unsigned','b')", {"type": "enum", **_TEXT, "values": ("a unsigned", "b")}),
    ("set('x','y')", {"type": "set", **_TEXT, "values": ("x", "y")}),
    (
        r"enum('it''s','back\\slash','new\nline','tab\t','a,b','\"','','ü','nul\0x','q\r','z\Z')",
        {
            "type": "enum",
            **_TEXT,
            "values": ("it's", "back\\slash", "new\nline", "tab\t", "a,b", '"', "", "ü", "nul\0x", "q\r", "z\x1a"),
        },
    ),
    ("point", {"type": "point"}),
]


@pytest.fixture(scope="module")
def session(mysql: MySqlServer) -> Iterator[Session]:
    with connect(ConnectionOptions.from_url(mysql.url)) as opened:
        yield opened


def one(session: Session, name: str, excluded: Sequence[str] = ()) -> TableSchema:
    [schema] = read_tables(session, Selection([name]), Choice({name: excluded})).values()
    return schema


def refused(session: Session, *patterns: str, choice: Choice | None = None) -> list[DefiniteError]:
    """All faults; and the first is what read_tables raises."""
    faults = read_catalog(session, Selection(patterns), choice).faults
    with pytest.raises(DefiniteError) as caught:
        read_tables(session, Selection(patterns), choice)
    assert (type(caught.value), str(caught.value)) == (type(faults[0]), str(faults[0]))
    return faults


def test_every_type_is_read_as_declared(session: Session, database: str) -> None:
    body = ", ".join(f"c{i} {declared}" for i, (declared, _) in enumerate(DECLARATIONS))
    session.query(f"CREATE TABLE {database}.t ({body})")
    expected = tuple(Column(f"c{i}", **fields) for i, (_, fields) in enumerate(DECLARATIONS))
    assert one(session, f"{database}.t") == TableSchema(database, "t", expected, (), "utf8mb4", more_unique=False)


@given(st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_order_nullability_and_keys_of_any_table(session: Session, database: str, data: st.DataObject) -> None:
    keyable = [
        d for d in DECLARATIONS if d[1]["type"] not in ("json", "text", "longtext", "tinyblob", "mediumblob", "point")
    ]
    columns = []
    for i in range(data.draw(st.integers(1, 6))):
        declared, fields = data.draw(st.sampled_from(keyable))
        name = data.draw(st.sampled_from(["c%d", "Ünïcode %d", "select`%d", "DATA_TYPE%d"])) % i
        columns.append((declared, Column(name, **fields, nullable=data.draw(st.booleans()))))
    key = data.draw(
        st.permutations([c.name for _, c in columns]).flatmap(lambda p: st.sampled_from([p[:n] for n in range(4)]))
    )
    in_key = [replace(c, nullable=c.nullable and c.name not in key) for _, c in columns]
    quoted = {c.name: "`" + c.name.replace("`", "``") + "`" for c in in_key}
    parts = [
        f"{quoted[c.name]} {d} {'NULL' if c.nullable else 'NOT NULL'}"
        for (d, _), c in zip(columns, in_key, strict=True)
    ]
    if key:
        parts.append(f"PRIMARY KEY ({', '.join(quoted[name] for name in key)})")
    session.query(f"DROP TABLE IF EXISTS {database}.`a table`")
    session.query(f"CREATE TABLE {database}.`a table` ({', '.join(parts)})")
    assert one(session, f"{database}.a table") == TableSchema(
        database, "a table", tuple(in_key), tuple(key), "utf8mb4", more_unique=None if key else False
    )


def test_base_tables_of_all_kinds_in_order_and_no_views(session: Session, database: str) -> None:
    session.query(f"CREATE TABLE {database}.b (id int PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 3")
    session.query(f"CREATE TABLE {database}.a (x int, y int, PRIMARY KEY (y DESC, x))")
    session.query(f"CREATE VIEW {database}.v AS SELECT * FROM {database}.a")
    session.query(f"CREATE TEMPORARY TABLE {database}.tmp (id int PRIMARY KEY)")
    tables = read_tables(session, Selection([f"{database}.*"]))
    assert list(tables) == [f"{database}.a", f"{database}.b"]
    assert tables[f"{database}.a"].key == ("y", "x")
    session.query(f"DROP TEMPORARY TABLE {database}.tmp")


def test_a_table_is_seen_at_once_and_as_it_is_now(session: Session, database: str) -> None:
    for i in range(3):
        session.query(f"CREATE TABLE {database}.t{i} (id int PRIMARY KEY)")
        assert list(read_tables(session, Selection([f"{database}.*"]))) == [f"{database}.t{j}" for j in range(i + 1)]
    session.query(f"ALTER TABLE {database}.t0 ADD COLUMN extra date")
    assert [c.name for c in one(session, f"{database}.t0").columns] == ["id", "extra"]


def test_names_that_differ_in_case_alone_are_two_tables(session: Session, database: str) -> None:
    session.query(f"CREATE TABLE {database}.t (a int PRIMARY KEY)")
    session.query(f"CREATE TABLE {database}.T (b int PRIMARY KEY, c int)")
    tables = read_tables(session, Selection([f"{database}.*"]))
    assert {name: [c.name for c in t.columns] for name, t in tables.items()} == {
        f"{database}.T": ["b", "c"], f"{database}.t": ["a"],
    }  # fmt: skip
    assert list(read_tables(session, Selection([f"{database}.T"]))) == [f"{database}.T"]


def test_more_tables_than_one_statement_asks_for(
    session: Session, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakehouse_cdc.mysql.catalog._AT_ONCE", 3)
    other = f"{database}_other"
    session.query(f"CREATE DATABASE {other}")
    names = [f"{d}.{t}" for d in (database, other) for t in ("t0", "t1")]
    for i, name in enumerate(names):
        session.query(f"CREATE TABLE {name} (id{i} int PRIMARY KEY)")
    tables = read_tables(session, Selection([f"{database}*.*"]))
    session.query(f"DROP DATABASE {other}")
    assert {name: (len(t.columns), t.key) for name, t in tables.items()} == {
        name: (1, (f"id{i}",)) for i, name in enumerate(names)
    }


def test_columns_are_those_of_a_row_image(mysql: MySqlServer, session: Session, database: str) -> None:
    session.query(
        f"CREATE TABLE {database}.t (id int PRIMARY KEY, a int, s int AS (a + 1) STORED, v int AS (a * 2) VIRTUAL,"
        " z int INVISIBLE DEFAULT 7, INDEX ((a + 5)))"
    )
    at = log_position(session).position
    session.query(f"INSERT INTO {database}.t (id, a) VALUES (1, 10)")
    schema = one(session, f"{database}.t", excluded=["v"])
    reader = BinLogStreamReader(
        connection_settings={"host": "127.0.0.1", "port": mysql.port, "user": "root", "password": ""},
        server_id=990_001, resume_stream=True, log_file=at.file, log_pos=at.pos, only_events=[WriteRowsEvent],
    )  # fmt: skip
    image = next(iter(reader)).rows[0]["values"]
    reader.close()
    assert list(image) == [c.name for c in schema.columns] == ["id", "a", "s", "v", "z"]
    assert image == {"id": 1, "a": 10, "s": 11, "v": 20, "z": 7}
    assert session.one(f"SELECT s, z FROM {database}.t") == (11, 7)


def test_a_virtual_column_is_left_out_since_its_value_is_the_readers(
    mysql: MySqlServer, mysql_client: pymysql.Connection[Any], session: Session, database: str
) -> None:
    session.query(f"CREATE TABLE {database}.t (id int PRIMARY KEY, ts timestamp, h int AS (HOUR(ts)) VIRTUAL)")
    at = log_position(session).position
    with mysql_client.cursor() as cursor:
        cursor.execute("SET time_zone = '+05:00'")
        cursor.execute(f"INSERT INTO {database}.t (id, ts) VALUES (1, '2020-01-01 10:00:00')")
    reader = BinLogStreamReader(
        connection_settings={"host": "127.0.0.1", "port": mysql.port, "user": "root", "password": ""},
        server_id=990_002, resume_stream=True, log_file=at.file, log_pos=at.pos, only_events=[WriteRowsEvent],
    )  # fmt: skip
    logged = next(iter(reader)).rows[0]["values"]["h"]
    reader.close()
    # the day that these agree, such columns may be captured
    assert (logged, session.scalar(f"SELECT h FROM {database}.t")) == (10, 5)
    assert left_out(one(session, f"{database}.t")).keys() == {"h"}
    assert [c.name for c in one(session, f"{database}.t", excluded=["h"]).captured] == ["id", "ts"]


def test_a_column_that_is_generated_from_a_masked_one_must_be_masked(
    any_server: MySqlServer, any_database: str
) -> None:
    with connect(ConnectionOptions.from_url(any_server.url)) as session:
        session.query(
            f"CREATE TABLE {any_database}.t (id INT PRIMARY KEY, `e ``mail` VARCHAR(40), name VARCHAR(40),"
            " low VARCHAR(40) AS (LOWER(`E ``mail`)) STORED, initial VARCHAR(1) AS (LEFT(low, 1)) STORED,"
            " long_name VARCHAR(80) AS (CONCAT(name, 'e `mail')) STORED)"
        )
        table = f"{any_database}.t"

        def said(*more: str) -> list[str]:
            choice = Choice(masks={table: dict.fromkeys(["e `mail", *more], "null")}, generated="fail")
            faults = read_catalog(session, Selection([table]), choice).faults
            found = [f.what.partition("column ")[2].partition(",") for f in faults]
            return [column for column, _, why in found if "masked" in why]

        assert said() == ["low", "initial"]
        assert said("LOW") == ["initial"]
        assert said("low", "initial") == []


def test_a_generated_primary_key_is_read_even_where_it_is_hidden(session: Session, database: str) -> None:
    session.query("SET SESSION sql_generate_invisible_primary_key = ON")
    session.query(f"CREATE TABLE {database}.t (a int)")
    session.query("SET SESSION sql_generate_invisible_primary_key = OFF")
    session.query("SET SESSION show_gipk_in_create_table_and_information_schema = OFF")
    schema = one(session, f"{database}.t")
    assert ([c.name for c in schema.columns], schema.key) == (["my_row_id", "a"], ("my_row_id",))


def test_excluded_columns_by_pattern_and_in_any_case(session: Session, database: str) -> None:
    for table in ("a", "b"):
        session.query(f"CREATE TABLE {database}.{table} (id int PRIMARY KEY, Secret int, token int)")
    excluded = {f"{database}.*": ["secret"], f"{database}.b": ["token"], "other.*": []}
    tables = read_tables(session, Selection([f"{database}.*"]), Choice(excluded))
    left = {t.table: [c.name for c in t.captured] for t in tables.values()}
    assert left == {"a": ["id", "token"], "b": ["id"]}
    assert all([c.name for c in t.columns] == ["id", "Secret", "token"] for t in tables.values())


@pytest.mark.parametrize(
    ("pattern", "column", "hint"),
    [
        ("{}.t", "pasword", "password"),
        ("{}.*", "nothing", "password"),
        ("{}.other", "password", "no captured table matches"),
        ("{}.left_out", "password", "no captured table matches"),
    ],
)
def test_an_excluded_column_that_does_not_exist(
    session: Session, database: str, pattern: str, column: str, hint: str
) -> None:
    for table in ("t", "left_out"):
        session.query(f"CREATE TABLE {database}.{table} (id int PRIMARY KEY, password int)")
    where = pattern.format(database)
    [fault] = refused(session, f"{database}.*", f"!{database}.left_out", choice=Choice({where: [column]}))
    assert isinstance(fault, ConfigError)
    assert f"excluded column {column} " in fault.what
    assert where in fault.where
    assert hint in fault.hint


@pytest.mark.parametrize(
    ("definition", "what"),
    [
        ("t (id int PRIMARY KEY) ENGINE = BLACKHOLE", "t has the engine BLACKHOLE, which keeps no rows"),
        ("t (id int) ENGINE = ARCHIVE", "t has the engine ARCHIVE, which shows rows before they are in the binlog"),
    ],
)
def test_a_table_that_cannot_be_captured_is_refused_by_name(
    session: Session, database: str, definition: str, what: str
) -> None:
    session.query(f"CREATE TABLE {database}.fine (id int PRIMARY KEY)")
    session.query(f"CREATE TABLE {database}.{definition}")
    [fault] = refused(session, f"{database}.*", f"{database}.t")
    with pytest.raises(DefiniteError, match=f"table_unsupported: {database}.{what}"):
        raise fault
    assert f'"!{fault.where}"' in fault.hint
    assert list(read_tables(session, Selection([f"{database}.*", f"!{fault.where}"]))) == [f"{database}.fine"]


def test_every_fault_is_told(session: Session, database: str) -> None:
    session.query(f"CREATE TABLE {database}.a (c varchar(50), v int AS (c) STORED, PRIMARY KEY (c))")
    session.query(f"CREATE TABLE {database}.b (id int PRIMARY KEY) ENGINE = BLACKHOLE")
    masks = Choice(masks={f"{database}.a": {"c": "null"}})
    faults = refused(session, f"{database}.a", f"{database}.b", "nowhere.*", choice=masks)
    assert len(faults) == 3
    assert "nowhere" in faults[0].what


def test_a_pattern_that_matches_nothing_is_told_with_what_there_is(session: Session, database: str) -> None:
    session.query(f"CREATE TABLE {database}.customers (id int PRIMARY KEY)")
    [fault] = refused(session, f"{database}.custmers", f"{database}.customers")
    assert fault.what == f"no table matches '{database}.custmers'"
    assert f"{database}.customers" in fault.hint
    assert not isinstance(fault, ConfigError)


def test_a_pattern_in_another_case_is_told_the_name(session: Session, database: str) -> None:
    session.query(f"CREATE TABLE {database}.orders (id int PRIMARY KEY)")
    [fault] = refused(session, f"{database}.Orders", f"{database}.o*")
    assert fault.hint.startswith(f"write {database}.orders: upper and lower case differ")


def test_exclusions_that_shut_out_everything(session: Session, database: str) -> None:
    session.query(f"CREATE TABLE {database}.t (id int PRIMARY KEY)")
    [fault] = refused(session, f"{database}.*", f"!{database}.t")
    assert "the exclusions shut out all" in fault.what


@pytest.fixture
def reader(mysql: MySqlServer, session: Session) -> Iterator[Session]:
    """A user without any right, until a test grants one."""
    session.query("CREATE USER 'some'@'127.0.0.1' IDENTIFIED BY 'some-secret'")
    url = mysql.url.replace("root", "some")
    with connect(ConnectionOptions.from_url(url, password="some-secret")) as opened:
        yield opened
    session.query("DROP USER 'some'@'127.0.0.1'")


def test_a_user_who_sees_no_table(reader: Session, session: Session, database: str) -> None:
    session.query(f"CREATE TABLE {database}.t (id int PRIMARY KEY)")
    [fault] = refused(reader, f"{database}.t")
    assert "this user sees no table at all" in fault.hint
    assert "GRANT SELECT" in fault.hint


def test_a_user_who_sees_some_columns_only(reader: Session, session: Session, database: str) -> None:
    session.query(f"CREATE TABLE {database}.t (id int PRIMARY KEY, a int, b int)")
    session.query(f"GRANT SELECT (id, b) ON {database}.t TO 'some'@'127.0.0.1'")
    [fault] = refused(reader, f"{database}.t")
    assert fault.what == f"{database}.t has columns that the user may not see"
    session.query(f"GRANT SELECT ON {database}.t TO 'some'@'127.0.0.1'")
    assert one(reader, f"{database}.t") == one(session, f"{database}.t")
