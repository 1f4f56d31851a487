"""The newcomer's machine: an empty home, no Java, no Python, and a user who is not root where there can be one.

A user is made with useradd, and removed at the end. Where this process is not root, it is itself not root already.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_ABSENT = ("java", "javac", "python", "pip", "mvn", "pyspark", "spark-")
_KEPT = ("HTTP", "http", "NO_PROXY", "no_proxy", "SSL_", "PIP_", "UV_INDEX", "UV_DEFAULT", "UV_FIND", "UV_CACHE")
_CERTIFICATES = ("CERT", "_CA_")  # where a network has authorities of its own
_USER = "lakehouse-newcomer"


@dataclass(frozen=True)
class Home:
    """An empty folder; who its user is (None: the one of this process, for the reason `why`), and the environment."""

    folder: Path
    user: str | None
    why: str
    environment: dict[str, str]


@contextmanager
def home(kept: Path | None) -> Iterator[Home]:
    """A home for the block: a temporary one, or a folder that stays, and may be there from an earlier call."""
    with tempfile.TemporaryDirectory(prefix="lakehouse-cdc-newcomer-") as name:
        folder = (kept or Path(name)).absolute()
        folder.mkdir(exist_ok=True)
        why = _made(folder)
        user = None if why else _USER
        try:
            programs = folder / ".programs"
            programs.mkdir(exist_ok=True)
            _link(programs)
            os.chmod(folder, 0o755)
            if user:
                shutil.chown(folder, user, user)
            given = {
                k: v for k, v in os.environ.items() if k.startswith(_KEPT) or any(one in k for one in _CERTIFICATES)
            }
            environment = {
                **given, "HOME": str(folder), "PATH": f"{folder}/.venv/bin:{programs}", "TERM": "xterm-256color",
                "LANG": "C.UTF-8", "USER": user or os.environ.get("USER", "newcomer"),
            }  # fmt: skip
            yield Home(folder, user, why, environment)
        finally:
            if user:
                subprocess.run(["userdel", user], check=False, capture_output=True)


def _made(folder: Path) -> str:
    """Make the user; why there is none."""
    if os.geteuid() != 0:
        return "this process is not root, and neither is the newcomer"
    if not shutil.which("useradd"):
        return "the machine has no useradd: the newcomer is root"
    command = ["useradd", "--no-create-home", "--user-group", "--home-dir", str(folder), "--shell", "/bin/sh", _USER]
    done = subprocess.run(command, capture_output=True, text=True)
    return "" if done.returncode in (0, 9) else f"useradd failed: {done.stderr.strip()}"


def _link(programs: Path) -> None:
    """All programs of the machine, without those that a newcomer lacks; and uv."""
    for folder in ("/usr/bin", "/bin", "/usr/sbin", "/sbin"):
        for program in Path(folder).iterdir() if Path(folder).is_dir() else ():
            link = programs / program.name
            if not program.name.startswith(_ABSENT) and not link.exists():
                link.symlink_to(program)
    uv = os.environ.get("UV") or shutil.which("uv")  # `uv run` sets it: on the PATH there may be a script instead
    assert uv, "uv, which runs this project, is not on the PATH"
    (programs / "uv").unlink(missing_ok=True)
    shutil.copy2(uv, programs / "uv")  # where it is, another user may not look
