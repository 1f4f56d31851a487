"""Every server that there is: its version, its binlog, its reader, and how it ends and comes back."""

from __future__ import annotations

import ssl
import struct
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import pymysql
import pytest

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.testing import VERSIONS, MySqlServer, Version
from lakehouse_cdc.testing.place import Place, State, greeting
from tests.support.servers import gone, start_or_skip

pytestmark = [pytest.mark.mysql, pytest.mark.every_server]

RELEASES = {
    "mysql-5.7": "5.7.22-log",
    "mysql-8.0": "8.0.31",
    "mysql-9": "9.",
    "mariadb-10.11": "10.11.5-MariaDB",
    "mariadb-11": "11.8.",
}
READER: dict[str, Any] = {"user": "cdc", "password": "cdc-secret"}
COM_BINLOG_DUMP, NON_BLOCKING, ROTATE_EVENT = 0x12, 1, 4


def ask(server: MySqlServer, *queries: str, **settings: Any) -> list[tuple[Any, ...]]:
    """What the last query answers."""
    with closing(server.connect(autocommit=True, **settings)) as connection, connection.cursor() as cursor:
        for query in queries:
            cursor.execute(query)
        return list(cursor.fetchall())


def test_the_versions_are_told() -> None:
    assert set(RELEASES) == set(VERSIONS) == set(get_args(Version))


def test_mysql_8_4() -> None:
    """What its documentation says that it has no more (SHOW MASTER STATUS, 8.4) is gone from 9 as well."""
    pytest.skip("MySQL 8.4: there is no build of it that could be fetched; its neighbours 8.0 and 9 are tested")


def test_it_is_the_server_that_was_asked_for(any_server: MySqlServer) -> None:
    release = RELEASES[any_server.version]
    assert (greeting(any_server.port) or "").startswith(release)
    assert ask(any_server, "SELECT VERSION()")[0][0].startswith(release)


def test_the_binlog_has_whole_rows(any_server: MySqlServer, any_database: str) -> None:
    metadata = "'FULL'" if any_server.version == "mysql-5.7" else "@@binlog_row_metadata"
    settings = f"@@log_bin, @@binlog_format, @@binlog_row_image, {metadata}, @@sync_binlog, @@character_set_server"
    assert ask(any_server, f"SELECT {settings}") == [(1, "ROW", "FULL", "FULL", 0, "utf8mb4")]
    ask(any_server, f"CREATE TABLE {any_database}.t (id INT PRIMARY KEY)")
    file, start = ask(any_server, "SHOW BINARY LOGS")[-1][:2]
    ask(any_server, f"INSERT INTO {any_database}.t VALUES (1)", f"DELETE FROM {any_database}.t")
    kinds = [event[2].removesuffix("_v1") for event in ask(any_server, f"SHOW BINLOG EVENTS IN '{file}' FROM {start}")]
    rows = [
        kind for kind in kinds if kind.endswith("_rows") and kind != "Annotate_rows"
    ]  # MariaDB's text of a statement
    assert rows == ["Write_rows", "Delete_rows"]
    assert kinds[0].lower() == "gtid"


def test_the_reader_reads_and_no_more(any_server: MySqlServer, any_database: str) -> None:
    ask(any_server, f"CREATE TABLE {any_database}.t (id INT PRIMARY KEY)", f"INSERT INTO {any_database}.t VALUES (7)")
    assert ask(any_server, f"SELECT * FROM {any_database}.t", **READER) == [(7,)]
    file = ask(any_server, "SHOW BINARY LOGS", **READER)[-1][0]
    status = "BINARY LOG" if any_server.version == "mysql-9" else "MASTER"
    assert ask(any_server, f"SHOW {status} STATUS", **READER)[0][0] == file
    with closing(any_server.connect(**READER)) as connection, connection.cursor() as cursor:
        cursor.execute("SET @master_binlog_checksum = @@global.binlog_checksum")
        dump: Any = connection
        dump._execute_command(COM_BINLOG_DUMP, struct.pack("<IHI", 4, NON_BLOCKING, 4711) + file.encode())
        first = dump._read_packet().get_all_data()
        assert (first[0], first[5]) == (0, ROTATE_EVENT)  # after the OK byte: timestamp, then the type
        assert file.encode() in first
    for write in (f"INSERT INTO {any_database}.t VALUES (8)", "CREATE DATABASE test", f"DROP TABLE {any_database}.t"):
        with pytest.raises(pymysql.MySQLError, match="denied"):
            ask(any_server, write, **READER)


def test_tls_is_offered_where_clients_of_today_can_take_it(any_server: MySqlServer) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if any_server.version == "mysql-5.7":
        with pytest.raises(pymysql.OperationalError, match="doesn't support"):
            ask(any_server, "SELECT 1", ssl=context, **READER)
        return
    [(_, spoken)] = ask(any_server, "SHOW STATUS LIKE 'Ssl_version'", ssl=context, **READER)
    assert spoken == "TLSv1.3"


@pytest.mark.long
@pytest.mark.parametrize("version", [v for v in VERSIONS if v != "mysql-8.0"])  # which test_server does this with
def test_a_kept_directory_survives_a_crash_and_is_left_clean(tmp_path: Path, version: Version) -> None:
    home = tmp_path / "server"
    with start_or_skip(version, home, {"max_connections": "33"}) as server:
        port, killed = server.port, server.pid
        ask(server, "CREATE DATABASE kept", "CREATE TABLE kept.t (id INT PRIMARY KEY)")
        for n in range(20):
            ask(server, f"INSERT INTO kept.t VALUES ({n})")
        server.kill()
        assert killed is not None
        assert gone(killed)
        with pytest.raises(DefiniteError, match=rf"{version} does not start.*no_such_option"):
            server.restart({"no_such_option": "1"})
        server.restart({"max_connections": "44"})
        assert server.port == port
        assert ask(server, "SELECT COUNT(*), @@max_connections FROM kept.t") == [(20, 44)]
        stopped = server.pid
        assert stopped not in (None, killed)
    assert server.pid is None
    assert stopped is not None
    assert gone(stopped)
    with pytest.raises(DefiniteError, match=f"the data of {version}, not of mysql-8.0"):
        MySqlServer.start(home)


def test_a_directory_of_before_there_were_versions_is_of_8_0(tmp_path: Path) -> None:
    written: Any = {"version": "8.0.31", "port": 20001, "options": {}}
    Place(tmp_path).write_state(written)
    assert Place(tmp_path).state("mysql-8.0") == State(version="mysql-8.0", port=20001, options={})
    with pytest.raises(DefiniteError, match=r"mysql-8\.0, not of mysql-9"):
        Place(tmp_path).state("mysql-9")
