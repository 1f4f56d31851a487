"""Packages by the real apt: what each kind of machine is told, and that nothing unsigned is taken.

A whole fetch is what the servers' tests begin with on a machine whose cache is empty.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse_cdc.errors import DefiniteError, TransientError, codes
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.debian import downloaded, require_debian
from tests.support.servers import start_or_skip

pytestmark = pytest.mark.mysql


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one sources.list that apt-get reads in this test."""
    try:
        require_debian("mysql-9")
    except DefiniteError as error:
        if error.code is not codes.SERVER_BUILD_MISSING:
            raise
        pytest.skip(str(error))
    path = tmp_path / "sources.list"
    path.touch()
    configuration = tmp_path / "apt.conf"
    configuration.write_text(
        f'Dir::Etc::SourceList "{path}"; Dir::Etc::SourceParts "/dev/null"; Acquire::Retries "0";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(configuration))
    return path


def test_a_machine_without_apt_is_skipped_and_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DefiniteError, match="no embedded mysql-9 for this platform, only for Linux x86-64 with apt"):
        require_debian("mysql-9")
    with pytest.raises(pytest.skip.Exception, match="no embedded mysql-9"):
        start_or_skip("mysql-9")


def test_another_fault_is_never_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LAKEHOUSE_CDC_CACHE", str(tmp_path / "file"))
    with pytest.raises(DefiniteError, match="the cache directory cannot be used"):
        start_or_skip("mysql-8.0")


def test_no_source_is_definite(sources: Path) -> None:
    with pytest.raises(DefiniteError, match="no package source"), downloaded("sid", "mysql-server-core"):
        pass


def test_no_network_is_transient(sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources.write_text("deb http://127.0.0.1:9/debian stable main\n")  # nothing listens there
    monkeypatch.setenv("LAKEHOUSE_CDC_CACHE", str(tmp_path / "cache"))
    with pytest.raises(TransientError, match=r"cannot fetch mysql-server-core of Debian sid.*127\.0\.0\.1:9"):
        MySqlServer.start(version="mysql-9")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["mysql-9-linux.lock"]


def test_an_archive_that_debian_has_not_signed_is_not_used(sources: Path, tmp_path: Path) -> None:
    suite = tmp_path / "archive" / "dists" / "sid"
    (suite / "main" / "binary-amd64").mkdir(parents=True)
    (suite / "main" / "binary-amd64" / "Packages").touch()
    (suite / "Release").write_text(
        "Origin: Debian\nSuite: sid\nCodename: sid\nComponents: main\nArchitectures: amd64\n"
    )
    sources.write_text(f"deb file:{tmp_path / 'archive'} sid main\n")
    with pytest.raises(TransientError, match="not signed"), downloaded("sid", "mysql-server-core"):
        pass
