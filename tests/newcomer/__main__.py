"""Plays a newcomer, and prints what the terminal showed."""

from __future__ import annotations

import argparse
import shlex
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
    parser.add_argument("--picture", type=Path, help="a file for the picture of the demo")
    given = parser.parse_args()
    with home() as made:
        print(f"# {made.user or made.why} in {made.folder}, Python {given.python}, 80 columns, no Java")
        wheel = built(made.folder / "wheel")
        demo = f"{DEMO} --rows {given.rows}" if given.rows else DEMO
        commands = {
            f"uv venv --quiet --python {interpreter(given.python)} {made.folder}/venv": 0,
            f"uv pip install '{wheel}[local]'": 0,
            demo: 0,
            **LATER,
        }
        wrong = 0
        for command, code in commands.items():
            ran, seconds = played(made, command)
            print(f"$ {command}", *ran.lines, f"# exit code {ran.code}, after {seconds:.0f} s", sep="\n", flush=True)
            wrong += ran.code != code
            if command == demo and given.picture:
                given.picture.write_text(svg([f"$ {DEMO}", *ran.lines]), encoding="utf-8")
            if ran.code != code and code == 0:
                break
    return wrong


def built(folder: Path) -> Path:
    """The wheel of this checkout."""
    subprocess.run(["uv", "build", "--quiet", "--wheel", "--out-dir", folder, ROOT], check=True)
    [wheel] = folder.glob("*.whl")
    return wheel


def interpreter(version: str) -> str:
    """What uv is asked for: that version, or, with the reason, the interpreter that runs this."""
    for command in (["uv", "python", "find", version], ["uv", "python", "install", "--quiet", version]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.strip() or version
    print(f"# no Python {version}: {done.stderr.strip().splitlines()[-1:]}; {sys.version.split()[0]} instead")
    return str(Path(sys.executable).resolve())


def played(made: Home, command: str) -> tuple[Ran, float]:
    """What the terminal showed of one command, and how many seconds it took."""
    began = time.monotonic()
    return run(shlex.split(command), made.folder, made.environment, made.user), time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
