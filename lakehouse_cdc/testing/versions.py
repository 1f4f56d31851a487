"""Which servers there are to start, and the error that says that a platform has none.

MySQL 5.7, 8.0 and MariaDB 10.11 are pinned to one release: what runs is what was tried. MySQL 9 and MariaDB 11 have no
build that could be pinned: they are the releases of 9 and 11.8 that Debian's suites sid and trixie have on the day of
the first fetch.
"""

from __future__ import annotations

import platform
import sys
from typing import Literal, get_args

from lakehouse_cdc.errors import DefiniteError, codes

Version = Literal["mysql-5.7", "mysql-8.0", "mysql-9", "mariadb-10.11", "mariadb-11"]
VERSIONS: tuple[Version, ...] = get_args(Version)
MARIADB: tuple[Version, ...] = ("mariadb-10.11", "mariadb-11")

# what a server's own version begins with
RELEASES: dict[Version, str] = {
    "mysql-5.7": "5.7.22",
    "mysql-8.0": "8.0.31",
    "mysql-9": "9.",
    "mariadb-10.11": "10.11.5",
    "mariadb-11": "11.8.",
}


def no_build(version: Version, wanted: str) -> DefiniteError:
    """The error, with the platforms that have a build."""
    return codes.SERVER_BUILD_MISSING.error(
        f"there is no embedded {version} for this platform, only for {wanted}",
        where=f"{sys.platform} {platform.machine().lower()}",
        hint="use a server of yours: --url mysql://user@host:3306",
    )


def is_linux() -> bool:
    """Whether this is Linux x86-64 with glibc; a libc other than that (Alpine's musl) cannot run the builds."""
    return (
        sys.platform.startswith("linux")
        and platform.machine().lower() in ("x86_64", "amd64")
        and platform.libc_ver()[0] == "glibc"
    )
