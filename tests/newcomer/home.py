"""The newcomer's machine: an empty home, programs without Java and Python, and a user who is not root where there can be.

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
def home() -> Iterator[Home]:
    """A home for the block."""
    with tempfile.TemporaryDirectory(prefix="lakehouse-cdc-newcomer-") as name:
        folder = Path(name)
        why = _made(folder)
        user = None if why else _USER
        try:
            programs = folder / ".programs"
            programs.mkdir()
            _link(programs)
            os.chmod(folder, 0o755)
            if user:
                shutil.chown(folder, user, user)
            kept = {
                k: v for k, v in os.environ.items() if k.startswith(_KEPT) or any(one in k for one in _CERTIFICATES)
            }
            environment = {
                **kept, "HOME": name, "PATH": f"{folder}/venv/bin:{programs}", "TERM": "xterm-256color",
                "LANG": "C.UTF-8", "USER": user or os.environ.get("USER", "newcomer"), "VIRTUAL_ENV": f"{folder}/venv",
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
    uv = subprocess.run(["uv", "--version"], capture_output=True) and shutil.which("uv", path=_uv_path())
    assert uv, "uv, which runs this project, is not on the PATH"
    (programs / "uv").unlink(missing_ok=True)
    shutil.copy2(uv, programs / "uv")  # where it is, another user may not look


def _uv_path() -> str:
    """Where uv's own binary is, not a script that stands for it: its package says it, where pip has installed it."""
    try:
        from uv import find_uv_bin

        return str(Path(find_uv_bin()).parent)
    except ImportError:
        return os.environ["PATH"]
