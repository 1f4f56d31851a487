"""The plugins of MariaDB 11.8 by which users are let in, from the Debian package that has them; fetched once."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from lakehouse_cdc.runtime.cache import cache_directory, locked, publish
from lakehouse_cdc.testing import debian


def plugin_folder() -> Path:
    """The folder for the server's `plugin_dir`."""
    home = cache_directory() / "mariadb-11.8-login-plugins"
    if not home.exists():
        with locked(home.with_suffix(".lock")):
            publish(home, _fetch)
    return home


def _fetch(home: Path) -> None:
    home.mkdir()
    with debian.downloaded("trixie", "mariadb-server", "plugins of MariaDB (4 MB)", alone=True) as [package]:
        unpacked = package.parent / "unpacked"
        subprocess.run(["dpkg-deb", "--extract", str(package), str(unpacked)], check=True)
        for plugin in (unpacked / "usr/lib/mysql/plugin").glob("auth_*.so"):
            shutil.copy(plugin, home)
