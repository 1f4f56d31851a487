"""The statements that a session begins with: which are taken, and that none changes what the session relies on."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse_cdc.errors import ConfigError, DefiniteError, codes
from lakehouse_cdc.mysql.connection.init_commands import VARIABLES, checked
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, Session, connect
from lakehouse_cdc.testing import MySqlServer
from tests.support.servers import connected

_OF_ITS_OWN = {"last_insert_id", "pseudo_thread_id", "rand_seed1", "rand_seed2", "timestamp", "error_count"} | {
    "warning_count", "identity", "insert_id", "in_transaction", "last_gtid", "statement_id", "gtid_owned",
    "innodb_ft_aux_table", "external_user", "proxy_user",
}  # fmt: skip

TAKEN = [
    "SET ROLE reader", "set role 'the reader'@'%', `b`", "SET ROLE ALL EXCEPT a@localhost", "SET ROLE NONE",
    "SET RESOURCE GROUP slow", "SET SESSION wsrep_sync_wait = 1, optimizer_switch = 'mrr=on'",
    "SET @@session.sort_buffer_size = 100000, @@join_buffer_size := 100000", " SET long_query_time = 0.5 ",
    "SET LOCAL optimizer_search_depth = DEFAULT", "SET optimizer_switch = 'mrr=on, time_zone = 1'",
]  # fmt: skip
REFUSED = [
    "SET time_zone = '+01:00'", "SET sort_buffer_size = 1, sql_mode = ''", "SET sort_buffer_size = f()",
    "SET GLOBAL sort_buffer_size = 1", "SET PERSIST sort_buffer_size = 1", "SET @@global.sort_buffer_size = 1",
    "BEGIN", "START TRANSACTION", "SET ROLE a; DROP TABLE t", "SET NAMES latin1", "SET CHARACTER SET latin1",
    "SET optimizer_switch = 'a', time_zone = 'b'", "SET sort_buffer_size = 1;", "SET PASSWORD = 'x'", "SET @a = 1",
    "SET STATEMENT sort_buffer_size = 1 FOR SELECT 1", "SET ROLE a /* x */", "SET ROLE a -- x", "SET ROLE a # x",
    "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED", "SET sort_buffer_size = (SELECT 1)", "SET ROLE 'a\\' , b'",
    "SET sort_buffer_size = 'a\\', time_zone = 'x'", "SET optimizer_switch = \"a', time_zone='b\"", "SET", "",
    "SET DEFAULT ROLE a TO b", "SELECT 1", "SET sql_log_bin = 0", "SET max_statement_time = 1", "SET autocommit = 0",
    "SET ſort_buffer_size = 1", "LOCK TABLES t READ", "SET sort_buffer_size = 1 sql_mode = ''", "KILL 1",
]  # fmt: skip


@pytest.mark.parametrize("statement", TAKEN)
def test_what_is_taken(statement: str) -> None:
    assert checked([statement]) == (statement,)


@pytest.mark.parametrize("statement", REFUSED)
def test_what_is_refused(statement: str) -> None:
    for statements in ([statement], ["SET ROLE reader", statement]):
        with pytest.raises(ConfigError) as refused:
            checked(statements)
        assert refused.value.code is codes.INIT_COMMAND_INVALID


_PIECES = ("SET", "ROLE", "SESSION", "GLOBAL", "time_zone", "sort_buffer_size", "=", ",", "'", '"', "`", ";", "1", "a",
           "(", ")", " ", "\n", "\\", "--", "/*", "@@", ".", "optimizer_switch", ":=", "@")  # fmt: skip


@given(st.lists(st.sampled_from(_PIECES), max_size=14))
@example(["SET", " ", "sort_buffer_size", "=", "'", ",", "time_zone", "=", "'"])
def test_no_other_variable_stands_outside_of_a_text(pieces: list[str]) -> None:
    """Whatever is taken, without its texts in quotes, names no other variable, and ends with its only statement."""
    text = "".join(pieces)
    try:
        checked([text])
    except ConfigError:
        return
    outside = "".join(text.split("'")[::2])
    assert "ROLE" in outside or not {"time_zone", "GLOBAL", "("} & {one for one in _PIECES if one in outside}
    assert ";" not in outside
    assert "--" not in outside
    assert "/*" not in outside


# ---------------------------------------------------------------- on servers


def variables(session: Session) -> dict[str, str]:
    found = {str(name): str(value) for name, value in session.query("SHOW SESSION VARIABLES")}
    return {name: value for name, value in found.items() if name not in _OF_ITS_OWN}


def begun_with(options: ConnectionOptions) -> dict[str, str]:
    """The variables of such a session; {} where the server does not take the value."""
    try:
        with connect(options) as session:
            return variables(session)
    except DefiniteError as error:
        if error.code is not codes.INIT_COMMAND_REFUSED:
            raise
        return {}


def literal(value: str) -> str:
    """A value of the kind that a variable has now, and another one where that is simple."""
    return str(int(value) + 4096) if value.isdigit() and value != "0" else "DEFAULT" if value == "0" else f"'{value}'"


@pytest.mark.every_server
def test_a_session_differs_in_what_was_set_alone(any_server: MySqlServer) -> None:
    """Each variable that is taken, and that the server has, may be set, and none changes a variable that is not."""
    options = ConnectionOptions.from_url(any_server.url)
    with connect(options) as session:
        before = variables(session)
    tried = {
        name: value
        for name, value in before.items()
        if taken(f"SET {name} = DEFAULT") and not name.startswith("optimizer_trace")
    }
    assert len(tried) >= 10
    assert {"sort_buffer_size", "optimizer_switch", "long_query_time"} <= tried.keys()
    changed = set()
    for name, value in tried.items():
        statements = (f"SET SESSION {name} = {literal(value)}",)
        after = begun_with(replace(options, init_commands=statements)) or before
        differing = {one for one in before if before[one] != after[one]}
        assert differing <= tried.keys(), statements
        changed |= differing
    assert len(changed) >= 5, changed


def taken(statement: str) -> bool:
    try:
        return bool(checked([statement]))
    except ConfigError:
        return False


def test_the_variables_are_names() -> None:
    assert all(taken(f"SET {name.replace('[a-z_]+', 'switch')} = 1") for name in VARIABLES)


@pytest.mark.every_server
def test_a_role_that_has_the_rights(any_server: MySqlServer, any_database: str) -> None:
    with closing(connected(any_server)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {any_database}.t (id INT PRIMARY KEY)")
        cursor.execute("CREATE USER roled@'127.0.0.1' IDENTIFIED BY 'pw'")
        options = ConnectionOptions.from_url(f"mysql://roled@127.0.0.1:{any_server.port}", password="pw")
        with_role = replace(options, init_commands=("SET ROLE seeing",))
        try:
            with pytest.raises(DefiniteError) as refused:
                connect(with_role)
            assert refused.value.code is codes.INIT_COMMAND_REFUSED
            assert "SET ROLE seeing" in refused.value.where
            if any_server.version == "mysql-5.7":
                return  # it knows no roles
            cursor.execute("CREATE ROLE seeing")
            cursor.execute(f"GRANT SELECT ON {any_database}.* TO seeing")
            cursor.execute("GRANT seeing TO roled@'127.0.0.1'")
            with connect(options) as session, pytest.raises(DefiniteError):
                session.query(f"SELECT * FROM {any_database}.t")
            with connect(with_role) as session:
                assert session.query(f"SELECT * FROM {any_database}.t") == []
            cursor.execute("DROP ROLE seeing")
        finally:
            cursor.execute("DROP USER roled@'127.0.0.1'")
