"""Debian packages, fetched and verified by the machine's own apt, without any change to the machine.

Where packages come from is what this machine's apt is configured with (`apt-get update --print-uris` prints it), with
its proxies and certificates. The suite may be another one than the machine's: each configured archive is asked for it,
and one that does not have it, or that Debian has not signed, is passed over. Lists, cache and the status of installed
packages lie in a scratch directory, and that status is empty: so the plan is the package with all that it depends on,
down to the C library, and what is unpacked runs by its own loader whatever the machine has. apt verifies every package
against the signed index, which is verified against Debian's keyring.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lakehouse_cdc.errors import codes
from lakehouse_cdc.runtime.preparing import preparing
from lakehouse_cdc.testing.versions import Version, is_linux, no_build

_KEYRINGS = [Path("/usr/share/keyrings") / f"debian-archive-keyring.{end}" for end in ("gpg", "pgp")]
_PATIENCE = 900  # seconds for one command; the largest server comes with 60 MB of packages


def require_debian(version: Version) -> None:
    """Raise SERVER_BUILD_MISSING where there is no apt, or no keyring to verify Debian's archive with."""
    tools = shutil.which("apt-get") and shutil.which("dpkg-deb")
    if not (is_linux() and tools and any(path.exists() for path in _KEYRINGS)):
        raise no_build(version, "Linux x86-64 with apt and debian-archive-keyring")


@contextmanager
def downloaded(suite: str, package: str, what: str = "", *, alone: bool = False) -> Iterator[list[Path]]:
    """The package files (.deb) of a package and of everything it depends on, removed at the end of the block.

    They are said to be `what` while they are fetched. `alone`: the package's own file, without what it depends on.

    Raises TransientError where no archive delivers, DefiniteError where none is configured.
    """
    with tempfile.TemporaryDirectory(prefix="lakehouse-cdc-apt-") as name:
        scratch = Path(name)
        for directory in ("lists/partial", "cache/archives/partial"):
            (scratch / directory).mkdir(parents=True)
        (scratch / "status").touch()
        reasons = []
        for archive in _archives(scratch):
            try:
                with preparing(what or package, scratch):
                    _download(scratch, archive, suite, package, alone)
                break
            except _Unavailable as error:
                reasons.append(f"{archive}: {error}")
        else:
            raise codes.DOWNLOAD_FAILED.error(
                f"cannot fetch {package} of Debian {suite}",
                where="; ".join(reasons),
                hint="the first start needs a network; apt reads its sources and its proxy from /etc/apt",
            )
        yield sorted((scratch / "cache" / "archives").glob("*.deb"))


class _Unavailable(Exception):
    """This archive did not deliver."""


def _archives(scratch: Path) -> list[str]:
    """The archives that this machine's apt is configured with."""
    try:
        output = _run(["apt-get", f"-oDir::State::Lists={scratch / 'lists'}", "update", "--print-uris"])
    except _Unavailable as error:
        raise codes.PACKAGE_SOURCE_UNUSABLE.error(
            f"apt-get cannot tell its package sources: {error}", hint="run apt-get update"
        ) from error
    archives = list(dict.fromkeys(re.findall(r"^'(\S+?)/?/dists/\S+/InRelease'", output, re.MULTILINE)))
    if not archives:
        raise codes.PACKAGE_SOURCE_UNUSABLE.error(
            "apt has no package source", where="/etc/apt", hint="configure a Debian archive there"
        )
    return archives


def _download(scratch: Path, archive: str, suite: str, package: str, alone: bool) -> None:
    keyring = next(path for path in _KEYRINGS if path.exists())
    sources = scratch / "sources.list"
    sources.write_text(f"deb [arch=amd64 target=Packages signed-by={keyring}] {archive} {suite} main\n")
    settings = {
        "Dir::Etc::SourceList": sources,
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::Etc::Preferences": "/dev/null",
        "Dir::Etc::PreferencesParts": "/dev/null",
        "Dir::State": scratch,
        "Dir::State::Lists": scratch / "lists",
        "Dir::State::status": scratch / "status",
        "Dir::Cache": scratch / "cache",
        "Dir::Cache::Archives": scratch / "cache" / "archives",
        "Binary::apt-get::APT::Keep-Downloaded-Packages": "true",
        "Acquire::Languages": "none",
        "APT::Architecture": "amd64",
        "APT::Sandbox::User": "root",  # the unprivileged user of apt cannot read the scratch directory
        "APT::Update::Error-Mode": "any",
    }
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in settings.items())]
    _run([*apt, "update"])
    if alone:
        _run([*apt, "download", package], scratch / "cache" / "archives")
    else:
        _run([*apt, "install", "--download-only", "--yes", "--no-install-recommends", package])


def _run(command: Sequence[str], folder: Path | None = None) -> str:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PATIENCE, cwd=folder
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _Unavailable(str(error)) from error
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("E:")]
        raise _Unavailable(" ".join(lines[:2]) or f"exit code {done.returncode}")
    return done.stdout
