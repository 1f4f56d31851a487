"""The newcomer gets to the end of the demo; and how what a terminal shows is read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.newcomer.terminal import COLUMNS, shown
from tests.support.documents import ROOT


def test_what_is_written_over_is_gone() -> None:
    assert shown("working...\r\x1b[2Kdone\r\n\x1b[32mgreen\x1b[0m") == ["done", "green"]
    assert shown("one\r\ntwo\r\n\x1b[1A\x1b[2Kthree") == ["one", "three", ""]
    assert shown("abc\x08\x08X") == ["aXc"]


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("python", ["3.10", "3.13", "3.14"])
def test_a_newcomer_gets_to_the_end_of_the_demo(python: str) -> None:
    command = [sys.executable, "-m", "tests.newcomer", "--python", python]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\nverified: " in done.stdout
    assert [line for line in done.stdout.splitlines() if len(line) > COLUMNS and not line.startswith(("$", "#"))] == []


@pytest.mark.process
def test_it_is_installed_from_a_git_repository(tmp_path: Path) -> None:
    """By a URL, which asks no index for the package's name."""
    clone, place = tmp_path / "clone", tmp_path / "place"
    subprocess.run(["git", "clone", "--quiet", ROOT.as_uri(), clone], check=True)
    wanted = f"lakehouse-cdc @ git+{clone.as_uri()}"
    options: list[str | Path] = ["--quiet", "--no-deps", "--python", sys.executable, "--target", place]
    command = ["uv", "pip", "install", *options, wanted]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (place / "lakehouse_cdc" / "bundle" / "template" / "resources").is_dir()
    assert (place / "bin" / "lakehouse-cdc").exists()
