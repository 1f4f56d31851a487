"""Each command in the documentation is run here, or by what `tests.support.documents.COMMANDS` names."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from tests.support.documents import COMMANDS, PAGES, ROOT, commands

# command: its exit code
RUN = {
    "uv run python -m lakehouse_cdc.spec.interleaving": 0,
    "uv run python -m lakehouse_cdc.spec.interleaving --without floor": 1,  # a breach
    "uv run python -m lakehouse_cdc.spec.failover --runs 5000": 0,
    "uv run python -m tests.mutations --list": 0,
}


def test_every_command_is_known() -> None:
    assert {command for page in PAGES for command in commands(page)} == set(COMMANDS)
    assert [place for place in COMMANDS.values() if not (ROOT / place).exists()] == []
    assert {command for command, place in COMMANDS.items() if place == "tests/docs/test_commands.py"} == set(RUN)


def test_ci_runs_the_commands_that_are_said_to_be_run_there() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert [command for command, place in COMMANDS.items() if place == ".ci/run" and command not in script] == []


@pytest.mark.process
@pytest.mark.parametrize("command", RUN)
def test_the_command_ends_as_the_page_says(command: str) -> None:
    done = subprocess.run(shlex.split(command), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == RUN[command], done.stdout + done.stderr
