"""The package imported from an archive does what it does from a folder: it finds its own files, and compiles."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from zipfile import ZipFile

import pytest

import lakehouse_cdc

_PACKAGE = Path(lakehouse_cdc.__file__).parent
_SAYS = """
import json
import lakehouse_cdc
from lakehouse_cdc import MySqlCdcSource
from lakehouse_cdc.images.digest import DIGEST
from lakehouse_cdc.images.warm import warm_up
from lakehouse_cdc.runtime.java_store import JAR
from lakehouse_cdc.runtime.session import _log_options
from lakehouse_cdc.sql.grammar import notation
from lakehouse_cdc.telemetry.report import page
warm_up()
print(json.dumps([lakehouse_cdc.__file__, MySqlCdcSource.name(), JAR.is_file(), _log_options(None)]))
"""


def packed(to: Path) -> Path:
    """The package as an archive."""
    with ZipFile(to, "w") as archive:
        for file in sorted(_PACKAGE.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(_PACKAGE.parent))
    return to


def said_by(script: str, archive: Path, cache: Path, *arguments: str) -> str:
    """What a process prints that has the package from the archive alone, and all else from where it is."""
    path = os.pathsep.join([str(archive), sysconfig.get_paths()["purelib"]])
    environment = {**os.environ, "PYTHONPATH": path, "LAKEHOUSE_CDC_CACHE": str(cache)}
    # -S: no .pth file brings the folder in which the package is developed
    command = [sys.executable, "-S", *([] if arguments else ["-c", script]), *arguments]
    done = subprocess.run(command, env=environment, cwd=cache.parent, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.process
def test_it_finds_its_files_and_its_kernels(tmp_path: Path) -> None:
    archive, cache = packed(tmp_path / "cdc.zip"), tmp_path / "cache"
    file, name, has_jar, log = json.loads(said_by(_SAYS, archive, cache))
    assert Path(file).is_relative_to(cache)
    assert (name, has_jar) == ("mysql_cdc", True)
    assert str(cache) in log
    assert "usage" in said_by("", archive, cache, "-m", "lakehouse_cdc", "--help").lower()
    assert len(list((cache / "archived").iterdir())) == 1  # unpacked once, and nothing is left beside
