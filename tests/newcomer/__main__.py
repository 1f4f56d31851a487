"""Plays a newcomer, and prints what the terminal showed."""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.newcomer.home import Home, home
from tests.newcomer.picture import svg
from tests.newcomer.terminal import Ran, run
from tests.support.documents import ROOT

# what somebody does after the demo, with what it has to end with
LATER = {
    "lakehouse-cdc --version": 0,
    "lakehouse-cdc doctor -c pipeline.yml": 2,  # there is none yet
    "lakehouse-cdc init --url mysql://cdc@127.0.0.1:1 --tables 'shop.*'": 3,  # nor a server
}
DEMO = "lakehouse-cdc demo"


def main() -> int:
    """Whether all commands ended as they have to."""
    parser = argparse.ArgumentParser(prog="python -m tests.newcomer", description=sys.modules["tests.newcomer"].__doc__)
    parser.add_argument("--python", default="3.13", help="a version, of which uv finds or fetches an interpreter")
    parser.add_argument("--rows", type=int, help="rows of the demo, fewer than by default")
    parser.add_argument(
        "--home", type=Path, help="a folder for the home, which stays; a second call uses what is there"
    )
    parser.add_argument("--install", action="store_true", help="install the package, and end")
    parser.add_argument("--picture", type=Path, help="a file for the picture of the demo")
    given = parser.parse_args()
    with home(given.home) as made:
        print(f"# {made.user or made.why} in {made.folder}, Python {given.python}, 80 columns, no Java")
        demo = f"{DEMO} --rows {given.rows}" if given.rows else DEMO
        commands = {} if (made.folder / ".venv").exists() else installation(made, given.python)
        commands |= {} if given.install else {demo: 0, **LATER}
        wrong = 0
        for command, code in commands.items():
            print(f"$ {command}", flush=True)
            ran, seconds = played(made, command)
            print(*ran.lines, f"# exit code {ran.code}, after {seconds:.0f} s", sep="\n", flush=True)
            wrong += ran.code != code
            if command == demo and given.picture:
                given.picture.write_text(svg([f"$ {DEMO}", *ran.lines]), encoding="utf-8")
            if ran.code != code and code == 0:
                break
    return wrong


def installation(made: Home, version: str) -> dict[str, int]:
    """The commands that install the package from a wheel."""
    python = interpreter(version, made)
    wheel = built(made.folder / "wheel").relative_to(made.folder)
    return {f"uv venv --python {python}": 0, f"uv pip install './{wheel}[local]'": 0}


def built(folder: Path) -> Path:
    """The wheel of this checkout."""
    subprocess.run(["uv", "build", "--quiet", "--wheel", "--out-dir", folder, ROOT], check=True)
    [wheel] = folder.glob("*.whl")
    return wheel


def interpreter(version: str, made: Home) -> Path:
    """One of this machine, or one that uv fetches; else, with the reason, the one that runs this.

    Where the newcomer may not look, as in another user's home, it is a copy without what was installed for it.
    """
    python = _there(version)
    if python is None:
        fetched = subprocess.run(["uv", "python", "install", version], capture_output=True, text=True)
        python = _there(version)
        if python is None:
            why = (fetched.stderr.strip().splitlines() or ["uv has none"])[-1].strip()
            print(f"# no Python {version} ({why}): {sys.version.split()[0]} instead", flush=True)
            python = Path(sys.base_prefix, "bin", "python3")
    python = python.resolve()
    if made.user is None or all(folder.stat().st_mode & 0o005 == 0o005 for folder in python.parents):
        return python
    root = python.parent.parent
    copy = made.folder / ".python" / root.name
    without = shutil.ignore_patterns("site-packages", "test", "share", "__pycache__")
    shutil.copytree(root, copy, symlinks=True, dirs_exist_ok=True, ignore=without)
    return copy / "bin" / python.name


def _there(version: str) -> Path | None:
    """What uv finds, or pyenv has."""
    asked = subprocess.run(["uv", "python", "find", "--no-project", version], capture_output=True, text=True)
    if asked.returncode == 0:
        return Path(asked.stdout.strip())
    return next((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python3"), None)


def played(made: Home, command: str) -> tuple[Ran, float]:
    """What the terminal showed of one command, and how many seconds it took."""
    began = time.monotonic()
    copied = (made.folder / ".python").glob("*/lib")  # a copy looks for its library where it was copied from
    library = {"LD_LIBRARY_PATH": str(next(copied))} if (made.folder / ".python").exists() else {}
    ran = run(shlex.split(command), made.folder, {**made.environment, **library}, made.user)
    return ran, time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
