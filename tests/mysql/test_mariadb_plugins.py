"""MariaDB's ed25519 and parsec, by a server of 11.8 that has loaded them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from lakehouse_cdc.errors import CdcError, DefiniteError, codes
from lakehouse_cdc.mysql.binlog.dump import BinlogDump
from lakehouse_cdc.mysql.connection import parsec
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, connect
from lakehouse_cdc.mysql.preflight.connection import connection_findings
from lakehouse_cdc.mysql.server import log_position
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.debian import require_debian
from tests.support.mariadb_plugins import plugin_folder
from tests.support.servers import connected, start_or_skip

SECRET = "geheim-ß 'with' \\ all"
PLUGINS = ("ed25519", "parsec")


@pytest.fixture(scope="module")
def server() -> Iterator[MySqlServer]:
    """With both plugins."""
    try:
        require_debian("mariadb-11")
    except DefiniteError as error:
        pytest.skip(str(error))
    loaded = ";".join(f"auth_{plugin}" for plugin in PLUGINS)
    with start_or_skip("mariadb-11", options={"plugin_dir": str(plugin_folder()), "plugin_load_add": loaded}) as made:
        yield made


@pytest.fixture
def options(server: MySqlServer, request: pytest.FixtureRequest) -> Iterator[ConnectionOptions]:
    """Of an account that authenticates by the plugin."""
    account = "plugged@'127.0.0.1'"
    with closing(connected(server)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE USER {account} IDENTIFIED VIA {request.param} USING PASSWORD(%s)", (SECRET,))
        cursor.execute(f"GRANT SELECT, REPLICATION SLAVE, BINLOG MONITOR, SLAVE MONITOR ON *.* TO {account}")
        yield ConnectionOptions.from_url(f"mysql://plugged@127.0.0.1:{server.port}", password=SECRET)
        cursor.execute(f"DROP USER {account}")


@pytest.mark.mysql
@pytest.mark.parametrize("options", PLUGINS, indirect=True)
def test_let_in_and_refused(options: ConnectionOptions, server: MySqlServer) -> None:
    for tls in ("preferred", "disabled"):
        for purpose in ("query", "data"):
            with connect(replace(options, tls=tls), purpose=purpose) as session:
                assert session.account == "'plugged'@'127.0.0.1'"
    with connect(options) as session:
        [said] = [one.what for one in connection_findings(session) if one.name == "authentication"]
        assert said in ("plugged comes in by client_ed25519", "plugged comes in by parsec")
        with closing(BinlogDump(session.connection, log_position(session).position, server_id=4711)) as dump:
            dump.read(1)
    for wrong in ("", SECRET[:-1], SECRET + "x"):
        with pytest.raises(DefiniteError) as refused:
            connect(replace(options, password=wrong))
        assert refused.value.code is codes.ACCESS_DENIED


@pytest.mark.mysql
@pytest.mark.parametrize("options", ["ed25519"], indirect=True)
def test_without_the_package(options: ConnectionOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nacl", None)
    with pytest.raises(DefiniteError) as refused:
        connect(options)
    assert refused.value.code is codes.PACKAGE_MISSING
    assert "pip install pynacl" in refused.value.hint
    monkeypatch.undo()
    connect(options).close()


def test_a_derivation_that_takes_for_ever_is_refused() -> None:
    for salt in (b"P\x0bsalt", b"P\xffsalt", b"Q\0salt", b"", b"P", b"P\0"):
        with pytest.raises(CdcError) as refused:
            parsec.signed(b"password", bytes(32), salt)
        assert refused.value.code is codes.AUTHENTICATION_UNSUPPORTED
    with pytest.raises(CdcError):
        parsec.signed(b"password", bytes(31), b"P\0salt")


def test_random_bytes_of_both_sides_are_signed() -> None:
    one, other = (parsec.signed(b"password", bytes(32), b"P\0salt") for _ in range(2))
    assert len(one) == 96
    assert one[:32] != other[:32]
    assert one == parsec.signed(b"password", bytes(32), b"P\0salt", own=one[:32])
