"""The newcomer gets to the end of the demo; and how what a terminal shows is read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.newcomer.picture import read, svg, words
from tests.newcomer.terminal import COLUMNS, run, shown
from tests.support.documents import ROOT

PICTURE = ROOT / "docs" / "_static" / "demo.svg"


def test_what_is_written_over_is_gone() -> None:
    assert shown("working...\r\x1b[2Kdone\r\n\x1b[32mgreen\x1b[0m") == ["done", "green"]
    assert shown("one\r\ntwo\r\n\x1b[1A\x1b[2Kthree") == ["one", "three", ""]
    assert shown("abc\x08\x08X") == ["aXc"]


def test_a_picture_is_read_as_it_was_drawn() -> None:
    lines = ["$ lakehouse-cdc demo", "", "1. a <shop> & its [rows]", "   table   read", "verified: 3 rows", "──── ─"]
    assert read(svg(lines)) == lines
    assert words(lines) == words([*lines[:4], "verified: 1,234.5", "rows", "─────── ──"])
    assert words(lines) != words([*lines[:4], "verified: no rows", "──── ─"])


@pytest.mark.process
def test_on_a_terminal_what_to_do_is_a_line_of_its_own(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lakehouse_cdc.cli.main", "doctor", "-c", "pipeline.yml"]
    ran = run(command, tmp_path, os.environ, None)
    error, hint = " ".join(ran.lines).split(" Hint: ")
    assert error.startswith("error: CDC-1004 config_file_unreadable: cannot read pipeline.yml")
    assert [line for line in ran.lines if line.startswith(f"Hint: {hint[:40]}")]


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("python", ["3.10", "3.13", "3.14"])
def test_a_newcomer_gets_to_the_end_of_the_demo(python: str) -> None:
    command = [sys.executable, "-m", "tests.newcomer", "--python", python]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\nverified: " in done.stdout
    lines = done.stdout.splitlines()
    ours = lines[lines.index("$ lakehouse-cdc demo") :]  # the lines before are uv's
    demo = ours[: next(i for i, line in enumerate(ours) if line.startswith("# exit code"))]
    assert words(demo) == words(read(PICTURE.read_text(encoding="utf-8"))), "make the picture again: --picture"
    assert [line for line in ours if len(line) > COLUMNS and not line.startswith(("$", "#"))] == []


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
