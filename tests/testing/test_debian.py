"""Packages by the real apt: what each kind of machine is told, and that nothing unsigned is taken.

A whole fetch is what the servers' tests begin with on a machine whose cache is empty.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest

from lakehouse_cdc.errors import DefiniteError, TransientError, codes
from lakehouse_cdc.testing import MySqlServer, debian
from lakehouse_cdc.testing.debian import downloaded, require_debian
from lakehouse_cdc.testing.distribution import install
from tests.remedies import remedy
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


@remedy(codes.PACKAGE_SOURCE_UNUSABLE)
def test_no_source_is_definite(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configured as this machine is, apt has one."""
    with pytest.raises(DefiniteError, match="no package source") as refused, downloaded("sid", "mysql-server-core"):
        pass
    assert refused.value.code is codes.PACKAGE_SOURCE_UNUSABLE
    assert (refused.value.where, refused.value.hint) == ("/etc/apt", "configure a Debian archive there")
    monkeypatch.delenv("APT_CONFIG")
    with downloaded("sid", "debian-archive-keyring") as packages:
        assert any(package.name.startswith("debian-archive-keyring_") for package in packages)


@pytest.mark.usefixtures("sources")  # skips where there is no dpkg-deb
@remedy(codes.PACKAGE_DAMAGED)
@pytest.mark.parametrize("left", [0.5, 0.0])
def test_a_damaged_package_is_downloaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: float) -> None:
    """The package is made here, since nobody else can sign one for Debian's archive."""
    tree, whole = tmp_path / "tree", tmp_path / "server_1_amd64.deb"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN" / "control").write_text(
        "Package: server\nVersion: 1\nArchitecture: amd64\nMaintainer: nobody\nDescription: a server\n"
    )
    (tree / "usr" / "sbin").mkdir(parents=True)
    (tree / "usr" / "sbin" / "mysqld").write_bytes(os.urandom(100_000))
    subprocess.run(["dpkg-deb", "--build", str(tree), str(whole)], check=True, capture_output=True)
    content = whole.read_bytes()
    monkeypatch.setenv("LAKEHOUSE_CDC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(debian, "downloaded", lambda *_: nullcontext([whole]))
    whole.write_bytes(content[: int(len(content) * left)])
    with pytest.raises(DefiniteError) as refused:
        install("mysql-9")
    assert refused.value.code is codes.PACKAGE_DAMAGED
    assert refused.value.hint.startswith("Try again: it is downloaded once more")
    assert not (tmp_path / "cache" / "mysql-9-linux").exists()
    whole.write_bytes(content)
    install("mysql-9")
    assert (tmp_path / "cache" / "mysql-9-linux" / "sbin" / "mysqld").stat().st_size == 100_000


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
