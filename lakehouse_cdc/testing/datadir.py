"""A new data directory: made once by the server, kept in the cache, and copied from then on.

MySQL writes 1.3 GB to make a directory of 155 MB, which takes seconds each time; the copy takes tenths of one. What is
made depends on the build, on the settings that it is made with, and on the accounts' SQL. A hash of all that is in its
name, so another recipe never finds it. It is copied after the server has shut down in order, when files are all there
is. MySQL's `auto.cnf` is left out: each server makes its own, and with it the `server_uuid` that distinguishes it from
others.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from lakehouse_cdc.errors import codes
from lakehouse_cdc.runtime.cache import locked, publish
from lakehouse_cdc.testing.certificate import write_certificate
from lakehouse_cdc.testing.distribution import Distribution, complaint
from lakehouse_cdc.testing.settings import accounts, storage, system_tables
from lakehouse_cdc.testing.versions import MARIADB, Version


def create(data: Path, version: Version, distribution: Distribution) -> None:
    """Make `data` (which must not exist) the directory of a new server, with the accounts of `settings.accounts`.

    Raises DefiniteError, with the server's own words, where it refuses.
    """
    recipe = repr((storage(version), accounts(version)))
    home = Path(distribution.settings["basedir"])
    kept = home.with_name(f"{home.name}-data-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}")
    if not kept.exists():
        with locked(kept.with_name(f"{kept.name}.lock")):
            publish(kept, lambda beside: _initialise(beside, version, distribution))
    shutil.copytree(kept, data)


def _initialise(data: Path, version: Version, distribution: Distribution) -> None:
    scratch, first = data.parent / "tmp", data.parent / "accounts.sql"
    scratch.mkdir()
    first.write_text(accounts(version))
    command, text = distribution.arguments(data, scratch, storage(version)), ""
    if version in MARIADB:
        data.mkdir(mode=0o750)
        write_certificate(data)
        command, text = [*command, "--bootstrap"], system_tables(distribution.share) + accounts(version)
    else:
        command = [*command, "--initialize-insecure", f"--init-file={first}"]
    done = subprocess.run(
        command,
        env=distribution.environment(),
        input=text,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )
    if done.returncode:
        raise codes.SERVER_START_FAILED.error(
            f"{version} cannot make a data directory: {complaint(done.stdout + done.stderr)}"
        )
    (data / "auto.cnf").unlink(missing_ok=True)
