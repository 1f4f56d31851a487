"""The tutorial, from its first block to its last: each command and each line of Python, and what it says they print."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from lakehouse_cdc.cli.main import app
from lakehouse_cdc.testing.place import free_port
from tests.support.documents import COMMANDS, ROOT

PAGE = ROOT / "docs" / "tutorial" / "first-hour.md"
PORT = "13306"
DIFFERS = "# exit code 1"
HERE = "tests/docs/test_tutorial.py"


def blocks_in_order() -> Iterator[tuple[str, str]]:
    """(language, text) of each block of the page."""
    yield from re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.unit
def test_its_own_commands_are_run_here() -> None:
    lines = [line for language, block in blocks_in_order() if language == "sh" for line in block.splitlines()]
    commands = {shlex.join(shlex.split(line, comments=True)) for line in lines}
    assert {command for command, place in COMMANDS.items() if place == HERE} <= commands


def run_line(line: str, folder: Path) -> None:
    """A line of a terminal: the folder is there and entered already, and this is the Python that it starts."""
    if line in ("mkdir first-hour", "cd first-hour", "uv run python"):
        assert folder == Path.cwd()
        return
    arguments = shlex.split(line, comments=True)
    assert arguments[:3] == ["uv", "run", "lakehouse-cdc"]
    result = CliRunner().invoke(app, arguments[3:], catch_exceptions=False)
    assert result.exit_code == (1 if DIFFERS in line else 0), (line, result.output)


@pytest.mark.long
def test_the_tutorial_runs_and_prints_what_it_says(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    port, names, printed = str(free_port()), dict[str, Any](), ""
    try:
        for language, block in blocks_in_order():
            block = block.replace(PORT, port)
            if language == "sh":
                for line in block.splitlines():
                    run_line(line, tmp_path)
            elif language == "python":
                capsys.readouterr()
                exec(compile(block, str(PAGE), "exec"), names)
                printed = capsys.readouterr().out
            else:
                assert printed.strip() == block.strip()
    finally:
        with suppress(KeyError):
            names["server"].stop()
