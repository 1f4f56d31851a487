"""Encrypted binlogs: the server decrypts for its readers, and nothing is where the files' sizes would have it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.mysql import server
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, connect
from lakehouse_cdc.mysql.preflight.settings import Settings, judge
from lakehouse_cdc.runtime.cache import ENVIRONMENT
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.distribution import install
from tests.support.servers import start_or_skip
from tests.support.source.stage import Stage, on_stage

pytestmark = pytest.mark.mysql


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySqlServer]:
    """A server with a keyring, which is named beside the program: so from a copy of it.

    The builds of 8.0 and of MariaDB are without any.
    """
    folder = tmp_path_factory.mktemp("encrypted")
    try:
        installed = Path(install("mysql-9").settings["basedir"])
    except DefiniteError as error:
        if error.code is not codes.SERVER_BUILD_MISSING:
            raise
        pytest.skip(str(error))
    home = folder / "cache" / installed.name
    shutil.copytree(installed, home, symlinks=True)
    (home / "sbin" / "mysqld.my").write_text('{"components": "file://component_keyring_file"}')
    keyring = home / "lib" / "mysql" / "plugin" / "component_keyring_file.cnf"
    keyring.write_text(f'{{"path": "{folder / "keyring"}", "read_only": false}}')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ENVIRONMENT, str(home.parent))
        started = start_or_skip("mysql-9", options={"binlog_encryption": "ON"})
    with started:
        yield started


@pytest.fixture
def stage(encrypted: MySqlServer, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    yield from on_stage(encrypted, request.function.__name__, tmp_path)


def magic(stage: Stage) -> list[bytes]:
    """How each binlog file begins on the server's disk."""
    data = stage.server.directory / "data"
    return [(data / str(row[0])).read_bytes()[:4] for row in stage.run("SHOW BINARY LOGS")]


@pytest.mark.long
def test_a_stream(stage: Stage) -> None:
    stage.create(rows=30)
    driver = stage.driver()
    stage.snapshot(driver)
    for n in range(4):
        stage.run("UPDATE t SET v = v + 1")
        stage.run("FLUSH BINARY LOGS")
        stage.run(f"INSERT INTO t VALUES ({n + 1}, 0)")
        if n == 1:
            stage.drain_twice(driver)
    driver.restart()
    stage.drain_twice(driver)
    stage.same(driver)
    assert set(magic(stage)) == {b"\xfdbin"}


def test_encryption_is_switched_off_and_on(stage: Stage) -> None:
    stage.create(rows=3)
    driver = stage.driver()
    stage.snapshot(driver)
    for n, value in enumerate(("OFF", "ON", "OFF", "ON"), start=1):
        stage.run(f"SET GLOBAL binlog_encryption = {value}")  # it begins a file
        stage.run(f"INSERT INTO t VALUES ({n}, 0)")
        if n == 2:
            stage.drain(driver)
    assert set(magic(stage)[-4:]) == {b"\xfebin", b"\xfdbin"}
    stage.drain(driver)
    stage.same(driver)


def test_sizes_are_positions(stage: Stage) -> None:
    """What lies behind the end of a file is known to be missing."""
    stage.create(rows=3)
    driver = stage.driver()
    stage.snapshot(driver)
    with connect(ConnectionOptions.from_url(stage.server.url)) as session:
        file, pos = stage.position()
        assert server.binary_logs(session)[-1] == (file, pos)
    driver.offset["pos"] += 1
    driver.restart()
    with pytest.raises(DefiniteError, match=f"{file} ends at {pos}"):
        driver.plan()


def test_the_doctor_says_so(stage: Stage) -> None:
    with connect(ConnectionOptions.from_url(stage.server.url)) as session:
        told = {finding.name: finding.what for finding in judge(Settings.of(session))}
    assert "the server decrypts" in told["binlog_encryption"]
