"""What matches a pattern and is not captured is named, with the reason, on every server."""

from __future__ import annotations

from contextlib import closing

import pytest

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.mysql.catalog import read_catalog, read_tables
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, connect
from lakehouse_cdc.mysql.preflight.checks import check
from lakehouse_cdc.mysql.uncaptured import BASE, Uncaptured, uncaptured
from lakehouse_cdc.schema.engines import canonical, not_captured
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.testing import MySqlServer

pytestmark = pytest.mark.every_server


def test_each_kind_is_named_on_every_server(any_server: MySqlServer, any_database: str) -> None:
    d, mariadb = any_database, any_server.version.startswith("mariadb")
    statements = [f"CREATE TABLE {name} (id INT PRIMARY KEY)" for name in ("t", "u", "_t_old", "other")]
    statements += ["CREATE VIEW v AS SELECT * FROM t", "CREATE VIEW _v_new AS SELECT * FROM t"]
    wanted = {"v": "is a view", "_t_old": "is named as gh-ost"}
    if mariadb:
        statements += ["CREATE TABLE h (id INT PRIMARY KEY) WITH SYSTEM VERSIONING", "CREATE SEQUENCE s"]
        wanted |= {"s": "is a sequence"}
    with closing(any_server.connect(database=d, autocommit=True)) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    selection = Selection([f"{d}.*", f"!{d}.other"])
    with connect(ConnectionOptions("127.0.0.1", any_server.port, "root")) as session:
        found = uncaptured(session, selection)
        assert {name.partition(".")[2]: reason[: len(wanted[name.partition(".")[2]])]
                for name, reason in found.all.items()} == wanted  # fmt: skip
        assert {name.partition(".")[2] for name in found.tables} == {"_t_old"}
        catalog = read_catalog(session, selection)
        captured = {"t", "u", "h"} if mariadb else {"t", "u"}
        assert (catalog.uncaptured, set(catalog.tables)) == (found, {f"{d}.{name}" for name in captured})
        said = [(f.severity, f.what) for f in check(session, selection) if f.name == "uncaptured"]
        for name in found.all:
            assert [severity for severity, what in said if name in what] == [
                "warning" if name in found.tables else "ok"
            ]
        if mariadb:
            with pytest.raises(DefiniteError, match=rf"'{d}.s' matches no table .*: {d}.s is a sequence"):
                read_tables(session, Selection([f"{d}.t", f"{d}.s"]))


def test_many_are_counted_and_the_first_are_named() -> None:
    types = {f"d.t{n:04}": "TEMPORARY" for n in range(3000)} | {"d.v": "VIEW", "d.t": BASE, "e.v": "VIEW"}
    found = Uncaptured.of(Selection(["d.*"]), types)
    assert len(found.all) == 3001
    many, one = found.lines()
    assert many.startswith("3,000 names match source.tables and are not captured: each is a temporary table")
    assert many.endswith("d.t0008, d.t0009 and 2,990 more")
    assert one.startswith("d.v matches source.tables and is not captured: it is a view")


def test_a_kind_that_nobody_knows_is_named_all_the_same() -> None:
    assert "SOMETHING NEW" in Uncaptured.of(Selection(["d.*"]), {"d.t": "SOMETHING NEW"}).tables["d.t"]


def test_a_table_of_an_engine_that_is_never_captured_is_left_out_unless_it_is_spelled() -> None:
    types = dict.fromkeys(("d.t", "d.hole", "d.spelled", "d.broken", "d.isam", "e.hole"), BASE)
    engines = {"d.t": "InnoDB", "d.hole": "BLACKHOLE", "d.spelled": "BLACKHOLE", "d.broken": None, "d.isam": "MyISAM",
               "e.hole": "BLACKHOLE"}  # fmt: skip
    found = Uncaptured.of(Selection(["d.*", "d.spelled"]), types, engines)
    assert found.tables == {
        "d.broken": "cannot be opened by the server, which names no engine for it (SHOW CREATE TABLE says why)",
        "d.hole": "has the engine BLACKHOLE, which keeps no rows",
    }


@pytest.mark.parametrize(
    ("engine", "says"),
    [
        ("MRG_MyISAM", "has the engine MRG_MYISAM, whose rows are those of other tables"),
        ("FEDERATED", "has the engine FEDERATED, whose rows are on another server"),
        ("ROCKSDB", "has the engine ROCKSDB, of which it is not proven when its rows are visible"),
    ],
)
def test_each_engine_has_its_reason(engine: str, says: str) -> None:
    assert not_captured(engine) == says


@pytest.mark.parametrize(
    ("given", "engine"), [("innodb", "InnoDB"), ("heap", "MEMORY"), ("Memory", "MEMORY"), ("ARIA", "Aria")]
)
def test_an_engine_has_one_name(given: str, engine: str) -> None:
    assert (canonical(given), not_captured(given)) == (engine, None)


def test_a_table_that_cannot_be_opened(any_server: MySqlServer, any_database: str) -> None:
    """Of a MERGE table whose tables do not fit, a catalog shows no engine."""
    d = any_database
    with closing(any_server.connect(database=d, autocommit=True)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        cursor.execute("CREATE TABLE a (id INT) ENGINE = MyISAM")
        cursor.execute("CREATE TABLE m (id INT) ENGINE = MRG_MYISAM UNION = (a)")
        cursor.execute("ALTER TABLE a ADD COLUMN v INT")
    with connect(ConnectionOptions("127.0.0.1", any_server.port, "root")) as session:
        catalog = read_catalog(session, Selection([f"{d}.*"]))
        assert list(catalog.tables) == [f"{d}.a", f"{d}.t"]
        assert list(catalog.uncaptured.tables) == [f"{d}.m"]
