"""The package in an archive, as Spark's `--py-files` brings it: unpacked once, and used from there.

Purpose: compiled kernels, Java's classes and settings of its log are files, which nothing but a file system opens; and
the processes that this one starts find the package where this one does.

Why it holds: the folder is named after what the archive says of its files (names and checksums), is made beside its
place and renamed, and is never changed. Guard: tests/test_archived.py.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from zipfile import ZipFile


def unpacked(package: str) -> str | None:
    """The folder of a package whose folder is given, on a disk; None where it is on one already.

    It is in `$LAKEHOUSE_CDC_CACHE`, else in `~/.cache/lakehouse-cdc`. Raises OSError where that cannot be written.
    """
    if os.path.isdir(package):
        return None
    archive, name = os.path.split(package)
    with ZipFile(archive) as held:
        mine = [one for one in held.infolist() if one.filename.startswith(f"{name}/") and not one.is_dir()]
        contents = "\n".join(f"{one.filename} {one.CRC}" for one in mine)
        place = _cache() / "archived" / hashlib.sha256(contents.encode()).hexdigest()[:16]
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            beside = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
            try:
                held.extractall(beside / "all", mine)
                os.rename(beside / "all", place)
            except OSError:
                if not place.exists():  # else another process was first, with the same content
                    raise
            finally:
                shutil.rmtree(beside, ignore_errors=True)
    return str(place / name)


def _cache() -> Path:
    given = Path(os.environ.get("LAKEHOUSE_CDC_CACHE") or "~/.cache/lakehouse-cdc").expanduser().absolute()
    given.mkdir(parents=True, exist_ok=True)
    return given
