"""The preflight on real servers: each breach is found by name, with its remedy; applying the remedy mends it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from lakehouse_cdc.errors import ConfigError, DefiniteError, codes
from lakehouse_cdc.mysql import server
from lakehouse_cdc.mysql.catalog import read_catalog
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, Session, connect
from lakehouse_cdc.mysql.literals import for_statements
from lakehouse_cdc.mysql.preflight.checks import check, large_rows, require, zero_date_defaults
from lakehouse_cdc.mysql.preflight.settings import Finding
from lakehouse_cdc.schema.column_choice import Choice
from lakehouse_cdc.schema.representation import Rules, carried_by
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.versions import MARIADB
from tests.support.servers import connected

pytestmark = [pytest.mark.mysql, pytest.mark.every_server]

SHOP = Selection(["shop.*"])
DAY = 86_400


@pytest.fixture(scope="module")
def own() -> Iterator[MySqlServer]:
    """A server whose global settings a test may change: GTIDs off, an unlogged database, a shop of two tables."""
    options = {
        "gtid_mode": "OFF", "enforce_gtid_consistency": "OFF", "log_replica_updates": "OFF",
        "binlog_ignore_db": "unlogged", "sync_binlog": "1", "innodb_flush_log_at_trx_commit": "1",
    }  # fmt: skip
    with MySqlServer.start(options=options) as started:
        with connect(ConnectionOptions.from_url(started.url)) as root:
            for database in ("shop", "unlogged"):
                root.query(f"CREATE DATABASE {database}")
                root.query(f"CREATE TABLE {database}.orders (id int PRIMARY KEY, parent int, KEY (parent))")
            root.query("CREATE TABLE shop.items (id int PRIMARY KEY)")
        yield started


@pytest.fixture
def root(own: MySqlServer) -> Iterator[Session]:
    with connect(ConnectionOptions.from_url(own.url)) as session:
        yield session


@contextmanager
def as_global(root: Session, name: str, value: str) -> Iterator[None]:
    before = root.scalar(f"SELECT @@GLOBAL.{name}")
    root.query(f"SET GLOBAL {name} = {value}")
    try:
        yield
    finally:
        root.query(f"SET GLOBAL {name} = %s", [before])


def found(findings: list[Finding], name: str) -> Finding:
    [finding] = [f for f in findings if f.name == name]
    return finding


def bad(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(f.name, f.severity) for f in findings if f.severity != "ok"]


def test_a_server_that_is_fit(root: Session) -> None:
    findings = check(root, SHOP)
    assert bad(findings) == []
    assert found(findings, "tables").what == "2 tables can be captured: shop.items, shop.orders"
    assert "gtid_mode is OFF: " in found(findings, "gtid_mode").what
    assert not any(f.hint for f in findings)
    require(findings)


def test_the_shared_server_has_gtids(mysql: MySqlServer, database: str) -> None:
    with connect(ConnectionOptions.from_url(mysql.url)) as session:
        session.query(f"CREATE TABLE {database}.t (id int PRIMARY KEY)")
        findings = check(session, Selection([f"{database}.*"]))
    assert found(findings, "gtid_mode").what == "gtid_mode is ON"
    assert bad(findings) == [("durability", "warning")]
    require(findings)


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("binlog_format", "'STATEMENT'", "binlog_format is STATEMENT"),
        ("binlog_format", "'MIXED'", "binlog_format is MIXED"),
        ("binlog_row_image", "'MINIMAL'", "binlog_row_image is MINIMAL"),
        ("binlog_row_image", "'NOBLOB'", "binlog_row_image is NOBLOB"),
        ("server_id", "0", "server_id is 0"),
    ],
)
def test_a_setting_that_makes_capture_inexact(root: Session, name: str, value: str, what: str) -> None:
    with as_global(root, name, value):
        findings = check(root, SHOP)
        assert bad(findings) == [(name, "error")]
        with pytest.raises(DefiniteError) as caught:
            require(findings)
        assert caught.value.what.startswith(what)
        assert caught.value.where == name
        # the hint is the remedy itself
        statement = caught.value.hint.split(", then")[0].split(" (or")[0].split(", or any")[0]
        assert statement.startswith("SET PERSIST ")
        root.query(statement.replace("PERSIST", "GLOBAL"))
        assert bad(check(root, SHOP)) == []


@pytest.mark.parametrize(
    ("name", "value", "plain"),
    [
        ("binlog_transaction_compression", "ON", "OFF"),
        ("binlog_row_value_options", "PARTIAL_JSON", "empty"),
    ],
)
def test_a_setting_that_is_no_obstacle(root: Session, name: str, value: str, plain: str) -> None:
    assert found(check(root, SHOP), name).what == f"{name} is {plain}"
    with as_global(root, name, f"'{value}'"):
        findings = check(root, SHOP)
        assert bad(findings) == []
        assert found(findings, name).what.startswith(f"{name} is {value}: ")


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("binlog_row_metadata", "MINIMAL", "binlog_row_metadata is MINIMAL: names, "),
        ("binlog_checksum", "NONE", "binlog_checksum is NONE: "),
    ],
)
def test_a_setting_that_may_have_either_value_is_explained(root: Session, name: str, value: str, what: str) -> None:
    with as_global(root, name, value):
        findings = check(root, SHOP)
    assert bad(findings) == []
    assert found(findings, name).what.startswith(what)


@pytest.mark.parametrize(
    ("seconds", "severity", "what"),
    [
        (0, "ok", "until somebody purges them"),
        (DAY - 1, "warning", "24.0 hours"),
        (3600, "warning", "1.0 hours"),
        (DAY, "ok", "for 1.0 days"),
    ],
)
def test_retention(root: Session, seconds: int, severity: str, what: str) -> None:
    with as_global(root, "binlog_expire_logs_seconds", str(seconds)):
        finding = found(check(root, SHOP), "retention")
        assert finding.severity == severity
        assert what in finding.what
        assert ("binlog_expire_logs_seconds" in finding.hint) == (severity == "warning")


def test_retention_in_days_and_without_a_purge(root: Session) -> None:
    with as_global(root, "binlog_expire_logs_seconds", "0"), as_global(root, "expire_logs_days", "2"):
        assert "for 2.0 days" in found(check(root, SHOP), "retention").what
    with as_global(root, "binlog_expire_logs_seconds", "60"), as_global(root, "binlog_expire_logs_auto_purge", "OFF"):
        assert found(check(root, SHOP), "retention").severity == "ok"


@pytest.mark.parametrize("name", ["sync_binlog", "innodb_flush_log_at_trx_commit"])
def test_a_server_that_may_forget_what_it_showed(root: Session, name: str) -> None:
    with as_global(root, name, "0"):
        finding = found(check(root, SHOP), "durability")
        assert finding.severity == "warning"
        assert finding.what.startswith(f"{name} is 0: ")


def test_without_a_binlog() -> None:
    with (
        MySqlServer.start(options={"disable_log_bin": None}) as started,
        connect(ConnectionOptions.from_url(started.url)) as root,
    ):
        root.query("CREATE DATABASE shop")
        root.query("CREATE TABLE shop.orders (id int PRIMARY KEY)")
        findings = check(root, SHOP)
    assert [f.name for f in findings if f.severity == "error"] == ["log_bin"]
    with pytest.raises(DefiniteError, match="writes no binlog"):
        require(findings)


@pytest.mark.parametrize(
    ("version", "mariadb", "what"),
    [((5, 6, 51), False, "MySQL 5.6.51 is not supported"), ((10, 4, 34), True, "MariaDB 10.4.34 is not supported")],
)
def test_other_servers_are_refused_at_once(
    root: Session, version: tuple[int, int, int], mariadb: bool, what: str
) -> None:
    # no such server runs here: the session tells another version of itself
    root.version, root.is_mariadb = version, mariadb
    [finding] = check(root, SHOP)
    assert (finding.name, finding.severity) == ("version", "error")
    assert what in finding.what


def test_every_server_is_fit_as_it_is_started(any_server: MySqlServer, any_database: str) -> None:
    """By its reader: that account has the rights that the README names."""
    with connect(ConnectionOptions.from_url(any_server.url)) as root:
        root.query(f"CREATE TABLE {any_database}.t (id int PRIMARY KEY, j json)")
    url = any_server.url.replace("root", "cdc")
    with connect(ConnectionOptions.from_url(url, password="cdc-secret")) as session:
        findings = check(session, Selection([f"{any_database}.*"]))
    require(findings)
    # other tests leave statistics of XA on the server
    allowed = {"durability", "xa", "xa_order"} | ({"log_replica_updates"} if session.is_mariadb else set())
    assert {name for name, _ in bad(findings)} <= allowed
    for finding in findings:
        assert "SET PERSIST" not in finding.hint or (session.version >= (8, 0, 0) and not session.is_mariadb)


@pytest.mark.parametrize("any_server", MARIADB, indirect=True)
@pytest.mark.parametrize(
    ("grants", "expected"),
    [
        ("SELECT, REPLICATION SLAVE, BINLOG MONITOR, SLAVE MONITOR", []),
        ("SELECT, REPLICATION SLAVE", ["BINLOG MONITOR"]),
        ("SELECT, BINLOG MONITOR", ["REPLICATION SLAVE"]),
    ],
)
def test_rights_on_mariadb(any_server: MySqlServer, any_database: str, grants: str, expected: list[str]) -> None:
    with connect(ConnectionOptions.from_url(any_server.url)) as root:
        root.query(f"CREATE TABLE {any_database}.t (id int PRIMARY KEY)")
        with user(root, any_server, f"{grants} ON *.*") as session:
            findings = check(session, Selection([f"{any_database}.*"]))
    assert [f.name for f in findings if f.severity == "error"] == expected
    assert bool(expected) or found(findings, "log_replica_updates").severity == "ok"


@pytest.mark.parametrize("tls", ["preferred", "disabled"])
def test_how_the_connection_is_protected(own: MySqlServer, root: Session, tls: Any) -> None:
    with connect(replace(root.options, tls=tls)) as session:
        assert found(check(session, SHOP), "authentication").what.startswith("root comes in by ")
        assert ("encrypted (" in found(check(session, SHOP), "tls").what) == (tls == "preferred")
        session.options = replace(session.options, host="db.example")  # this machine is not worth a warning
        assert found(check(session, SHOP), "tls").severity == ("ok" if tls == "preferred" else "warning")


# --- rights


@contextmanager
def user(root: Session, own: MySqlServer, *grants: str) -> Iterator[Session]:
    root.query("CREATE USER 'some'@'127.0.0.1' IDENTIFIED BY 'some-secret'")
    try:
        for grant in grants:
            root.query(f"GRANT {grant} TO 'some'@'127.0.0.1'")
        url = own.url.replace("root", "some")
        with connect(ConnectionOptions.from_url(url, password="some-secret")) as session:
            yield session
    finally:
        root.query("DROP USER 'some'@'127.0.0.1'")


@pytest.mark.parametrize(
    ("grants", "expected"),
    [
        (["SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.*"], []),
        (["SELECT ON shop.*", "REPLICATION SLAVE, REPLICATION CLIENT ON *.*"], []),
        (["ALL PRIVILEGES ON *.*"], []),
        (["SELECT, REPLICATION CLIENT ON *.*"], ["REPLICATION SLAVE"]),
        (["SELECT, REPLICATION SLAVE ON *.*"], ["REPLICATION CLIENT"]),
        (["SELECT ON shop.*"], ["REPLICATION SLAVE", "REPLICATION CLIENT"]),
        (["REPLICATION SLAVE, REPLICATION CLIENT ON *.*"], ["source.tables"]),
        (["REPLICATION SLAVE, REPLICATION CLIENT ON *.*", "INSERT ON shop.items"], ["shop.items"]),
        (["REPLICATION SLAVE, REPLICATION CLIENT, PROCESS, INSERT ON *.*"], ["shop.items", "shop.orders"]),
    ],
)
def test_rights(root: Session, own: MySqlServer, grants: list[str], expected: list[str]) -> None:
    with user(root, own, *grants) as session:
        findings = check(session, SHOP)
    assert [f.name for f in findings if f.severity == "error"] == expected
    assert all("GRANT" in f.hint for f in findings if f.severity == "error")
    assert not any("some-secret" in repr(f) for f in findings)


def test_the_grant_of_the_hint_mends_a_missing_right(root: Session, own: MySqlServer) -> None:
    with user(root, own, "SELECT, REPLICATION CLIENT ON *.*") as session:
        hint = found(check(session, SHOP), "REPLICATION SLAVE").hint
    with user(
        root,
        own,
        "SELECT, REPLICATION CLIENT ON *.*",
        hint.removeprefix("GRANT ").removesuffix(" TO 'some'@'127.0.0.1'"),
    ) as session:
        assert bad(check(session, SHOP)) == [("xa", "warning"), ("logged_as_text", "warning")]


def test_what_a_statement_logged_as_text_leads_to_is_seen_with_the_grant_of_the_hint(
    root: Session, own: MySqlServer
) -> None:
    rights = ["REPLICATION SLAVE, REPLICATION CLIENT, XA_RECOVER_ADMIN ON *.*", "SELECT ON shop.*", "TRIGGER ON shop.*"]
    with user(root, own, *rights) as session:
        finding = found(check(session, SHOP), "logged_as_text")
    assert finding.severity == "warning"
    assert all(word in finding.what for word in ("triggers", "views", "tables", "stored routines"))
    grant = finding.hint.partition("GRANT ")[2].removesuffix(" TO 'some'@'127.0.0.1'")
    with user(root, own, *rights, grant) as session:
        assert bad(check(session, SHOP)) == []


def test_prepared_transactions_are_seen_with_the_right_alone(root: Session, own: MySqlServer) -> None:
    with closing(connected(own)) as other, other.cursor() as cursor:
        for statement in ("XA START 'one'", "DELETE FROM shop.items WHERE id = -1", "XA END 'one'", "XA PREPARE 'one'"):
            cursor.execute(statement)
        try:
            assert "1 XA transactions are prepared" in found(check(root, SHOP), "xa").what
        finally:
            cursor.execute("XA ROLLBACK 'one'")
    assert found(check(root, SHOP), "xa").severity == "ok"
    with user(root, own, "SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.*") as session:
        assert "XA_RECOVER_ADMIN" in found(check(session, SHOP), "xa").hint


@pytest.mark.parametrize("any_server", ["mysql-5.7"], indirect=True)
def test_the_order_of_xa_commits_on_5_7(any_server: MySqlServer, any_database: str) -> None:
    selection = Selection([f"{any_database}.*"])
    with connect(ConnectionOptions.from_url(any_server.url)) as session:
        session.query(f"CREATE TABLE {any_database}.t (id INT PRIMARY KEY)")
        commits = int(session.one("SHOW GLOBAL STATUS LIKE 'Com_xa_commit'")[1])
        before = found(check(session, selection), "xa_order")
        insert = f"INSERT INTO {any_database}.t VALUES (1)"
        for statement in ("XA START 'order'", insert, "XA END 'order'", "XA PREPARE 'order'", "XA COMMIT 'order'"):
            session.query(statement)
        after = found(check(session, selection), "xa_order")
    assert before.severity == ("warning" if commits else "ok")
    assert (after.severity, after.what.split()[0]) == ("warning", str(commits + 1))


def test_rights_by_a_role(root: Session, own: MySqlServer) -> None:
    root.query("CREATE ROLE capture")
    root.query("GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO capture")
    with user(root, own, "capture") as session:
        assert ("REPLICATION SLAVE", "error") in bad(check(session, SHOP))  # granted, but not active
    with user(root, own, "capture"):
        root.query("SET DEFAULT ROLE capture TO 'some'@'127.0.0.1'")
        url = own.url.replace("root", "some")
        with connect(ConnectionOptions.from_url(url, password="some-secret")) as session:
            assert bad(check(session, SHOP)) == [("xa", "warning"), ("logged_as_text", "warning")]
    root.query("DROP ROLE capture")


# --- the server's place among others


def test_a_replica_that_does_not_log_what_it_applies(root: Session) -> None:
    root.query("CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1")
    try:
        assert bad(check(root, SHOP)) == [("log_replica_updates", "error")]
    finally:
        root.query("RESET REPLICA ALL")
    assert bad(check(root, SHOP)) == []


def test_a_database_that_is_kept_out_of_the_binlog(root: Session) -> None:
    findings = check(root, Selection(["*.orders"]))
    assert bad(findings) == [("binlog_do_db", "error")]
    assert "unlogged" in found(findings, "binlog_do_db").what


@pytest.mark.parametrize(
    ("semi_sync", "process", "severity"),
    [
        (server.SemiSync(enabled=False, timeout_seconds=1e6, endless=True), False, "ok"),
        (server.SemiSync(enabled=True, timeout_seconds=10, endless=False), False, "ok"),
        (server.SemiSync(enabled=True, timeout_seconds=1e6, endless=True), True, "warning"),
        (server.SemiSync(enabled=True, timeout_seconds=1e6, endless=True), False, "error"),
    ],
)
def test_semi_sync_without_gtids(
    root: Session, own: MySqlServer, monkeypatch: pytest.MonkeyPatch, semi_sync: server.SemiSync, process: bool,
    severity: str,
) -> None:  # fmt: skip
    # the embedded server comes without the plugin
    monkeypatch.setattr(server, "semi_sync", lambda session: semi_sync)
    rights = "SELECT, REPLICATION SLAVE, REPLICATION CLIENT" + (", PROCESS" if process else "")
    with user(root, own, f"{rights} ON *.*") as session:
        finding = found(check(session, SHOP), "semi_sync")
    assert finding.severity == severity
    assert bool(finding.hint) == (severity != "ok")


def test_endless_semi_sync_is_no_matter_with_gtids(
    mysql: MySqlServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = server.SemiSync(enabled=True, timeout_seconds=1e6, endless=True)
    monkeypatch.setattr(server, "semi_sync", lambda session: endless)
    with connect(ConnectionOptions.from_url(mysql.url)) as session:
        assert found(check(session, Selection([f"{database}.*"])), "semi_sync").severity == "ok"


# --- tables


def test_every_fault_of_every_table_is_a_finding(root: Session) -> None:
    root.query("CREATE DATABASE faulty")
    try:
        root.query("CREATE TABLE faulty.a (id int PRIMARY KEY, j json, e enum('x') CHARACTER SET binary, fine int)")
        root.query("CREATE TABLE faulty.b (id int)")
        root.query("CREATE TABLE faulty.c (e enum('') PRIMARY KEY)")
        root.query("CREATE TABLE faulty.d (id int PRIMARY KEY, v int AS (1 / 2) VIRTUAL) ENGINE = InnoDB")
        root.query("CREATE TABLE faulty.e (id int PRIMARY KEY) ENGINE = BLACKHOLE")
        wanted = Selection(["faulty.*", "faulty.e", "nowhere.*"])
        choice = Choice({"faulty.a": ["j", "nothing"]}, generated="fail")
        findings = check(root, wanted, choice, {"faulty.b": ["id"]})
    finally:
        root.query("DROP DATABASE faulty")
    errors = [f for f in findings if f.severity == "error"]
    assert [f.name for f in errors] == [
        "source.tables", "faulty.e", "tables.faulty.a.exclude", "faulty.a", "faulty.b", "faulty.c", "faulty.d",
    ]  # fmt: skip
    assert all(f.hint for f in errors)
    assert [f.name for f in errors if f.code.of is ConfigError] == ["tables.faulty.a.exclude", "faulty.b"]
    assert "enum" in found(findings, "faulty.a").what


def test_engines_that_lock_the_table_are_named(any_server: MySqlServer, any_database: str) -> None:
    with closing(connected(any_server)) as connection, connection.cursor() as cursor:
        for name, engine in (("i", "InnoDB"), ("m", "MyISAM"), ("h", "MEMORY")):
            cursor.execute(f"CREATE TABLE {any_database}.{name} (id INT PRIMARY KEY) ENGINE = {engine}")
    with connect(ConnectionOptions.from_url(any_server.url)) as session:
        said = found(check(session, Selection([f"{any_database}.*"])), "engines")
    assert said.severity == "ok"
    assert said.what.endswith(f": {any_database}.h (MEMORY), {any_database}.m (MyISAM)")


def test_a_default_that_is_no_date_is_said_where_it_would_quarantine_the_table(
    any_server: MySqlServer, any_database: str
) -> None:
    with closing(connected(any_server)) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = ''")
        cursor.execute(
            f"CREATE TABLE {any_database}.t (id INT PRIMARY KEY, a DATE NOT NULL DEFAULT '0000-00-00',"
            " b DATETIME DEFAULT '2024-00-00 10:00:00', c DATETIME DEFAULT '2024-01-10 00:00:00',"
            " d TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, e DATE DEFAULT '2024-01-00', f DATE DEFAULT '0000-00-00')"
        )
    with connect(ConnectionOptions.from_url(any_server.url)) as session:
        name, choice = f"{any_database}.t", Choice({"*.t": ["e"]})
        tables = read_catalog(session, Selection([name]), choice).tables
        carried = {name: carried_by(tables[name], Rules(types={"*.t": {"f": "text"}}))}
        findings = zero_date_defaults(session, carried)
        assert [f.what.partition(" ")[0] for f in findings] == [f"{name}.a", f"{name}.b"]
        assert f"tables.{name}.types: {{a: text}}" in findings[0].hint
        for rules in (Rules(zero_dates="null"), Rules(zero_dates="text")):
            assert zero_date_defaults(session, {name: carried_by(tables[name], rules)}) == []


def test_large_rows_are_said_beforehand(any_server: MySqlServer, any_database: str) -> None:
    with closing(connected(any_server)) as connection, connection.cursor() as cursor:
        for table, size in (("large", 3 << 20), ("small", 100)):
            cursor.execute(f"CREATE TABLE {any_database}.{table} (a LONGTEXT, b LONGBLOB, c LONGTEXT, d MEDIUMTEXT)")
            value = f"REPEAT('x', {size})"
            cursor.execute(f"INSERT INTO {any_database}.{table} VALUES ({value}, {value}, {value}, '')")
            cursor.execute(f"ANALYZE TABLE {any_database}.{table}")
    with connect(ConnectionOptions.from_url(any_server.url)) as session:
        selected = Selection([f"{any_database}.*"])
        [said] = large_rows(session, read_catalog(session, selected).tables)
        assert re.match(rf"a row of {any_database}\.large has \d+ MiB on average: one of more than 128 MiB", said.what)
        assert said.hint == f"exclude large columns: tables.{any_database}.large.exclude: [a]"
        without = Choice({"*.large": ["a", "b", "c"]})
        assert large_rows(session, read_catalog(session, selected, without).tables) == []


def test_names_in_hints_are_those_that_a_statement_needs(root: Session) -> None:
    for database, table, shown in (
        ("faulty", "order", "faulty.order"),
        ("faulty-1", "a.b", "`faulty-1`.`a.b`"),
        ("faulty", "9 lives`", "faulty.`9 lives```"),
    ):
        assert for_statements(database, table) == shown
        try:
            root.query(f"CREATE DATABASE {for_statements(database)}")
            root.query(f"CREATE TABLE {shown} (id INT PRIMARY KEY)")
            assert root.query(f"SELECT * FROM {shown}") == []
        finally:
            root.query(f"DROP DATABASE IF EXISTS {for_statements(database)}")


def test_tables_that_are_named_as_a_tools_are_told(root: Session) -> None:
    """One of the user's that is so called would be missed by nobody but its owner."""
    root.query("CREATE DATABASE tools")
    try:
        for name in ("t", "_t_old", "_u_gho"):
            root.query(f"CREATE TABLE tools.{name} (id int PRIMARY KEY)")
        said = found(check(root, Selection(["tools.*"])), "uncaptured")
        assert said.severity == "warning"
        assert "tools._t_old, tools._u_gho" in said.what
        assert "spells its name" in said.what
        findings = check(root, Selection(["tools.*", "tools._t_old", "!tools._u_gho"]))
        assert "uncaptured" not in {f.name for f in findings}
        assert "2 tables can be captured" in found(findings, "tables").what
    finally:
        root.query("DROP DATABASE tools")


@pytest.mark.parametrize(
    ("rule", "warned"),
    [
        ("ON DELETE CASCADE", True),
        ("ON DELETE SET NULL", True),
        ("ON UPDATE CASCADE", True),
        ("ON DELETE RESTRICT ON UPDATE SET NULL", True),
        ("ON DELETE NO ACTION", False),
        ("", False),
    ],
)
def test_foreign_keys_that_change_rows_unseen(root: Session, rule: str, warned: bool) -> None:
    root.query(
        "ALTER TABLE shop.orders ADD CONSTRAINT to_parent FOREIGN KEY (parent) REFERENCES shop.items (id)"
        f" {rule}"
    )  # fmt: skip
    try:
        findings = check(root, SHOP)
        assert bad(findings) == ([("foreign_keys", "warning")] if warned else [])
        if warned:
            finding = found(findings, "foreign_keys")
            assert finding.what.startswith("shop.orders: the foreign key to_parent has ON ")
            assert "verify" in finding.hint
        # what counts is the table whose rows change, not the one that it refers to
        assert bad(check(root, Selection(["shop.items"]))) == []
        require(findings)
    finally:
        root.query("ALTER TABLE shop.orders DROP FOREIGN KEY to_parent")


# --- require


def test_require_raises_the_first_error_and_nothing_else() -> None:
    ok, warning = Finding("a", "ok", "fine"), Finding("b", "warning", "so so", "look")
    error, other = Finding("c", "error", "first", "do this"), Finding("d", "error", "second", "do that")
    require([ok, warning])
    with pytest.raises(DefiniteError, match=r"^CDC-2016 server_unfit: first \[c\] Hint: do this$") as caught:
        require([ok, warning, error, other])
    assert type(caught.value) is DefiniteError
    with pytest.raises(ConfigError, match="first"):
        require([replace(error, code=codes.CONFIG_FILE_INVALID)])
