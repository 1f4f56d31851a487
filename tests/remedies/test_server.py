"""Codes 2xxx: the server, the connection and the rights are put right as the error says, and the stream continues."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, connect
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.settings import READER, READER_PASSWORD
from tests.remedies import remedy
from tests.support.commands import CONFIG, call
from tests.support.relay import relay
from tests.support.servers import connected
from tests.support.source.stage import Stage, on_stage
from tests.support.waiting import until

pytestmark = pytest.mark.mysql

PASSWORD = "s3cret"
Sql = Callable[[str], Any]


@pytest.fixture(scope="module")
def own() -> Iterator[MySqlServer]:
    """A server whose settings, rights and life are this module's."""
    with MySqlServer.start() as server:
        yield server


@pytest.fixture
def own_stage(own: MySqlServer, tmp_path: Path) -> Iterator[Stage]:
    """A stage on it, with the table `t`."""
    for stage in on_stage(own, "remedied", tmp_path):
        stage.create(rows=12)
        yield stage
        with closing(connected(own)) as connection:
            connection.cursor().execute("DROP DATABASE remedied")


@pytest.fixture
def sql(own_stage: Stage) -> Sql:
    return own_stage.run


@pytest.fixture
def user(sql: Sql) -> Iterator[str]:
    """An account with the rights of a reader."""
    sql(f"CREATE USER some@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'")
    sql("GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO some@'127.0.0.1'")
    yield "some"
    sql("DROP USER some@'127.0.0.1'")


@pytest.fixture
def file(own: MySqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pipeline over the stage's database, of the user `some`; its password is $SOME_PASSWORD."""
    monkeypatch.setenv("SOME_PASSWORD", PASSWORD)
    return configured(tmp_path, f"mysql://some@127.0.0.1:{own.port}")


def configured(folder: Path, url: str, *, database: str = "remedied", tls: str = "preferred") -> Path:
    path = folder / "pipeline.yml"
    secret = f"{url}\n  password: ${{env:SOME_PASSWORD}}\n  tls: {tls}"
    path.write_text(CONFIG.format(url=secret, database=database))
    return path


def refused(code: int, *arguments: str | Path) -> tuple[str, str]:
    """The code and the hint of the error that ends a command."""
    said = call(code, *arguments)
    return said["code"], said["hint"]


def finding(file: Path) -> tuple[str, str]:
    """The code and the hint of the only error that doctor finds."""
    [said] = [one for one in call(1, "doctor", "-c", file)["findings"] if one["severity"] == "error"]
    return said["code"], said["hint"]


# ---------------------------------------------------------------- reaching it, and being let in


@remedy(codes.CONNECTION_LOST)
def test_the_server_is_started(own: MySqlServer, own_stage: Stage, tmp_path: Path) -> None:
    driver = own_stage.driver()
    own_stage.snapshot(driver)
    file = configured(tmp_path, own.url)
    file.write_text(CONFIG.format(url=own.url, database="remedied"))
    own.kill()
    code, hint = refused(3, "doctor", "-c", file)
    assert code == codes.CONNECTION_LOST.label
    assert hint == "check host and port, and that the server runs"
    own.restart()
    call(0, "doctor", "-c", file)
    own_stage.connection.connect()
    own_stage.connection.select_db("remedied")
    own_stage.run("DELETE FROM t WHERE id = 10")
    own_stage.drain(driver)
    own_stage.same(driver)
    assert sum(change.op.value == "r" for change in driver.log) == 12, "no row is read again"


@remedy(codes.SERVER_OVERLOADED)
def test_a_limit_is_raised(own: MySqlServer, user: str, sql: Sql, file: Path) -> None:
    sql("ALTER USER some@'127.0.0.1' WITH MAX_USER_CONNECTIONS 1")
    with closing(own.connect(user=user, password=PASSWORD)):
        code, hint = refused(3, "doctor", "-c", file)
        assert code == codes.SERVER_OVERLOADED.label
        assert "raise its limit" in hint
        sql("ALTER USER some@'127.0.0.1' WITH MAX_USER_CONNECTIONS 5")
        call(0, "doctor", "-c", file)


@remedy(codes.SERVER_RESTARTING)
def test_the_server_leaves_the_offline_mode(own: MySqlServer, own_stage: Stage, user: str, file: Path) -> None:
    driver = own_stage.driver()
    own_stage.snapshot(driver)
    own_stage.run("SET GLOBAL offline_mode = ON")  # which ends the sessions of the stream
    try:
        code, hint = refused(3, "doctor", "-c", file)
        assert code == codes.SERVER_RESTARTING.label
        statement = re.search(r"\((SET GLOBAL .*)\)", hint)
        assert statement, hint
        own_stage.run(statement[1])
    finally:
        own_stage.run("SET GLOBAL offline_mode = OFF")
    call(0, "doctor", "-c", file)
    own_stage.run("DELETE FROM t WHERE id = 10")
    own_stage.drain(driver)
    own_stage.same(driver)


@remedy(codes.STATEMENT_INTERRUPTED)
def test_a_lock_is_looked_for(own: MySqlServer, own_stage: Stage, user: str, file: Path) -> None:
    answers: list[tuple[str, str]] = []
    with closing(connected(own, database="remedied")) as holder:
        holder.cursor().execute("LOCK TABLES t WRITE")
        thread = threading.Thread(target=lambda: answers.append(refused(3, "doctor", "-c", file)))
        thread.start()
        until(lambda: bool(waiting(own_stage)))
        own_stage.run(f"KILL QUERY {waiting(own_stage)[0]}")
        thread.join()
        [(code, hint)] = answers
        assert code == codes.STATEMENT_INTERRUPTED.label
        statement = re.search(r"locks \((.*)\), and run again", hint)
        assert statement, hint
        sleeping = [row[0] for row in own_stage.run(statement[1]) if row[4] == "Sleep" and row[3] == "remedied"]
        assert holder.thread_id() in sleeping  # type: ignore[no-untyped-call]
        own_stage.run(f"KILL {holder.thread_id()}")  # type: ignore[no-untyped-call]
    call(0, "doctor", "-c", file)


def waiting(stage: Stage) -> list[int]:
    """The sessions that wait for a lock."""
    return [row[0] for row in stage.run("SHOW PROCESSLIST") if row[6] == "Waiting for table metadata lock"]


@remedy(codes.ACCESS_DENIED, codes.TLS_FAILED)
def test_an_account_is_let_in(
    own: MySqlServer, user: str, sql: Sql, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = f"{user}@'127.0.0.1'"
    monkeypatch.setenv("SOME_PASSWORD", "another")
    code, hint = refused(3, "doctor", "-c", file)
    assert (code, hint.partition("(")[0]) == (codes.ACCESS_DENIED.label, "Check the user and the password ")
    monkeypatch.setenv("SOME_PASSWORD", PASSWORD)
    call(0, "doctor", "-c", file)
    for stuck, remedied, said in (
        ("ACCOUNT LOCK", "ACCOUNT UNLOCK", "unlock it (ALTER USER, ACCOUNT UNLOCK)"),
        ("PASSWORD EXPIRE", f"IDENTIFIED BY '{PASSWORD}2'", "give the user another one (ALTER USER, IDENTIFIED BY)"),
    ):
        sql(f"ALTER USER {account} {stuck}")
        code, hint = refused(3, "doctor", "-c", file)
        assert code == codes.ACCESS_DENIED.label
        assert hint.endswith(said)
        sql(f"ALTER USER {account} {remedied}")
        monkeypatch.setenv("SOME_PASSWORD", f"{PASSWORD}2" if "2" in remedied else PASSWORD)
        call(0, "doctor", "-c", file)
    for requires, ends, code_of in (
        (f"ALTER USER {account} REQUIRE SSL", f"ALTER USER {account} REQUIRE NONE", codes.ACCESS_DENIED),
        ("SET GLOBAL require_secure_transport = ON", "SET GLOBAL require_secure_transport = OFF", codes.TLS_FAILED),
    ):
        sql(requires)
        try:
            url = f"mysql://{user}@127.0.0.1:{own.port}"
            code, hint = refused(3, "doctor", "-c", configured(file.parent, url, tls="disabled"))
            assert code == code_of.label
            setting = re.search(r"source\.tls: (\w+)$", hint)
            assert setting, hint
            call(0, "doctor", "-c", configured(file.parent, url, tls=setting[1]))
        finally:
            sql(ends)


@remedy(codes.AUTHENTICATION_UNSUPPORTED)
@pytest.mark.parametrize("any_server", ["mariadb-11"], indirect=True)
@pytest.mark.parametrize("secure", ["ON", "OFF"])
def test_a_password_of_the_old_kind(
    any_server: MySqlServer, any_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secure: str
) -> None:
    """MySQL's plugins of that age are gone; MariaDB has this one, and refuses it unless `secure_auth` is off."""
    monkeypatch.setenv("SOME_PASSWORD", PASSWORD)
    with closing(connected(any_server)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {any_database}.t (id INT PRIMARY KEY)")
        cursor.execute(f"SELECT OLD_PASSWORD('{PASSWORD}')")
        [(old,)] = cursor.fetchall()
        cursor.execute(f"CREATE USER old@'127.0.0.1' IDENTIFIED VIA mysql_old_password USING '{old}'")
        cursor.execute("GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO old@'127.0.0.1'")
        cursor.execute(f"SET GLOBAL secure_auth = {secure}")
        try:
            file = configured(tmp_path, f"mysql://old@127.0.0.1:{any_server.port}", database=any_database)
            code, hint = refused(3, "doctor", "-c", file)
            assert code == codes.AUTHENTICATION_UNSUPPORTED.label
            plugin = re.search(r"on MariaDB by (\w+) \(ALTER USER\)", hint)
            assert plugin, hint
            cursor.execute(f"ALTER USER old@'127.0.0.1' IDENTIFIED VIA {plugin[1]} USING PASSWORD('{PASSWORD}')")
            call(0, "doctor", "-c", file)
        finally:
            cursor.execute("SET GLOBAL secure_auth = ON")
            cursor.execute("DROP USER old@'127.0.0.1'")


# ---------------------------------------------------------------- rights


@remedy(codes.RIGHT_MISSING)
@pytest.mark.parametrize("right", ["REPLICATION SLAVE", "REPLICATION CLIENT"])
def test_a_right_that_is_revoked_is_granted_again(own_stage: Stage, user: str, right: str) -> None:
    url = f"mysql://{user}@127.0.0.1:{own_stage.server.port}"
    driver = own_stage.driver(url=url, password=PASSWORD)
    own_stage.snapshot(driver)
    own_stage.run(f"REVOKE {right} ON *.* FROM {user}@'127.0.0.1'")
    own_stage.run("DELETE FROM t WHERE id = 10")
    driver.restart()
    with pytest.raises(DefiniteError) as caught:
        own_stage.drain(driver)
    assert caught.value.code is codes.RIGHT_MISSING
    assert caught.value.hint == f"GRANT {right} ON *.* TO '{user}'@'127.0.0.1'"
    own_stage.run(caught.value.hint)
    driver.restart()
    own_stage.drain(driver)
    own_stage.same(driver)
    assert sum(change.op.value == "r" for change in driver.log) == 12, "no row is read again"


@remedy(codes.RIGHT_MISSING)
def test_the_right_to_select(own_stage: Stage, user: str) -> None:
    own_stage.run(f"REVOKE SELECT ON *.* FROM {user}@'127.0.0.1'")
    url = f"mysql://{user}@127.0.0.1:{own_stage.server.port}"
    with connect(ConnectionOptions.from_url(url, password=PASSWORD)) as session:
        with pytest.raises(DefiniteError) as caught:
            session.query("SELECT id FROM remedied.t")
        assert caught.value.code is codes.RIGHT_MISSING
        own_stage.run(caught.value.hint.partition(", or")[0])
    with connect(ConnectionOptions.from_url(url, password=PASSWORD)) as session:
        assert len(session.query("SELECT id FROM remedied.t")) == 12


@remedy(codes.SERVER_UNFIT)
@pytest.mark.parametrize("right", ["REPLICATION SLAVE", "REPLICATION CLIENT"])
def test_what_doctor_finds_of_rights(own: MySqlServer, user: str, sql: Sql, file: Path, right: str) -> None:
    sql(f"REVOKE {right} ON *.* FROM {user}@'127.0.0.1'")
    found = finding(file)
    assert found == (codes.SERVER_UNFIT.label, f"GRANT {right} ON *.* TO '{user}'@'127.0.0.1'")
    assert refused(3, "run", "-c", file, "--once") == found
    sql(found[1])
    call(0, "doctor", "-c", file)


@remedy(codes.SELECTION_UNMATCHED, codes.TABLE_UNREADABLE)
def test_the_tables_are_granted(own_stage: Stage, user: str, file: Path) -> None:
    own_stage.run("CREATE TABLE closed (id INT PRIMARY KEY)")
    own_stage.run(f"REVOKE SELECT ON *.* FROM {user}@'127.0.0.1'")
    code, hint = finding(file)
    assert code == codes.SELECTION_UNMATCHED.label
    account = re.search(r"or GRANT SELECT ON \S+ TO (\S+)$", hint)
    assert account, hint
    own_stage.run(f"GRANT SELECT ON remedied.t TO {account[1]}")
    own_stage.run(f"GRANT INSERT ON remedied.closed TO {account[1]}")
    code, hint = finding(file)
    assert (code, hint) == (codes.TABLE_UNREADABLE.label, f"GRANT SELECT ON remedied.closed TO {account[1]}")
    own_stage.run(hint)
    call(0, "doctor", "-c", file)
    own_stage.run(f"REVOKE INSERT ON remedied.closed FROM {account[1]}")


@remedy(codes.XA_RECOVER_DENIED)
def test_prepared_transactions_may_be_seen(own_stage: Stage, user: str, file: Path) -> None:
    def warnings() -> set[str]:
        found = call(0, "doctor", "-c", file)["findings"]
        return {one["hint"] for one in found if one["name"] == "xa" and one["severity"] == "warning"}

    url = f"mysql://{user}@127.0.0.1:{own_stage.server.port}"
    with connect(ConnectionOptions.from_url(url, password=PASSWORD)) as session:
        with pytest.raises(DefiniteError) as caught:
            session.query("XA RECOVER")
        assert caught.value.code is codes.XA_RECOVER_DENIED
    assert warnings() == {f"if applications use XA: {caught.value.hint}"}
    own_stage.run(caught.value.hint)
    with connect(ConnectionOptions.from_url(url, password=PASSWORD)) as session:
        assert session.query("XA RECOVER") == []
    assert warnings() == set()


@remedy(codes.SETTLE_UNAVAILABLE)
def test_a_proof_that_needs_gtids_or_a_right(own_stage: Stage, user: str) -> None:
    modes = ("ON", "ON_PERMISSIVE")
    own_stage.run(f"SET GLOBAL gtid_mode = {modes[1]}")
    try:
        url = f"mysql://{user}@127.0.0.1:{own_stage.server.port}"
        with pytest.raises(DefiniteError) as caught:
            own_stage.snapshot(own_stage.driver(url=url, password=PASSWORD, settle="gtid"))
        assert caught.value.code is codes.SETTLE_UNAVAILABLE
        others = re.fullmatch(r"use auto, (\w+) or age", caught.value.hint)
        assert others, caught.value.hint
        with pytest.raises(DefiniteError) as caught:
            own_stage.snapshot(own_stage.driver(url=url, password=PASSWORD, settle=others[1]))
        assert caught.value.code is codes.SETTLE_UNAVAILABLE
        own_stage.run(caught.value.hint)
        driver = own_stage.driver(url=url, password=PASSWORD, settle=others[1])
        own_stage.snapshot(driver)
        own_stage.run("DELETE FROM t WHERE id = 10")
        own_stage.drain(driver)
        own_stage.same(driver)
    finally:
        own_stage.run(f"SET GLOBAL gtid_mode = {modes[0]}")


# ---------------------------------------------------------------- what stands between, and what cannot run here


@remedy(codes.SERVER_CHANGED)
def test_the_url_names_one_server(mysql: MySqlServer, own_stage: Stage) -> None:
    """What leads to a server here, and to another one later, is named; the stream continues at the first."""
    with relay(own_stage.server.port) as moving:
        driver = own_stage.driver(url=f"mysql://cdc@127.0.0.1:{moving.port}")
        own_stage.snapshot(driver)
        own_stage.run("DELETE FROM t WHERE id = 10")
        assert driver.plan()
        moving.to = mysql.port
        with pytest.raises(DefiniteError) as caught:
            driver.read()
    assert caught.value.code is codes.SERVER_CHANGED
    assert caught.value.hint.startswith("let source.url name one server")
    driver.options["url"] = f"mysql://cdc@127.0.0.1:{own_stage.server.port}"
    driver.restart()
    own_stage.drain(driver)
    own_stage.same(driver)


@remedy(codes.SERVER_ANSWER_UNEXPECTED)
@pytest.mark.parametrize(
    ("version", "what"), [(b"latest", "the greeting of the server"), (b"8.next", "'8.next' is not the version")]
)
def test_the_url_names_the_server_itself(own_stage: Stage, version: bytes, what: str) -> None:
    """What is between answers with a version that none has."""
    with relay(own_stage.server.port, instead=(b"8.0.31", version)) as between:
        driver = own_stage.driver(url=f"mysql://cdc@127.0.0.1:{between.port}")
        with pytest.raises(DefiniteError) as caught:
            own_stage.snapshot(driver)
    assert caught.value.code is codes.SERVER_ANSWER_UNEXPECTED
    assert what in caught.value.what
    assert caught.value.hint.startswith("Let source.url name the server itself")
    driver.options["url"] = f"mysql://cdc@127.0.0.1:{own_stage.server.port}"
    driver.restart()
    own_stage.snapshot(driver)
    own_stage.same(driver)


@remedy(codes.TABLE_NAME_CASE)
def test_a_table_is_renamed_to_lower_case(own_stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No server on Linux has lower_case_table_names = 2; one that says so stands between."""
    monkeypatch.setenv("SOME_PASSWORD", READER_PASSWORD)
    own_stage.run("RENAME TABLE t TO Orders")
    setting = b"\x16lower_case_table_names\x01"
    with relay(own_stage.server.port, instead=(setting + b"0", setting + b"2")) as between:
        file = configured(tmp_path, f"mysql://{READER}@127.0.0.1:{between.port}", tls="disabled")
        code, hint = finding(file)
        assert code == codes.TABLE_NAME_CASE.label
        assert hint == "rename it to lower case, or leave it out"
        own_stage.run("RENAME TABLE Orders TO orders")
        call(0, "doctor", "-c", file)


# ---------------------------------------------------------------- statements


@remedy(codes.OBJECT_MISSING)
@pytest.mark.parametrize(
    ("misspelt", "said"),
    [
        ("id FROM remedy.t", "check the name of the database"),
        ("id FROM remedied.tt", "or its name is misspelt."),
        ("ids FROM remedied.t", "or its name is misspelt."),
    ],
)
def test_a_name_is_corrected(own_stage: Stage, misspelt: str, said: str) -> None:
    """Of a session alone: a stream takes a table that is not there any more for one that was dropped or renamed."""
    with connect(ConnectionOptions.from_url(own_stage.server.url)) as session:
        with pytest.raises(DefiniteError) as caught:
            session.query(f"SELECT {misspelt}")
        assert caught.value.code is codes.OBJECT_MISSING
        assert caught.value.hint.endswith(said)
        assert len(session.query("SELECT id FROM remedied.t")) == 12


@remedy(codes.TABLE_READ_REFUSED)
def test_the_server_says_what_it_refuses(own_stage: Stage) -> None:
    """It does not compute the values of a virtual column as that is added, but as they are read."""
    own_stage.run("ALTER TABLE t ADD COLUMN large BIGINT DEFAULT 9000000000000000000")
    own_stage.run("ALTER TABLE t ADD COLUMN squared BIGINT AS (large * large) VIRTUAL")
    driver = own_stage.driver()
    with pytest.raises(DefiniteError) as caught:
        own_stage.snapshot(driver)
    assert (caught.value.code, caught.value.table) == (codes.TABLE_READ_REFUSED, own_stage.name())
    assert caught.value.position
    assert caught.value.hint.startswith("Read the server's message in the error, and change what it names; then: ")
    assert "BIGINT value is out of range in '(`large` * `large`)'" in caught.value.what
    own_stage.run("ALTER TABLE t DROP COLUMN squared")
    driver.restart()
    own_stage.snapshot(driver)
    own_stage.drain(driver)
    own_stage.same(driver)


# ---------------------------------------------------------------- last: the server restarts without a binlog


@pytest.mark.long
@remedy(codes.BINLOG_DISABLED, codes.SERVER_UNFIT)
def test_the_binlog_is_switched_on(own: MySqlServer, own_stage: Stage, tmp_path: Path) -> None:
    file = configured(tmp_path, own.url)
    file.write_text(CONFIG.format(url=own.url, database="remedied"))
    driver = own_stage.driver()
    own_stage.snapshot(driver)
    own.restart({"disable_log_bin": None})
    own_stage.connection.connect()
    own_stage.connection.select_db("remedied")
    code, hint = finding(file)
    assert (code, hint) == (codes.SERVER_UNFIT.label, "set log_bin in the server's option file and restart it")
    driver.restart()
    with pytest.raises(DefiniteError) as caught:
        driver.batch()
    assert caught.value.code is codes.BINLOG_DISABLED
    options = re.fullmatch(r"Start the server with (log_bin) and (binlog_format) = (ROW)\.", caught.value.hint)
    assert options, caught.value.hint
    own.restart({options[1]: "mysql-bin", options[2]: options[3]})
    own_stage.connection.connect()
    own_stage.connection.select_db("remedied")
    call(0, "doctor", "-c", file)
    driver.restart()
    own_stage.run("DELETE FROM t WHERE id = 10")
    own_stage.drain(driver)
    own_stage.same(driver)
    assert sum(change.op.value == "r" for change in driver.log) == 12, "no row is read again"
