"""This package as a wheel, made of what is installed here: no index has to know its name, and the versions are equal.

What an installation has of a distribution is what its wheel had, but for what the installer adds (RECORD, INSTALLER and
the like). Of an editable one the package is where it is edited. Format: "Binary distribution format" of the Python
Packaging User Guide.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

import lakehouse_cdc

_NAME = "lakehouse-cdc"
_KEPT = ("METADATA", "WHEEL", "entry_points.txt")  # beside the licenses
_MOMENT = (1980, 1, 1, 0, 0, 0)  # the first that a zip file has: the same files make the same wheel


def file_name() -> str:
    """The wheel's."""
    return f"{_stem(distribution(_NAME))}-py3-none-any.whl"


def write_wheel(path: Path) -> None:
    """Write it. Raises OSError."""
    files = _files(distribution(_NAME))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, _MOMENT), data, zipfile.ZIP_DEFLATED)


def _files(installed: Distribution) -> dict[str, bytes]:
    package = Path(lakehouse_cdc.__file__).parent
    files = {
        path.relative_to(package.parent).as_posix(): path.read_bytes()
        for path in sorted(package.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    information = f"{_stem(installed)}.dist-info"
    for file in installed.files or ():
        inside = file.as_posix().partition(f"{information}/")[2]
        if inside in _KEPT or inside.startswith("licenses/"):
            files[f"{information}/{inside}"] = file.read_binary()
    record = f"{information}/RECORD"
    lines = [f"{name},{_digest(data)},{len(data)}" for name, data in files.items()]
    files[record] = "".join(f"{line}\n" for line in (*lines, f"{record},,")).encode()
    return files


def _stem(installed: Distribution) -> str:
    return f"{_NAME.replace('-', '_')}-{installed.version}"


def _digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
