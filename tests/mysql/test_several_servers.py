"""A url of several servers: which of them a session reaches, and what `doctor` says of the others."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from lakehouse_cdc.errors import ConfigError, TransientError, codes
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, connect
from lakehouse_cdc.mysql.preflight.group import others
from lakehouse_cdc.options.kinds import Url
from lakehouse_cdc.testing import MySqlServer
from tests.support.servers import start_or_skip


@pytest.fixture(scope="module")
def second() -> Iterator[MySqlServer]:
    """Another server, of no group."""
    with start_or_skip("mysql-8.0", options={"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"}) as server:
        yield server


def silent() -> int:
    """A port where nobody answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return int(listener.getsockname()[1])


def options(*ports: int) -> ConnectionOptions:
    url = "mysql://root@" + ",".join(f"127.0.0.1:{port}" for port in ports)
    return ConnectionOptions.from_url(url, tls="disabled")


def test_the_first_that_answers_or_the_one_that_is_wanted(mysql: MySqlServer, second: MySqlServer) -> None:
    with connect(options(mysql.port)) as one, connect(options(second.port)) as two:
        first, wanted = one.server_uuid, two.server_uuid
    three = options(silent(), mysql.port, second.port)
    with connect(three) as session:
        assert (session.server_uuid, session.options.port, session.options.others) == (first, mysql.port, ())
    with connect(three, server=wanted) as session:
        assert session.server_uuid == wanted
    with connect(three, server="none of them") as session:
        assert session.server_uuid == first
    with pytest.raises(TransientError):  # the one that does not answer may be it
        connect(three, server="none of them", only=True)
    with connect(options(mysql.port, second.port), server="none of them", only=True) as session:
        assert session.server_uuid == first
    with pytest.raises(TransientError):
        connect(options(silent(), silent()))


def test_what_a_url_of_several_servers_is() -> None:
    both = ConnectionOptions.from_url("mysql://a%40b@one:3307,two,[::1]:3308")
    assert (both.host, both.port, both.user) == ("one", 3307, "a@b")
    assert both.others == (("two", 3306), ("::1", 3308))
    assert Url().check(["mysql://cdc@one:3306", "mysql://cdc@two/"]) == "mysql://cdc@one:3306,two"
    assert Url().check("mysql://cdc@one,two:3307") == "mysql://cdc@one,two:3307"
    for wrong in ("mysql://cdc@one,,two", "mysql://cdc@one,two:x", Url().check(["mysql://a@one", "mysql://b@two"])):
        with pytest.raises(ConfigError) as caught:
            ConnectionOptions.from_url(wrong)
        assert caught.value.code is codes.URL_INVALID


def test_doctor_speaks_of_each_other_server(mysql: MySqlServer, second: MySqlServer) -> None:
    dead = silent()
    three = options(mysql.port, second.port, dead)
    with connect(three) as session:
        said = {finding.name: finding for finding in others(session, three)}
    assert said.keys() == {f"127.0.0.1:{second.port}", f"127.0.0.1:{dead}"}
    assert "gtid_mode is not ON" in said[f"127.0.0.1:{second.port}"].what
    assert "it does not answer" in said[f"127.0.0.1:{dead}"].what
    assert {finding.severity for finding in said.values()} == {"warning"}
